// @module-tag full
import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { hourMs, systemClock } from '../../src/model/time.ts';
import { startConsole } from '../support/console.ts';
import { sync } from '../support/mirror.ts';
import { findingsOf, useBrowser } from './browser.ts';
import { storyMs } from './person.ts';

const open = useBrowser();

/** Starts the run on the page that shows its cost, and waits for the page of the run. */
async function start(page: Page, name: string): Promise<void> {
  await page.getByText(/^At least \d+ requests?$/).waitFor();
  await page.getByRole('button', { name: `Start: ${name}` }).click();
  await page.getByRole('heading', { name: /^Run / }).waitFor();
}

test(
  'an operator works through a morning after a bad night: a failure, a stopped run, a complete run, a comparison',
  { timeout: storyMs },
  async () => {
    const world = await startConsole({
      sandbox: { users: 300, now: Date.now() - 30 * hourMs },
      clock: systemClock,
      // Hanging requests are retried soon, for as long as the test needs.
      constants: { api: { timeoutMs: 1_000, attempts: 100 } },
    });
    const { url, sandbox, file, browser } = world;
    const { control } = sandbox;
    control.advanceClock(22 * hourMs);
    control.churn('users', { inserts: 5, updates: 20, deletes: 1 });
    control.setBehaviour({ forbidden: 'emails', unknown_fields: 1 });
    const { report: night } = await sync(sandbox, file);
    control.advanceClock(8 * hourMs);

    // The home page shows what failed, and why.
    const { page, problems } = await open(url, { cookie: (await browser('olga', ['operator'])).cookie });
    await page.goto('/');
    const wrong = page.getByRole('alert').filter({ hasText: 'was refused (403)' });
    await wrong.getByText('shows what is wrong').waitFor();
    expect(await findingsOf(page)).toEqual([]);
    await page.getByRole('table', { name: 'Last runs' }).getByRole('link', { name: night.run }).click();
    await page.getByText('✗ partial').waitFor();

    // The first run of the morning hangs, and is stopped.
    const hanging = (path: string) => ({ fault: 'hang', times: 100, match: { path } }) as const;
    control.setBehaviour({ forbidden: '' });
    control.faultNext(hanging('/users'));
    const before = control.requests().total;
    await page.getByRole('link', { name: 'Home' }).click();
    await page.getByRole('link', { name: 'Sync…' }).first().click();
    expect(control.requests().total).toBe(before);
    await start(page, 'Sync');
    await page.getByRole('button', { name: 'Stop this run' }).click();
    await page.getByText('it was stopped by account olga').waitFor();
    await page.getByText('✗ stopped').waitFor();

    // The second shows its progress without a reload, and ends.
    control.clearFaults();
    control.faultNext([hanging('/emails'), hanging('/coupons')]);
    await page.getByRole('link', { name: 'Runs', exact: true }).click();
    await page.getByRole('link', { name: 'Sync…', exact: true }).click();
    await start(page, 'Sync');
    const records = page.getByRole('region', { name: 'Progress' }).locator('[data-live=records]');
    await records.getByText(/^[\d,]+ of [\d,]+ records read$/).waitFor();
    expect(await findingsOf(page)).toEqual([]);
    const first = await records.innerText();
    await page.evaluate(() => Object.assign(globalThis, { isStill: true }));
    control.clearFaults();
    control.faultNext(hanging('/coupons'));
    await expect.poll(() => records.innerText()).not.toBe(first);
    expect(await page.evaluate(() => 'isStill' in globalThis)).toBe(true);
    control.clearFaults();
    await page.getByText('✓ complete exit code 0').waitFor();
    await page.getByRole('link', { name: 'Home' }).click();
    await page.getByText('Nothing is wrong.').waitFor();

    // The comparison with the server finds a record that was deleted since.
    control.remove('users', 7);
    await page.getByRole('link', { name: 'Verify…', exact: true }).click();
    await page.getByLabel('users').check();
    await start(page, 'Verify');
    await page.getByText('admin-mirror verify users').waitFor();
    await page.getByText('✗ different exit code 6').waitFor();
    expect(await findingsOf(page)).toEqual([]);
    expect(problems).toEqual([]);
  },
);
