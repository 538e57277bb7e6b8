// @module-tag full
import { once } from 'node:events';
import { parse } from 'csv-parse/sync';
import type { Page } from 'playwright-core';
import { describe, expect, onTestFinished, test } from 'vitest';
import { minuteMs, systemClock } from '../../src/model/time.ts';
import { newUser } from '../support/bulk.ts';
import { csv, made } from '../support/bulk-cli.ts';
import { startCli } from '../support/cli.ts';
import { startConsole } from '../support/console.ts';
import { freePort } from '../support/free-port.ts';
import { findingsOf, useBrowser } from './browser.ts';
import { downloaded, drop, fileOf, gate, gateSeconds, hire, password, signIn, storyMs } from './person.ts';

const open = useBrowser();

type Console = Awaited<ReturnType<typeof startConsole>>;

const config = 'bulk:\n  approval:\n    balance:\n      net: 4\n';

const usersOf = ({ sandbox }: Pick<Console, 'sandbox'>, count: number): number[] =>
  Array.from({ length: count }, () => newUser(sandbox, 10));

const balancesOf = ({ sandbox }: Pick<Console, 'sandbox'>, users: readonly number[]): number[] =>
  users.map((user) => Number(sandbox.control.get('users', user)?.['balance']));

/** The number of rows in that state, as shown on the page. */
const cardOf = (page: Page, state: string): Promise<string> =>
  page.locator('.card', { hasText: state }).locator('.big').innerText();

/** The cells of the table with that caption, row by row. */
const cellsOf = (page: Page, caption: string): Promise<string[][]> =>
  page
    .getByRole('table', { name: caption })
    .locator('tbody tr')
    .evaluateAll((rows) => rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent.trim())));

