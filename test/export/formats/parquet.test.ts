import { DuckDBDecimalValue, DuckDBInstance, DuckDBTimestampTZValue, type DuckDBValue } from '@duckdb/node-api';
import { describe, expect, test } from 'vitest';
import { awkwardUsers, storedRows } from '../../support/awkward-users.ts';
import { exportFile } from '../../support/export-file.ts';
import { insertRows, madeUpUsers, mirrorFile, type StoredValue } from '../../support/mirror-file.ts';

interface Read {
  /** By name: the type that DuckDB takes the column for. */
  readonly types: Readonly<Record<string, string>>;
  readonly rows: readonly (readonly StoredValue[])[];
}

/** The value as the mirror holds it. */
function stored(value: DuckDBValue): StoredValue {
  if (value instanceof DuckDBDecimalValue) {
    const number = value.toDouble();
    return Number.isInteger(number) ? BigInt(number) : number;
  }
  if (value instanceof DuckDBTimestampTZValue) {
    const seconds = value.micros >= 0n ? value.micros / 1_000_000n : -((999_999n - value.micros) / 1_000_000n);
    const rest = value.micros - seconds * 1_000_000n;
    const whole = new Date(Number(seconds) * 1000).toISOString().slice(0, 19);
    return `${whole}.${String(rest).padStart(6, '0')}Z`;
  }
  if (typeof value === 'bigint' || typeof value === 'number' || typeof value === 'string') return value;
  expect(value).toBeNull();
  return null;
}

