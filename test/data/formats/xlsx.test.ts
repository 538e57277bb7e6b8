import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parse } from 'csv-parse/sync';
import readWorkbook, { readSheet } from 'read-excel-file/node';
import { describe, expect, test } from 'vitest';
import { xlsxChunks } from '../../../src/data/xlsx.ts';
import { rowsSource } from '../../../src/data/source.ts';
import { writeDurableFile } from '../../../src/store/files/durable-file.ts';
import { openReadingStore } from '../../../src/data/reading.ts';
import { awkwardUsers, storedRows } from '../../support/awkward-users.ts';
import { exportFile } from '../../support/export-file.ts';
import { mirrorFile, type StoredValue } from '../../support/mirror-file.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';

const columns = 'id, username, balance, is_subscribed, avatar, data, created_at';
const what = { relation: 'users', meta: false, columns: columns.split(', ') };
const { signal } = new AbortController();

/** The expected cell. The reader of workbooks joins the two characters of a Windows line break. */
function expectedCell(value: StoredValue, isTime: boolean): unknown {
  // No cell; an empty text is stored without one, too.
  if (value === null || value === '') return null;
  if (isTime) return new Date(String(value).replace(/\d{3}Z$/, 'Z'));
  if (typeof value === 'bigint') return value < 10n ** 15n ? Number(value) : String(value);
  return value;
}

function expectedRows(mirror: string): unknown[][] {
  return storedRows(mirror, `SELECT ${columns} FROM users ORDER BY id`).map((row) =>
    row.map((value, index) => expectedCell(value, index === 6)),
  );
}

describe('a workbook, read by another program', () => {
  test('has every value of the table: numbers, dates with time, and text', async () => {
    const mirror = awkwardUsers();
    const { path, rows, warnings } = await exportFile(mirror, { format: 'xlsx' }, what);
    const [head, ...cells] = await readSheet(path, { trim: false });
    expect(head).toEqual(what.columns);
    expect(cells).toEqual(expectedRows(mirror));
    expect({ rows, warnings }).toEqual({ rows: 19, warnings: [] });
  });

  test('has computed values with their types, row by row', async () => {
    const values = "('twelve'), (1e300), (-1e-7), (9e999), (123456789012345), (1234567890123456)";
    const sql = `SELECT column1 AS value FROM (VALUES ${values})`;
    const { path } = await exportFile(mirrorFile(), { format: 'xlsx' }, { sql });
    const cells = (await readSheet(path)).slice(1).flat();
    expect(cells).toEqual(['twelve', 1e300, -1e-7, 'Infinity', 123_456_789_012_345, '1234567890123456']);
  });

  test('has computed times as dates, and as text if a spreadsheet cannot show the date', async () => {
    const sql = `SELECT '2026-03-11T10:00:00.500000Z' AS at, '1899-12-31T00:00:00.000000Z' AS early, '2026-02-30T00:00:00.000000Z' AS none`;
    const { path } = await exportFile(mirrorFile(), { format: 'xlsx' }, { sql });
    expect((await readSheet(path))[1]).toEqual([
      new Date('2026-03-11T10:00:00.500Z'),
      '1899-12-31T00:00:00.000000Z',
      '2026-02-30T00:00:00.000000Z',
    ]);
  });

  test('cuts text that is too long for a cell, never within a character, and counts the cuts', async () => {
    const sql = `SELECT printf('%.*c', 32767, 'a') AS fits, printf('%.*c', 32766, 'a') || '👩' AS halved, printf('%.*c', 40000, 'b') AS long`;
    const { path, warnings } = await exportFile(mirrorFile(), { format: 'xlsx' }, { sql });
    expect((await readSheet(path))[1]).toEqual(['a'.repeat(32_767), 'a'.repeat(32_766), 'b'.repeat(32_767)]);
    expect(warnings).toEqual([expect.stringMatching(/^2 cells of query held more than the 32,767 characters/)]);
  });

  test('may have two columns of the same name', async () => {
    const { path } = await exportFile(mirrorFile(), { format: 'xlsx' }, { sql: 'SELECT 1 AS a, 2 AS a' });
    expect(await readSheet(path)).toEqual([
      ['a', 'a'],
      [1, 2],
    ]);
  });

  test('of no rows has its header', async () => {
    const { path } = await exportFile(mirrorFile(), { format: 'xlsx' }, what);
    expect(await readWorkbook(path)).toEqual([{ sheet: 'users', data: [what.columns] }]);
  });

  test.each([
    [10, ['rows']],
    [7, ['rows', 'rows (2)']],
    [4, ['rows', 'rows (2)', 'rows (3)']],
    [5, ['rows', 'rows (2)']],
  ])('uses a new sheet after %i rows', async (sheetRows, sheets) => {
    const store = openReadingStore(mirrorFile());
    const snapshot = store.snapshot();
    const path = join(temporaryFolder(), 'out.xlsx');
    try {
      const sql = 'WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 10) SELECT x FROM n';
      const source = rowsSource('rows', snapshot.query(sql));
      const run = { signal, onRows: () => {}, onWarning: () => {} };
      await writeDurableFile(path, xlsxChunks(source, run, sheetRows), signal);
    } finally {
      snapshot.release();
      store.close();
    }
    const book = await readWorkbook(path);
    expect(book.map(({ sheet }) => sheet)).toEqual(sheets);
    expect(book.map(({ data }) => data[0])).toEqual(sheets.map(() => ['x']));
    expect(book.flatMap(({ data }) => data.slice(1).flat())).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(book.every(({ data }) => data.length <= sheetRows + 1)).toBe(true);
  });
});

