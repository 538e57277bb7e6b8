// @module-tag full
/**
 * Servers whose pages leave out records that they count, which looks like totals that are too large. Nothing counts as fresh that
 * was not seen, and nothing is removed.
 */
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { hourMs } from '../../src/model/time.ts';
import type { Behaviour, Sandbox } from '../../src/sandbox/sandbox.ts';
import { behindProxy } from '../support/altering-proxy.ts';
import { expectMirrored, sync, type SyncTry } from '../support/mirror.ts';
import { sample } from '../support/part.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

type Records = readonly { readonly id: number }[];

/** The records that a page of this size shows. */
type CutPage = (records: Records, size: number) => Records;

/** A server whose pages of users are cut once `cut` is set. */
async function cutting(behaviour: Partial<Behaviour> = {}) {
  const sandbox = await startSandbox({ users: 700, emails: 20, packages: 5, coupons: 5, behaviour });
  const by: { cut?: CutPage } = {};
  const proxy = await behindProxy(sandbox, ({ path, body }) => {
    if (!path.startsWith('/api/v1/users?') || by.cut === undefined) return {};
    const list = JSON.parse(body) as { readonly data: Records; readonly per_page: number };
    return { body: JSON.stringify({ ...list, data: by.cut(list.data, list.per_page) }) };
  });
  return { sandbox, proxy, by, file: `${temporaryFolder()}/mirror.db` };
}

const tried = { resources: ['users'], pageSize: 50, windowPages: 6 } as const;

/** A run an hour later, after some changes. Returns its report, and whether it has seen everything. */
async function night(proxy: Sandbox, file: string, number: number, more: SyncTry = {}) {
  const { control } = proxy;
  control.advanceClock(hourMs);
  control.insert('users');
  for (let month = 4; month <= 9; month += 1)
    control.insert('users', { created_at: `2025-0${month}-11T12:00:00.000000Z` });
  control.update('users', 17 + number * 50, { first_name: `Night ${number}` });
  const startedAt = control.clock().now;
  const { report, error } = await sync(proxy, file, { ...tried, ...more });
  const { users } = report.resources;
  const freshAsOf = users?.fresh_as_of ?? null;
  return {
    ...users,
    advice: error?.advice,
    requests: report.requests,
    isFresh: freshAsOf !== null && Date.parse(freshAsOf) >= startedAt,
  };
}

/** Pseudo-random numbers from 0 to 1, the same each time. */
function chances(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}

const dropsLast: CutPage = (records, size) => (records.length < size || size === 1 ? records : records.slice(0, -1));
const repeatsLast: CutPage = (records, size) =>
  records.length < size || size < 3 ? records : [...records.slice(0, -1), ...records.slice(-2, -1)];
const cuts: CutPage = (records) => records.slice(0, 20);
const dropsSecond: CutPage = (records) => records.filter((_, at) => at !== 1);

function dropsOne(seed: number): CutPage {
  const chance = chances(seed);
  return (records) => {
    const at = Math.floor(chance() * records.length);
    return records.length < 2 ? records : records.filter((_, index) => index !== at);
  };
}

function sometimes(cut: CutPage, seed: number): CutPage {
  const chance = chances(seed);
  return (records, size) => (chance() < 0.3 ? cut(records, size) : records);
}

function rowsIn(file: string, sql: string): string[] {
  const database = new SqliteDatabase(file, { readonly: true });
  try {
    return database.prepare<[], string>(sql).pluck().all();
  } finally {
    database.close();
  }
}

const eventsIn = (file: string) => rowsIn(file, "SELECT resource FROM mirror_events WHERE kind = 'pages_cut'");

/** `most`: requests of a night; an honest server takes about 20. */
type Liar = readonly [name: string, cut: () => CutPage, behaviour: Partial<Behaviour>, most: number];

