import { copyFileSync } from 'node:fs';
// @module-tag full
import SqliteDatabase from 'better-sqlite3';
import type { FileError } from '../../src/model/errors.ts';
import { describe, expect, test } from 'vitest';
import { eraEnd } from '../../src/model/era.ts';
import type { Day } from '../../src/model/time.ts';
import type { SyncEvent } from '../../src/store/mirror-types.ts';
import { sealOf } from '../../src/mirror/store/page-memory.ts';
import { eventsOf, expectMirrored, mirrored, newMirror, sync, usersStatus } from '../support/mirror.ts';
import { recordDifferences, verifyMirror } from '../support/verify.ts';
import { sample } from '../support/part.ts';
import { alter, rowsOf, valuesOf } from '../support/rows.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const shape = { resources: ['users'], pageSize: 20, windowPages: 3 } as const;
const related = { ...shape, includes: { users: ['orders'] } } as const;
/** Reads only open windows and those that must be read. */
const nothingStale = { ...shape, requestsPerRun: 0 } as const;

/** A mirror of 400 users in windows of a few pages, which it remembers. */
async function readTwice() {
  const { sandbox, file } = await newMirror({ users: 400 });
  for (let run = 0; run < 2; run += 1) {
    const { report } = await sync(sandbox, file, shape);
    expect(report.status).toBe('complete');
  }
  return { sandbox, file };
}

/** Changes rows outside the program and returns their ids. The seed is fixed, so that a failure can be repeated. */
function damage(file: string, count: number): number[] {
  let seed = 7;
  const below = (bound: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor((seed / 2 ** 31) * bound);
  };
  // A flipped byte on the disk does not keep to column types.
  const typed = declareUsers(file, (sql) => sql.replace('STRICT', '').replace('"username" TEXT', '"username"'));
  const database = new SqliteDatabase(file);
  const sql = [
    `UPDATE users SET email = 'x' || email WHERE id = ?`,
    `UPDATE users SET first_name = char(unicode(first_name) + 1) || substr(first_name, 2) WHERE id = ?`,
    `UPDATE users SET balance = '123456.78' WHERE id = ?`,
    `UPDATE users SET last_name = NULL WHERE id = ?`,
    `UPDATE users SET username = CAST(username AS BLOB) WHERE id = ?`,
    `UPDATE users SET created_at = '2019-01-01T00:00:00.000000Z' WHERE id = ?`,
    `UPDATE users SET _extra = '{"made_up": 1}' WHERE id = ?`,
    `DELETE FROM users WHERE id = ?`,
  ].map((each) => database.prepare<[number]>(each));
  const ids = database.prepare<[], number>('SELECT id FROM users ORDER BY id').pluck().all();
  const hit = new Set<number>();
  while (hit.size < count) hit.add(ids[below(ids.length)] ?? 0);
  for (const id of hit) sql[below(sql.length)]?.run(id);
  database.close();
  declareUsers(file, () => typed);
  return [...hit];
}

/** Replaces the declaration of the table without touching its rows. Returns the old one. */
function declareUsers(file: string, declared: (sql: string) => string): string {
  const database = new SqliteDatabase(file);
  database.unsafeMode();
  database.pragma('writable_schema = ON');
  const sql = database.prepare<[], string>("SELECT sql FROM sqlite_schema WHERE name = 'users'").pluck().get() ?? '';
  database.prepare("UPDATE sqlite_schema SET sql = ? WHERE name = 'users'").run(declared(sql));
  database.close();
  return sql;
}

/** The ids of rows that differ from the server. */
async function wrongIn(file: string, sandbox: Parameters<typeof verifyMirror>[0]) {
  const { report, differing } = await verifyMirror(sandbox, file, { deep: true, resources: ['users'] });
  const { missing = [], different = [], extra = [] } = report.resources.users ?? {};
  const ids = new Set([...missing, ...extra, ...different.map(({ id }) => id)].map(Number));
  return { ids, differing };
}

describe('100 rows that were damaged outside the program', () => {
  test('are all found by `verify --deep` and repaired by the next sync', async () => {
    const { sandbox, file } = await readTwice();
    const hit = damage(file, 100);
    const { ids, differing } = await wrongIn(file, sandbox);
    recordDifferences(file, differing);
    expect([...ids].sort((a, b) => a - b)).toEqual(hit.sort((a, b) => a - b));
    const { report } = await sync(sandbox, file, nothingStale);
    expect(report.status).toBe('complete');
    expectMirrored(sandbox, file, ['users']);
    expect((await wrongIn(file, sandbox)).ids.size).toBe(0);
  });

  test.each(sample(['default', 'quick', 'full'] as const, 1))(
    'are repaired by a %s sync without a comparison',
    async (mode) => {
      const { sandbox, file } = await readTwice();
      damage(file, 100);
      const { report } = await sync(sandbox, file, { ...nothingStale, mode });
      expect(report.status).toBe('complete');
      expectMirrored(sandbox, file, ['users']);
      expect(eventsOf(file, 'rows_altered').length).toBeGreaterThan(5);
    },
  );
});

