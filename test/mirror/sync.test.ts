import { describe, expect, test } from 'vitest';
import { InterruptedError } from '../../src/model/errors.ts';
import { resourceNames } from '../../src/model/resources.ts';
import { dayMs, hourMs } from '../../src/model/time.ts';
import { eventsOf, expectMirrored, mirrored, newMirror, sync } from '../support/mirror.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { sample } from '../support/part.ts';
import { alter, rowsOf, valuesOf } from '../support/rows.ts';

const small = { users: 700, packages: 40, emails: 900, coupons: 60 } as const;

function statuses(report: Awaited<ReturnType<typeof sync>>['report']): unknown {
  return Object.fromEntries(
    Object.entries(report.resources).map(([name, { status, problem }]) => [name, problem ?? status]),
  );
}

const allComplete = Object.fromEntries(resourceNames.map((name) => [name, 'complete']));

describe('a first sync', () => {
  test('makes the mirror equal to a calm server, record for record, and is complete', async () => {
    const { sandbox, file } = await newMirror(small);
    const { report, error } = await sync(sandbox, file, { pageSize: 100 });
    expect(statuses(report)).toEqual(allComplete);
    expect(error).toBeNull();
    expect(report.status).toBe('complete');
    expect(report.resources.users).toMatchObject({
      live: 700,
      server_total: 700,
      inserted: 700,
      updated: 0,
      deleted: 0,
    });
    expectMirrored(sandbox, file);
  });

  test('makes the mirror equal to a rough server, record for record', async () => {
    const { sandbox, file } = await newMirror({ ...small, chaos: 'rough' });
    const { report } = await sync(sandbox, file, { pageSize: 100 });
    expect(statuses(report)).toEqual(allComplete);
    expectMirrored(sandbox, file);
  });

  test('records the statuses of the responses', async () => {
    const sandbox = await startSandbox(small);
    sandbox.control.faultNext([
      { fault: 'error_503', match: { path: '/api/v1/users' } },
      { fault: 'reset_before', match: { path: '/api/v1/users' } },
    ]);
    const { report } = await sync(sandbox, `${temporaryFolder()}/mirror.db`);
    // One request had no response.
    expect(report.answers).toEqual({ 200: report.requests - 2, 503: 1 });
    expect(sandbox.control.requests().total).toBe(report.requests);
  });
});

describe('the next sync', () => {
  test('finds what was added, changed and deleted, and writes nothing else', async () => {
    const { sandbox, file } = await mirrored(small);
    sandbox.control.insert('users');
    sandbox.control.update('users', 5, { balance: 77.25 });
    sandbox.control.remove('users', 9);
    sandbox.control.remove('coupons', 3);
    const { report } = await sync(sandbox, file);
    expect(report.status).toBe('complete');
    expect(report.resources.users).toMatchObject({ inserted: 1, updated: 1, deleted: 1, unchanged: 698, live: 700 });
    expect(report.resources.coupons).toMatchObject({ deleted: 1, live: 59 });
    expectMirrored(sandbox, file);
  });

  test('finds a back-dated record by the count', async () => {
    const { sandbox, file } = await mirrored(small);
    sandbox.control.insert('emails', { created_at: '2020-02-29T12:00:00.000000Z' });
    const { report } = await sync(sandbox, file, { mode: 'quick' });
    expect(report.resources.emails).toMatchObject({ status: 'complete', inserted: 1 });
    expectMirrored(sandbox, file, ['emails']);
  });
});

describe('a stop', () => {
  test('during a run keeps what was read, and the next run does not insert it again', async () => {
    const { sandbox, file } = await newMirror(small);
    const stop = new AbortController();
    let pages = 0;
    const stopped = await sync(sandbox, file, {
      pageSize: 20,
      windowPages: 3,
      signal: stop.signal,
      onEvent: ({ kind }) => {
        if (kind === 'page' && (pages += 1) === 30) stop.abort(new InterruptedError('SIGINT'));
      },
    });
    expect(stopped.report.status).toBe('interrupted');
    expect(stopped.error?.exitCode).toBe(130);
    const { report } = await sync(sandbox, file, { pageSize: 20, windowPages: 3, mode: 'quick' });
    expect(statuses(report)).toEqual(allComplete);
    expect(report.resources.users?.inserted).toBeLessThan(700);
    expectMirrored(sandbox, file);
  });
});