describe('a finance clerk', () => {
  test(
    'works through a day: a template, a refusal, a correction, a denial, an approval, a lost response, and each row paid once',
    { timeout: storyMs },
    async () => {
      const { sleep, open: goOn } = gate();
      const world = await startConsole({ sandbox: { users: 5, emails: 5, now: Date.now() }, config, sleep });
      const { url, sandbox, folder, people, browser } = world;
      const { control } = sandbox;
      const [a = 0, b = 0, c = 0, d = 0] = usersOf(world, 4);
      await hire(people, 'carla', 'maker');
      await hire(people, 'bea', 'approver');

      const { page, problems } = await open(url);
      await signIn(page, 'carla');
      await page.getByRole('link', { name: 'Batches' }).click();
      await page.getByRole('link', { name: 'New batch' }).click();
      const { text: template } = await downloaded(page.getByRole('link', { name: 'Template for balance as .csv' }));
      const [head = ''] = template.split(/\r?\n/);
      const rows = [`${a},add,2.50,Refund`, `${b},add,seven,Refund`, `77777,add,1,Refund`, `${d},give,4,Refund`];
      const plan = page.getByRole('button', { name: 'Plan it' });
      // A file that is not a sheet is refused on the same page, where the next one can be dropped.
      await drop(page, fileOf(folder, 'refunds.pdf', 'x'), page.getByRole('heading', { name: 'New batch' }));
      await page.getByText('refunds.pdf is chosen.').waitFor();
      await page.getByLabel('Action').selectOption('notify');
      await plan.click();
      await page.getByRole('alert').getByText('its name does not end in .csv').waitFor();
      expect(await page.getByLabel('Action').inputValue()).toBe('notify');
      expect(await findingsOf(page)).toEqual([]);
      await drop(page, fileOf(folder, 'refunds.csv', [head, ...rows, ''].join('\n')), page.getByRole('alert'));
      await page.getByText('refunds.csv is chosen.').waitFor();
      await page.getByLabel('Action').selectOption('balance');
      await plan.click();
      await page.getByRole('heading', { name: 'What is wrong with the sheet' }).waitFor();
      expect(await cellsOf(page, 'What is wrong, cell by cell')).toEqual([
        ['3', 'amount', '"seven" is not an amount; write a plain number, as 1234.56'],
        ['4', 'user_id', 'there is no user 77777'],
        ['5', 'type', expect.stringContaining('"give"')],
      ]);
      expect(await findingsOf(page)).toEqual([]);
      const first = page.url();

      // The wrong rows are downloaded as a sheet, corrected in it, and chosen by hand.
      const wrong = await downloaded(page.getByRole('link', { name: 'as .csv' }).first());
      expect(wrong.name).toMatch(/^wrong-.*\.csv$/);
      const right = wrong.text
        .replace('add,seven', 'add,7')
        .replace('77777,add', `${c},add`)
        .replace('give,4', 'add,4');
      await page.getByRole('link', { name: 'Batches' }).click();
      await page.getByRole('link', { name: 'New batch' }).click();
      await page.getByLabel('Action').selectOption('balance');
      await page
        .getByLabel(/^Sheet: .* at most 50 MB and 10,000 rows/)
        .setInputFiles(fileOf(folder, wrong.name, right));
      await plan.click();
      await page.getByRole('heading', { name: 'Another person must approve it' }).waitFor();
      await page.getByLabel('Note to the approver').fill('as agreed on Monday');
      await page.getByRole('button', { name: 'Submit for approval' }).click();
      await page.getByText('1 of 1 missing; bea can approve it').waitFor();
      const second = page.url();

      // Another person reads the note and denies the batch, then approves it, by keyboard alone.
      const boss = await open(url, { cookie: (await browser('bea')).cookie });
      await boss.page.goto('/');
      await boss.page
        .getByRole('table', { name: 'Batches that wait for you' })
        .getByRole('link')
        .first()
        .press('Enter');
      await boss.page.getByText('as agreed on Monday').waitFor();
      expect(await findingsOf(boss.page)).toEqual([]);
      const { keyboard } = boss.page;
      await boss.page.getByLabel('Why not').focus();
      await keyboard.type('the second one is 1.50');
      await keyboard.press('Tab');
      await keyboard.type(password);
      await keyboard.press('Tab');
      await keyboard.press('Tab');
      await keyboard.press('Enter');
      await boss.page.getByText(/^Denied by .*bea/).waitFor();
      await page.reload();
      await page.getByText('the second one is 1.50').waitFor();
      await page.getByRole('button', { name: 'Submit for approval' }).click();
      await page.getByText('1 of 1 missing').waitFor();
      await boss.page.reload();
      await boss.page
        .getByLabel(/password/i)
        .first()
        .focus();
      await keyboard.type('not my password');
      await keyboard.press('Enter');
      await boss.page.getByRole('alert').waitFor();
      await boss.page
        .getByLabel(/password/i)
        .first()
        .focus();
      await keyboard.type(password);
      await keyboard.press('Enter');
      await boss.page.getByText(/^Approved by .*bea/).waitFor();
      expect(made(sandbox)).toBe(0);

      // The response to one row is lost, and the server is down for a while: the page shows that without a reload.
      const put = (user: number) => ({ method: 'PUT', path: `/users/${user}/` }) as const;
      control.setBehaviour({ transactions_delay: 60, retry_after_seconds: gateSeconds });
      control.faultNext([
        { fault: 'commit_reset', match: put(c) },
        { fault: 'error_503', match: put(d) },
      ]);
      await page.getByRole('link', { name: 'Home' }).click();
      await page.getByText('to be sent', { exact: true }).waitFor();
      await page.goto(second);
      const typed = page.getByLabel(/^To send 3 rows with a net total of 12\.00 to /);
      await typed.fill('120');
      await page.getByRole('button', { name: 'Send' }).click();
      await page.getByRole('alert').getByText('that is not the total; nothing was sent').waitFor();
      await typed.fill('12');
      await typed.press('Enter');
      await page.getByRole('heading', { name: 'It is being sent' }).waitFor();
      await page.getByText('2 of 3 rows.').waitFor();
      expect(await cardOf(page, 'unknown')).toBe('1');
      expect(await findingsOf(page)).toEqual([]);
      goOn();

      // An unknown row is looked up again after the server shows it; nothing is sent for that.
      await page.getByRole('heading', { name: 'Outcomes that nobody knows yet' }).waitFor();
      await page.getByText(/Continue later with “Go on”: it looks again\. This page says/).waitFor();
      expect(await findingsOf(page)).toEqual([]);
      control.advanceClock(2 * minuteMs);
      await page.getByRole('button', { name: 'Go on' }).click();
      await page.getByText('✓ done').waitFor();
      expect([made(sandbox), balancesOf(world, [a, b, c, d])]).toEqual([3, [10, 17, 11, 14]]);

      const applied = await downloaded(page.getByRole('link', { name: 'applied.csv' }));
      const records = parse<Record<string, string>>(applied.text, { bom: true, columns: true });
      expect(records.map((record) => record['_token'])).toEqual(
        control.ledger().map(({ body }) => String(body['description']).split(' ').at(-1)),
      );
      const receipt = await downloaded(page.getByRole('link', { name: /^Receipt/ }));
      expect(receipt.text).toContain(String(second.split('/').at(-1)));

      // The valid row of the first sheet is still to be sent, and needs no approval.
      await page.goto(first);
      await page.getByText('3 rows are wrong and will be left out').waitFor();
      await page.getByLabel(/^To send 1 row, without 3 invalid rows, with a net total of 2\.50 to /).fill('2.50');
      await page.getByRole('button', { name: 'Send' }).click();
      await page.getByText('✗ done, not all').waitFor();
      expect([made(sandbox), balancesOf(world, [a, b, c, d])]).toEqual([4, [12.5, 17, 11, 14]]);
      expect([...problems, ...boss.problems]).toEqual([]);
    },
  );
});

