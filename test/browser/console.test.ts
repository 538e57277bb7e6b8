// @module-tag full
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { roles } from '../../src/model/actor.ts';
import { hourMs, minuteMs } from '../../src/model/time.ts';
import { hashPassword } from '../../src/people/sign-in.ts';
import { newUser } from '../support/bulk.ts';
import { startConsole } from '../support/console.ts';
import { projectFolder } from '../support/documents.ts';
import { sync } from '../support/mirror.ts';
import { newAccount, quickCost } from '../support/people.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { screens, useBrowser } from './browser.ts';

const open = useBrowser();
const password = 'correct horse battery staple';

describe('the console in a browser', () => {
  test('loads at most 60 KB for its home page, with at most 15 KB of scripts', async () => {
    const { url, browser } = await startConsole();
    const { cookie } = await browser('anna', [...roles]);
    const { page } = await open(url, { cookie });
    const sizes: { readonly type: string; readonly bytes: number }[] = [];
    page.on('response', async (response) => {
      const { length: bytes } = await response.body();
      sizes.push({ type: response.headers()['content-type'] ?? '', bytes });
    });
    await page.goto('/', { waitUntil: 'networkidle' });
    const sum = (all: typeof sizes) => all.reduce((total, { bytes }) => total + bytes, 0);
    const scripts = sizes.filter(({ type }) => type.includes('javascript'));
    expect(scripts.length).toBeGreaterThan(0);
    expect(sum(scripts)).toBeLessThan(15 * 1_024);
    expect(sum(sizes)).toBeLessThan(60 * 1_024);
  });

  test("shows times in the reader's time zone, with UTC on hover, and updates ages", async () => {
    const { url, browser, sandbox } = await startConsole();
    const { cookie } = await browser('anna', ['reader']);
    const { page } = await open(url, { cookie, timezoneId: 'Asia/Tokyo', locale: 'en-US' });
    await page.clock.install({ time: sandbox.control.now() });
    await page.goto('/runs');
    const time = page.locator('td time').first();
    expect(await time.getAttribute('title')).toMatch(/^2026-03-11 10:2\d:\d\d UTC$/);
    expect(await time.textContent()).toMatch(/^2026-03-11 19:2\d$/);
    await page.goto('/');
    const age = page.locator('time[data-age]').first();
    const before = await age.textContent();
    await page.clock.runFor(3 * hourMs);
    expect(await age.textContent()).not.toBe(before);
    expect(await age.textContent()).toMatch(/ hours ago$/);
  });

  test('works without scripts: signing in, filtering, adding an account, signing out', async () => {
    const { url, people } = await startConsole();
    const hash = await hashPassword(password, quickCost);
    await people.add(newAccount('anna', { roles: ['admin', 'operator'], password: hash }));
    const { page, problems } = await open(url, { javaScriptEnabled: false });
    await page.goto('/audit');
    await page.getByLabel('Name').fill('anna');
    await page.getByLabel('Password').fill(password);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL('**/audit');
    await page.getByLabel('Person', { exact: true }).fill('anna');
    await page.getByRole('button', { name: 'Show' }).click();
    expect(new URL(page.url()).searchParams.get('person')).toBe('anna');
    await page.getByRole('link', { name: 'Runs' }).click();
    await page.getByLabel('Outcome').selectOption('complete');
    await page.getByRole('button', { name: 'Show' }).click();
    expect(await page.locator('time').first().textContent()).toMatch(/ UTC$/);
    await page.goto('/people');
    await page.getByLabel('Name').fill('bert');
    await page.getByLabel('reader').check();
    await page.getByLabel('First password').fill('another horse and staple');
    await page.getByRole('button', { name: 'Add' }).click();
    await page.getByRole('link', { name: 'bert' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.waitForURL('**/sign-in');
    await page.goto('/');
    expect(new URL(page.url()).pathname).toBe('/sign-in');
    expect(problems).toEqual([]);
  });

  test('can be signed in to and used by keyboard alone', async () => {
    const { url, people } = await startConsole();
    await people.add(newAccount('anna', { roles: ['reader'], password: await hashPassword(password, quickCost) }));
    const { page } = await open(url);
    await page.goto('/');
    // The browser sets the focus some time after the page is loaded.
    await page.locator('input[name=name]:focus').waitFor();
    await page.keyboard.type('anna');
    await page.keyboard.press('Tab');
    await page.keyboard.type(password);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'Home' }).waitFor();
    await page.keyboard.press('Tab');
    await page.locator('a[href="#main"]:focus').waitFor();
    await page.keyboard.press('Enter');
    // It is set after the address has changed.
    await page.locator('#main:focus').waitFor();
    expect(new URL(page.url()).hash).toBe('#main');
  });
});