describe('a server that is written to while it is read', () => {
  test('is mirrored completely once it is quiet', { tags: 'full' }, async () => {
    const { sandbox, file } = await newMirror({
      ...small,
      behaviour: { churn_inserts: 0.1, churn_updates: 0.3, churn_deletes: 0.1 },
    });
    for (let run = 0; run < 3; run += 1) await sync(sandbox, file, { pageSize: 50 });
    sandbox.control.setChaos('calm');
    const { report } = await sync(sandbox, file, { pageSize: 50 });
    expect(statuses(report)).toEqual(allComplete);
    expectMirrored(sandbox, file);
  });

  // proves: no-false-complete
  test.each(sample([1, 2, 3, 4], 2))(
    'hides no record if one is deleted at the front and one is added at the end after page %i',
    async (at) => {
      const { sandbox, file } = await newMirror(small);
      const { control } = sandbox;
      const byTime = control
        .dump('users')
        .sort((a, b) => String(a['created_at']).localeCompare(String(b['created_at'])));
      const past = byTime.filter((user) => String(user['created_at']) < '2026-03-01');
      let pages = 0;
      await sync(sandbox, file, {
        pageSize: 50,
        resources: ['users'],
        concurrency: 1,
        onEvent: ({ kind }) => {
          pages += Number(kind === 'page');
          if (kind !== 'page' || pages !== at) return;
          control.remove('users', Number(past[0]?.['id']));
          control.insert('users', { created_at: past.at(-1)?.['created_at'] });
        },
      });
      const rows = new Set(valuesOf(file, 'SELECT id FROM users'));
      expect(past.slice(1).filter(({ id }) => !rows.has(id))).toEqual([]);
    },
  );
});

describe('a server whose rules change', () => {
  test(
    'so that every range shows everything is measured again, and windows are not cut endlessly',
    { tags: 'full' },
    async () => {
      const { sandbox, file } = await mirrored(
        { ...small, behaviour: { sorts: 'ignored' } },
        { pageSize: 50, resources: ['users'] },
      );
      sandbox.control.setBehaviour({ date_ranges: 'ignored' });
      const { report } = await sync(sandbox, file, { pageSize: 50, resources: ['users'], mode: 'full' });
      expect(report.requests).toBeLessThan(700);
      expect(report.resources.users).toMatchObject({ live: 700, server_total: 700 });
      expectMirrored(sandbox, file, ['users']);
    },
  );
});

test.each(sample([{ date_ranges: 'error' }, { date_format: 'dmy' }] as const, 2))(
  'a list that is empty by now is complete even if its server refuses the ranges that it had: %o',
  async (behaviour) => {
    const { sandbox, file } = await newMirror({ emails: 3, behaviour: { date_format: 'iso' } });
    const shape = { resources: ['emails'], mode: 'full', allowDeletions: true } as const;
    await sync(sandbox, file, shape);
    for (const { id } of sandbox.control.dump('emails')) sandbox.control.remove('emails', Number(id));
    sandbox.control.setBehaviour(behaviour);
    const { report } = await sync(sandbox, file, shape);
    expect(report.resources.emails).toMatchObject({ status: 'complete', live: 0 });
  },
);

describe('a run that relies on ranges measured before', () => {
  // proves: fresh-as-of
  test('calls nothing fresher before its sum is proven, even if it is stopped', async () => {
    const { sandbox, file } = await newMirror({ emails: 0 });
    const { control } = sandbox;
    const shape = { resources: ['emails'], mode: 'full', concurrency: 1 } as const;
    const recent = control.insert('emails', { created_at: '2026-03-11T09:00:00.000000Z' });
    const first = (await sync(sandbox, file, shape)).report.resources.emails?.fresh_as_of;
    control.remove('emails', Number(recent['id']));
    control.insert('emails', { created_at: '2024-02-29T12:00:00.000000Z' });
    // From now on the measured ranges show nothing, and each window seems to be read at once.
    control.setBehaviour({ date_format: 'dmy', date_unreadable: 'empty' });
    control.advanceClock(hourMs);
    const stop = new AbortController();
    let pages = 0;
    const onEvent = ({ kind }: { readonly kind: string }) => {
      pages += Number(kind === 'page');
      if (pages === 2) stop.abort(new InterruptedError('SIGINT'));
    };
    const stopped = await sync(sandbox, file, { ...shape, signal: stop.signal, onEvent });
    expect(stopped.report.resources.emails?.fresh_as_of).toBe(first);
    const last = await sync(sandbox, file, shape);
    expect(last.report.resources.emails).toMatchObject({ status: 'complete', live: 1 });
    expect(String(last.report.resources.emails?.fresh_as_of) > String(first)).toBe(true);
    expectMirrored(sandbox, file, ['emails']);
  });
});

