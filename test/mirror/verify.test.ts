import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import type { Source } from '../../src/mirror/source.ts';
import type { VerifyReport } from '../../src/mirror/verify.ts';
import { behindProxy, eachUser } from '../support/altering-proxy.ts';
import { InterruptedError } from '../../src/model/errors.ts';
import { dayMs } from '../../src/model/time.ts';
import type { Behaviour } from '../support/bent/sandbox.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { newMirror, sync } from '../support/mirror.ts';
import { verifyMirror } from '../support/verify.ts';
import { sample } from '../support/part.ts';
import { alter } from '../support/rows.ts';

const some = { users: 300, packages: 20, emails: 400, coupons: 30 } as const;

/** A sandbox and a mirror of it that was just synced, in windows of a few pages. */
async function mirrored(behaviour: Partial<Behaviour> = {}) {
  const { sandbox, file } = await newMirror({ ...some, behaviour });
  const { report } = await sync(sandbox, file, { pageSize: 20, windowPages: 3 });
  expect(report.status).toBe('complete');
  return { sandbox, file };
}

/** Does the work once, before the second page of a walk is requested. */
function beforeSecondPage(work: () => Promise<unknown>): (source: Source) => Source {
  let pages = 0;
  return (source) => ({
    ...source,
    page: async (...asked) => {
      pages += 1;
      if (pages === 2) await work();
      return source.page(...asked);
    },
  });
}

/** The requests that counting takes, with the look that tells the server. */
function countRequests({ resources }: VerifyReport): number {
  return Object.values(resources).reduce((sum, each) => sum + each.windows + 1, 1);
}

const nothing = { missing: [], extra: [], different: [], differing_windows: [] };

describe('a mirror that was just synced', () => {
  test.each(sample([false, true], 1))('is equal (deep: %s)', async (deep) => {
    const { sandbox, file } = await mirrored();
    const { report, error } = await verifyMirror(sandbox, file, { deep });
    expect(error).toBeNull();
    expect(report).toMatchObject({ status: 'equal', deep });
    for (const each of Object.values(report.resources)) {
      expect(each).toMatchObject({ status: 'equal', problem: null, ...nothing });
    }
    expect(report.resources.users).toMatchObject({ live: 300, server_total: 300 });
    const fresh = Object.values(report.resources).map((each) => each.fresh_as_of ?? '');
    expect(fresh.every((each) => each >= (report.fresh_as_of ?? ':'))).toBe(true);
  });

  // proves: verify-reads
  test('is not written to, and no lock is taken or waited for', async () => {
    const { sandbox, file } = await mirrored();
    sandbox.control.remove('users', 9);
    const store = openMirrorStore(file);
    store.acquireLock('sync', 'another run');
    store.checkpoint(true);
    const bytes = () =>
      createHash('sha256')
        .update(readFileSync(file))
        .update(readFileSync(`${file}-wal`))
        .digest('hex');
    const watch = new SqliteDatabase(file);
    const before = { bytes: bytes(), version: watch.pragma('data_version', { simple: true }) };
    await verifyMirror(sandbox, file);
    await verifyMirror(sandbox, file, { deep: true });
    expect({ bytes: bytes(), version: watch.pragma('data_version', { simple: true }) }).toEqual(before);
    watch.close();
    store.releaseLock('sync', 'another run');
    store.close();
  });
});