/** Plans a batch that pays each of them 2.00; returns the address of its page. */
async function planned(page: Page, folder: string, users: readonly number[]): Promise<string> {
  const rows = users.map((user) => `${user},add,2,Refund\n`).join('');
  await page.goto('/batches/new');
  await page.getByLabel('Action').selectOption('balance');
  await page.getByLabel(/^Sheet: /).setInputFiles(fileOf(folder, 'refunds.csv', csv + rows));
  await page.getByRole('button', { name: 'Plan it' }).click();
  await page.waitForURL(/\/batches\/\d/);
  return page.url();
}

/** Signals, as a browser does, that the tab is hidden or visible again. */
function setHidden(isHidden: boolean): void {
  Object.defineProperty(document, 'hidden', { configurable: true, get: () => isHidden });
  document.dispatchEvent(new Event('visibilitychange'));
}

async function pressSend(page: Page, total: string): Promise<void> {
  await page.getByLabel(/^To send /).fill(total);
  await page.getByRole('button', { name: 'Send' }).click();
}

describe('several people and tabs at once', () => {
  test(
    'can press Send: each row is paid once, and the others get an error in plain words',
    { timeout: storyMs },
    async () => {
      const { sleep, open: goOn } = gate();
      const world = await startConsole({ sandbox: { users: 5, emails: 5, now: Date.now() }, sleep });
      const { url, sandbox, folder, browser } = world;
      const users = usersOf(world, 3);
      const carla = await open(url, { cookie: (await browser('carla', ['maker'])).cookie });
      const mia = await open(url, { cookie: (await browser('mia', ['maker'])).cookie });
      const place = await planned(carla.page, folder, users);
      const pages = [carla.page, await carla.page.context().newPage(), mia.page];
      for (const page of pages.slice(1)) await page.goto(place);
      // The first row waits, so that the sending lasts as long as the test needs.
      sandbox.control.setBehaviour({ retry_after_seconds: gateSeconds });
      sandbox.control.faultNext({ fault: 'error_503', match: { method: 'PUT' } });
      await Promise.all(pages.map((page) => pressSend(page, '6')));
      const told = await Promise.all(
        pages.map(async (page) => {
          await page.getByRole('heading', { name: 'It is being sent' }).waitFor();
          return page.getByRole('alert').allInnerTexts();
        }),
      );
      expect(told.map((words) => words.length).toSorted((a, b) => a - b)).toEqual([0, 1, 1]);
      for (const words of told.flat())
        expect(words).toMatch(/^batch \S+ is already being sent; nothing more was sent\n/);
      // A hidden tab closes its connection, and follows again when it is visible.
      const [, aside] = pages;
      const givenBack = aside?.waitForEvent('requestfailed', (request) => request.url().endsWith('/events'));
      await aside?.evaluate(setHidden, true);
      await givenBack;
      goOn();
      for (const page of pages) if (page !== aside) await page.getByText('✓ done').waitFor();
      expect(await aside?.getByRole('heading', { name: 'It is being sent' }).count()).toBe(1);
      await aside?.evaluate(setHidden, false);
      // Each page follows to the end, and those with an error do not send their form again.
      for (const page of pages) await page.getByText('✓ done').waitFor();
      expect(pages.map((page) => page.url())).toEqual([place, place, place]);
      for (const page of pages) expect(await page.getByRole('alert').count()).toBe(0);
      expect([made(sandbox), balancesOf(world, users)]).toEqual([3, [12, 12, 12]]);
    },
  );

  test(
    'can approve: two people are needed, and a person who approves twice counts once',
    { timeout: storyMs },
    async () => {
      const config = 'bulk:\n  approval:\n    balance:\n      net: 4\n      approvers: 2\n';
      const world = await startConsole({ sandbox: { users: 5, emails: 5, now: Date.now() }, config });
      const { url, sandbox, folder, browser, people } = world;
      const users = usersOf(world, 3);
      const { page } = await open(url, { cookie: (await browser('carla', ['maker'])).cookie });
      const place = await planned(page, folder, users);
      await page.getByRole('button', { name: 'Submit for approval' }).click();
      await page.getByText('2 of 2 missing').waitFor();
      for (const name of ['bea', 'bob']) await hire(people, name, 'approver');
      const { page: bob } = await open(url, { cookie: (await browser('bob')).cookie });
      const { page: bea } = await open(url, { cookie: (await browser('bea')).cookie });
      const tabs = [bea, await bea.context().newPage()];
      for (const each of [bob, ...tabs]) {
        await each.goto(place);
        await each
          .getByLabel(/password/i)
          .first()
          .fill(password);
      }
      await Promise.all([bob, ...tabs].map((each) => each.getByRole('button', { name: 'Approve' }).click()));
      for (const each of [bob, ...tabs])
        await each
          .getByText(/^Approved by account b/)
          .first()
          .waitFor();
      const told = await Promise.all([bob, ...tabs].map((each) => each.getByRole('alert').allInnerTexts()));
      expect(told.flat()).toHaveLength(1);
      expect(told.flat()[0]).toMatch(/^bea has approved batch \S+ already/);
      await page.goto(place);
      await page.locator('.lead').getByText('✓ approved').waitFor();
      expect(await page.getByText(/^Approved by account b/).count()).toBe(2);
      await pressSend(page, '6');
      await page.getByText('✓ done').waitFor();
      expect([made(sandbox), balancesOf(world, users)]).toEqual([3, [12, 12, 12]]);
    },
  );
});

