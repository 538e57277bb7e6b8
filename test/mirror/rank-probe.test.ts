// @module-tag full
/** Deletions in long windows, found by the places of records on the server instead of reading them all. */
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { apiSource, requestedRange } from '../../src/mirror/source.ts';
import { storedCapabilities } from '../../src/mirror/server-check.ts';
import { findDeletions, type SearchPorts } from '../../src/mirror/find-deletions.ts';
import { hourMs, systemClock } from '../../src/model/time.ts';
import { Random } from '../../src/sandbox/random.ts';
import type { Behaviour, Sandbox } from '../../src/sandbox/sandbox.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { expectMirrored, sync, testClient, type SyncTry } from '../support/mirror.ts';
import { sandboxNow, startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { isFull, sample } from '../support/part.ts';

/** Pages of ten, and all of the past in one window of 200 pages. */
const long = { resources: ['users'], pageSize: 10, windowPages: 1_000, mode: 'quick' } satisfies SyncTry;
const users = 2_000;

async function mirrored(behaviour: Partial<Behaviour> = {}, tried: SyncTry = long) {
  const sandbox = await startSandbox({ users, behaviour });
  sandbox.control.setClock(sandboxNow, { frozen: true });
  const file = `${temporaryFolder()}/mirror.db`;
  const { report } = await sync(sandbox, file, tried);
  expect(report.status).toBe('complete');
  return { sandbox, file };
}

/** Removes the users at these places in the order of creation. */
function removeAt(sandbox: Sandbox, places: readonly number[]): void {
  const ids = byCreation(sandbox);
  for (const place of places) expect(sandbox.control.remove('users', ids[place] ?? -1)).toBe(true);
}

function byCreation(sandbox: Sandbox): number[] {
  const key = (record: Readonly<Record<string, unknown>>) =>
    `${String(record['created_at'])} ${String(record['username'])}`;
  const records = sandbox.control.dump('users').toSorted((a, b) => (key(a) < key(b) ? -1 : 1));
  return records.map((record) => Number(record['id']));
}

async function quickly(sandbox: Sandbox, file: string, tried: SyncTry = long) {
  const notices: string[] = [];
  const onEvent: SyncTry['onEvent'] = (event) => {
    if (event.kind === 'notice') notices.push(event.text);
  };
  const { report } = await sync(sandbox, file, { ...tried, onEvent });
  return { users: report.resources.users, status: report.status, requests: report.requests, notices };
}

function windowsOf(file: string) {
  const database = new SqliteDatabase(file, { readonly: true });
  try {
    const sql = `SELECT from_day, state, server_total, fresh_as_of FROM mirror_windows WHERE resource = 'users' ORDER BY 1`;
    return database
      .prepare<[], { from_day: string; state: string; server_total: number; fresh_as_of: string }>(sql)
      .all();
  } finally {
    database.close();
  }
}

describe('a quick run over a long sealed window', () => {
  test('finds one deleted record with a dozen requests instead of the 200 for its pages', async () => {
    const { sandbox, file } = await mirrored();
    removeAt(sandbox, [777]);
    const { users, status, requests } = await quickly(sandbox, file);
    expect(users).toMatchObject({ status: 'complete', deleted: 1, live: 1_999, server_total: 1_999 });
    expect(status).toBe('complete');
    expectMirrored(sandbox, file, ['users']);
    expect(requests).toBeLessThan(25);
  });

  test('finds several deletions, next to each other, far apart and at both ends', async () => {
    const { sandbox, file } = await mirrored();
    removeAt(sandbox, [0, 1, 500, 501, 1_234, 1_940]);
    const { users, requests, notices } = await quickly(sandbox, file);
    expect(users).toMatchObject({ status: 'complete', deleted: 6 });
    expect(notices).toEqual([]);
    expectMirrored(sandbox, file, ['users']);
    expect(requests).toBeLessThan(70);
  });

  test('does not call rows fresher that it did not look at', async () => {
    const { sandbox, file } = await mirrored();
    const [before] = windowsOf(file);
    removeAt(sandbox, [777]);
    sandbox.control.advanceClock(hourMs);
    await quickly(sandbox, file);
    const [after] = windowsOf(file);
    expect(after).toEqual({ ...before, server_total: (before?.server_total ?? 0) - 1 });
    expect(after?.state).toBe('settled');
  });
});

describe('what the search cannot decide:', () => {
  test('an unknown record makes it read the whole window', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    removeAt(sandbox, [600, 1_400]);
    const first = sandbox.control.get('users', byCreation(sandbox)[0] ?? -1);
    sandbox.control.insert('users', { created_at: String(first?.['created_at']), username: '0-before-all' });
    const { users, requests, notices } = await quickly(sandbox, file);
    expect(notices.join()).toContain('does not know the record');
    expect(users).toMatchObject({ status: 'complete', deleted: 2, inserted: 1 });
    expectMirrored(sandbox, file, ['users']);
    expect(requests).toBeGreaterThan(199);
  });

  test('records whose order changes with every response stay if the server still has them', async () => {
    // Every second user has the same time as the one before it, and each response orders them differently.
    const { sandbox, file } = await mirrored({ sort_ties: 'random', ties: 0.5 });
    removeAt(sandbox, [100, 900]);
    const { users } = await quickly(sandbox, file);
    expect(users).toMatchObject({ status: 'complete', deleted: 2 });
    expectMirrored(sandbox, file, ['users']);
  });
});