describe('a change on the server since the last sync', () => {
  test('is listed by record: missing, extra, or different with its columns', async () => {
    const { sandbox, file } = await mirrored();
    const { id: added } = sandbox.control.insert('users');
    const { id: backDated } = sandbox.control.insert('users', { created_at: '2021-05-05T10:00:00.000000Z' });
    sandbox.control.remove('users', 7);
    sandbox.control.update('users', 20, { balance: 77.25, language: 'xx' });
    sandbox.control.update('coupons', 3, {
      notes: 'changed',
      updated_at: sandbox.control.get('coupons', 3)?.['updated_at'],
    });
    const { report, error } = await verifyMirror(sandbox, file, { deep: true });
    expect(error).toBeNull();
    expect(report.status).toBe('different');
    expect(report.resources.users).toMatchObject({
      status: 'different',
      live: 300,
      server_total: 301,
      missing: [added, backDated],
      extra: [7],
      different: [{ id: 20, fields: ['balance', 'language', 'updated_at'] }],
    });
    expect(report.resources.coupons).toMatchObject({ status: 'different', different: [{ id: 3, fields: ['notes'] }] });
    expect(report.resources.packages).toMatchObject({ status: 'equal', ...nothing });
  });

  test('is found by counts, too, with its records named', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    const { id: added } = sandbox.control.insert('emails');
    sandbox.control.remove('coupons', 4);
    sandbox.control.update('users', 20, { balance: 77.25 });
    const { report } = await verifyMirror(sandbox, file);
    expect(report.resources.emails).toMatchObject({ status: 'different', missing: [added], extra: [] });
    expect(report.resources.coupons).toMatchObject({ status: 'different', missing: [], extra: [4] });
    expect(report.resources.users).toMatchObject({ status: 'equal' });
  });

  test('is found by counts even if the sums are equal, with its windows named', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    const gone = Array.from({ length: 20 }, (_, index) => 280 - index);
    for (const id of gone) sandbox.control.remove('users', id);
    const added = gone.map(() => sandbox.control.insert('users', { created_at: '2019-05-05T10:00:00.000000Z' })['id']);
    const { report } = await verifyMirror(sandbox, file, { resources: ['users'] });
    expect(report.resources.users).toMatchObject({ status: 'different', live: 300, server_total: 300 });
    expect(report.resources.users?.missing).toEqual(added);
    expect(report.resources.users?.extra).toEqual(gone.toReversed());
    const windows = report.resources.users?.differing_windows ?? [];
    expect(windows.length).toBeGreaterThan(0);
    expect(windows.some(({ from, to }) => from <= '2019-05-05' && to > '2019-05-05')).toBe(true);
  });

  test('of a creation time does not make the record extra', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    sandbox.control.update('users', 250, { created_at: '2019-05-05T10:00:00.000000Z' });
    const { report } = await verifyMirror(sandbox, file, { deep: true, resources: ['users'] });
    expect(report.resources.users).toMatchObject({
      missing: [],
      extra: [],
      different: [{ id: 250, fields: ['created_at', 'updated_at'] }],
    });
  });

  test('is found even if no range of days shows it', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    const { id } = sandbox.control.insert('users', { created_at: null });
    for (const deep of [false, true]) {
      const { report } = await verifyMirror(sandbox, file, { deep, resources: ['users'] });
      expect(report.resources.users).toMatchObject({ status: 'different', missing: [id], extra: [], problem: null });
    }
    await sync(sandbox, file, { pageSize: 20, windowPages: 3 });
    expect((await verifyMirror(sandbox, file, { deep: true })).report.status).toBe('equal');
    sandbox.control.update('users', Number(id), { created_at: null, language: 'xx' });
    const { report } = await verifyMirror(sandbox, file, { deep: true });
    expect(report.resources.users?.different).toMatchObject([{ id }]);
  });
});

describe('rows that were changed outside the program', () => {
  test('are found: one too many, one too few, and a changed value', async () => {
    const { sandbox, file } = await mirrored();
    alter(
      file,
      `DELETE FROM users WHERE id = 11;
       INSERT INTO users (id, created_at, _first_seen_at, _changed_at) VALUES (9001, '2024-05-05T10:00:00.000000Z', '', '');
       UPDATE users SET is_subscribed = 1 - is_subscribed, _extra = '{}' WHERE id = 30`,
    );
    const { report } = await verifyMirror(sandbox, file, { deep: true });
    expect(report.resources.users).toMatchObject({
      missing: [11],
      extra: [9001],
      different: [{ id: 30, fields: ['is_subscribed', '_extra'] }],
    });
  });
});

describe('with other rules for ranges, sorts and shapes', () => {
  const switches: readonly Partial<Behaviour>[] = [
    { date_end: 'day' },
    { date_end: 'exclusive', timezone_minutes: 330 },
    { date_end: 'day', timezone_minutes: -480, date_format: 'dmy' },
    { date_ranges: 'ignored' },
    { date_ranges: 'error', sorts: 'ignored' },
    { sorts: 'ignored', page_max: 50 },
    { sort_ties: 'random', ties: 0.3 },
    { numbers_as_strings: 0.5, flags_as_booleans: 0.5, empty_objects_as_arrays: 0.5 },
    { unknown_fields: 0.5, missing_fields: 0.5 },
  ];

  test.each(sample(switches, 1))('an unchanged server is equal, and a lost row is found: %o', async (behaviour) => {
    const { sandbox, file } = await mirrored(behaviour);
    const counted = await verifyMirror(sandbox, file);
    expect(counted.report.status).toBe('equal');
    // No window had to be read for that.
    expect(counted.report.requests).toBeLessThanOrEqual(countRequests(counted.report));
    expect((await verifyMirror(sandbox, file, { deep: true })).report.status).toBe('equal');
    alter(file, 'DELETE FROM emails WHERE id = 123');
    for (const deep of [false, true]) {
      const { report } = await verifyMirror(sandbox, file, { deep });
      expect(report.resources.emails).toMatchObject({ status: 'different', missing: [123], extra: [], different: [] });
    }
  });
});