/** `serve` as a child process on that port, once it listens. */
async function served(folder: string, environment: Record<string, string>, port: number) {
  const child = startCli(['serve', '--listen', `127.0.0.1:${port}`, '--json'], { folder, environment });
  onTestFinished(() => void child.kill('SIGKILL'));
  const errors: unknown[] = [];
  child.stderr.on('data', (data) => errors.push(data));
  const ended = once(child, 'exit').then(() => Promise.reject(new Error(`it does not serve: ${errors.join('')}`)));
  await Promise.race([once(child.stdout, 'data'), ended]);
  ended.catch(() => {});
  return child;
}

test(
  'a console that is killed during a sending shows that after its restart, and pays nobody twice',
  { timeout: storyMs },
  async () => {
    const { sandbox, folder, settings, browser } = await startConsole({
      sandbox: { users: 5, emails: 5, now: Date.now() },
      // The clock of the process.
      clock: systemClock,
    });
    const { control } = sandbox;
    const port = await freePort();
    const environment = { ADMIN_MIRROR_BASE_URL: settings.api.baseUrl ?? '', ADMIN_MIRROR_API_KEY: sandbox.key };
    const users = usersOf({ sandbox }, 4);
    const { cookie } = await browser('carla', ['maker']);
    const first = await served(folder, environment, port);
    const { page } = await open(`http://127.0.0.1:${port}`, { cookie });
    await planned(page, folder, users);
    // The third row is applied, but its response never comes.
    control.faultNext({ fault: 'commit_hang', match: { method: 'PUT', path: `/users/${users[2]}/` } });
    const following = page.waitForResponse(/\/events$/);
    await pressSend(page, '8');
    await following;
    await page.getByText('3 of 4 rows.').waitFor();
    await expect.poll(() => made(sandbox)).toBe(3);
    first.kill('SIGKILL');
    await page.getByText('The console does not respond.').waitFor();
    expect(await findingsOf(page)).toEqual([]);

    await served(folder, environment, port);
    await page.getByRole('heading', { name: 'It stopped before its end' }).waitFor();
    await page.getByText('The process that sent it ended while 1 row').waitFor();
    expect(await findingsOf(page)).toEqual([]);
    await page.getByRole('button', { name: 'Go on' }).click();
    await page.getByText('✓ done').waitFor();
    expect([made(sandbox), balancesOf({ sandbox }, users)]).toEqual([4, [12, 12, 12, 12]]);
  },
);