describe('rows that would be removed', () => {
  // proves: brake
  test('stay if too many would be removed at once, until that is allowed', async () => {
    const { sandbox, file } = await mirrored(small);
    for (let id = 1; id <= 400; id += 1) sandbox.control.remove('users', id);
    const refused = await sync(sandbox, file);
    expect(refused.report.resources.users).toMatchObject({ status: 'partial', deleted: 0, live: 700 });
    expect(refused.error?.exitCode).toBe(5);
    const allowed = await sync(sandbox, file, { allowDeletions: true });
    expect(allowed.report.resources.users).toMatchObject({ status: 'complete', deleted: 400, live: 300 });
    expectMirrored(sandbox, file);
  });

  test('go in one run however many they are, once that is allowed', { tags: 'full' }, async () => {
    const tried = { resources: ['users'], pageSize: 250, mode: 'full', allowDeletions: true } as const;
    const { sandbox, file } = await mirrored({ ...small, users: 12_000 }, tried);
    for (let id = 1; id <= 7_199; id += 1) sandbox.control.remove('users', id);
    const { report } = await sync(sandbox, file, tried);
    expect(report.resources.users).toMatchObject({ status: 'complete', deleted: 7_199, live: 4_801 });
    expect(report.requests).toBeLessThanOrEqual(300);
    expectMirrored(sandbox, file, ['users']);
  });

  test('go bit by bit where totals count what no page shows, so that each has to be requested', async () => {
    const tried = { resources: ['users'], pageSize: 50, mode: 'full', allowDeletions: true } as const;
    const { sandbox, file } = await mirrored({ ...small, users: 600 }, tried);
    sandbox.control.setBehaviour({ totals_more: 7 });
    for (let id = 1; id <= 400; id += 1) sandbox.control.remove('users', id);
    const deleted: number[] = [];
    for (let run = 0; run < 6; run += 1) {
      const { report } = await sync(sandbox, file, { ...tried, requestsPerRun: 100 });
      deleted.push(report.resources.users?.deleted ?? 0);
    }
    expect(deleted.reduce((sum, each) => sum + each, 0)).toBe(400);
    expectMirrored(sandbox, file, ['users']);
  });
});

describe('a record of an unexpected shape', () => {
  test('is kept completely, with unknown fields in _extra, and reported once', async () => {
    const { sandbox, file } = await newMirror({ ...small, behaviour: { unknown_fields: 1 } });
    const { report } = await sync(sandbox, file, { resources: ['coupons'] });
    expect(report.status).toBe('complete');
    expect(rowsOf(file, 'SELECT id FROM coupons WHERE json_valid(_extra)')).toHaveLength(60);
    const subjects = eventsOf(file, 'unknown_field').map(({ subject }) => subject);
    expect(subjects).toEqual([...new Set(subjects)]);
    expect(subjects).not.toEqual([]);
    expectMirrored(sandbox, file, ['coupons']);
  });
});

// proves: one-writer
test('another sync of the same mirror is refused, with the owner of the lock', async () => {
  const { sandbox, file } = await newMirror(small);
  let second: unknown;
  await sync(sandbox, file, {
    onEvent: () => {
      second ??= sync(sandbox, file).catch((error: unknown) => error);
    },
  });
  expect(await second).toMatchObject({
    name: 'LockHeldError',
    exitCode: 7,
    message: expect.stringContaining(`process ${process.pid}`),
  });
});

test('a sync that lost its lock to another writes nothing more, and ends with 7', async () => {
  const { sandbox, file } = await newMirror(small);
  let left: unknown;
  const rows = () => [...resourceNames, 'mirror_runs'].map((table) => rowsOf(file, `SELECT * FROM ${table}`).length);
  const lost = sync(sandbox, file, {
    onEvent: () => {
      if (left !== undefined) return;
      alter(file, "UPDATE mirror_locks SET run = 'another', host = 'elsewhere', pid = 1");
      left = rows();
    },
  });
  await expect(lost).rejects.toMatchObject({
    exitCode: 7,
    message: expect.stringContaining('the lock of the mirror was lost to process 1 on elsewhere'),
  });
  expect(rows()).toEqual(left);
  expect(valuesOf(file, 'SELECT run FROM mirror_locks')).toEqual(['another']);
});

test('the sealed windows of nightly runs are merged', { tags: 'full' }, async () => {
  const { sandbox, file } = await newMirror(small);
  for (let night = 0; night < 6; night += 1) {
    await sync(sandbox, file, { resources: ['users'] });
    sandbox.control.insert('users');
    sandbox.control.advanceClock(dayMs);
  }
  expect(rowsOf(file, "SELECT * FROM mirror_windows WHERE resource = 'users'")).toHaveLength(2);
});