describe('with other meanings of ranges', () => {
  const shapes: readonly Partial<Behaviour>[] = [
    { date_end: 'day' },
    { date_end: 'exclusive' },
    { timezone_minutes: 330 },
    { timezone_minutes: -480, date_end: 'day' },
  ];
  test.each(sample(shapes, 1))('deletions at the edges of many windows are found: %o', async (behaviour) => {
    const many = { ...long, pageSize: 5, windowPages: 40 };
    const { sandbox, file } = await mirrored(behaviour, many);
    const places = [0, 199, 200, 640, 641, 1_111, 1_900];
    removeAt(sandbox, places);
    const { users, requests, notices } = await quickly(sandbox, file, many);
    expect(notices).toEqual([]);
    expect(users).toMatchObject({ status: 'complete', deleted: places.length });
    expectMirrored(sandbox, file, ['users']);
    expect(requests).toBeLessThan(90);
  });

  test('a window over everything is searched if it lost records just after it was read', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored({ date_ranges: 'ignored' });
    let pages = 0;
    let last = Infinity;
    const onEvent: SyncTry['onEvent'] = (event) => {
      if (event.kind === 'expected') last = Math.ceil(event.records / long.pageSize);
      if (event.kind !== 'page') return;
      pages += 1;
      if (pages === last) removeAt(sandbox, [40, 1_800]);
    };
    const { report } = await sync(sandbox, file, { ...long, onEvent });
    expect(report.resources.users).toMatchObject({ status: 'complete', deleted: 2 });
    expectMirrored(sandbox, file, ['users']);
    expect(pages).toBe(200);
    expect(report.requests).toBeLessThan(250);
  });
});

/** Searches the sealed window of the mirror as a run would. The ports can be replaced. */
async function searched(sandbox: Sandbox, file: string, tampered: Partial<SearchPorts> & { onRead?: () => void } = {}) {
  const client = testClient(sandbox, long.pageSize);
  const store = openMirrorStore(file);
  const { signal } = new AbortController();
  try {
    const source = apiSource(client, long.pageSize, systemClock);
    const capabilities = storedCapabilities(store, 'users')?.capabilities;
    const window = store.windows('users')[0];
    if (capabilities === undefined || window === undefined) throw new Error('the mirror was not filled');
    const range = requestedRange(window, capabilities);
    const total = await source.total('users', range, capabilities, signal);
    const read = (page: number) => {
      tampered.onRead?.();
      return source.page('users', { page, paginate: long.pageSize, range }, capabilities, signal);
    };
    const ports = { store, read, pageSize: long.pageSize, ...tampered };
    const result = await findDeletions(ports, window, range, total);
    return { result, before: window, after: store.windows('users')[0], live: store.liveCount('users') };
  } finally {
    store.close();
    await client.close();
  }
}

describe('a search by itself', () => {
  test('finds the records that were deleted, and removes none itself', async () => {
    const { sandbox, file } = await mirrored();
    const ids = byCreation(sandbox);
    removeAt(sandbox, [300, 1_500]);
    const { result, before, after, live } = await searched(sandbox, file);
    expect(result).toMatchObject({ kind: 'found' });
    expect(result.kind === 'found' && new Set(result.lost)).toEqual(new Set([ids[300], ids[1_500]]));
    expect(after).toEqual(before);
    expect(live).toBe(users);
  });

  test('is given up if a record comes or goes meanwhile', { tags: 'full' }, async () => {
    for (const change of ['remove', 'insert'] as const) {
      const { sandbox, file } = await mirrored();
      removeAt(sandbox, [600, 1_400]);
      let reads = 0;
      const onRead = (): void => {
        reads += 1;
        if (reads !== 6) return;
        if (change === 'remove') removeAt(sandbox, [1_000]);
        else sandbox.control.insert('users', { created_at: '2025-06-01T00:00:00.000000Z' });
      };
      const { result, before, after, live } = await searched(sandbox, file, { onRead });
      expect(result).toMatchObject({ kind: 'undecided', problem: expect.stringContaining('meanwhile') as string });
      expect(after).toEqual(before);
      expect(live).toBe(users);
    }
  });
});

test(
  'no run removes a record that the server has, whatever changes meanwhile, and once it is quiet everything is found',
  { tags: 'full' },
  async () => {
    const tried = { ...long, pageSize: 5 };
    const sandbox = await startSandbox({ users: 300, behaviour: { ties: 0.3 }, seed: 23 });
    sandbox.control.setClock(sandboxNow, { frozen: true });
    const file = `${temporaryFolder()}/mirror.db`;
    await sync(sandbox, file, tried);
    const random = new Random(5);
    let searched = 0;
    for (let round = 0; round < (isFull ? 20 : 6); round += 1) {
      const held = idsIn(file);
      removeAt(sandbox, [random.below(100)]);
      const churn = round % 3 === 0 ? 0 : 0.05;
      const deletes = random.fraction() * churn;
      const inserts = random.fraction() * churn;
      sandbox.control.setBehaviour({ churn_deletes: deletes, churn_inserts: inserts, churn_backdated: 0.5 });
      const { requests } = await quickly(sandbox, file, tried);
      if (requests < 50) searched += 1;
      sandbox.control.setBehaviour({ churn_deletes: 0, churn_inserts: 0 });
      const kept = new Set(idsIn(file));
      const onServer = new Set(byCreation(sandbox));
      expect(held.filter((id) => onServer.has(id) && !kept.has(id))).toEqual([]);
    }
    expect(searched).toBeGreaterThan(isFull ? 3 : 0);
    const { report } = await sync(sandbox, file, { ...tried, mode: 'default' });
    expect(report.status).toBe('complete');
    expectMirrored(sandbox, file, ['users']);
  },
);

function idsIn(file: string): number[] {
  const database = new SqliteDatabase(file, { readonly: true });
  try {
    return database.prepare<[], number>('SELECT id FROM users').pluck().all();
  } finally {
    database.close();
  }
}
