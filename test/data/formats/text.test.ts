import { readFileSync } from 'node:fs';
import SqliteDatabase from 'better-sqlite3';
import { parse } from 'csv-parse/sync';
import { expect, test } from 'vitest';
import { awkwardUsers, storedRows } from '../../support/awkward-users.ts';
import { exportFile } from '../../support/export-file.ts';
import type { StoredValue } from '../../support/mirror-file.ts';

const columns = 'id, username, balance, is_subscribed, avatar, data, created_at';
const what = { relation: 'users', meta: false, columns: columns.split(', ') };
const sql = `SELECT ${columns} FROM users ORDER BY id`;
const strays = (id: bigint) => (id === 3n ? { balance: 1e300 } : {});

/** Quotes distinguish empty text from null. */
function read(text: string, delimiter: string): StoredValue[][] {
  const cast = (value: string, { quoting }: { readonly quoting: boolean }) => (value === '' && !quoting ? null : value);
  return parse(text, { delimiter, cast });
}

test.each([
  ['csv', ','],
  ['tsv', '\t'],
] as const)('%s is the same table when another parser reads it into SQLite', async (format, delimiter) => {
  const mirror = awkwardUsers(strays);
  const { path } = await exportFile(mirror, { format }, what);
  const [head, ...rows] = read(readFileSync(path, 'utf8'), delimiter);
  expect(head).toEqual(what.columns);
  const database = new SqliteDatabase(':memory:');
  // Usual column types: SQLite turns text into numbers for them.
  database.exec(
    'CREATE TABLE copy (id INTEGER, username TEXT, balance REAL, is_subscribed INTEGER, avatar TEXT, data TEXT, created_at TEXT)',
  );
  const insert = database.prepare('INSERT INTO copy VALUES (?, ?, ?, ?, ?, ?, ?)');
  for (const row of rows) insert.run(row);
  expect(database.prepare('SELECT * FROM copy').raw(true).safeIntegers(true).all()).toEqual(storedRows(mirror, sql));
  database.close();
});

test('JSON lines are the same table when parsed with all digits', async () => {
  const mirror = awkwardUsers(strays);
  const { path } = await exportFile(mirror, { format: 'jsonl' }, what);
  const exact = (_key: string, value: unknown, context?: { readonly source?: string }): unknown =>
    typeof value === 'number' && context?.source !== undefined && /^-?\d+$/.test(context.source)
      ? BigInt(context.source)
      : value;
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  const objects = lines.map((line) => JSON.parse(line, exact) as Record<string, unknown>);
  const wanted = storedRows(mirror, sql).map((row) =>
    Object.fromEntries(
      row.map((value, index) => {
        const isJson = typeof value === 'string' && (index === 4 || index === 5);
        // JSON has only one type of number.
        const whole = typeof value === 'number' && Number.isSafeInteger(value) ? BigInt(value) : value;
        return [what.columns[index] ?? '', isJson ? (JSON.parse(value, exact) as unknown) : whole];
      }),
    ),
  );
  expect(objects).toEqual(wanted);
});
