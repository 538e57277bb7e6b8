// @module-tag full
import type { Page } from 'playwright-core';
import SqliteDatabase from 'better-sqlite3';
import { expect, test } from 'vitest';
import { startConsole } from '../support/console.ts';
import { useBrowser } from './browser.ts';
import { downloaded, storyMs } from './person.ts';

const open = useBrowser();

/** The texts of a column of the table with that caption. */
async function columnOf(page: Page, caption: string, name: string): Promise<string[]> {
  const table = page.getByRole('table', { name: caption });
  await table.waitFor();
  const heads = await table.locator('thead th').allInnerTexts();
  const at = heads.findIndex((head) => head.replace(/ [▲▼]$/, '') === name);
  return table.locator(`tbody td:nth-child(${at + 1})`).allInnerTexts();
}

test(
  'an analyst answers a question: filters, sorts, shares the link, queries in SQL, draws, downloads',
  { timeout: storyMs },
  async () => {
    const { url, browser, sandbox } = await startConsole({ sandbox: { users: 120 } });
    const anna = await open(url, { cookie: (await browser('anna', ['analyst'])).cookie });
    const { page } = anna;
    await page.goto('/');
    // From any page, a few words lead to a person.
    const someone = sandbox.control.get('users', 7);
    const search = page.getByRole('searchbox', { name: 'Find a person' });
    await search.fill(String(someone?.['email']));
    await search.press('Enter');
    await page.getByRole('heading', { name: 'user 7', exact: true }).waitFor();
    await page.getByRole('link', { name: 'Data', exact: true }).click();
    await page.getByRole('link', { name: 'users', exact: true }).click();
    const filter = page.getByRole('group', { name: 'Filter' }).first();
    await filter.getByLabel('Column').selectOption('balance');
    await filter.getByLabel('Comparison').selectOption('is more than');
    await filter.getByLabel('Value').fill('50');
    await page.getByText('Columns and order').click();
    const columns = page.getByRole('group', { name: 'Columns' });
    for (const name of ['username', 'last_seen_at', 'created_at'])
      await columns.getByLabel(name, { exact: true }).uncheck();
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    // A click on its head sorts a column, and another click reverses the order.
    for (const sign of ['▲', '▼']) {
      await page
        .getByRole('columnheader')
        .getByRole('link', { name: /^balance/ })
        .click();
      await page.getByRole('columnheader', { name: `balance ${sign}` }).waitFor();
    }
    const rich = sandbox.control
      .dump('users')
      .map(({ balance }) => Number(balance))
      .filter((balance) => balance > 50)
      .toSorted((one, other) => other - one);
    const shown = await columnOf(page, 'Rows of users', 'balance');
    expect(shown.map((text) => Number(text.replaceAll(',', '')))).toEqual(rich);
    expect(await page.getByRole('table', { name: 'Rows of users' }).getByRole('columnheader').count()).toBe(4);

    // The link has the whole query, and shows others what they may see.
    const { page: other } = await open(url, { cookie: (await browser('olga', ['operator'])).cookie });
    await other.goto(page.url());
    expect(await columnOf(other, 'Rows of users', 'balance')).toEqual(shown);
    expect(await columnOf(other, 'Rows of users', 'email')).toEqual(await columnOf(page, 'Rows of users', 'email'));
    const { page: reader } = await open(url, { cookie: (await browser('rita', ['reader'])).cookie });
    await reader.goto(page.url());
    expect(await columnOf(reader, 'Rows of users', 'balance')).toEqual(shown);
    expect(new Set(await columnOf(reader, 'Rows of users', 'email'))).toEqual(new Set(['masked']));
    const { text: file } = await downloaded(page.getByRole('link', { name: 'csv', exact: true }));
    expect(file.trim().split('\n')).toHaveLength(rich.length + 1);

    // A saved report with a parameter and its picture.
    await page.getByRole('link', { name: 'Reports', exact: true }).click();
    await page.getByRole('link', { name: 'Sign-ups by month' }).click();
    await page.getByLabel(/^from/).fill('2025-01-01');
    await page.getByRole('button', { name: 'Show', exact: true }).click();
    await page.waitForURL(/p\.from=2025-01-01/);
    const picture = page.getByRole('img', { name: /^Sign-ups by month/ });
    await expect.poll(() => picture.evaluate((image) => (image as HTMLImageElement).naturalWidth)).toBeGreaterThan(0);
    const months = await columnOf(page, 'Sign-ups by month', 'month');
    expect(months[0]).toMatch(/^2025-/);
    const { name, text: report } = await downloaded(page.getByRole('link', { name: 'csv', exact: true }));
    expect(name).toMatch(/^signups-by-month-.*\.csv$/);
    expect(report.trim().split('\n')).toHaveLength(months.length + 1);

    // A new statement with its result and picture; and one that would write.
    await page.getByRole('link', { name: 'Reports', exact: true }).click();
    await page.getByRole('link', { name: 'Write SQL' }).click();
    const statement = page.getByLabel('One statement that reads');
    await statement.fill('SELECT status, count(*) AS users FROM users GROUP BY status ORDER BY status');
    await page.getByRole('button', { name: 'Run' }).click();
    await page.waitForURL(/do=run/);
    const counts = await columnOf(page, 'Result', 'users');
    expect(counts.reduce((sum, text) => sum + Number(text), 0)).toBe(120);
    await page.getByRole('button', { name: 'Draw it' }).click();
    const drawn = page.getByRole('img', { name: /^The picture of/ });
    await expect.poll(() => drawn.evaluate((image) => (image as HTMLImageElement).naturalWidth)).toBeGreaterThan(0);
    await statement.fill('DELETE FROM users');
    await page.getByRole('button', { name: 'Run' }).click();
    await page
      .getByRole('alert')
      .getByText('only statements that read are run here; this one begins with DELETE')
      .waitFor();
    expect(anna.problems).toEqual([]);
  },
);

