// @module-tag full
/**
 * Servers that say untrue things: lists that are empty for a while, totals that count what no page shows. Nothing is
 * removed that they still have, and no run sends more requests than it may.
 */
import { describe, expect, test } from 'vitest';
import { resourceNames, type ResourceName } from '../../src/model/resources.ts';
import { dayMs, hourMs } from '../../src/model/time.ts';
import type { Behaviour, Sandbox } from '../support/bent/sandbox.ts';
import { type Altered, behindProxy, type Exchange } from '../support/altering-proxy.ts';
import { eventsOf, expectMirrored, mirrored, newMirror, sync, type SyncTry, usersStatus } from '../support/mirror.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { verifyMirror } from '../support/verify.ts';
import { sample } from '../support/part.ts';
import { valuesOf } from '../support/rows.ts';

/** The fields of a list's envelope that are used here. */
interface List {
  readonly current_page: number;
  readonly per_page: number;
  readonly data: readonly unknown[];
}

type Report = Awaited<ReturnType<typeof sync>>;

const eventsIn = (file: string, kind: string) => eventsOf(file, kind).map(({ resource }) => resource);

const deletedOf = ({ report }: Report) => Object.values(report.resources).map(({ deleted }) => deleted);

// proves: no-false-removal
test('a record that the list hides stays while the server says 404 for every user', async () => {
  const { sandbox, file } = await newMirror({ users: 60, behaviour: { date_ranges: 'ignored' } });
  let hides = false;
  const proxy = await behindProxy(sandbox, ({ path, body }) => {
    if (!hides || !path.startsWith('/api/v1/users?') || path.includes('filter')) return {};
    const list = JSON.parse(body) as List & { readonly total: number };
    const data = list.data.filter((record) => (record as { readonly id: number }).id !== 17);
    return { body: JSON.stringify({ ...list, data, total: list.total - 1 }) };
  });
  await sync(proxy, file);
  hides = true;
  sandbox.control.setBehaviour({ missing_users: true });
  const { report, error } = await sync(proxy, file);
  expect(report.resources.users).toMatchObject({ status: 'partial', deleted: 0, live: 60 });
  expect([error?.exitCode, eventsIn(file, 'absence_unproven')]).toEqual([5, ['users']]);
});

describe('lists that are empty for a while', () => {
  const shop = { users: 300, emails: 45, packages: 40, coupons: 30 } as const;

  test.each(
    sample(
      [
        ['of three resources', { empty_lists: 'emails,packages,coupons' }],
        ['of the users, with 404 for every user', { empty_lists: 'users', missing_users: true }],
        ['of all resources', { empty_lists: 'users,emails,packages,coupons' }],
        [
          'of all resources, with 404 for every user',
          { empty_lists: 'users,emails,packages,coupons', missing_users: true },
        ],
      ] as const,
      1,
    ),
  )('%s remove no row, and the run says so', async (_, lie) => {
    const { sandbox, file } = await mirrored(shop);
    const measured = () =>
      valuesOf<string>(file, 'SELECT value FROM mirror_capabilities').map((value): unknown => JSON.parse(value));
    const before = measured();
    sandbox.control.setBehaviour(lie);
    for (const mode of ['default', 'full', 'quick'] as const) {
      const liar = await sync(sandbox, file, { mode });
      expect(deletedOf(liar)).toEqual([0, 0, 0, 0]);
      expect(liar.error?.exitCode).toBe(5);
    }
    expectMirrored(sandbox, file);
    expect(measured()).toEqual(before);
    expect(new Set(eventsIn(file, 'absence_unproven'))).toEqual(new Set(lie.empty_lists.split(',')));
    sandbox.control.setChaos('calm');
    expect((await sync(sandbox, file)).report.status).toBe('complete');
    expectMirrored(sandbox, file);
    for (const name of resourceNames) expect(valuesOf(file, `SELECT id FROM ${name}_history`)).toEqual([]);
  });

  test('in a large shop remove no row of its small windows either', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored({ users: 3_000 }, { pageSize: 40, windowPages: 1 });
    sandbox.control.setBehaviour({ empty_lists: 'users' });
    const liar = await sync(sandbox, file, { pageSize: 40, windowPages: 1, mode: 'full' });
    expect(liar.report.resources.users).toMatchObject({ status: 'partial', deleted: 0, live: 3_000 });
    expect(liar.error?.exitCode).toBe(5);
  });

  test.each(sample([1, 2, 3, 5, 8, 13], 1))(
    'for some requests after page %i make no version in the history',
    async (at) => {
      const tried = { pageSize: 10, windowPages: 2, resources: ['emails'], concurrency: 2 } as const;
      const { sandbox, file } = await mirrored(shop, tried);
      let pages = 0;
      const onEvent: SyncTry['onEvent'] = ({ kind }) => {
        if (kind !== 'page') return;
        pages += 1;
        if (pages === at) sandbox.control.setBehaviour({ empty_lists: 'emails' });
        if (pages === at + 2) sandbox.control.setBehaviour({ empty_lists: '' });
      };
      await sync(sandbox, file, { ...tried, mode: 'full', onEvent });
      sandbox.control.setBehaviour({ empty_lists: '' });
      await sync(sandbox, file, tried);
      expectMirrored(sandbox, file, ['emails']);
      expect(valuesOf(file, 'SELECT id FROM emails_history')).toEqual([]);
    },
  );
});