test.each(sample([0, 1, 2], 2))(
  'cells that another program alters during a sync, after %i syncs, are repaired by the next two',
  async (earlier) => {
    for (const moment of [1, 4, 9]) {
      const { sandbox, file } = await newMirror({ users: 200 });
      for (let run = 0; run < earlier; run += 1) await sync(sandbox, file, shape);
      let pages = 0;
      const onEvent = ({ kind }: SyncEvent) => {
        if (kind === 'page') pages += 1;
        if (kind !== 'page' || pages !== moment) return;
        alter(file, "UPDATE users SET first_name = 'Altered' WHERE id % 3 = 0");
      };
      await sync(sandbox, file, { ...shape, concurrency: 1, onEvent });
      expect(pages).toBeGreaterThanOrEqual(moment);
      await sync(sandbox, file, shape);
      expect((await sync(sandbox, file, shape)).report.status).toBe('complete');
      expectMirrored(sandbox, file, ['users']);
    }
  },
);

/** A mirror with one wrong row that nothing shows, as after a bit that flipped on the disk. */
async function wrongUnseen() {
  const { sandbox, file } = await readTwice();
  damage(file, 1);
  expect(rowsOf(file, 'SELECT * FROM mirror_touched')).not.toEqual([]);
  alter(file, 'DELETE FROM mirror_touched');
  expect((await sync(sandbox, file, shape)).report.resources.users?.updated).toBe(0);
  return { sandbox, file };
}

test('a full sync compares every row, even if the remembered pages match a wrong one', async () => {
  const { sandbox, file } = await wrongUnseen();
  const { report } = await sync(sandbox, file, { ...shape, mode: 'full' });
  expect(report.resources.users?.updated).toBe(1);
  expectMirrored(sandbox, file, ['users']);
});

test('pages that another version remembered are compared again, because it may have made other rows of them', async () => {
  const { sandbox, file } = await wrongUnseen();
  const pages = rowsOf<Parameters<typeof sealOf>[0] & { seal: string }>(file, 'SELECT * FROM mirror_pages');
  expect(pages.length).toBeGreaterThan(10);
  for (const page of pages) {
    expect(page.seal).toBe(sealOf(page));
    alter(file, `UPDATE mirror_pages SET seal = '${sealOf(page, '0.0.1')}' WHERE seal = '${page.seal}'`);
  }
  const { report } = await sync(sandbox, file, shape);
  expect(report.resources.users?.updated).toBe(1);
  expectMirrored(sandbox, file, ['users']);
});

test.each(['nothing', 'a record of another page'])(
  'a row that is changed by hand during a sync that finds %s changed is repaired by the next one',
  async (what) => {
    const { sandbox, file } = await readTwice();
    const [first = [], last = []] = valuesOf<string>(
      file,
      'SELECT ids FROM mirror_pages WHERE from_day = (SELECT from_day FROM mirror_pages GROUP BY from_day ORDER BY count(*) DESC)',
    ).map((ids) => JSON.parse(ids) as number[]);
    if (what !== 'nothing') sandbox.control.update('users', last[0] ?? 0, { first_name: 'Another' });
    let changes = 0;
    const onEvent = ({ kind }: SyncEvent) => {
      if (kind !== 'page' || (changes += 1) > 1) return;
      alter(file, `UPDATE users SET email = 'x' || email WHERE id = ${first[0]}`);
    };
    const { report } = await sync(sandbox, file, { ...shape, onEvent });
    // If the window of the row was not begun yet, this sync has repaired it already.
    const next = await sync(sandbox, file, shape);
    const updated = (report.resources.users?.updated ?? 0) + (next.report.resources.users?.updated ?? 0);
    expect(updated).toBe(what === 'nothing' ? 1 : 2);
    expectMirrored(sandbox, file, ['users']);
  },
);

test('a window that a comparison found to differ is read by the next sync', async () => {
  const { sandbox, file } = await wrongUnseen();
  const { differing } = await wrongIn(file, sandbox);
  expect(differing).toHaveLength(1);
  recordDifferences(file, differing);
  const { report } = await sync(sandbox, file, nothingStale);
  expect(report.resources.users).toMatchObject({ status: 'complete' });
  expectMirrored(sandbox, file, ['users']);
});

