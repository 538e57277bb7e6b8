import { DuckDBDecimalValue, DuckDBInstance, DuckDBTimestampTZValue, type DuckDBValue } from '@duckdb/node-api';
import { describe, expect, test } from 'vitest';
import { awkwardUsers, storedRows } from '../../support/awkward-users.ts';
import { exportFile } from '../../support/export-file.ts';
import { insertRows, madeUpUsers, mirrorFile, type StoredValue } from '../../support/mirror-file.ts';

interface Read {
  /** The DuckDB type of each column, by name. */
  readonly types: Readonly<Record<string, string>>;
  readonly rows: readonly (readonly StoredValue[])[];
}

/** The value in the form of the mirror. */
function stored(value: DuckDBValue): StoredValue {
  if (value instanceof DuckDBDecimalValue) {
    return value.toDouble();
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

/** What DuckDB reads from the file. */
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
const withExtra = ['id', 'balance', '_extra'];
const what = { relation: 'users', meta: false, columns: columns.split(', ') };

describe('a Parquet file, read by DuckDB', () => {
  test('has every value of the table, in typed columns', async () => {
    const mirror = awkwardUsers();
    const { path, rows, warnings } = await exportFile(mirror, { format: 'parquet' }, what);
    const read = await readBack(path);
    expect(read.rows).toEqual(storedRows(mirror, `SELECT ${columns} FROM users ORDER BY id`));
    expect(read.types).toMatchObject({
      id: 'BIGINT',
      username: 'VARCHAR',
      balance: 'DECIMAL(18,6)',
      is_subscribed: 'BIGINT',
      data: 'VARCHAR',
      created_at: 'TIMESTAMP WITH TIME ZONE',
      updated_at: 'TIMESTAMP WITH TIME ZONE',
    });
    expect({ rows, warnings }).toEqual({ rows: 19, warnings: [] });
  });

  test('sums money exactly', async () => {
    const mirror = mirrorFile((database) =>
      insertRows(
        database,
        'users',
        Array.from({ length: 1_000 }, (_, index) => ({ id: BigInt(index + 1), balance: 0.1 })),
      ),
    );
    const { path } = await exportFile(mirror, { format: 'parquet' });
    expect((await readBack(path, 'SELECT sum(balance)::VARCHAR FROM file')).rows).toEqual([['100.000000']]);
  });

  test.each<[string, StoredValue, StoredValue]>([
    ['a third place', 0.125, 0.125],
    ['the noise of floating point', 0.1 + 0.2, 0.3],
    ['what is too large', 1e300, null],
    ['what has no end', Infinity, null],
    ['a zero with a sign', -0, 0],
    ['many digits before the point', 999_999_999_999.25, 999_999_999_999.25],
  ])('has decimals of one type, whatever the number: %s', async (_, balance, read) => {
    const mirror = awkwardUsers((id) => (id === 3n ? { balance } : {}));
    const { path, warnings } = await exportFile(
      mirror,
      { format: 'parquet' },
      { ...what, meta: true, columns: withExtra },
    );
    const { types, rows } = await readBack(path);
    expect(types).toMatchObject({ balance: 'DECIMAL(18,6)', _extra: 'VARCHAR' });
    const isWhole = read !== null && Number(balance) === Number(read);
    expect([rows[2]?.[1], rows[2]?.[2]]).toEqual([
      read,
      isWhole ? null : `{"balance":${balance === Infinity ? '1e999' : String(balance)}}`,
    ]);
    // Other rows are unchanged, and a warning counts those that are not.
    expect(rows.filter((row) => row[2] !== null)).toHaveLength(isWhole ? 0 : 1);
    expect(warnings).toHaveLength(isWhole ? 0 : 1);
  });

  test.each<[string, StoredValue, string, string]>([
    ['created_at', 'yesterday', 'TIMESTAMP WITH TIME ZONE', 'column created_at holds times: 1 other value became null'],
    ['created_at', '2026-02-30T00:00:00.000000Z', 'TIMESTAMP WITH TIME ZONE', 'holds times'],
  ])('keeps the type of %s despite %s, and puts the value into _extra', async (column, value, type, warning) => {
    const mirror = awkwardUsers((id) => (id === 3n ? { [column]: value, _extra: '{"n":9007199254740993}' } : {}));
    const request = { relation: 'users', meta: true, columns: ['id', column, '_extra'] };
    const { path, warnings } = await exportFile(mirror, { format: 'parquet' }, request);
    const { types, rows } = await readBack(path);
    expect(types[column]).toBe(type);
    expect(rows[2]).toEqual([3n, null, `{"n":9007199254740993,"${column}":${JSON.stringify(value)}}`]);
    expect(warnings).toEqual([expect.stringMatching(new RegExp(`${warning}.*; the original values are in _extra`))]);
    const without = await exportFile(mirror, { format: 'parquet' }, { ...request, columns: ['id', column] });
    expect(without.warnings).toEqual([expect.stringContaining('with --meta, the original values are in _extra')]);
  });

  test('has the same types whatever its values, for every table and view', async () => {
    const [empty, full] = [mirrorFile(), awkwardUsers()];
    for (const relation of [
      'users',
      'users_history',
      'mirror_runs',
      'mirror_freshness',
      'users_by_day',
      'users_live_age',
    ]) {
      const [one, other] = await Promise.all(
        [empty, full].map(async (file) => {
          const { path } = await exportFile(file, { format: 'parquet' }, { relation, meta: true });
          return (await readBack(path)).types;
        }),
      );
      expect(one).toEqual(other);
    }
  });

  test('parses times in other notations', async () => {
    const mirror = awkwardUsers((id) => (id === 3n ? { created_at: '2026-03-11 12:00:00.5+02:00' } : {}));
    const { path, warnings } = await exportFile(mirror, { format: 'parquet' }, { ...what, columns: ['created_at'] });
    expect((await readBack(path)).rows[2]).toEqual(['2026-03-11T10:00:00.500000Z']);
    expect(warnings).toEqual([]);
  });

  test('of a query takes types from its first rows, and refuses duplicate names', async () => {
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

  test('of a query is refused if a type changes later, with advice how to fix it', { tags: 'full' }, async () => {
    const sql = `WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 20001)
      SELECT iif(x = 20001, 'many', x) AS total, x * 1.5 AS half, iif(x < 20001, NULL, x) AS late FROM n`;
    await expect(exportFile(mirrorFile(), { format: 'parquet' }, { sql })).rejects.toMatchObject({
      exitCode: 2,
      message: 'the computed column total holds whole numbers in its first rows, and "many" further on',
      advice: expect.stringContaining('CAST(… AS TEXT) AS total'),
    });
    const typed = sql.replace("iif(x = 20001, 'many', x)", "CAST(iif(x = 20001, 'many', x) AS TEXT)");
    const { path } = await exportFile(mirrorFile(), { format: 'parquet' }, { sql: typed });
    const { types, rows } = await readBack(path);
    expect(types).toEqual({ total: 'VARCHAR', half: 'DOUBLE', late: 'VARCHAR' });
    expect([rows.length, rows[0], rows[20_000]]).toEqual([20_001, ['1', 1.5, null], ['many', 30_001.5, '20001']]);
  });

  test('of no rows has the types of its columns', async () => {
    const { path } = await exportFile(mirrorFile(), { format: 'parquet' }, what);
    const { types, rows } = await readBack(path);
    expect(rows).toEqual([]);
    expect(types).toMatchObject({ id: 'BIGINT', balance: 'DECIMAL(18,6)', created_at: 'TIMESTAMP WITH TIME ZONE' });
  });

  test('of many rows and long texts has several row groups, with all rows', { tags: 'full' }, async () => {
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
