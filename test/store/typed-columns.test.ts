/** Mirrors of version 1, whose columns had no types, become mirrors of today. */
import { readFileSync } from 'node:fs';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { describe, expect, test } from 'vitest';
import { withTablesAsOf } from '../../src/store/as-of.ts';
import { mirrorKind, openMirrorFile, openMirrorForReading } from '../../src/store/open.ts';
import type { Timestamp } from '../../src/model/time.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const time = '2026-03-11T10:00:00.000000Z';
const later = '2026-03-12T10:00:00.000000Z';

/** A mirror as version 1 made it, with these rows. */
function olderMirror(fill: (database: Database) => void): string {
  const file = `${temporaryFolder()}/mirror.db`;
  const database = new SqliteDatabase(file);
  database.exec(readFileSync(new URL('mirror-version-1.sql', import.meta.url), 'utf8'));
  database.exec("INSERT INTO mirror_migrations (version, applied_at) VALUES (1, '2026-01-01T00:00:00.000000Z')");
  database.pragma(`application_id = ${mirrorKind.applicationId}`);
  database.pragma('user_version = 1');
  fill(database);
  database.close();
  return file;
}

function addUser(database: Database, user: Readonly<Record<string, unknown>>): void {
  const row = { created_at: time, _first_seen_at: time, _changed_at: time, ...user };
  const names = Object.keys(row);
  database
    .prepare(`INSERT INTO users (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`)
    .run(...Object.values(row));
}

const addVersion = (database: Database, id: number, record: object) =>
  database
    .prepare('INSERT INTO users_history (id, change, valid_from, valid_to, record) VALUES (?, ?, ?, ?, ?)')
    .run(id, 'updated', time, later, JSON.stringify({ id, _extra: null, _first_seen_at: time, ...record }));

const schemaOf = (database: Database) =>
  database
    .prepare<[string], string>('SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name <> ? ORDER BY type, name')
    .pluck();

describe('a mirror of version 1', () => {
  test('gets the schema of a new one, with the indices that it has, and keeps what stands in it', () => {
    const file = olderMirror((database) => {
      addUser(database, { id: 1n, username: 'a', balance: 5n, is_subscribed: 1n, avatar: '{"u":1}' });
      addUser(database, { id: 2n, username: 'b', balance: 12.5 });
      database.exec('CREATE INDEX users_balance ON users ("balance")');
      database.exec(
        "INSERT INTO mirror_windows (resource, from_day, to_day, state) VALUES ('users', '1', '2', 'settled')",
      );
      database.exec(
        "INSERT INTO mirror_pages (resource, from_day, page, hash, total, last_page, per_page, ids, owned) VALUES ('users', '1', 'p', 'h', 1, 1, 1, '[1]', 1)",
      );
    });
    const database = openMirrorFile(file);
    const fresh = openMirrorFile(`${temporaryFolder()}/mirror.db`);
    expect(schemaOf(database).all('users_balance')).toEqual(schemaOf(fresh).all(''));
    expect(database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'users_balance'").get()).toBeDefined();
    const rows = database.prepare('SELECT username, balance, typeof(balance) AS kind, avatar, _extra FROM users');
    expect(rows.all()).toEqual([
      { username: 'a', balance: 5, kind: 'real', avatar: '{"u":1}', _extra: null },
      { username: 'b', balance: 12.5, kind: 'real', avatar: null, _extra: null },
    ]);
    // Sums of the rows as they were would make every window one that somebody changed by hand.
    expect(database.prepare('SELECT * FROM mirror_pages').all()).toEqual([]);
    expect(database.pragma('integrity_check', { simple: true })).toBe('ok');
    expect(database.pragma('foreign_keys', { simple: true })).toBe(1);
    database.close();
    fresh.close();
  });

  test.each([
    ['balance', '"abc"', true, null],
    ['balance', '9007199254740993', true, null],
    ['is_subscribed', '"007"', true, null],
    ['is_subscribed', '2.5', true, null],
    ['is_subscribed', '3.0', false, 3],
    ['username', '42', false, '42'],
    ['avatar', '7', false, '7'],
  ])('has of %s %s in _extra: %j, and in the column %j, in rows and versions alike', (name, json, isStray, cell) => {
    const file = olderMirror((database) => {
      addUser(database, { id: 1n, _extra: '{"uuid":"u"}' });
      database.exec(`UPDATE users SET ${name} = ${json.replaceAll('"', "'")}`);
      const record = `{"id":1,"_extra":"{\\"uuid\\":\\"u\\"}","_first_seen_at":"${time}","${name}":${json}}`;
      database
        .prepare('INSERT INTO users_history (id, change, valid_from, valid_to, record) VALUES (1, ?, ?, ?, ?)')
        .run('updated', '2026-01-01T00:00:00.000000Z', time, record);
    });
    const database = openMirrorForReading(file);
    const expected = { cell, extra: isStray ? `{"uuid":"u","${name}":${json}}` : '{"uuid":"u"}' };
    const select = `SELECT ${name} AS cell, _extra AS extra FROM users`;
    expect(database.prepare(select).all()).toEqual([expected]);
    const before = '2026-02-01T00:00:00.000000Z' as Timestamp;
    expect(database.prepare(`${withTablesAsOf(before)} ${select}`).all()).toEqual([expected]);
    database.close();
  });

  test('keeps its related records, whose ids become text', () => {
    const file = olderMirror((database) => {
      addUser(database, { id: 1n });
      database.exec(`CREATE TABLE "user_orders" ("user_id" INTEGER NOT NULL REFERENCES "users" ("id") ON DELETE CASCADE,
        "id" ANY, "record" TEXT NOT NULL, "_key" ANY NOT NULL, PRIMARY KEY ("user_id", "_key")) STRICT;
        CREATE VIEW user_orders_flat AS SELECT user_id, record ->> 'a' AS a FROM user_orders;
        INSERT INTO mirror_relations VALUES ('users', 'orders', 'user_orders', 1, '[]', 'now');
        INSERT INTO user_orders VALUES (1, 5, '{"a":1}', '5'), (1, NULL, '{"a":2}', 2)`);
    });
    const database = openMirrorFile(file);
    expect(database.prepare('SELECT * FROM user_orders ORDER BY record').all()).toEqual([
      { user_id: 1, id: '5', record: '{"a":1}', _key: '5', _seq: 2 },
      { user_id: 1, id: null, record: '{"a":2}', _key: '#2', _seq: 3 },
    ]);
    expect(database.prepare('SELECT a FROM user_orders_flat').pluck().all()).toEqual([1, 2]);
    database.exec('DELETE FROM users');
    expect(database.prepare('SELECT * FROM user_orders').all()).toEqual([]);
    database.close();
  });

  test('has the versions that its columns can hold as they were', () => {
    const file = olderMirror((database) => addVersion(database, 3, { balance: 5, username: 'x' }));
    const database = openMirrorForReading(file);
    const records = database.prepare<[], string>('SELECT record FROM users_history').pluck().all();
    expect(records).toEqual([JSON.stringify({ id: 3, _extra: null, _first_seen_at: time, balance: 5, username: 'x' })]);
    database.close();
  });
});