test('a list that becomes empty while its windows are first read by days makes nothing fresh', async () => {
  const tried = { resources: ['emails'], concurrency: 1 } as const;
  const { sandbox, file } = await mirrored({ users: 3, emails: 0 }, tried);
  sandbox.control.insert('emails');
  await sync(sandbox, file, tried);
  for (let count = 0; count < 12; count += 1) {
    sandbox.control.insert('emails', { created_at: '2024-02-29T12:00:00.000000Z' });
  }
  // The open window comes first and shows the only known record.
  const onEvent: SyncTry['onEvent'] = ({ kind }) => {
    if (kind === 'page') sandbox.control.setBehaviour({ empty_lists: 'emails' });
  };
  const liar = await sync(sandbox, file, { ...tried, onEvent });
  expect(liar.report.resources.emails).toMatchObject({ status: 'partial', live: 1, fresh_as_of: null });
  sandbox.control.setBehaviour({ empty_lists: '' });
  expect((await sync(sandbox, file, tried)).report.status).toBe('complete');
  expectMirrored(sandbox, file, ['emails']);
});

test('the only record of a window goes although the newest of another window has gone as well', async () => {
  const tried = { resources: ['emails'], pageSize: 20, windowPages: 1 } as const;
  const sandbox = await startSandbox({ users: 3, emails: 0 });
  const file = `${temporaryFolder()}/mirror.db`;
  const written = [
    ...Array.from({ length: 45 }, (_, count) => `2024-02-${String(1 + (count % 9)).padStart(2, '0')}`),
    '2026-03-01',
    // In the open window, by itself.
    '2026-03-10',
  ].map((day) => Number(sandbox.control.insert('emails', { created_at: `${day}T12:00:00.000000Z` })['id']));
  await sync(sandbox, file, tried);
  for (const id of written.slice(-2)) sandbox.control.remove('emails', id);
  const { report } = await sync(sandbox, file, { ...tried, mode: 'quick' });
  expect(report.resources.emails).toMatchObject({ status: 'complete', problem: null, deleted: 2 });
  expectMirrored(sandbox, file, ['emails']);
  expect(eventsIn(file, 'capability_contradicted')).toEqual([]);
});

