/** What another program does to related records, to what the mirror remembers, or by adding rows: it is seen at once, and mended. */
import { describe, expect, test } from 'vitest';
import type { SyncEvent } from '../../src/store/mirror-types.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { expectMirrored, newMirror, sync, type SyncTry, usersStatus } from '../support/mirror.ts';
import { expectRelated } from '../support/relations.ts';
import { sample } from '../support/part.ts';
import { recordDifferences, verifyMirror } from '../support/verify.ts';
import { alter, rowsOf } from '../support/rows.ts';

const relations = ['orders', 'payments'] as const;
const shape = { resources: ['users'], pageSize: 20, windowPages: 3, includes: { users: relations } } as const;
/** Reads only open windows and those that must be read. */
const quick = { ...shape, mode: 'quick' } as const;

/** A mirror of 200 users with their orders and payments, in windows of a few pages, which it remembers. */
async function mirrored(tried: SyncTry = shape) {
  const { sandbox, file } = await newMirror({ users: 120, packages: 12 });
  for (let run = 0; run < 2; run += 1) {
    expect((await sync(sandbox, file, tried)).report.status).toBe('complete');
  }
  expect(usersStatus(file)).toMatchObject({ fresh_as_of: expect.any(String), open_problems: [] });
  for (const relation of relations) expect(expectRelated(sandbox, file, 'users', relation)).toBeGreaterThan(20);
  return { sandbox, file };
}

const notesIn = (file: string) => rowsOf(file, 'SELECT * FROM mirror_touched');

function expectEqual(sandbox: Sandbox, file: string): void {
  expectMirrored(sandbox, file, ['users']);
  for (const relation of relations) expectRelated(sandbox, file, 'users', relation);
  expect(notesIn(file)).toEqual([]);
}

const someone = '(SELECT user_id FROM user_orders LIMIT 1)';
const relatedEdits = [
  'DELETE FROM user_orders',
  `UPDATE user_payments SET record = '{"id":1}'`,
  "UPDATE user_orders SET id = 'x' WHERE rowid = (SELECT min(rowid) FROM user_orders)",
  `UPDATE user_orders SET user_id = user_id + 1000000`,
  `INSERT INTO user_orders (user_id, record, _key) SELECT id, '{"id":"x"}', 'x' FROM users`,
  `INSERT INTO user_orders (user_id, record, _key) VALUES (1000000, '{"id":1}', '1')`,
  `INSERT OR REPLACE INTO user_orders (user_id, record, _key) SELECT user_id, '{}', _key FROM user_orders`,
  `DELETE FROM users WHERE id = ${someone}`,
  `UPDATE users SET id = id + 1000000 WHERE id = ${someone}`,
  `UPDATE user_orders SET record = '{}', _seq = 0; UPDATE user_orders SET record = '[]'`,
  `UPDATE user_orders SET record = '{}', _seq = _seq + 1`,
  `CREATE TEMP TABLE edited AS SELECT * FROM user_orders; UPDATE edited SET record = '{}';
   INSERT OR REPLACE INTO user_orders SELECT * FROM edited`,
] as const;

