// @module-tag full
import { expect, test } from 'vitest';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { openJournal } from '../support/journal-file.ts';
import { csv } from '../support/bulk-cli.ts';
import { newUser } from '../support/bulk.ts';
import { startConsole } from '../support/console.ts';
import { sync } from '../support/mirror.ts';
import { operator } from '../support/people.ts';
import { screens, useBrowser } from './browser.ts';
import { storyMs } from './person.ts';

const open = useBrowser();

const roles = ['maker', 'operator', 'admin', 'approver'] as const;

test.each(['/data/users', '/data/users?field=status&is=is&value=active', '/batches', '/runs', '/audit'])(
  'a laptop shows 20 rows of %s at once, each on one line',
  { timeout: storyMs },
  async (path) => {
    const world = await startConsole({ sandbox: { users: 60, now: Date.now() } });
    const { url, sandbox, file, settings, clock, browser } = world;
    const anna = await browser('anna', roles);
    await sync(sandbox, file);
    if (path === '/batches') {
      for (let at = 0; at < 22; at += 1) {
        const sheet = `${csv}${newUser(sandbox, 10)},add,${at + 1},x\n`;
        await anna.upload('/batches', { action: 'balance', title: `Goodwill of week ${at}` }, 'credit.csv', sheet);
      }
    }
    if (path === '/runs') {
      const store = openMirrorStore(file, clock);
      for (let at = 0; at < 22; at += 1)
        store.beginRun(`night-${at}`, 'sync', ['users'], { ...operator, job: 'nightly' });
      store.close();
    }
    if (path === '/audit') {
      const journal = await openJournal(settings.store.journal, operator, clock);
      for (let user = 1; user <= 22; user += 1) await journal.viewed(user, 'record');
      await journal.close();
    }
    const { page } = await open(url, { cookie: anna.cookie });
    await page.goto(path);
    const rows = await page
      .locator('table')
      .first()
      .locator('tbody tr')
      .evaluateAll((all) =>
        all.map((row) => row.getBoundingClientRect()).map(({ bottom, height }) => ({ bottom, height })),
      );
    expect(rows.filter(({ bottom }) => bottom <= screens.laptop.height).length).toBeGreaterThanOrEqual(20);
    expect(rows.slice(0, 20).filter(({ height }) => height > 28)).toEqual([]);
  },
);

test('on a phone every row of a batch shows the balance before and after without a sideways scroll', async () => {
  const world = await startConsole({ sandbox: { users: 5, emails: 5, now: Date.now() } });
  const { cookie, upload } = await world.browser('carla', ['maker']);
  const rows = `${csv}${newUser(world.sandbox, 10)},add,5,${'a long reason '.repeat(8)}\n`;
  const planned = await upload('/batches', { action: 'balance' }, 'credit.csv', rows);
  const { page } = await open(world.url, { cookie, viewport: { width: 390, height: 844 } });
  await page.goto(planned.headers.get('location') ?? '');
  const table = page.getByRole('table', { name: 'Rows of the batch' });
  for (const [name, amount] of [
    ['Before', '10.00'],
    ['After', '15.00'],
  ] as const) {
    const cell = table.locator(`td[data-name="${name}"]`);
    expect(await cell.innerText()).toContain(amount);
    const box = await cell.boundingBox();
    expect((box?.x ?? 0) + (box?.width ?? 999)).toBeLessThanOrEqual(390);
  }
});