test('a record that loses its creation time is compared where it is shown', { tags: 'full' }, async () => {
  const { sandbox, file } = await mirrored();
  const undated = eachUser((user) => {
    if (user['id'] === 5) delete user['created_at'];
  });
  const { report } = await verifyMirror(await behindProxy(sandbox, undated), file, {
    deep: true,
    resources: ['users'],
  });
  expect(report.resources.users).toMatchObject({
    missing: [],
    extra: [],
    different: [{ id: 5, fields: ['created_at'] }],
  });
});

describe('a suppressed record', () => {
  test('does not count as missing, and neither do its emails', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    const isKeptOut = (user: unknown) => Number(user) >= 100 && Number(user) < 140;
    const theirs = sandbox.control.dump('emails').filter((email) => isKeptOut(email['user_id'])).length;
    alter(
      file,
      `INSERT INTO mirror_suppressions (resource, id, user_id, since)
         SELECT 'users', id, id, '' FROM users WHERE id >= 100 AND id < 140;
       DELETE FROM users WHERE id >= 100 AND id < 140;
       DELETE FROM emails WHERE user_id >= 100 AND user_id < 140;
       DELETE FROM mirror_pages`,
    );
    expect((await verifyMirror(sandbox, file, { deep: true })).report.status).toBe('equal');
    await sync(sandbox, file, { pageSize: 20, windowPages: 3 });
    for (const deep of [false, true]) {
      const { report } = await verifyMirror(sandbox, file, { deep });
      expect(report.status).toBe('equal');
      expect(report.resources.users).toMatchObject({ live: 260, server_total: 300 });
      expect(report.resources.emails).toMatchObject({ live: 400 - theirs, server_total: 400 });
    }
    const { report } = await verifyMirror(sandbox, file);
    expect(report.requests).toBe(countRequests(report));
  });
});

describe('a server that changes during a comparison', () => {
  test('is equal if it loses again what the mirror lacks', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    const { id } = sandbox.control.insert('users', { created_at: '1999-01-01T00:00:00.000000Z' });
    const source = beforeSecondPage(() => Promise.resolve(sandbox.control.remove('users', Number(id))));
    const { report } = await verifyMirror(sandbox, file, { deep: true, resources: ['users'], source, concurrency: 1 });
    expect(report).toMatchObject({ status: 'equal', resources: { users: { server_total: 300 } } });
  });

  test('is equal if a sync follows the change', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    let asked = 0;
    const source = (source: Source): Source => ({
      ...source,
      total: async (...range) => {
        const total = await source.total(...range);
        asked += 1;
        if (asked === 1) {
          sandbox.control.insert('users');
          await sync(sandbox, file, { pageSize: 20, windowPages: 3 });
        }
        return total;
      },
    });
    const { report } = await verifyMirror(sandbox, file, { resources: ['users'], source });
    expect(report).toMatchObject({ status: 'equal', resources: { users: { live: 301, server_total: 301 } } });
  });
});

describe('a sync beside a comparison', () => {
  test('that repairs what was found removes it from the result', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    sandbox.control.update('users', 1, { language: 'xx' });
    sandbox.control.remove('users', 2);
    const source = beforeSecondPage(() => sync(sandbox, file, { pageSize: 20, windowPages: 3 }));
    const { report } = await verifyMirror(sandbox, file, { deep: true, resources: ['users'], source, concurrency: 1 });
    expect(report.status).toBe('equal');
  });

  test('does not hide what it did not repair', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    sandbox.control.update('users', 1, { language: 'xx' });
    const source = beforeSecondPage(() => sync(sandbox, file, { resources: ['coupons'] }));
    const { report } = await verifyMirror(sandbox, file, { deep: true, resources: ['users'], source, concurrency: 1 });
    expect(report.resources.users?.different).toEqual([{ id: 1, fields: ['language', 'updated_at'] }]);
  });
});