test('endless statements stop as soon as their pages are closed', { timeout: storyMs }, async () => {
  const { url, browser } = await startConsole();
  const { page } = await open(url, { cookie: (await browser('anna', ['analyst'])).cookie });
  const context = page.context();
  const endless = 'WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n';
  // As many as can run at a time.
  const tabs = await Promise.all([1, 2, 3].map(() => context.newPage()));
  for (const tab of tabs) {
    await tab.goto('/sql');
    await tab.getByLabel('One statement that reads').fill(endless);
    const sent = tab.waitForRequest(/\/sql\?/);
    await tab.getByRole('button', { name: 'Run' }).click({ noWaitAfter: true });
    await sent;
  }
  await page.goto('/sql');
  await page.getByLabel('One statement that reads').fill('SELECT count(*) AS users FROM users');
  const asked = page.waitForRequest(/\/sql\?/);
  await page.getByRole('button', { name: 'Run' }).click({ noWaitAfter: true });
  await asked;
  for (const tab of tabs) await tab.close();
  await page.getByRole('table', { name: 'Result' }).waitFor();
  expect(await columnOf(page, 'Result', 'users')).toEqual(['60']);
});

test(
  'counts arrive by themselves, and the box for SQL has a shortcut and a memory that ends with the session',
  { timeout: storyMs },
  async () => {
    const { url, browser, file } = await startConsole({ sandbox: { users: 50 } });
    const database = new SqliteDatabase(file);
    database.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)
    INSERT INTO mirror_deletions (table_name, id, key, seq) SELECT 'users', 1000000 + i, '', i FROM n`);
    database.close();
    const { page, problems } = await open(url, { cookie: (await browser('anna', ['analyst'])).cookie });
    await page.goto('/data/mirror_deletions?beside=table_name');
    expect(await columnOf(page, 'Common values of table_name', 'Rows')).toEqual(['300,000']);
    await page.goto('/data');
    const rows = page
      .getByRole('table', { name: 'Records of the mirror itself' })
      .getByRole('row', { name: /^mirror_deletions/ });
    await rows.getByText('300,000').waitFor();

    await page.goto('/sql');
    const box = page.getByLabel('One statement that reads');
    await box.fill('SELECT 40 + 2 AS answer');
    await box.press('Control+Enter');
    expect(await columnOf(page, 'Result', 'answer')).toEqual(['42']);
    await page.goto('/sql');
    await page.getByLabel('Earlier statements').selectOption('SELECT 40 + 2 AS answer');
    expect(await box.inputValue()).toBe('SELECT 40 + 2 AS answer');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in' }).waitFor();
    expect(await page.evaluate(() => localStorage.length)).toBe(0);
    expect(problems).toEqual([]);
  },
);