describe('related records that another program has changed', () => {
  test.each(sample(relatedEdits, 2))('are as fresh as nobody knows until the next sync mends them: %s', async (sql) => {
    const { sandbox, file } = await mirrored();
    alter(file, sql);
    expect(usersStatus(file).fresh_as_of).toBeNull();
    expect((await sync(sandbox, file, quick)).report.resources.users?.status).toBe('complete');
    expect(usersStatus(file)).toMatchObject({ fresh_as_of: expect.any(String), open_problems: [] });
    expectEqual(sandbox, file);
  });

  test('do not outlive a parent that the server has deleted as well', async () => {
    const { sandbox, file } = await mirrored();
    const id = rowsOf<{ id: number }>(file, `SELECT ${someone} AS id`)[0]?.id ?? 0;
    alter(file, `DELETE FROM users WHERE id = ${id}`);
    sandbox.control.remove('users', id);
    expect((await sync(sandbox, file, quick)).error).toBeNull();
    expectEqual(sandbox, file);
  });

  test('go with the parent that another program deletes, and leave no note that no window has', async () => {
    const { sandbox, file } = await mirrored();
    alter(file, `PRAGMA foreign_keys = ON; DELETE FROM users WHERE id = ${someone}`);
    expect((await sync(sandbox, file, quick)).error).toBeNull();
    expectEqual(sandbox, file);
  });

  test('are found by `verify --deep`, by parent and name, and read by the next sync', async () => {
    const { sandbox, file } = await mirrored();
    const deep = { deep: true, resources: ['users'] } as const;
    expect((await verifyMirror(sandbox, file, deep)).report.status).toBe('equal');
    const [{ user, payer } = {}] = rowsOf<{ user: number; payer: number }>(
      file,
      'SELECT min(user_orders.user_id) AS user, max(user_payments.user_id) AS payer FROM user_orders, user_payments',
    );
    alter(
      file,
      `DELETE FROM user_orders WHERE user_id = ${user}; UPDATE user_payments SET record = '{}' WHERE user_id = ${payer};
       UPDATE users SET email = 'x' WHERE id = ${payer}; DELETE FROM mirror_touched`,
    );
    const { report, differing } = await verifyMirror(sandbox, file, deep);
    expect(report.resources.users).toMatchObject({
      status: 'different',
      missing: [],
      extra: [],
      different: [
        { id: user, fields: ['orders'] },
        { id: payer, fields: ['email', 'payments'] },
      ],
    });
    recordDifferences(file, differing);
    await sync(sandbox, file, quick);
    expectEqual(sandbox, file);
  });
});

test('related records that the server no longer sends are not called equal', async () => {
  const { sandbox, file } = await mirrored();
  sandbox.control.setBehaviour({ includes_ignored: 'orders' });
  const { report } = await verifyMirror(sandbox, file, { deep: true, resources: ['users'] });
  expect(report.resources.users).toMatchObject({
    status: 'incomplete',
    problem: expect.stringContaining('the server sends no orders'),
  });
});

test('related records that a sync changes or removes are no change by another program', async () => {
  const { sandbox, file } = await mirrored();
  for (const { id } of sandbox.control.dump('users').slice(0, 9)) {
    sandbox.control.setRelated('users', Number(id), 'orders', [{ id: 1, name: 'another' }]);
  }
  sandbox.control.remove('users', Number(sandbox.control.dump('users').at(20)?.['id']));
  const { report } = await sync(sandbox, file, { ...shape, mode: 'full' });
  expect(report.resources.users).toMatchObject({ status: 'complete', deleted: 1 });
  expectEqual(sandbox, file);
});

const columns = 'id, created_at, _first_seen_at, _changed_at';
const added = `INSERT INTO users (${columns}) SELECT id + 1000000, created_at, '', '' FROM users WHERE id = 100`;

/** An analyst edits a copy and puts it back, with the numbers that it came with. */
const putBack = (change: string) =>
  `CREATE TEMP TABLE edited AS SELECT * FROM users WHERE id IN (5, 100); UPDATE edited SET ${change};
   INSERT OR REPLACE INTO users SELECT * FROM edited`;

