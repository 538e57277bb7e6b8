// @module-tag full
import { parse } from 'csv-parse/sync';
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { minuteMs } from '../../src/model/time.ts';
import { newUser } from '../support/bulk.ts';
import { made } from '../support/bulk-cli.ts';
import { startConsole } from '../support/console.ts';
import { findingsOf, useBrowser } from './browser.ts';
import { downloaded, drop, fileOf, gate, gateSeconds, hire, password, signIn } from './person.ts';

const open = useBrowser();

type Console = Awaited<ReturnType<typeof startConsole>>;

const config = 'bulk:\n  approval:\n    balance:\n      net: 4\n';

const usersOf = ({ sandbox }: Console, count: number): number[] =>
  Array.from({ length: count }, () => newUser(sandbox, 10));

const balancesOf = ({ sandbox }: Console, users: readonly number[]): number[] =>
  users.map((user) => Number(sandbox.control.get('users', user)?.['balance']));

/** The number of rows in that state, as it stands on the page. */
const cardOf = (page: Page, state: string): Promise<string> =>
  page.locator('.card', { hasText: state }).locator('.big').innerText();

/** The cells of the table with that caption, row by row. */
const cellsOf = (page: Page, caption: string): Promise<string[][]> =>
  page
    .getByRole('table', { name: caption })
    .locator('tbody tr')
    .evaluateAll((rows) => rows.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent.trim())));

describe('a finance clerk', () => {
  test('has a day: a template, a refusal, a correction, a denial, an approval, a lost response, and each row paid once', async () => {
    const { sleep, open: goOn } = gate();
    const world = await startConsole({ sandbox: { users: 5, emails: 5 }, config, sleep });
    const { url, sandbox, folder, people } = world;
    const { control } = sandbox;
    const [a = 0, b = 0, c = 0, d = 0] = usersOf(world, 4);
    await hire(people, 'carla', 'maker');
    await hire(people, 'bea', 'approver');

    const { page, problems } = await open(url);
    await signIn(page, 'carla');
    await page.getByRole('link', { name: 'Batches' }).click();
    const { text: template } = await downloaded(page.getByRole('link', { name: 'Template for balance' }));
    const [head = ''] = template.split(/\r?\n/);
    const rows = [`${a},add,2.50,Refund`, `${b},add,seven,Refund`, `77777,add,1,Refund`, `${d},give,4,Refund`];
    const plan = page.getByRole('button', { name: 'Plan it' });
    // What is no sheet is refused on the same page, on which the next one can be dropped.
    await drop(page, fileOf(folder, 'refunds.pdf', 'x'), page.getByRole('heading', { name: 'Batches', exact: true }));
    await page.getByText('refunds.pdf is chosen.').waitFor();
    await plan.click();
    await page.getByRole('alert').getByText('its name does not end in .csv').waitFor();
    expect(await findingsOf(page)).toEqual([]);
    await drop(page, fileOf(folder, 'refunds.csv', [head, ...rows, ''].join('\n')), page.getByRole('alert'));
    await page.getByText('refunds.csv is chosen.').waitFor();
    await page.getByLabel('Action').selectOption('balance');
    await plan.click();
    await page.getByRole('heading', { name: 'What is wrong with the sheet' }).waitFor();
    expect(await cellsOf(page, 'What is wrong with which cell')).toEqual([
      ['3', 'amount', '"seven" is not an amount; write a plain number, as 1234.56'],
      ['4', 'user_id', 'there is no user 77777'],
      ['5', 'type', expect.stringContaining('"give"')],
    ]);
    expect(await findingsOf(page)).toEqual([]);
    const first = page.url();

    // The wrong rows come back as the same sheet, are put right in it, and chosen by hand.
    const wrong = await downloaded(page.getByRole('link', { name: 'as .csv' }).first());
    expect(wrong.name).toMatch(/^wrong-.*\.csv$/);
    const right = wrong.text.replace('add,seven', 'add,7').replace('77777,add', `${c},add`).replace('give,4', 'add,4');
    await page.getByRole('link', { name: 'Batches' }).click();
    await page.getByLabel('Action').selectOption('balance');
    await page.getByLabel(/^Sheet: /).setInputFiles(fileOf(folder, wrong.name, right));
    await plan.click();
    await page.getByRole('heading', { name: 'Another person must approve it' }).waitFor();
    await page.getByLabel('A word to whoever approves it').fill('as agreed on Monday');
    await page.getByRole('button', { name: 'Submit for approval' }).click();
    await page.getByText('1 of 1 missing; bea can approve it').waitFor();
    const second = page.url();

    // Somebody else says no, and gets told why it is needed; then yes. By keyboard alone.
    const boss = await open(url);
    await signIn(boss.page, 'bea');
    await boss.page.getByRole('table', { name: 'Batches that wait for you' }).getByRole('link').first().press('Enter');
    await boss.page.getByText('as agreed on Monday').waitFor();
    expect(await findingsOf(boss.page)).toEqual([]);
    const { keyboard } = boss.page;
    await boss.page.getByLabel('Why not').focus();
    await keyboard.type('the second one is 1.50');
    await keyboard.press('Tab');
    await keyboard.type(password);
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

    // The response to one row is lost, and the server is away for a while: the page says so without being loaded anew.
    const put = (user: number) => ({ method: 'PUT', path: `/users/${user}/` }) as const;
    control.setBehaviour({ transactions_delay: 60, retry_after_seconds: gateSeconds });
    control.faultNext([
      { fault: 'commit_reset', match: put(c) },
      { fault: 'error_503', match: put(d) },
    ]);
    await page.getByRole('link', { name: 'Home' }).click();
    await page.getByText('approved, to be sent').waitFor();
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

    // What is not known is looked at again, once the server shows it; nothing is sent for that.
    await page.getByRole('heading', { name: 'Outcomes that nobody knows yet' }).waitFor();
    await page.getByText('Press “Go on” later: it looks again. The page of batch').waitFor();
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
    const receipt = await downloaded(page.getByRole('link', { name: 'receipt.html' }));
    expect(receipt.text).toContain(String(second.split('/').at(-1)));

    // What was right in the first sheet is still to be sent, and needs nobody else.
    await page.goto(first);
    await page.getByText('3 rows are wrong and will be left out').waitFor();
    await page.getByLabel(/^To send 1 row /).fill('2.50');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('✗ done, not all').waitFor();
    expect([made(sandbox), balancesOf(world, [a, b, c, d])]).toEqual([4, [12.5, 17, 11, 14]]);
    expect([...problems, ...boss.problems]).toEqual([]);
  });
});