describe('a list that is read for the first time, and shows records only', () => {
  const shop = { users: 1_200, emails: 45, packages: 10, coupons: 120 } as const;
  const nothing = (body: string, total = 0) =>
    JSON.stringify({ ...(JSON.parse(body) as List), data: [], total, last_page: 1, from: null, to: null });
  /** The sandbox behind a proxy that alters lists of users, given how many it has shown. */
  async function showing(alter: (shown: number, exchange: Exchange) => Altered) {
    const sandbox = await startSandbox(shop);
    let shown = 0;
    const proxy = await behindProxy(sandbox, (exchange) =>
      exchange.path.startsWith('/api/v1/users?') ? alter((shown += 1), exchange) : {},
    );
    return { sandbox, proxy, file: `${temporaryFolder()}/mirror.db` };
  }
  const unshown = { status: 'partial', fresh_as_of: null } as const;

  test('while it is measured, is not complete, and nothing of it is fresh', async () => {
    let isHonest = false;
    const { sandbox, proxy, file } = await showing((shown, { body }) =>
      isHonest || shown <= 2 ? {} : { body: nothing(body) },
    );
    const { report, error } = await sync(proxy, file);
    expect(error?.exitCode).toBe(5);
    expect(report.resources.users).toMatchObject({
      ...unshown,
      live: 0,
      problem: expect.stringMatching(/shows none now/),
    });
    expect(report.resources.emails).toMatchObject({ status: 'complete' });
    expect(eventsIn(file, 'records_not_shown')).toEqual(['users']);
    isHonest = true;
    expect((await sync(proxy, file)).report.status).toBe('complete');
    expectMirrored(sandbox, file);
  });

  test('in a total after it was measured, is not complete, and nothing of it is fresh', async () => {
    const { proxy, file } = await showing((shown, { body }) => ({ body: nothing(body, shown === 4 ? 120 : 0) }));
    const { report } = await sync(proxy, file, { resources: ['users'] });
    expect(report.resources.users).toMatchObject({ ...unshown, live: 0 });
  });

  test('and later leaves one of them out, is not complete if the server still has it', async () => {
    const sandbox = await startSandbox({ ...shop, behaviour: { date_ranges: 'ignored' } });
    let hides = false;
    const proxy = await behindProxy(sandbox, ({ path, body }) => {
      if (!hides || !path.startsWith('/api/v1/coupons?') || path.includes('filter')) return {};
      const list = JSON.parse(body) as List & { readonly total: number };
      const data = list.data.filter((record) => (record as { readonly id: number }).id !== 7);
      return { body: JSON.stringify({ ...list, data, total: list.total - 1 }) };
    });
    const onEvent: SyncTry['onEvent'] = ({ kind }) => {
      hides ||= kind === 'expected';
    };
    const { report } = await sync(proxy, `${temporaryFolder()}/mirror.db`, { resources: ['coupons'], onEvent });
    const problem = 'the list showed record 7 while it was measured, and no window shows it';
    expect(report.resources.coupons).toMatchObject({ ...unshown, live: 119, problem });
  });

  test('that are deleted before they are read, is complete', async () => {
    const { sandbox, file } = await newMirror(shop);
    let isRead = false;
    const onEvent: SyncTry['onEvent'] = ({ kind }) => {
      if (kind !== 'expected' || isRead) return;
      isRead = true;
      for (let id = 1; id <= 5; id += 1) sandbox.control.remove('coupons', id);
    };
    const { report } = await sync(sandbox, file, { resources: ['coupons'], onEvent });
    expect(report.resources.coupons).toMatchObject({ status: 'complete', live: 115 });
  });
});