/** A quiet server after four nights of changes, at a fixed time, so that the pictures are always the same. */
async function pictured() {
  const world = await startConsole({ sandbox: { users: 1_200, emails: 2_400, packages: 40, coupons: 60 } });
  const { control } = world.sandbox;
  for (let night = 0; night < 4; night += 1) {
    control.advanceClock(24 * hourMs - control.now() + sandboxNow + night * 24 * hourMs);
    control.churn('users', { inserts: 12, updates: 20, deletes: 1 });
    await sync(world.sandbox, world.file);
  }
  control.advanceClock(12 * minuteMs);
  return world;
}

/** Plans a sheet with valid and wrong rows; returns the path of its page. */
async function plannedIn({ sandbox, browser }: Awaited<ReturnType<typeof pictured>>): Promise<string> {
  const anna = await browser('anna', [...roles]);
  const rows = ['add,12.50', 'add,seven', 'remove,4', 'add,250'].map(
    (row) => `${newUser(sandbox, 20)},${row},Refund of the outage\n`,
  );
  const sheet = `user_id,type,amount,description\n${rows.join('')}`;
  const { headers } = await anna.upload('/batches', { action: 'balance' }, 'refunds.csv', sheet);
  return headers.get('location') ?? '';
}

describe('the pictures in the documents', () => {
  test.each(['README.md', 'docs/console.md'])('%s starts with one', (file) => {
    const [lead = ''] = readFileSync(join(projectFolder, file), 'utf8').split('\n## ');
    expect(lead).toMatch(/^!\[[^\]]+\]\((?:docs\/)?console-\w+\.png\)$/m);
  });

  test.each([
    ['docs/console-home.png', () => '/', 'light', 720],
    ['docs/console-runs.png', () => '/runs', 'dark', 720],
    ['docs/console-batch.png', plannedIn, 'light', 1_340],
  ] as const)('%s is small, and can be made again with UPDATE_DOCS=1', async (file, pathIn, colorScheme, height) => {
    const target = join(projectFolder, file);
    if (process.env['UPDATE_DOCS'] === '1') {
      const world = await pictured();
      const { url, browser, sandbox } = world;
      // A sheet is planned by the clock of this machine, after which a session of the sandbox's time would be over.
      const path = await pathIn(world);
      const { cookie } = await browser('anna', [...roles]);
      const { page } = await open(url, { cookie, colorScheme, timezoneId: 'UTC', locale: 'en-US' });
      await page.setViewportSize({ ...screens.laptop, height });
      await page.clock.setFixedTime(sandbox.control.now());
      await page.goto(path);
      // Random values would change the picture each time.
      await page.evaluate(() => {
        const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        for (let text = texts.nextNode(); text !== null; text = texts.nextNode()) {
          text.textContent = (text.textContent ?? '')
            .replaceAll(/(T\d{6}-)[0-9a-f]{8}/g, '$13f9a07c1')
            .replace(/^\d{8}-\d{6}-\w{4}$/, '20260315-103230-7k2m')
            .replace(/^[0-9a-f]{64}$/, '5e4f'.repeat(16))
            .replace(/127\.0\.0\.1:\d+/, '127.0.0.1:8123');
        }
      });
      await page.screenshot({ path: target });
    }
    expect(existsSync(target)).toBe(true);
    expect(statSync(target).size).toBeLessThan(150_000);
  });
});