describe('what cannot be compared', () => {
  test('is reported, and the rest is still compared', async () => {
    const { sandbox, file } = await mirrored();
    sandbox.control.setBehaviour({ forbidden: 'emails' });
    const { report, error } = await verifyMirror(sandbox, file);
    expect(report.status).toBe('incomplete');
    expect(report.resources.emails).toMatchObject({ status: 'incomplete', server_total: null, ...nothing });
    expect(report.resources.emails?.problem).toMatch(/403/);
    expect(report.resources.users?.status).toBe('equal');
    expect(error?.exitCode).toBe(5);
    sandbox.control.remove('users', 5);
    const other = await verifyMirror(sandbox, file);
    expect(other.report.status).toBe('different');
    expect(other.error).toBeNull();
  });

  test(
    'may be a record that no page shows, which is reported as neither missing nor extra',
    { tags: 'full' },
    async () => {
      const { sandbox, file } = await mirrored();
      const id = Number(sandbox.control.insert('users', { created_at: '2026-01-15T12:00:00.000000Z' })['id']);
      sandbox.control.setBehaviour({ poisoned: `users:${id},users:5` });
      sandbox.control.update('users', 6, { balance: 1.25 });
      const { report, error } = await verifyMirror(sandbox, file, { deep: true, resources: ['users'] });
      expect(report.resources.users).toMatchObject({ missing: [], extra: [], different: [{ id: 6 }] });
      expect(report.resources.users?.problem).toMatch(/1 record cannot be read/);
      expect([report.status, error?.exitCode ?? null]).toEqual(['different', null]);
    },
  );

  test('is everything if the key is refused or the server is gone', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    sandbox.control.setBehaviour({ forbidden: 'users,packages,emails,coupons' });
    expect((await verifyMirror(sandbox, file, { deep: true })).error?.exitCode).toBe(3);
    await sandbox.close();
    expect((await verifyMirror(sandbox, file)).error?.exitCode).toBe(4);
  });

  test.each(sample([false, true], 1))(
    'may be a list that is empty for a while, which has no extra records but is not equal either (deep: %s)',
    async (deep) => {
      const { sandbox, file } = await mirrored();
      sandbox.control.setBehaviour({ empty_lists: 'users,coupons' });
      const empty = await verifyMirror(sandbox, file, { deep });
      for (const name of ['users', 'coupons'] as const) {
        expect(empty.report.resources[name]).toMatchObject({
          status: 'incomplete',
          missing: [],
          extra: [],
          different: [],
        });
        expect(empty.report.resources[name]?.problem).toMatch(/the list shows none of the/);
      }
      expect([empty.report.status, empty.error?.exitCode, empty.differing]).toEqual(['incomplete', 5, []]);
      sandbox.control.setBehaviour({ empty_lists: '' });
      expect((await verifyMirror(sandbox, file, { deep })).report.status).toBe('equal');
    },
  );

  test('is a part if the server fails after some responses', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    const source = beforeSecondPage(() => Promise.resolve(sandbox.control.setBehaviour({ read_error_500: 1 })));
    const lost = await verifyMirror(sandbox, file, { deep: true, resources: ['users'], source });
    expect([lost.report.status, lost.error?.exitCode]).toEqual(['incomplete', 5]);
  });

  test('is a resource that the mirror has never read', async () => {
    const { sandbox, file } = await newMirror(some);
    await sync(sandbox, file, { resources: ['users', 'coupons'] });
    const { report, error } = await verifyMirror(sandbox, file);
    expect(report.resources.users?.status).toBe('equal');
    expect(report.resources.users?.fresh_as_of).not.toBeNull();
    expect(report.fresh_as_of).toBeNull();
    expect(report.resources.emails).toMatchObject({
      status: 'incomplete',
      problem: 'the mirror has never read the emails',
    });
    expect(error?.exitCode).toBe(5);
  });

  test('may be a window if the server no longer keeps to its ranges', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    sandbox.control.setBehaviour({ date_ranges: 'ignored' });
    const { report } = await verifyMirror(sandbox, file, { deep: true });
    expect(report.status).toBe('incomplete');
    expect(report.resources.users).toMatchObject(nothing);
    expect(report.resources.users?.problem).toMatch(/outside of/);
  });

  test('may be the rest after a stop, but what was found before is reported', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    sandbox.control.update('users', 1, { language: 'xx' });
    const stop = new AbortController();
    let pages = 0;
    const source = (source: Source): Source => ({
      ...source,
      page: async (...asked) => {
        pages += 1;
        if (pages === 10) stop.abort(new InterruptedError('SIGTERM'));
        return source.page(...asked);
      },
    });
    const { report, error } = await verifyMirror(sandbox, file, {
      deep: true,
      resources: ['users'],
      concurrency: 1,
      signal: stop.signal,
      source,
    });
    expect(report.status).toBe('interrupted');
    expect(report.resources.users).toMatchObject({ problem: 'interrupted', different: [{ id: 1 }] });
    expect(error?.exitCode).toBe(143);
  });
});

test(
  'a server that changes all the time makes no comparison fail, and is equal once it is quiet',
  { tags: 'full' },
  async () => {
    const { sandbox, file } = await mirrored();
    sandbox.control.setBehaviour({ churn_inserts: 0.3, churn_updates: 0.3, churn_deletes: 0.3 });
    for (const deep of [false, true])
      expect((await verifyMirror(sandbox, file, { deep })).report.status).toBe('different');
    sandbox.control.setChaos('calm');
    sandbox.control.advanceClock(dayMs);
    await sync(sandbox, file, { pageSize: 20, windowPages: 3 });
    const { report } = await verifyMirror(sandbox, file, { deep: true });
    expect(report.status).toBe('equal');
  },
);