describe('the brake', () => {
  test.each([
    [101, 180, '2026-02-20'],
    [301, 380, '2024-01-20'],
  ])('treats records %i to %i with the new day %s as moved, not deleted', async (from, to, day) => {
    const tried = { resources: ['users'], pageSize: 20, windowPages: 12, concurrency: 1 } as const;
    const { sandbox, file } = await mirrored({ users: 600 }, tried);
    for (let id = from; id <= to; id += 1) {
      sandbox.control.update('users', id, { created_at: `${day}T10:00:${String(id % 60).padStart(2, '0')}.000000Z` });
    }
    const { report } = await sync(sandbox, file, tried);
    expect(report.resources.users).toMatchObject({ status: 'complete', updated: 80, deleted: 0 });
    expect(eventsIn(file, 'deletions_refused')).toEqual([]);
    expect(eventsIn(file, 'capability_contradicted')).toEqual([]);
    expectMirrored(sandbox, file, ['users']);
  });

  test('holds if more than a fifth of the resource would be removed, even if little of each window', async () => {
    const tried = { pageSize: 20, windowPages: 2, resources: ['users'] } as const;
    const { sandbox, file } = await mirrored({ users: 400 }, tried);
    // Every fourth record, so at most ten of each window.
    for (let id = 4; id <= 400; id += 4) sandbox.control.remove('users', id);
    const held = await sync(sandbox, file, tried);
    expect(held.report.resources.users).toMatchObject({ status: 'partial', deleted: 0, live: 400 });
    expect(held.error?.message).toMatch(/100 of 400 users would be removed/);
    const allowed = await sync(sandbox, file, { ...tried, allowDeletions: true });
    expect(allowed.report.resources.users).toMatchObject({ status: 'complete', deleted: 100, live: 300 });
  });

  test('holds if a window of more than ten rows would lose all of them, but not if it has fewer', async () => {
    const tried = { pageSize: 20, windowPages: 1, resources: ['users'] } as const;
    for (const [rows, deleted] of [
      [11, 0],
      [10, 10],
    ] as const) {
      const { sandbox, file } = await mirrored({ users: 200 }, tried);
      const oldest = valuesOf<string>(
        file,
        "SELECT to_day FROM mirror_windows WHERE resource = 'users' ORDER BY from_day",
      )[0];
      const inside = sandbox.control.dump('users').filter((user) => String(user['created_at']) < String(oldest));
      for (const { id } of inside.slice(rows)) sandbox.control.remove('users', Number(id));
      await sync(sandbox, file, { ...tried, allowDeletions: true });
      for (const { id } of inside.slice(0, rows)) sandbox.control.remove('users', Number(id));
      expect((await sync(sandbox, file, tried)).report.resources.users?.deleted).toBe(deleted);
    }
  });

  test('allows a nightly purge of as many records as the setting says', { tags: 'full' }, async () => {
    const tried = { pageSize: 30, windowPages: 1, resources: ['emails'], brake: { emails: 90 } } as const;
    const { sandbox, file } = await mirrored({ emails: 400 }, tried);
    const { control } = sandbox;
    const held: (string | undefined)[] = [];
    for (let night = 0; night < 4; night += 1) {
      const byTime = control
        .dump('emails')
        .sort((a, b) => String(a['created_at']).localeCompare(String(b['created_at'])));
      for (const { id } of byTime.slice(0, 90)) control.remove('emails', Number(id));
      control.advanceClock(dayMs);
      if (night === 0) held.push((await sync(sandbox, file, { ...tried, brake: {} })).error?.message);
      const { emails } = (await sync(sandbox, file, tried)).report.resources;
      expect(emails).toMatchObject({ status: 'complete', live: 400 - 90 * (night + 1) });
    }
    expectMirrored(sandbox, file, ['emails']);
    expect(held).toEqual([expect.stringMatching(/24 of 24 records created in .* would be removed/)]);
  });

  test('holds if a resource would become empty, however few its rows, until that is allowed', async () => {
    const { sandbox, file } = await mirrored({ coupons: 3 });
    for (const { id } of sandbox.control.dump('coupons')) sandbox.control.remove('coupons', Number(id));
    const held = await sync(sandbox, file);
    expect(held.report.resources.coupons).toMatchObject({ status: 'partial', deleted: 0, live: 3 });
    const allowed = await sync(sandbox, file, { allowDeletions: true });
    expect(allowed.report.resources.coupons).toMatchObject({ status: 'complete', deleted: 3, live: 0 });
  });
});

/** Runs within their bound until one has read everything. Returns the number of runs before it. */
async function firstNights(sandbox: Sandbox, file: string) {
  openMirrorStore(file).close();
  for (let night = 0; night < 8; night += 1) {
    const most = bound(sandbox, file, tight);
    const { report, error } = await sync(sandbox, file, tight);
    expect(report.requests).toBeLessThanOrEqual(most);
    if (!/leaves the rest to the next/.test(error?.message ?? '')) return night;
  }
  throw new Error('eight runs were not enough');
}