describe('rows that another program adds, or writes with a number of its own', () => {
  test.each([
    added,
    `INSERT INTO users (id, _first_seen_at, _changed_at) VALUES (1000000, '', '')`,
    `INSERT INTO users (${columns}, _seq) SELECT id + 1000000, created_at, '', '', 5 FROM users WHERE id = 100`,
    "UPDATE users SET _seq = 0, email = 'x' WHERE id = 100",
    "UPDATE users SET _seq = _seq + 1, email = 'x' WHERE id = 100",
    putBack("email = 'x'"),
    putBack("created_at = '2020-02-02T02:02:02.000000Z'"),
    putBack('id = id + 1, email = id'),
  ])('are as fresh as nobody knows, and `status` says so, until the next sync mends them: %s', async (sql) => {
    const { sandbox, file } = await mirrored();
    alter(file, sql);
    const { fresh_as_of: freshAsOf, open_problems: problems } = usersStatus(file);
    expect(freshAsOf).toBeNull();
    expect(problems[0]?.problem).toContain('another program has changed rows');
    await sync(sandbox, file, { ...quick, allowDeletions: true });
    expect(usersStatus(file)).toMatchObject({ fresh_as_of: expect.any(String), open_problems: [] });
    expectEqual(sandbox, file);
  });

  test('during a sync keep it from ending complete, and are gone after the next one', async () => {
    const { sandbox, file } = await mirrored();
    let pages = 0;
    const onEvent = ({ kind }: SyncEvent) => {
      if (kind === 'page' && (pages += 1) === 3) alter(file, `${added} OR id BETWEEN 1 AND 20`);
    };
    await sync(sandbox, file, { ...shape, concurrency: 1, mode: 'full', onEvent });
    await sync(sandbox, file, quick);
    expect((await sync(sandbox, file, quick)).report.status).toBe('complete');
    expectEqual(sandbox, file);
  });
});

const pageEdits = [
  "ids = '{}'",
  `ids = '["x"]'`,
  `ids = '[1234567890123456.5, {"x": 1}]'`,
  "ids = 'x'",
  "ids = '[1,2]'",
  'last_page = 50',
  "records = 'x'",
  'total = 5',
] as const;

test.each(sample(pageEdits, 2))(
  'remembered pages that another program has altered are read again, quietly: %s',
  async (set) => {
    const { sandbox, file } = await mirrored();
    alter(file, `UPDATE mirror_pages SET ${set}`);
    sandbox.control.update('users', 100, { first_name: 'Another' });
    const { report, error } = await sync(sandbox, file, shape);
    expect(error).toBeNull();
    expect(report.resources.users).toMatchObject({ status: 'complete', updated: 1 });
    expect(rowsOf(file, 'SELECT kind FROM mirror_events')).toEqual([]);
    expectEqual(sandbox, file);
  },
);

const strayDays = [
  "INSERT INTO mirror_touched (resource, day) VALUES ('users', 'zzz')",
  "INSERT INTO mirror_touched (resource, day) VALUES ('users', '')",
  'UPDATE users SET created_at = NULL WHERE id = 100; DELETE FROM users WHERE id = 100',
  'UPDATE users SET created_at = NULL WHERE id = 100; UPDATE users SET created_at = (SELECT created_at FROM users WHERE id = 101) WHERE id = 100',
];

test.each(sample(strayDays, 2))(
  'days that no window has are no reason to call the list unread for good: %s',
  async (sql) => {
    const { sandbox, file } = await mirrored();
    alter(file, sql);
    expect(usersStatus(file).fresh_as_of).toBeNull();
    await sync(sandbox, file, { ...shape, allowDeletions: true });
    expect((await sync(sandbox, file, shape)).report.status).toBe('complete');
    expect(usersStatus(file)).toMatchObject({ fresh_as_of: expect.any(String), open_problems: [] });
    expectEqual(sandbox, file);
  },
);

test.each(['DROP TABLE user_orders', 'DROP TRIGGER user_orders_buried', 'ALTER TABLE user_orders DROP COLUMN id'])(
  'a mirror whose tables of related records are no longer its own is refused in words: %s',
  async (sql) => {
    const { sandbox, file } = await mirrored();
    alter(file, `DROP VIEW user_orders_flat; ${sql}`);
    const words = /is damaged: another program has removed or altered the (table|trigger) "?user_orders/;
    await expect(sync(sandbox, file, shape)).rejects.toThrow(words);
    expect(() => usersStatus(file)).toThrow(words);
  },
);
