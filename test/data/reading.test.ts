import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Cell } from '../../src/data/reading-types.ts';
import { openMirrorFile } from '../../src/store/open.ts';
import { type Snapshot, openReadingStore } from '../../src/data/reading.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

function threeUsers(): string {
  return mirrorFile((database) => insertRows(database, 'users', madeUpUsers(3)));
}

function openStore(file: string) {
  const store = openReadingStore(file);
  onTestFinished(() => store.close());
  return store;
}

function snapshotOf(file: string): Snapshot {
  const snapshot = openStore(file).snapshot();
  onTestFinished(() => snapshot.release());
  return snapshot;
}

function all(snapshot: Snapshot, sql: string): (readonly Cell[])[] {
  return [...snapshot.query(sql).batches(() => 2)].flat();
}

describe('a query', () => {
  test.each([
    'SELECT count(*) FROM users',
    'select count(*) from users;',
    '-- how many\nSELECT count(*) FROM users ; -- all\n;',
    '/* a */ WITH u AS (SELECT * FROM users) SELECT count(*) FROM u',
    "SELECT count(*) FROM users WHERE username <> ';DROP TABLE users'",
    'VALUES (3)',
  ])('that reads is run: %s', (sql) => {
    expect(all(snapshotOf(threeUsers()), sql)).toEqual([[3n]]);
  });

  test('can be explained', () => {
    const snapshot = snapshotOf(threeUsers());
    expect(all(snapshot, 'EXPLAIN QUERY PLAN SELECT * FROM users').flat().join(' ')).toContain('SCAN users');
    expect(all(snapshot, 'EXPLAIN SELECT 1').length).toBeGreaterThan(0);
  });

  // proves: queries-read
  test.each([
    ['DELETE FROM users', 'begins with DELETE'],
    ['DELETE FROM users RETURNING id', 'begins with DELETE'],
    ['WITH u AS (SELECT 1) DELETE FROM users RETURNING id', 'only statements that read'],
    ["INSERT INTO users (id, _first_seen_at, _changed_at) VALUES (9, '', '')", 'begins with INSERT'],
    ['CREATE TEMP TABLE t (a)', 'begins with CREATE'],
    ['DROP TABLE users', 'begins with DROP'],
    ["ATTACH 'other.db' AS other", 'begins with ATTACH'],
    ['DETACH main', 'begins with DETACH'],
    ["VACUUM INTO 'copy.db'", 'begins with VACUUM'],
    ['PRAGMA query_only = OFF', 'begins with PRAGMA'],
    ['/* x */ -- y\n pragma journal_mode = DELETE', 'begins with pragma'],
    ['EXPLAIN PRAGMA query_only = OFF', 'begins with PRAGMA'],
    ['EXPLAIN QUERY PLAN DELETE FROM users', 'begins with DELETE'],
    ['BEGIN', 'begins with BEGIN'],
    ['REINDEX', 'begins with REINDEX'],
    ['SELECT 1; DELETE FROM users', 'more than one statement'],
    ['SELECT 1;;SELECT 2', 'more than one statement'],
    ["SELECT load_extension('x.so')", 'not authorized'],
    ['SELECT ?', 'the parameter ?'],
    ['SELECT * FROM users WHERE id = :id', 'the parameter :id'],
    ["SELECT 'open", "a ' that is never closed"],
    ['SELECT 1 /* open', 'a comment that is never closed'],
    ['  -- nothing', 'there is no SQL'],
    [';', 'there is no SQL'],
    ['SELEC 1', 'begins with SELEC'],
    ['SELECT 1 FROM', 'incomplete input'],
    ['SELECT nam FROM users', 'no such column: nam'],
    ['SELECT * FROM user', 'no such table: user'],
  ])('that writes or is invalid is refused, and the file stays unchanged: %s', (sql, message) => {
    const file = threeUsers();
    const before = readFileSync(file);
    const snapshot = snapshotOf(file);
    expect(() => all(snapshot, sql)).toThrow(
      expect.objectContaining({ exitCode: 2, message: expect.stringContaining(message) }),
    );
    expect(all(snapshot, 'SELECT count(*) FROM users')).toEqual([[3n]]);
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  test("that fails on the data is reported with SQLite's message", () => {
    const snapshot = snapshotOf(threeUsers());
    expect(() => all(snapshot, 'SELECT json(username) FROM users')).toThrow(
      expect.objectContaining({ exitCode: 2, message: 'SQLite refused the SQL: malformed JSON' }),
    );
  });

  test.each([
    ['SELECT emial FROM users', 'Did you mean "email"?'],
    ['SELECT u.usrname FROM users AS u', 'Did you mean "username"?'],
    ['SELECT * FROM coupon', 'Did you mean "coupons" or "coupons_history"?'],
  ])('with a typo in a name is refused with the nearest match: %s', (sql, advice) => {
    const snapshot = snapshotOf(threeUsers());
    expect(() => all(snapshot, sql)).toThrow(expect.objectContaining({ advice: expect.stringContaining(advice) }));
  });

  test.each(['code', 'u.Code'])(
    'with a column of another table is refused, and the tables that have it are named: %s',
    (column) => {
      const snapshot = snapshotOf(threeUsers());
      expect(() => all(snapshot, `SELECT ${column} FROM users AS u`)).toThrow(
        expect.objectContaining({ advice: 'Tables and views that have it: coupons.' }),
      );
    },
  );

  test('returns integers with all digits, and the column that each value came from', () => {
    const file = mirrorFile((database) => insertRows(database, 'users', [{ id: 9223372036854775807n, balance: 0.1 }]));
    const result = snapshotOf(file).query('SELECT id AS number, balance, 1 FROM (SELECT * FROM users)');
    expect([...result.batches(() => 10)]).toEqual([[[9223372036854775807n, 0.1, 1n]]]);
    expect(result.columns).toEqual([
      { name: 'number', table: 'users', origin: 'id' },
      { name: 'balance', table: 'users', origin: 'balance' },
      { name: '1', table: null, origin: null },
    ]);
  });
});

describe('a condition or an order', () => {
  const select = (snapshot: Snapshot, part: { where?: string; order?: string }) =>
    [...snapshot.select({ relation: 'users', columns: ['id'], ...part }).batches(() => 100)].flat(2);

  test.each([
    [{ where: 'id > 1' }, [2n, 3n]],
    [{ where: 'id IS DISTINCT FROM 2 AND id IN (SELECT id FROM users LIMIT 3)' }, [1n, 3n]],
    [{ where: 'id = 1 OR id = 3 -- the odd ones' }, [1n, 3n]],
    [{ where: "username = ');' OR id IN (2)" }, [2n]],
    [{ order: 'id DESC' }, [3n, 2n, 1n]],
    [{ where: 'id < 3', order: 'id % 2, id' }, [2n, 1n]],
  ])('is used unchanged: %o', (part, ids) => {
    expect(select(snapshotOf(threeUsers()), part)).toEqual(ids);
  });

  test.each([
    [{ where: '1) UNION SELECT 4 --' }, 'closes a parenthesis'],
    [{ where: '1) OR (1' }, 'closes a parenthesis'],
    [{ where: '(1' }, 'opens a parenthesis'],
    [{ order: '1 limit 2' }, '--order must be one expression, without LIMIT'],
    [{ where: '1; DELETE FROM users' }, 'without ";"'],
    [{ where: '1 /* swallow' }, 'never closed'],
    [{ where: "username = 'a" }, 'never closed'],
    [{ where: '' }, '--where is empty'],
    [{ where: 'id = ?' }, 'the parameter ?'],
    [{ where: '1 UNION SELECT 1' }, '--where must be one expression, without UNION'],
    [{ where: '1 LIMIT 1' }, 'without LIMIT'],
    [{ order: 'id; DELETE FROM users' }, 'without ";"'],
    [{ order: 'id UNION SELECT 1' }, 'without UNION'],
    [{ order: '-- none' }, '--order is empty'],
    [{ where: 'statsu = 1' }, 'no such column: statsu'],
  ])('cannot add other SQL: %o', (part, message) => {
    const snapshot = snapshotOf(threeUsers());
    expect(() => select(snapshot, part)).toThrow(
      expect.objectContaining({ exitCode: 2, message: expect.stringContaining(message) }),
    );
  });
});

describe('a snapshot', () => {
  test('does not change when the mirror is written to', () => {
    const file = threeUsers();
    const store = openStore(file);
    const snapshot = store.snapshot();
    const writer = openMirrorFile(file);
    writer.exec('DELETE FROM users');
    writer.close();
    expect(all(snapshot, 'SELECT count(*) FROM users')).toEqual([[3n]]);
    snapshot.release();
    expect(all(snapshotOf(file), 'SELECT count(*) FROM users')).toEqual([[0n]]);
  });

  test('lists tables and views with columns, and which can be read by ranges', () => {
    const file = mirrorFile((database) => database.exec('CREATE VIEW named AS SELECT username FROM users'));
    const relations = snapshotOf(file).relations();
    expect(relations.find(({ name }) => name === 'users')).toMatchObject({ kind: 'table', rangeColumn: 'id' });
    expect(relations.find(({ name }) => name === 'mirror_windows')).toMatchObject({ kind: 'table', rangeColumn: null });
    expect(relations.find(({ name }) => name === 'named')).toEqual({
      name: 'named',
      kind: 'view',
      columns: [{ name: 'username', type: '', notNull: false }],
      isStrict: false,
      key: [],
      rangeColumn: null,
    });
    expect(relations.some(({ name }) => name.startsWith('sqlite_'))).toBe(false);
  });

  test('splits a table into ranges that cover each possible id once', () => {
    const ids = [-5n, 1n, 2n, 1000n, 2n ** 40n, 2n ** 63n - 1n];
    const snapshot = snapshotOf(
      mirrorFile((database) =>
        insertRows(
          database,
          'users',
          ids.map((id) => ({ id })),
        ),
      ),
    );
    const users = snapshot.relations().find(({ name }) => name === 'users');
    if (users === undefined) throw new Error('no users');
    const ranges = [...snapshot.ranges(users, () => 2)];
    expect(ranges[0]?.from).toBe(-(2n ** 63n));
    expect(ranges.at(-1)?.to).toBe(2n ** 63n - 1n);
    expect(ranges.slice(1).map(({ from }) => from - 1n)).toEqual(ranges.slice(0, -1).map(({ to }) => to));
    const { rowsIn } = snapshot.selectRanges(users, ['id']);
    expect(ranges.map((range) => rowsIn(range).flat())).toEqual([ids.slice(0, 2), ids.slice(2, 4), ids.slice(4)]);
  });
});

describe('a file that is not a mirror is refused and left unchanged', () => {
  test('if it does not exist, and is not created', () => {
    const file = join(temporaryFolder(), 'mirror.db');
    expect(() => openReadingStore(file)).toThrow(
      expect.objectContaining({
        exitCode: 2,
        message: `there is no mirror at ${file}`,
        advice: expect.stringContaining('admin-mirror sync'),
      }),
    );
    expect(() => readFileSync(file)).toThrow('ENOENT');
  });

  test('if it is text', () => {
    const file = join(temporaryFolder(), 'mirror.db');
    writeFileSync(file, 'id,name\n'.repeat(500));
    expect(() => openReadingStore(file)).toThrow(
      expect.objectContaining({ exitCode: 2, message: expect.stringContaining('not an SQLite database') }),
    );
    expect(readFileSync(file, 'utf8')).toBe('id,name\n'.repeat(500));
  });

  test('if a newer program made it', () => {
    const file = mirrorFile((database) => database.pragma('user_version = 999'));
    expect(() => openReadingStore(file)).toThrow(
      expect.objectContaining({ exitCode: 2, message: expect.stringContaining('has version 999') }),
    );
  });
});