/** The requests that a run may send: 1.3 times the real pages of all windows, the budget, and 50. */
function bound(sandbox: Sandbox, file: string, { pageSize, requestsPerRun }: typeof tight): number {
  const pagesOf = (records: number) => Math.max(1, Math.ceil(records / pageSize));
  const pages = resourceNames.map((name) => {
    const starts = valuesOf<string>(file, `SELECT from_day FROM mirror_windows WHERE resource = '${name}' ORDER BY 1`);
    const times = sandbox.control.dump(name).map((record) => String(record['created_at']));
    const inWindows = starts.reduce((sum, start, index) => {
      const end = starts[index + 1] ?? '9';
      return sum + pagesOf(times.filter((time) => time >= start && time < end).length);
    }, 0);
    return Math.max(inWindows, pagesOf(sandbox.control.count(name)));
  });
  return pages.reduce((sum, each) => sum + each, 0) * 1.3 + requestsPerRun + 50;
}

const tight = { pageSize: 15, requestsPerRun: 100 };

const trash = ({ control }: Sandbox, name: ResourceName, ids: readonly number[]): void => {
  control.setBehaviour({ deletes: 'counted' });
  for (const id of ids) control.remove(name, id);
};

describe('totals that count what no page shows', () => {
  const shop = { users: 700, emails: 230, packages: 40, coupons: 30 } as const;
  const spread = (count: number) => Array.from({ length: count }, (_, index) => 3 + index * Math.floor(690 / count));

  test.each(
    sample(
      [
        ['', {}, 5],
        ['', {}, 200],
        [', without ranges of days', { date_ranges: 'ignored' }, 5],
        [', in another time zone', { timezone_minutes: 330 }, 5],
      ] as const,
      2,
    ),
  )(
    'because they were only marked as deleted%s, leave the mirror complete, and are named (%o, %i of them)',
    async (_, behaviour, trashed) => {
      const { sandbox, file } = await newMirror({ ...shop, behaviour });
      trash(sandbox, 'users', spread(trashed));
      await firstNights(sandbox, file);
      expectMirrored(sandbox, file, ['users']);
      expect(eventsIn(file, 'totals_differ')).toContain('users');
      expect(usersStatus(file).surplus).toBe(trashed);
      const honest = await startSandbox({ ...shop, behaviour });
      const beside = `${temporaryFolder()}/mirror.db`;
      await firstNights(honest, beside);
      const quiet = await sync(honest, beside, tight);
      sandbox.control.advanceClock(hourMs);
      const second = await sync(sandbox, file, tight);
      expect(second.report.requests).toBeLessThanOrEqual(quiet.report.requests + 20);
      expect(second.report.resources.users).toMatchObject({
        status: 'complete',
        server_total: 700,
        live: 700 - trashed,
      });
      expectMirrored(sandbox, file, ['users']);
    },
  );

  test('are not believed where the list shows nothing else', async () => {
    const { sandbox, file } = await newMirror(shop);
    const proxy = await behindProxy(sandbox, ({ path, body }) =>
      path.startsWith('/api/v1/users?') ? { body: JSON.stringify({ ...(JSON.parse(body) as List), data: [] }) } : {},
    );
    const { report, error } = await sync(proxy, file, { resources: ['users'] });
    expect(report.resources.users).toMatchObject({
      status: 'partial',
      problem: 'the mirror has 0 records and the server counts 700',
    });
    expect(error?.exitCode).toBe(5);
    const compared = await verifyMirror(proxy, file, { resources: ['users'] });
    expect(compared.report.resources.users).toMatchObject({ status: 'incomplete', live: 0, server_total: 700 });
  });

  test('because they were only marked as deleted are not believed in a list without order', async () => {
    const { sandbox, file } = await newMirror({ ...shop, behaviour: { sorts: 'ignored' } });
    trash(sandbox, 'users', spread(5));
    const { report, error } = await sync(sandbox, file);
    expect(report.resources.users).toMatchObject({ status: 'partial', problem: expect.stringContaining('no order') });
    expect(error?.exitCode).toBe(5);
  });

  // proves: request-bound
  test.each(
    sample(
      [
        { totals_more: 3 },
        { totals_more: 100_000 },
        { totals_more: 1_000_000_000 },
        { totals_cap: 500 },
        { totals_more: 3, sorts: 'random' },
      ] as const,
      2,
    ),
  )('in other ways (%o) make the resource incomplete with one reason, and cost no more than the bound', async (lie) => {
    const { sandbox, file } = await newMirror({ ...shop, behaviour: lie });
    openMirrorStore(file).close();
    for (let night = 0; night < 3; night += 1) {
      const before = bound(sandbox, file, tight);
      const { report, error } = await sync(sandbox, file, tight);
      // Windows that were cut have more pages, and small ones are joined at the end.
      expect(report.requests).toBeLessThanOrEqual(Math.max(before, bound(sandbox, file, tight)) + 20);
      expect(report.resources.users).toMatchObject({ status: 'partial', deleted: 0, problem: expect.any(String) });
      expect(error?.exitCode).toBe(5);
      sandbox.control.advanceClock(hourMs);
    }
    sandbox.control.setBehaviour({ totals_more: 0, totals_cap: 0, sorts: 'kept' });
    await firstNights(sandbox, file);
    expect((await sync(sandbox, file)).report.status).toBe('complete');
    expectMirrored(sandbox, file);
  });

  test.each(sample([{ totals_more: 100_000 }, { totals_more: 1_000_000_000 }, { totals_cap: 500 }] as const, 1))(
    'of %o from one night on keep each run within the bound, and take no row',
    async (lie) => {
      const { sandbox, file } = await newMirror(shop);
      await firstNights(sandbox, file);
      sandbox.control.setBehaviour(lie);
      for (let night = 0; night < 3; night += 1) {
        sandbox.control.advanceClock(hourMs);
        const most = bound(sandbox, file, tight);
        const { report, error } = await sync(sandbox, file, tight);
        expect(report.requests).toBeLessThanOrEqual(most);
        expect(error?.exitCode).toBe(5);
        expectMirrored(sandbox, file);
      }
    },
  );

  test('do not stop a list without ranges of days from being read in one run', { tags: 'full' }, async () => {
    const behaviour = { date_ranges: 'ignored' } as const;
    const { sandbox, file } = await newMirror({ ...shop, users: 2_000, behaviour });
    const { report, error } = await sync(sandbox, file, { ...tight, pageSize: 5, requestsPerRun: 0 });
    expect(error).toBeNull();
    expect(report.requests).toBeLessThanOrEqual(((2_000 + 230 + 40 + 30) / 5) * 1.3 + 50);
    expectMirrored(sandbox, file);
  });

  test.each(sample([2_000, 100_000, 1_000_000_000], 1))(
    'that were %i too large for one night do not keep later runs from reading changes',
    async (lie) => {
      const { sandbox, file } = await mirrored({ users: 300, emails: 50, behaviour: { page_max: 50 } }, tight);
      sandbox.control.setBehaviour({ totals_more: lie });
      await sync(sandbox, file, tight).catch(() => {});
      sandbox.control.setBehaviour({ totals_more: 0 });
      for (let id = 1; id <= 13; id += 1) sandbox.control.update('users', id * 20, { first_name: 'Changed' });
      for (let night = 0; night < 3; night += 1) {
        sandbox.control.advanceClock(dayMs);
        await sync(sandbox, file);
      }
      expectMirrored(sandbox, file, ['users']);
      const { report } = await sync(sandbox, file);
      expect([report.status, Object.values(report.resources).map(({ problem }) => problem)]).toEqual([
        'complete',
        [null, null, null, null],
      ]);
    },
  );

  test.each(
    sample(
      [
        ['are capped at 500', { totals_cap: 500 }],
        ['are remembered for 20 seconds', { totals_cached: 20 }],
        ['are not of the requested days', { date_ranges: 'ignored' }],
      ] as const,
      1,
    ),
  )('which %s cause no storm of requests and hide no record', async (_, lie) => {
    const { sandbox, file } = await newMirror({ ...shop, behaviour: lie });
    for (let night = 0; night < 3; night += 1) {
      expect(await firstNights(sandbox, file)).toBeLessThan(8);
      sandbox.control.remove('users', 100 + night);
      sandbox.control.insert('users');
      sandbox.control.advanceClock(dayMs);
    }
    await sync(sandbox, file, tight);
    expectMirrored(sandbox, file);
  });

  test('that count trashed records do not keep a record that is deleted for good', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored(shop, tight);
    trash(sandbox, 'users', [50, 350, 650]);
    await sync(sandbox, file, { ...tight, mode: 'full' });
    expectMirrored(sandbox, file, ['users']);
    sandbox.control.setBehaviour({ deletes: 'gone' });
    sandbox.control.remove('users', 351);
    const { report } = await sync(sandbox, file, tight);
    expect(report.resources.users).toMatchObject({ status: 'complete', deleted: 1, live: 696, server_total: 699 });
    expectMirrored(sandbox, file, ['users']);
  });
});