test.each([
  "UPDATE users SET email = 'x' WHERE id = 300",
  "UPDATE OR REPLACE users SET email = 'x' WHERE id IN (300, 301)",
  "INSERT INTO users (id, _first_seen_at, _changed_at) VALUES (300, '', '') ON CONFLICT (id) DO UPDATE SET email = 'x'",
  'UPDATE users SET id = id + 1000000 WHERE id = 300',
  'DELETE FROM users WHERE id = 300',
  "UPDATE users SET email = 'x' WHERE id = 300; VACUUM",
])('the next sync, if a quick one, repairs what another program did twice: %s', async (sql) => {
  const { sandbox, file } = await readTwice();
  for (let round = 0; round < 2; round += 1) alter(file, sql);
  const { report } = await sync(sandbox, file, { ...shape, mode: 'quick', allowDeletions: true });
  expect(report.resources.users?.status).toBe('complete');
  expectMirrored(sandbox, file, ['users']);
});

test('rows that a sync removes are no change by another program', async () => {
  const { sandbox, file } = await readTwice();
  for (const { id } of sandbox.control.dump('users').slice(0, 3)) sandbox.control.remove('users', Number(id));
  const { report } = await sync(sandbox, file, { ...shape, mode: 'full' });
  expect(report.resources.users).toMatchObject({ status: 'complete', deleted: 3 });
  expect(rowsOf(file, 'SELECT * FROM mirror_touched')).toEqual([]);
});

const altered = "UPDATE users SET email = 'x' WHERE id = 300";

test('a walk that fails does not make the rows that it should have compared fresh', async () => {
  const { sandbox, file } = await readTwice();
  alter(file, altered);
  sandbox.control.setBehaviour({ poisoned: 'users:300' });
  await sync(sandbox, file, { ...shape, mode: 'quick' });
  expect(usersStatus(file).fresh_as_of).toBeNull();
});

test('a run does not end complete over rows that another program changed after their window was read', async () => {
  const { sandbox, file } = await readTwice();
  let pages = 0;
  const onEvent = ({ kind }: SyncEvent) => {
    if (kind === 'page') pages += 1;
  };
  await sync(sandbox, file, { ...shape, concurrency: 1, onEvent });
  const last = pages;
  pages = 0;
  const atTheEnd = (event: SyncEvent) => {
    onEvent(event);
    if (pages === last && event.kind === 'page') alter(file, 'UPDATE users SET balance = balance + 1');
  };
  const { report } = await sync(sandbox, file, { ...shape, concurrency: 1, onEvent: atTheEnd });
  expect(report.resources.users).toMatchObject({
    status: 'partial',
    problem: expect.stringContaining('another program has changed rows'),
  });
  expect((await sync(sandbox, file, nothingStale)).report.status).toBe('complete');
  expectMirrored(sandbox, file, ['users']);
});

test('a sync of some days is not complete while rows of other days are not as they were read', async () => {
  const { sandbox, file } = await readTwice();
  const days = valuesOf<string>(file, 'SELECT substr(created_at, 1, 10) FROM users ORDER BY created_at');
  alter(file, `UPDATE users SET email = 'x' WHERE substr(created_at, 1, 10) = '${days[0]}'`);
  const only = { from: days.at(-1) as Day, to: eraEnd };
  const { report } = await sync(sandbox, file, { ...shape, only });
  expect(report.resources.users?.status).toBe('partial');
});

test('windows that leave days out are all read again', async () => {
  const { sandbox, file } = await readTwice();
  alter(
    file,
    `UPDATE users SET email = 'x'; DELETE FROM mirror_touched;
     DELETE FROM mirror_windows WHERE from_day = (SELECT from_day FROM mirror_windows WHERE resource = 'users' ORDER BY from_day LIMIT 1 OFFSET 3)`,
  );
  const { report } = await sync(sandbox, file, nothingStale);
  expect(report.resources.users).toMatchObject({ status: 'complete', updated: 400 });
  expectMirrored(sandbox, file, ['users']);
});

test.each([
  ['null', null],
  ['a day in another window', '2020-02-02T02:02:02.000000Z'],
])('a record whose creation time becomes %s on the server moves to where it is shown', async (_, createdAt) => {
  const { sandbox, file } = await readTwice();
  for (const id of [300, 301, 302]) {
    sandbox.control.update('users', id, { created_at: createdAt });
    for (const mode of ['full', 'default'] as const) {
      const { report } = await sync(sandbox, file, { ...shape, mode });
      expect(report.resources.users?.status).toBe('complete');
    }
    expectMirrored(sandbox, file, ['users']);
  }
});