/** What DuckDB reads in the file. */
async function readBack(path: string, sql = 'SELECT * FROM file'): Promise<Read> {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  try {
    await connection.run(`CREATE VIEW file AS SELECT * FROM read_parquet('${path}')`);
    const reader = await connection.runAndReadAll(sql);
    const types = reader.columnTypes().map(String);
    return {
      types: Object.fromEntries(reader.columnNames().map((name, index) => [name, types[index] ?? ''])),
      rows: reader.getRows().map((row) => row.map(stored)),
    };
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

const columns = 'id, username, email, balance, is_subscribed, avatar, data, created_at, updated_at';
const what = { relation: 'users', meta: false, columns: columns.split(', ') };

describe('a Parquet file, read by DuckDB', () => {
  test('holds what the table holds, value for value, in columns of its types', async () => {
    const mirror = awkwardUsers();
    const { path, rows, warnings } = await exportFile(mirror, { format: 'parquet' }, what);
    const read = await readBack(path);
    expect(read.rows).toEqual(storedRows(mirror, `SELECT ${columns} FROM users ORDER BY id`));
    expect(read.types).toMatchObject({
      id: 'BIGINT',
      username: 'VARCHAR',
      balance: 'DECIMAL(18,2)',
      is_subscribed: 'BIGINT',
      data: 'VARCHAR',
      created_at: 'TIMESTAMP WITH TIME ZONE',
      updated_at: 'TIMESTAMP WITH TIME ZONE',
    });
    expect({ rows, warnings }).toEqual({ rows: 19, warnings: [] });
  });

  test('sums money to the cent', async () => {
    const mirror = mirrorFile((database) =>
      insertRows(
        database,
        'users',
        Array.from({ length: 1_000 }, (_, index) => ({ id: BigInt(index + 1), balance: 0.1 })),
      ),
    );
    const { path } = await exportFile(mirror, { format: 'parquet' });
    expect((await readBack(path, 'SELECT sum(balance)::VARCHAR FROM file')).rows).toEqual([['100.00']]);
  });

  test.each<[string, StoredValue, string]>([
    ['places as many as are needed', 0.125, 'DECIMAL(18,3)'],
    ['floating point, where a value has no short decimal', 0.1 + 0.2, 'DOUBLE'],
    ['floating point for what is too large', 1e300, 'DOUBLE'],
    ['floating point for what has no end', Infinity, 'DOUBLE'],
    ['floating point for a zero with a sign', -0, 'DOUBLE'],
  ])('gives numbers %s', async (_, balance, type) => {
    const mirror = awkwardUsers((id) => (id === 3n ? { balance } : {}));
    const { path, warnings } = await exportFile(mirror, { format: 'parquet' }, what);
    const read = await readBack(path);
    const wanted = storedRows(mirror, 'SELECT balance FROM users ORDER BY id').map(([value = null]) => value);
    const isDouble = type === 'DOUBLE';
    expect(read.types['balance']).toBe(type);
    expect(read.rows.map((row) => row[3])).toEqual(
      wanted.map((value) => (isDouble && typeof value === 'bigint' ? Number(value) : value)),
    );
    expect(warnings).toEqual([]);
  });

  test.each<[string, StoredValue, string]>([
    ['is_subscribed', 'yes', 'column is_subscribed is written as text: it holds 18 × whole number and 1 × text'],
    ['balance', '12,50', 'floating-point number'],
    ['created_at', 'yesterday', 'column created_at is written as text: not every text in it is a time'],
    ['created_at', '2026-02-30T00:00:00.000000Z', 'not every text in it is a time'],
    ['created_at', 5n, 'column created_at is written as text: it holds 1 × whole number'],
    ['username', 7n, 'column username is written as text: it holds 1 × whole number and 17 × text'],
  ])('loses no stray value: %s with %s', async (column, value, warning) => {
    const mirror = awkwardUsers((id) => (id === 3n ? { [column]: value } : {}));
    const { path, warnings } = await exportFile(mirror, { format: 'parquet' }, { ...what, columns: ['id', column] });
    const read = await readBack(path);
    const wanted = storedRows(mirror, `SELECT id, ${column} FROM users ORDER BY id`);
    expect(read.types[column]).toBe('VARCHAR');
    expect(read.rows).toEqual(wanted.map(([id, cell]) => [id, cell === null ? null : String(cell)]));
    expect(warnings).toEqual([expect.stringContaining(warning)]);
  });

  test('of whole numbers beyond 2^53 beside fractions is text, since no number holds both', async () => {
    const mirror = awkwardUsers((id) => (id === 3n ? { balance: 1_152_921_504_606_846_977n } : {}));
    const { path, warnings } = await exportFile(mirror, { format: 'parquet' }, { ...what, columns: ['id', 'balance'] });
    expect((await readBack(path)).rows[2]).toEqual([3n, '1152921504606846977']);
    expect(warnings).toHaveLength(1);
  });

  test('of a query has types by its values, and refuses a name that is there twice', async () => {
    const mirror = awkwardUsers();
    const sql = `SELECT count(*) AS n, sum(balance) AS total, max(created_at) AS last, min(username) AS name, NULL AS none,
      x'00ff' AS bytes, 1e300 AS huge FROM users`;
    const { path } = await exportFile(mirror, { format: 'parquet' }, { sql });
    const { types, rows } = await readBack(path);
    expect(types).toEqual({
      n: 'BIGINT',
      total: expect.stringMatching(/^(DECIMAL|DOUBLE)/),
      last: 'TIMESTAMP WITH TIME ZONE',
      name: 'VARCHAR',
      none: 'VARCHAR',
      bytes: 'VARCHAR',
      huge: 'DOUBLE',
    });
    expect(rows[0]?.slice(4)).toEqual([null, '00ff', 1e300]);
    await expect(exportFile(mirror, { format: 'parquet' }, { sql: 'SELECT 1 AS a, 2 AS a' })).rejects.toMatchObject({
      exitCode: 2,
      message: expect.stringContaining('two columns are called "a"'),
    });
  });

  test('of no rows has the types of its columns', async () => {
    const { path } = await exportFile(mirrorFile(), { format: 'parquet' }, what);
    const { types, rows } = await readBack(path);
    expect(rows).toEqual([]);
    expect(types).toMatchObject({ id: 'BIGINT', balance: 'DECIMAL(18,2)', created_at: 'TIMESTAMP WITH TIME ZONE' });
  });

  test('of many rows and long text has many row groups, and all of them', async () => {
    const mirror = mirrorFile((database) => {
      insertRows(database, 'users', madeUpUsers(25_000));
      database.exec(`UPDATE users SET data = printf('%.*c', 100000, 'x') || id WHERE id <= 400`);
    });
    const { path } = await exportFile(mirror, { format: 'parquet' });
    const wanted = storedRows(mirror, 'SELECT * FROM users ORDER BY id').map((row) => row.slice(0, 17));
    expect((await readBack(path)).rows).toEqual(wanted);
    const groups = await readBack(path, `SELECT count(DISTINCT row_group_id) FROM parquet_metadata('${path}')`);
    expect(Number(groups.rows[0]?.[0])).toBeGreaterThan(3);
  });
});