describe('a server whose pages end at a depth', () => {
  const tried = { resources: ['users'], pageSize: 20 } as const;
  const depths = [{ depth: 100 }, { depth: 100, depth_over: 'refuse' }, { depth: 100, depth_over: 'error' }] as const;

  test.each(depths)('(%o) is read completely if windows are no deeper', async (behaviour) => {
    const { sandbox, file } = await newMirror({ users: 600, behaviour });
    const { report } = await sync(sandbox, file, { ...tried, windowPages: 5 });
    expect(report.resources.users).toMatchObject({ status: 'complete', live: 600 });
    expectMirrored(sandbox, file, ['users']);
  });

  test.each(depths)('(%o) leaves deeper windows incomplete, with a reason, and takes no row', async (behaviour) => {
    const { sandbox, file } = await newMirror({ users: 600, behaviour });
    const deep = { ...tried, windowPages: 12 };
    const first = await sync(sandbox, file, deep);
    expect(first.error?.exitCode).toBe(5);
    expect(first.report.resources.users).toMatchObject({ status: 'partial', fresh_as_of: null });
    const second = await sync(sandbox, file, { ...deep, mode: 'full' });
    expect(second.report.resources.users).toMatchObject({ status: 'partial', deleted: 0 });
  });

  test.each([{ totals_cap: 100 }, { totals_cap: 100, depth_over: 'refuse' }, {}] as const)(
    'and that has no ranges of days makes nothing complete or fresh (%o)',
    async (behaviour) => {
      const sandbox = await startSandbox({
        users: 600,
        behaviour: { ...behaviour, depth: 100, date_ranges: 'ignored' },
      });
      const { report } = await sync(sandbox, `${temporaryFolder()}/mirror.db`, { ...tried, windowPages: 12 });
      expect(report.resources.users).toMatchObject({ status: 'partial', fresh_as_of: null });
    },
  );
});