test('a clerk without scripts can go from the sheet to the results', { timeout: storyMs }, async () => {
  const world = await startConsole({ sandbox: { users: 5, emails: 5, now: Date.now() }, config });
  const { url, sandbox, folder, people, browser } = world;
  const users = usersOf(world, 3);
  await hire(people, 'bea', 'approver');
  const { cookie } = await browser('carla', ['maker']);
  const { page, problems } = await open(url, { cookie, javaScriptEnabled: false });
  await page.goto('/');
  const rows = users.map((user, at) => `${user};add;${at},50\n`).join('');
  await page.getByRole('link', { name: 'Batches' }).click();
  await page.getByRole('link', { name: 'New batch' }).click();
  await page.getByLabel('Action').selectOption('balance');
  await page.getByLabel(/^Sheet: /).setInputFiles(fileOf(folder, 'refunds.csv', `user_id;type;amount\n${rows}`));
  await page.getByRole('button', { name: 'Plan it' }).click();
  await page.getByRole('button', { name: '0.50' }).click();
  await page.getByRole('button', { name: 'Submit for approval' }).click();
  const place = page.url();
  const { page: boss } = await open(url, { cookie: (await browser('bea')).cookie, javaScriptEnabled: false });
  await boss.goto(place);
  await boss.getByLabel('Your password').first().fill(password);
  await boss.getByRole('button', { name: 'Approve' }).click();
  await boss.getByText(/^Approved by account bea/).waitFor();
  // Nothing shows the outcome of this row: a person decides.
  sandbox.control.setBehaviour({ description_max: 9 });
  sandbox.control.faultNext({ fault: 'commit_reset', match: { method: 'PUT', path: `/users/${users[1]}/` } });
  await page.goto(place);
  await pressSend(page, '4.5');
  await page.getByRole('heading', { name: 'Outcomes that nobody knows yet' }).waitFor();
  await page.getByRole('link', { name: 'row 3' }).click();
  await page.getByLabel('How you know').fill('seen in the panel');
  await page.getByRole('button', { name: 'It was done' }).click();
  await page.getByText('✓ done').waitFor();
  expect(await page.getByRole('alert').count()).toBe(0);
  const { text } = await downloaded(page.getByRole('link', { name: 'applied.csv' }));
  expect(text.trim().split('\n')).toHaveLength(4);
  expect([made(sandbox), balancesOf(world, users)]).toEqual([3, [10.5, 11.5, 12.5]]);
  expect(problems).toEqual([]);
});

test('on a phone the state of each batch, row and run is visible without scrolling the list', async () => {
  const world = await startConsole({ sandbox: { users: 5, emails: 5, now: Date.now() } });
  const { cookie, upload } = await world.browser('carla', ['maker']);
  const planned = await upload(
    '/batches',
    { action: 'balance' },
    'credit.csv',
    `${csv}${newUser(world.sandbox, 10)},add,5,x\n`,
  );
  const width = 390;
  const { page } = await open(world.url, { cookie, viewport: { width, height: 844 } });
  for (const path of ['/', '/batches', planned.headers.get('location') ?? '', '/runs']) {
    await page.goto(path);
    const ends = await page
      .locator('td .state')
      .evaluateAll((states) => states.map((each) => each.getBoundingClientRect().right));
    expect({ path, count: ends.length }).not.toEqual({ path, count: 0 });
    expect({ path, hidden: ends.filter((end) => end > width) }).toEqual({ path, hidden: [] });
  }
});