test.each([
  ['users', ['users', 'users (2)']],
  ["it's [a]/b?", ["it's _a__b_", "it's _a__b_ (2)"]],
  ["'quoted'", ['_quoted_', '_quoted_ (2)']],
  ['', ['rows', 'rows (2)']],
  [
    'a_table_whose_name_is_far_too_long_for_a_sheet',
    ['a_table_whose_name_is_far_too_l', 'a_table_whose_name_is_far_t (2)'],
  ],
])('the sheets of %j are called %j', async (name, expected) => {
  const path = join(temporaryFolder(), 'out.xlsx');
  const source = rowsSource(name, {
    columns: [{ name: 'x', table: null, origin: null }],
    batches: () => [[[1]], [[2]]],
  });
  await writeDurableFile(path, xlsxChunks(source, { signal, onRows: () => {}, onWarning: () => {} }, 1), signal);
  expect((await readWorkbook(path)).map(({ sheet }) => sheet)).toEqual(expected);
});

const isMissing = spawnSync('libreoffice', ['--version']).error !== undefined;

test.skipIf(isMissing)(
  'a workbook looks the same in LibreOffice (skipped if it is not installed)',
  { tags: 'full' },
  async () => {
    // LibreOffice changes line breaks, control characters and fractions of seconds, which are tested above.
    const mirror = awkwardUsers((id) => ({
      created_at: id % 2n === 0n ? null : '2026-03-11T10:00:00.000000Z',
      ...([7n, 13n, 15n].includes(id) ? { username: 'plain' } : {}),
    }));
    const { path } = await exportFile(mirror, { format: 'xlsx' }, what);
    const folder = dirname(path);
    // Comma, double quotes, UTF-8, quoted text, cells as shown.
    const filter = 'csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,true,false';
    const profile = `-env:UserInstallation=${pathToFileURL(join(folder, 'profile')).href}`;
    const args = ['--headless', profile, '--convert-to', filter, '--outdir', folder, path];
    expect(spawnSync('libreoffice', args, { encoding: 'utf8' })).toMatchObject({ status: 0 });
    const [head, ...cells] = parse(readFileSync(join(folder, 'out.csv')), { bom: true });
    expect(head).toEqual(what.columns);
    const wanted = storedRows(mirror, `SELECT ${columns} FROM users ORDER BY id`).map((row) =>
      row.map((value, index) => {
        if (value === null) return '';
        return index === 6 ? '2026-03-11 10:00:00' : String(value);
      }),
    );
    expect(cells).toEqual(wanted);
  },
);