describe('behind the end of a list, a server', () => {
  const users = 600;
  const tried = { resources: ['users'], pageSize: 20, requestsPerRun: 100 } as const;

  /** A server that replaces empty pages, except the first, by `behind`. */
  async function endingWith(behind: (list: List, last: List) => Altered, behaviour: Partial<Behaviour>) {
    const sandbox = await startSandbox({ users, behaviour: { date_ranges: 'ignored', ...behaviour } });
    const proxy = await behindProxy(sandbox, ({ path, body }) => {
      if (!path.startsWith('/api/v1/users?')) return {};
      const list = JSON.parse(body) as List;
      if (list.data.length > 0 || list.current_page === 1) return {};
      const all = sandbox.control
        .dump('users')
        .toSorted((a, b) => (String(a['created_at']) < String(b['created_at']) ? -1 : 1));
      const page = Math.ceil(all.length / list.per_page);
      return behind(list, { ...list, current_page: page, data: all.slice((page - 1) * list.per_page) });
    });
    return { sandbox, proxy };
  }

  const ends: readonly (readonly [name: string, behind: (list: List, last: List) => Altered])[] = [
    ['says 404', () => ({ status: 404, body: '{"message": "Not found."}' })],
    ['refuses', () => ({ status: 422, body: '{"message": "The page is invalid."}' })],
    ['fails', () => ({ status: 500, body: '{"message": "Server Error"}' })],
    ['gives its last page', (_, last) => ({ body: JSON.stringify(last) })],
    [
      'gives its last page as the one that was requested',
      ({ current_page }, last) => ({ body: JSON.stringify({ ...last, current_page }) }),
    ],
  ];

  test.each(sample(ends, 2))('%s, and a list that ends with a full page is read completely', async (_, behind) => {
    const { sandbox, proxy } = await endingWith(behind, {});
    const file = `${temporaryFolder()}/mirror.db`;
    const { report } = await sync(proxy, file, tried);
    expect(report.resources.users).toMatchObject({ status: 'complete', live: users, problem: null });
    expectMirrored(sandbox, file, ['users']);
  });

  test.each(sample(ends, 2))(
    '%s, and a list that counts 75 records too many takes no row and sends no more than the bound',
    async (_, behind) => {
      const { sandbox, proxy } = await endingWith(behind, {});
      const file = `${temporaryFolder()}/mirror.db`;
      await sync(proxy, file, tried);
      sandbox.control.setBehaviour({ totals_more: 75 });
      sandbox.control.advanceClock(dayMs);
      const { report } = await sync(proxy, file, tried);
      expect(report.resources.users).toMatchObject({ deleted: 0, live: users });
      // The last page of a window need not be full.
      expect(report.requests).toBeLessThanOrEqual((users / 20) * 1.3 + 150 + 5);
      expectMirrored(sandbox, file, ['users']);
    },
  );
});

