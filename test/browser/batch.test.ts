// @module-tag full
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { newUser } from '../support/bulk.ts';
import { csv } from '../support/bulk-cli.ts';
import { startConsole } from '../support/console.ts';
import { findingsOf, useBrowser } from './browser.ts';
import { downloaded, fileOf, hire, password, storyMs } from './person.ts';

const open = useBrowser();

const config = 'bulk:\n  currency: EUR\n  approval:\n    balance:\n      net: 1000\n';

async function office() {
  const world = await startConsole({ sandbox: { users: 5, emails: 5, now: Date.now() }, config });
  await hire(world.people, 'bea', 'approver');
  const carla = await open(world.url, { cookie: (await world.browser('carla', ['maker'])).cookie });
  const bea = await open(world.url, { cookie: (await world.browser('bea')).cookie });
  return { ...world, page: carla.page, boss: bea.page };
}

/** Plans a sheet of that many rows under that title. */
async function plan(
  { sandbox, folder, page }: Awaited<ReturnType<typeof office>>,
  title: string,
  rows: readonly string[],
) {
  await page.goto('/batches/new');
  await page.getByLabel(/^What to call it/).fill(title);
  const text = rows.map((row) => `${newUser(sandbox, 10)},${row}\n`).join('');
  await page.getByLabel(/^Sheet: /).setInputFiles(fileOf(folder, 'sheet.csv', csv + text));
  await page.getByRole('button', { name: 'Plan it' }).click();
  await page.waitForURL(/\/batches\/\d/);
  return page.url();
}

const headings = (page: Page): Promise<string[]> => page.locator('main').getByRole('heading').allInnerTexts();

/** The buttons of the page that are not quiet, outside of what is folded. */
const primary = (page: Page): Promise<string[]> => page.locator('main button:not(.quiet):visible').allInnerTexts();

test(
  'the page of a batch says what it is and what comes next, and ends with the one decision',
  { timeout: storyMs },
  async () => {
    const world = await office();
    const { page, boss } = world;
    const place = await plan(world, 'Goodwill November', ['add,900,Outage', 'add,seven,Outage', 'add,306,Outage']);
    expect(await headings(page)).toEqual([
      'Goodwill November',
      'What is wrong with the sheet',
      'What to look at',
      'Rows',
      'Approval',
      'Another person must approve it',
    ]);
    const lead = (of: Page) => of.locator('.lead').innerText();
    expect(await lead(page)).toMatch(/^\+1,206\.00 EUR for 2 users\s+· planned, needs approval$/);
    expect(await primary(page)).toEqual(['Submit for approval']);
    await page.getByRole('button', { name: 'Submit for approval' }).click();
    await page.getByText('Next: bea approves or denies it.').waitFor();
    expect(await primary(page)).toEqual([]);

    await boss.goto('/');
    await boss.getByRole('link', { name: 'Goodwill November' }).click();
    expect(await lead(boss)).toMatch(/waits for approval$/);
    expect((await headings(boss)).at(-1)).toBe('Approve it or deny it');
    expect([await primary(boss), await boss.locator('input[type=password]').count()]).toEqual([['Approve'], 1]);
    expect(await findingsOf(boss)).toEqual([]);
    // Enter, after a reason to deny it was typed, approves nothing.
    await boss.getByLabel(/^Why not/).fill('too much');
    await boss.getByLabel('Your password').fill(password);
    await boss.getByLabel('Your password').press('Enter');
    await boss.getByRole('alert').getByText('you gave a reason to deny the batch; nothing was approved').waitFor();
    expect(await boss.getByLabel(/^Why not/).inputValue()).toBe('too much');
    await boss.getByLabel(/^Why not/).fill('');
    await boss.getByLabel('Your password').fill(password);
    await boss.getByRole('button', { name: 'Approve' }).click();
    await boss.getByText(/^Approved by .*bea/).waitFor();

    await page.goto(place);
    expect([await lead(page), await primary(page)]).toEqual([expect.stringMatching(/approved$/), ['Send']]);
    await page.getByLabel(/^To send 2 rows, without 1 invalid row, with a net total of 1,206\.00 EUR/).fill('1206');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('✗ done, not all').waitFor();
    expect(await headings(page)).toEqual(expect.not.arrayContaining(['Send it']));
    expect(await findingsOf(page)).toEqual([]);
  },
);