test.each(['', ', _seq'])('a row that `INSERT OR REPLACE` moves to other days%s comes back', async (number) => {
  const { sandbox, file } = await readTwice();
  const columns = valuesOf<string>(file, `SELECT '"' || name || '"' FROM pragma_table_info('users')`);
  const kept = columns.filter((name) => name !== '"_seq"' || number !== '');
  const values = kept.map((name) => (name === '"created_at"' ? "'2020-02-02T02:02:02.000000Z'" : name));
  alter(
    file,
    `INSERT OR REPLACE INTO users (${kept.join(', ')}) SELECT ${values.join(', ')} FROM users WHERE id = 300`,
  );
  let status: string | undefined;
  for (let run = 0; run < 3 && status !== 'complete'; run += 1) {
    status = (await sync(sandbox, file, shape)).report.resources.users?.status;
  }
  expect(status).toBe('complete');
  expectMirrored(sandbox, file, ['users']);
});

test('a wrong row that left no trace is found within a hundred runs', async () => {
  const { sandbox, file } = await newMirror({ users: 40 });
  for (let run = 0; run < 2; run += 1) await sync(sandbox, file, shape);
  alter(file, "UPDATE users SET email = 'x', _seq = _seq + 1 WHERE id IN (1, 40); DELETE FROM mirror_touched");
  let updated = 0;
  for (let run = 0; run < 100; run += 1) {
    updated += (await sync(sandbox, file, shape)).report.resources.users?.updated ?? 0;
  }
  expect(updated).toBe(2);
  expectMirrored(sandbox, file, ['users']);
});

describe('a mirror is refused in words', () => {
  /** The message and advice of a sync of a mirror that was altered so, and the message of its status. */
  async function refusalAfter(sql: string) {
    const { sandbox, file } = await mirrored({}, related);
    alter(file, sql);
    const { message, advice } = (await sync(sandbox, file, shape).catch((thrown: unknown) => thrown)) as FileError;
    let shown = '';
    try {
      usersStatus(file);
    } catch (error) {
      shown = (error as Error).message;
    }
    expect(shown).toBe(message);
    return { message, advice };
  }

  test.each([
    'DROP TABLE mirror_touched',
    'DROP TRIGGER users_renumbered',
    'DROP VIEW mirror_freshness',
    'ALTER TABLE users DROP COLUMN language',
    'DROP TABLE user_orders',
    'DROP TABLE users_search',
    'DROP TRIGGER users_search_updated',
    'DROP TRIGGER user_orders_buried',
    'ALTER TABLE user_orders RENAME TO orders',
    'ALTER TABLE users ADD COLUMN note TEXT CHECK (length(first_name) < 99)',
    'ALTER TABLE users ADD COLUMN email_id INTEGER REFERENCES emails',
  ])('after %s', async (sql) => {
    expect(await refusalAfter(sql)).toEqual({
      message: expect.stringMatching(
        /is damaged: another program has removed or altered the (table|trigger|view) \S+/,
      ) as string,
      advice: expect.stringMatching(/sync/) as string,
    });
  });

  test.each([
    'DELETE FROM mirror_cursor',
    'UPDATE mirror_cursor SET seq = 9223372036854775807',
    'UPDATE mirror_cursor SET seq = -5',
    'INSERT INTO mirror_cursor SELECT * FROM mirror_cursor',
    'DELETE FROM mirror_epochs',
  ])('after %s, since no change can be numbered', async (sql) => {
    expect(await refusalAfter(sql)).toEqual({
      message: expect.stringMatching(/is damaged: another program has altered the numbers of changes/) as string,
      advice: expect.stringMatching(/sync/) as string,
    });
  });

  test.each([
    ['CREATE TRIGGER t BEFORE UPDATE ON USERS BEGIN SELECT RAISE(IGNORE); END', 'trigger t on the table USERS'],
    ['CREATE TRIGGER t AFTER INSERT ON mirror_pages BEGIN SELECT 1; END', 'trigger t on the table mirror_pages'],
    ['CREATE TRIGGER t AFTER DELETE ON user_orders BEGIN SELECT 1; END', 'trigger t on the table user_orders'],
    ['CREATE UNIQUE INDEX "my names" ON users (first_name, id)', 'index my names on the table users'],
  ])('while it has what another program made on its tables: %s', async (sql, words) => {
    const [, what = '', name = ''] = /^(index|trigger) (.*) on/.exec(words) ?? [];
    const drop = new RegExp(`: DROP ${what.toUpperCase()} "${name}";$`);
    const { message, advice } = await refusalAfter(sql);
    expect(message).toMatch(new RegExp(`is damaged: another program has made the ${words}$`));
    expect(advice).toMatch(drop);
  });

  test('while rows of another table refer to its rows, which it could not remove', async () => {
    expect(await refusalAfter('CREATE TABLE notes (user INTEGER REFERENCES users, note TEXT)')).toEqual({
      message: expect.stringMatching(
        /another program has made the table notes, which refers to rows of the table users$/,
      ) as string,
      advice: expect.stringMatching(/without REFERENCES/) as string,
    });
  });
});

