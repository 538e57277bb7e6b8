// @module-tag full
import { expect, test } from 'vitest';
import type { SyncEvent } from '../../src/store/mirror-types.ts';
import type { Day } from '../../src/model/time.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { eventsOf, expectMirrored, mirrored, newMirror, sync } from '../support/mirror.ts';
import { rowsOf, valuesOf } from '../support/rows.ts';

const shape = { resources: ['users'], pageSize: 20, windowPages: 3 } as const;

/** A record of a window whose pages are remembered. Windows that were cut or merged since they were read remember none. */
function rememberedId(file: string): number {
  const owned = `SELECT users.id FROM mirror_pages JOIN mirror_windows AS window USING (resource, from_day)
    JOIN users ON users.created_at >= window.from_day AND users.created_at < window.to_day LIMIT 1`;
  return valuesOf<number>(file, owned)[0] ?? 0;
}

/** A mirror that was read twice, because pages of the first walk are compared once more before they are relied on. */
async function readTwice() {
  const { sandbox, file } = await mirrored({ users: 200 }, shape);
  const { report } = await sync(sandbox, file, shape);
  return { sandbox, file, run: report.run };
}

test('a page that comes again unchanged updates no row, and its records count as unchanged', async () => {
  const { sandbox, file } = await readTwice();
  const pages = () => valuesOf(file, 'SELECT hash FROM mirror_pages');
  const before = pages();
  const { report } = await sync(sandbox, file, shape);
  expect(report.resources.users).toMatchObject({ status: 'complete', updated: 0, unchanged: 200 });
  expect(pages()).toEqual(before);
  expect(before).not.toEqual([]);
});

test('pages are remembered from the first walk on, and a hash of each record from the second', async () => {
  const { sandbox, file } = await newMirror({ users: 200 });
  const sql = 'SELECT count(*) > 5 AS pages, count(records) = count(*) AS hashed FROM mirror_pages WHERE total > 0';
  const remembered = () => rowsOf(file, sql)[0];
  await sync(sandbox, file, { ...shape, mode: 'full' });
  expect(remembered()).toEqual({ pages: 1, hashed: 0 });
  const { report } = await sync(sandbox, file, shape);
  expect(report.resources.users).toMatchObject({ status: 'complete', updated: 0 });
  expect(remembered()).toEqual({ pages: 1, hashed: 1 });
});

// proves: page-memory
test('a record that changes and then changes back is followed each time', async () => {
  const { sandbox, file } = await readTwice();
  const id = rememberedId(file);
  const { first_name, updated_at } = sandbox.control.get('users', id) ?? {};
  sandbox.control.update('users', id, { first_name: 'Another' });
  await sync(sandbox, file, shape);
  expectMirrored(sandbox, file, ['users']);
  sandbox.control.update('users', id, { first_name, updated_at });
  const { report } = await sync(sandbox, file, shape);
  expect(report.resources.users?.updated).toBe(1);
  expectMirrored(sandbox, file, ['users']);
});

test('a row that was removed outside of a walk comes back even if its page is unchanged', async () => {
  const { sandbox, file, run } = await readTwice();
  const store = openMirrorStore(file);
  store.deleteRecords(run, 'users', [rememberedId(file)]);
  store.close();
  const again = await sync(sandbox, file, shape);
  expect(again.report.resources.users).toMatchObject({ status: 'complete', inserted: 1 });
  expectMirrored(sandbox, file, ['users']);
});

test('a page that is as in the last sync is written again if an earlier pass of this walk showed it changed', async () => {
  const { sandbox, file } = await readTwice();
  const { control } = sandbox;
  const [window] = rowsOf<{ from_day: string; to_day: string; ids: string }>(
    file,
    `SELECT from_day, to_day, ids FROM mirror_pages JOIN mirror_windows USING (resource, from_day)
     WHERE last_page = 3 AND state = 'settled' ORDER BY page LIMIT 1`,
  );
  const { from_day: from = '', to_day: to = '', ids = '[0]' } = window ?? {};
  const [id = 0] = JSON.parse(ids) as number[];
  const { first_name, updated_at } = control.get('users', id) ?? {};
  let pages = 0;
  let added = 0;
  const { report } = await sync(sandbox, file, {
    ...shape,
    concurrency: 1,
    only: { from: from as Day, to: to as Day },
    onEvent: ({ kind }) => {
      if (kind !== 'page') return;
      pages += 1;
      // After the last page, which is read first: the record changes, and the total grows by a record that no page showed.
      if (pages === 1) {
        control.update('users', id, { first_name: 'Another' });
        added = Number(control.insert('users', { created_at: `${from}T00:00:00.000000Z` })['id']);
      }
      if (pages === 3) {
        control.update('users', id, { first_name, updated_at });
        control.remove('users', added);
      }
    },
  });
  expect(pages).toBeGreaterThan(4);
  expect(report.resources.users?.status).toBe('complete');
  expectMirrored(sandbox, file, ['users']);
});

test('a first walk that has to begin again leaves the rows as its last pages show them', async () => {
  const { sandbox, file } = await newMirror({ users: 50 });
  let pages = 0;
  const onEvent = ({ kind }: SyncEvent) => {
    pages += Number(kind === 'page');
    // The first page is that of the open window, which is empty; the second is the last one of all others.
    if (kind !== 'page' || pages !== 2) return;
    const users = sandbox.control.dump('users');
    const [oldest] = users.map((user) => String(user['created_at'])).sort();
    sandbox.control.insert('users', { created_at: oldest });
    for (const { id } of users) sandbox.control.update('users', Number(id), { first_name: 'Another' });
  };
  const { report } = await sync(sandbox, file, { ...shape, concurrency: 1, onEvent });
  expect(report.status).toBe('complete');
  expect(pages).toBeGreaterThan(6);
  expectMirrored(sandbox, file, ['users']);
});

test('a record that the server moves to another day does not count as an altered row', async () => {
  const { sandbox, file } = await readTwice();
  const id = rememberedId(file);
  const newest = sandbox.control
    .dump('users')
    .map((user) => String(user['created_at']))
    .sort()
    .at(-1);
  sandbox.control.update('users', id, { created_at: newest });
  // The window that the record moved to is read, the one that it left is not.
  for (const mode of ['quick', 'default'] as const) await sync(sandbox, file, { ...shape, mode });
  expectMirrored(sandbox, file, ['users']);
  expect(eventsOf(file, 'rows_altered')).toEqual([]);
});