test('a reversal is seen on both batches, and nothing can be taken back twice', { timeout: storyMs }, async () => {
  const world = await office();
  const { page } = world;
  const place = await plan(world, 'Goodwill', ['add,5,Outage', 'add,6,Outage']);
  await page.getByLabel(/^To send/).fill('11');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('✓ done').waitFor();
  await page.getByRole('button', { name: 'Plan the reversal' }).click();
  await page.getByRole('heading', { name: 'Reversal of Goodwill' }).waitFor();
  const back = page.url();
  await page.getByRole('link', { name: 'Goodwill', exact: true }).click();
  await page.getByText('Reversal of Goodwill: 0 of 2 rows sent').waitFor();
  expect(await page.getByRole('button', { name: 'Plan the reversal' }).count()).toBe(0);
  await page.goto(back);
  await page.getByLabel(/^To send/).fill('-11');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('✓ done').waitFor();
  await page.goto(place);
  await page.locator('.lead').getByText('reversed').waitFor();
  await page.getByText('Reversal of Goodwill: 2 rows').waitFor();
  expect(await primary(page)).toEqual([]);
  expect(await findingsOf(page)).toEqual([]);
});

test('a row whose outcome is open can be sent again only after somebody said that it was not done', async () => {
  const world = await office();
  const { page, sandbox } = world;
  await plan(world, 'Goodwill', ['add,5,Outage']);
  sandbox.control.setBehaviour({ description_max: 9 });
  sandbox.control.faultNext({ fault: 'commit_reset', match: { method: 'PUT' } });
  await page.getByLabel(/^To send/).fill('5');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('link', { name: 'row 2' }).click();
  await page.getByRole('heading', { name: 'Row 2 of Goodwill' }).waitFor();
  const buttons = page.locator('main').getByRole('button');
  expect(await buttons.allInnerTexts()).toEqual(['It was done', 'It was not done']);
  await page.getByLabel('How you know').fill('not in the panel');
  await page.getByRole('button', { name: 'It was not done' }).click();
  await page.getByRole('link', { name: '2', exact: true }).click();
  expect(await buttons.allInnerTexts()).toEqual(['Send it again with “Go on”']);
});

test('the receipt fits A4 as it is printed, breaks no name, and shows no code', { timeout: storyMs }, async () => {
  const world = await office();
  const { page, sandbox } = world;
  await plan(
    world,
    'Refunds',
    Array.from({ length: 4 }, (_, at) => `add,1${at}.50,Refund of the outage`),
  );
  sandbox.control.setBehaviour({ description_max: 9 });
  const [{ id } = { id: 0 }] = sandbox.control.dump('users').slice(-1);
  sandbox.control.faultNext({ fault: 'commit_reset', match: { method: 'PUT', path: `/users/${String(id)}/` } });
  await page.getByLabel(/^To send/).fill('48');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('heading', { name: 'Outcomes that nobody knows yet' }).waitFor();
  const { text } = await downloaded(page.getByRole('link', { name: /^Receipt/ }));
  expect(text).toContain('the request was sent and its response was lost: the connection was reset');
  expect(text).not.toMatch(/ECONNRESET|\/api\/v1/);
  await page.goto('about:blank');
  // A4 upright within its margins, at 96 dots an inch.
  await page.setViewportSize({ width: 703, height: 1_000 });
  await page.emulateMedia({ media: 'print' });
  await page.setContent(text);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(703);
  const heights = await page
    .locator('td .s', { hasText: '@' })
    .evaluateAll((emails) => emails.map((each) => each.getClientRects()[0]?.height ?? 0));
  expect(heights.length).toBe(4);
  expect(heights.filter((height) => height > 16)).toEqual([]);
});