test('what a process left that was killed while it wrote is explained, and the next sync completes it', async () => {
  const { sandbox, file } = await mirrored();
  const other = new SqliteDatabase(file);
  other.pragma('journal_mode = DELETE');
  // So small a cache writes pages to the file before the end of the transaction.
  other.pragma('cache_size = 1');
  other.exec("BEGIN; UPDATE users SET data = printf('%2000c', 'x')");
  const left = `${temporaryFolder()}/mirror.db`;
  for (const end of ['', '-journal']) copyFileSync(file + end, left + end);
  other.close();
  expect(() => usersStatus(left)).toThrow(/a process was killed while it wrote to it/);
  await sync(sandbox, left, shape);
  expectMirrored(sandbox, left, ['users']);
});

test('tables, views, columns and indices of another program are no harm', async () => {
  const { sandbox, file } = await mirrored({}, related);
  alter(
    file,
    `CREATE TABLE notes (user INTEGER UNIQUE, note TEXT);
    CREATE TABLE tags (note INTEGER REFERENCES notes (user));
    CREATE TRIGGER noted AFTER INSERT ON notes BEGIN DELETE FROM tags; END;
    CREATE VIEW named AS SELECT username FROM users;
    CREATE TRIGGER renamed INSTEAD OF UPDATE ON named BEGIN SELECT 1; END;
    CREATE INDEX users_name ON users (first_name);
    ALTER TABLE users ADD COLUMN note TEXT;
    ALTER TABLE users ADD COLUMN vip INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE mirror_windows ADD COLUMN note TEXT;
    ALTER TABLE user_orders ADD COLUMN note TEXT`,
  );
  sandbox.control.remove('users', 30);
  const { report } = await sync(sandbox, file, { ...related, mode: 'full' });
  expect(report.status).toBe('complete');
});

test.each([
  "UPDATE mirror_capabilities SET value = '{'",
  "UPDATE mirror_capabilities SET value = '{}'",
  "UPDATE mirror_runs SET answers = 'x'",
  "INSERT INTO mirror_journal VALUES (1, '{}')",
  "INSERT INTO mirror_relations VALUES ('x', 'orders', 'x_orders', 1, '[]', '')",
])('no other program can write what this one could not read: %s', async (sql) => {
  const { file } = await mirrored({}, shape);
  expect(() => alter(file, sql)).toThrow(/CHECK|JSON/);
});

test.each([
  `'{"pageSize":1000}'`,
  "json_set(value, '$.pageSize', -4)",
  "json_set(value, '$.pageSize', 0)",
  "json_set(value, '$.dates', 'mdy')",
  "json_remove(value, '$.dayBounds')",
  "json_set(value, '$.ordered', 'yes')",
  "json_set(value, '$.clockAheadMs', 1e300)",
  "json_set(value, '$.notes', json('[1]'))",
])('a profile that no server can have counts as missing, and is measured again: %s', async (value) => {
  const { sandbox, file } = await mirrored({}, shape);
  const { measured_at: _, ...measured } = usersStatus(file).capabilities ?? { measured_at: '' };
  alter(file, `UPDATE mirror_capabilities SET value = ${value}`);
  expect(usersStatus(file).capabilities).toBeNull();
  const { report } = await sync(sandbox, file, shape);
  expect(report.status).toBe('complete');
  expectMirrored(sandbox, file, ['users']);
  expect(usersStatus(file).capabilities).toMatchObject(measured);
});

test('windows that were read by a profile that is lost count as never read', async () => {
  const { sandbox, file } = await readTwice();
  alter(file, 'DELETE FROM mirror_capabilities');
  const { report } = await sync(sandbox, file, nothingStale);
  expect(report).toMatchObject({ status: 'complete', resources: { users: { received: 400 } } });
});