/** The mirror of a server on which nothing was created around New Year. */
async function asleep(users: number, tried: SyncTry) {
  const sandbox = await startSandbox({ users, packages: 0, emails: 0, coupons: 0 });
  for (const { id, created_at: at } of sandbox.control.dump('users')) {
    const isQuiet = String(at) >= '2025-12-20' && String(at) < '2026-01-10';
    if (isQuiet) sandbox.control.remove('users', Number(id));
  }
  const file = `${temporaryFolder()}/mirror.db`;
  await sync(sandbox, file, tried);
  sandbox.control.advanceClock(hourMs);
  return { sandbox, file };
}

describe('a shop that rests over the winter', () => {
  test('is still read by ranges of days', async () => {
    const { sandbox, file } = await asleep(3_000, { pageSize: 50 });
    const measured = valuesOf<string>(
      file,
      `SELECT value ->> '$.dates' FROM mirror_capabilities WHERE resource = 'users'`,
    );
    expect(measured).toContain('iso');
    sandbox.control.insert('users');
    const { report } = await sync(sandbox, file, { pageSize: 50, mode: 'quick' });
    expect(report.resources.users).toMatchObject({ status: 'complete', inserted: 1 });
    expect(report.resources.users?.requests).toBeLessThanOrEqual(4);
  });
});

describe('ids beyond 2^53', () => {
  const offset = 2n ** 53n;

  test('are kept with all their digits, and their records are updated and deleted like others', async () => {
    const behaviour = { large_ids: true };
    const shop = { users: 300, packages: 0, emails: 60, coupons: 0, behaviour } as const;
    const { sandbox, file, first } = await mirrored(shop, { pageSize: 40 });
    expect(first.report.status).toBe('complete');
    expect(first.report.requests).toBeLessThanOrEqual(45);
    const idsIn = (name: string) => valuesOf<string>(file, `SELECT CAST(id AS TEXT) FROM ${name} ORDER BY id`);
    const idsOf = (name: ResourceName) =>
      sandbox.control.dump(name).map(({ id }) => String(offset + BigInt(id as number)));
    expect(idsIn('users')).toEqual(idsOf('users'));
    expect(idsIn('emails')).toEqual(idsOf('emails'));
    sandbox.control.remove('users', 17);
    sandbox.control.remove('emails', 5);
    sandbox.control.update('users', 18, { first_name: 'Other' });
    const { report } = await sync(sandbox, file, { pageSize: 40 });
    expect(report.resources.users).toMatchObject({ status: 'complete', deleted: 1, updated: 1, inserted: 0 });
    expect(idsIn('users')).toEqual(idsOf('users'));
    expect(idsIn('emails')).toEqual(idsOf('emails'));
    expect((await verifyMirror(sandbox, file, { deep: true })).error).toBeNull();
  });
});