const liars: readonly Liar[] = [
  ['drops the last of every full page', () => dropsLast, {}, 60],
  ['repeats a record in place of the last of every full page', () => repeatsLast, {}, 60],
  ['drops one of each page at random', () => dropsOne(1), {}, 90],
  ['drops one of some pages at random', () => sometimes(dropsOne(2), 2), {}, 60],
  ['cuts pages to 20', () => cuts, {}, 90],
  ['cuts some pages to 20', () => sometimes(cuts, 3), {}, 90],
  [
    'drops the last of every full page, and has pages of 40',
    () => dropsLast,
    { page_max: 40, page_over: 'ignore' },
    // Its own page size hides the same records again and again.
    410,
  ],
  ['drops the last of every full page, without ranges of days', () => dropsLast, { date_ranges: 'ignored' }, 60],
  ['drops the last of every full page, and keeps no order', () => dropsLast, { sorts: 'ignored' }, 90],
  ['cuts pages to 20, and keeps no order', () => cuts, { sorts: 'ignored' }, 150],
  ['cuts pages to 20, in another order on every request', () => cuts, { sorts: 'random' }, 450],
];

describe('a server that', () => {
  test.each(sample(liars, 2))(
    '%s is read completely with other page sizes, whether it did so from the first sync on or later',
    async (_, cut, behaviour, most) => {
      for (const before of [0, 1]) {
        const { sandbox, proxy, by, file } = await cutting(behaviour);
        for (let at = 0; at < before + 2; at += 1) {
          if (at === before) by.cut = cut();
          const said = await night(proxy, file, at);
          expect(said).toMatchObject({ status: 'complete', deleted: 0, isFresh: true });
          expect(said.requests).toBeLessThan(most);
          expectMirrored(sandbox, file, ['users']);
        }
      }
    },
  );

  test('leaves out the second record of every page makes nothing fresh, and the run says so', async () => {
    const { proxy, by, file } = await cutting();
    by.cut = dropsSecond;
    const first = await night(proxy, file, 0, { requestsPerRun: 50 });
    expect(first).toMatchObject({ status: 'partial', deleted: 0, fresh_as_of: null });
    expect(eventsIn(file)).toEqual(['users']);
    // Such a server takes all requests every night.
    expect(first.advice).toMatch(/^What was read is kept\. .+ raise sync\.requests_per_run above 50\.$/);
  });

  test('counts one too many in some windows does not hide a record that a page leaves out in another window', async () => {
    const { sandbox, proxy, by, file } = await cutting({ deletes: 'counted' });
    const { control } = sandbox;
    await night(proxy, file, 0);
    const days = rowsIn(file, "SELECT from_day FROM mirror_windows WHERE resource = 'users' ORDER BY 1").slice(1);
    const dayOf = (record: Record<string, unknown> | undefined) => String(record?.['created_at']).slice(0, 10);
    const users = control.dump('users');
    const firstOf = (day: string | undefined) => users.find((user) => dayOf(user) > String(day));
    for (const day of days.slice(0, 2)) control.remove('users', Number(firstOf(day)?.['id']));
    await night(proxy, file, 1, { mode: 'full' });
    const hidden = control.insert('users', { created_at: firstOf(days[2])?.['created_at'] });
    by.cut = (records, size) => (size < 50 ? records : records.filter(({ id }) => id !== hidden['id']));
    expect(await night(proxy, file, 2)).toMatchObject({ status: 'partial', deleted: 0, isFresh: true });
    expectMirrored(sandbox, file, ['users']);
  });

  test('counts trashed users does not count as cutting pages, and costs no extra requests once that is known', async () => {
    const { sandbox, proxy, file } = await cutting({ deletes: 'counted' });
    const quiet = await night(proxy, file, 0).then(() => night(proxy, file, 1));
    for (const id of [50, 51, 52, 300, 600]) sandbox.control.remove('users', id);
    await night(proxy, file, 2);
    const known = await night(proxy, file, 3);
    expect(known).toMatchObject({ status: 'partial', isFresh: true });
    expect(known.requests).toBeLessThanOrEqual(quiet.requests + 2);
    expect(eventsIn(file)).toEqual([]);
    expectMirrored(sandbox, file, ['users']);
  });
});
