import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { readSheet } from '../../../src/bulk/sheet/sheet.ts';
import { temporaryFolder } from '../../support/temporary-folder.ts';
import { column, fixture, grid, readFixture, refusalOf } from './fixture.ts';

const plain = [
  [2, '1', 'add', '5.00'],
  [3, '2', 'remove', '2.50'],
];

describe('A text file', () => {
  test('is read with its hash, its size and its delimiter', async () => {
    const sheet = await readFixture('plain.csv');
    const bytes = readFileSync(fixture('plain.csv'));
    expect(grid(sheet)).toEqual(plain);
    expect(sheet).toMatchObject({
      format: 'csv',
      delimiter: ',',
      sheet: null,
      bytes: bytes.length,
      hash: createHash('sha256').update(bytes).digest('hex'),
      columns: ['user_id', 'type', 'amount'],
      notes: [],
      problems: [],
    });
  });

  test('may begin with a byte order mark, which is not part of the first header', async () => {
    const sheet = await readFixture('byte-order-mark.csv');
    expect(sheet.columns).toEqual(['user_id', 'type', 'amount']);
    expect(grid(sheet)).toEqual(plain);
  });

  test.each(['utf-16-little-endian.csv', 'utf-16-big-endian.csv'])(
    'may be UTF-16 with a byte order mark: %s',
    async (name) => {
      const sheet = await readFixture(name);
      expect(grid(sheet)).toEqual([[2, 'josé@example.com', 'add', '5.00']]);
      expect(sheet.delimiter).toBe('\t');
    },
  );

  test.each([
    ['semicolon.csv', ';'],
    ['tab.tsv', '\t'],
    ['commas.tsv', ','],
    ['delimiter-in-header.csv', ';'],
    ['one-column.csv', ','],
  ])('has its delimiter detected without a note: %s', async (name, delimiter) => {
    const sheet = await readFixture(name);
    expect(sheet.delimiter).toBe(delimiter);
    expect(sheet.notes).toEqual([]);
    expect(sheet.problems).toEqual([]);
  });

  test('may name its delimiter in a first line, which is not counted', async () => {
    const sheet = await readFixture('sep-line.csv');
    expect(grid(sheet)).toEqual([
      [2, '1', 'add', '5.00'],
      [3, '2', 'add', 'x'],
    ]);
    expect(sheet.notes).toEqual([]);
  });

  test('counts its rows as spreadsheet programs do: a cell with line breaks is one row', async () => {
    const sheet = await readFixture('lines-in-quotes.csv');
    expect(grid(sheet)).toEqual([
      [2, '1', 'for the\r\noutage', '5.00'],
      [3, '2', 'a\nb\nc', '6.00'],
      [5, '3', 'd', 'x'],
    ]);
  });

  test('may mix line ends', async () => {
    expect([...(await readFixture('mixed-line-ends.csv')).rows].map(({ row }) => row)).toEqual([2, 3, 4]);
  });

  test('counts its blank rows', async () => {
    const sheet = await readFixture('blank-rows.csv');
    expect([...sheet.rows].map(({ row }) => row)).toEqual([2, 6]);
  });

  test('may have only headers', async () => {
    expect((await readFixture('headers-only.csv')).rows).toHaveLength(0);
  });

  test('reports a row with fewer cells than headers, as from a line break without quotes', async () => {
    const { problems } = await readFixture('line-break-without-quotes.csv');
    const problem = 'the row has 2 cells, the header 3; a cell with a line break needs quotes';
    expect(problems).toEqual([
      { row: 2, column: null, problem },
      { row: 3, column: null, problem },
    ]);
  });

  test('reports a cell beyond the headers, as from a thousands comma, unless it is empty', async () => {
    const { problems } = await readFixture('row-too-long.csv');
    expect(problems).toEqual([{ row: 3, column: null, problem: 'column D holds "234.00" but has no header' }]);
  });

  test('has invisible characters trimmed from the ends of cells; those inside stay', async () => {
    const sheet = await readFixture('unseen-characters.csv');
    expect(sheet.columns).toEqual(['user_id', 'type', 'amount']);
    expect(grid(sheet)).toEqual([
      [2, '1', 'add', '5.00'],
      [3, '2', 'add', '6.00'],
      [4, '3', 'add', '7.00'],
      [5, 'a\u200bb', 'add', '8.00'],
    ]);
    expect([...sheet.rows][0]?.cells[2]?.raw).toBe('\u00a05.00\u00a0');
  });

  test('reports the error values of a spreadsheet program, with row and column', async () => {
    const { problems } = await readFixture('error-values.csv');
    const advice = 'correct its formula, or write the value itself';
    expect(problems).toEqual([
      { row: 2, column: 'amount', problem: `the cell holds the error "#N/A"; ${advice}` },
      { row: 3, column: 'user_id', problem: `the cell holds the error "#REF!"; ${advice}` },
      { row: 4, column: 'amount', problem: `the cell holds the error "Err:502"; ${advice}` },
    ]);
  });

  test('has no sheets to choose from', async () => {
    const { message } = await refusalOf(readFixture('plain.csv', 'Credits'));
    expect(message).toContain('plain.csv has no sheets to choose from');
  });

  test(
    'is read in chunks that may end anywhere, even between CR and LF or inside a character',
    { tags: 'full' },
    async () => {
      const file = join(temporaryFolder(), 'long.csv');
      const record = '7,"é東😀 ""x""\r\ny"\r\n';
      // With this length, each chunk ends at another byte of the record.
      const records = 130_000;
      writeFileSync(file, `a,b\r\n${record.repeat(records)}`);
      const sheet = await readSheet(file, { signal: new AbortController().signal });
      expect(sheet.problems).toEqual([]);
      expect(sheet.rows).toHaveLength(records);
      expect(new Set([...sheet.rows].map(({ cells }) => cells[1]?.text))).toEqual(new Set(['é東😀 "x"\r\ny']));
      expect([...sheet.rows].at(-1)?.row).toBe(records + 1);
    },
  );

  test('is refused if a cell is too long', async () => {
    const file = join(temporaryFolder(), 'long-cell.csv');
    writeFileSync(file, `a,b\n1,${'x'.repeat(32_768)}\n`);
    const { message } = await refusalOf(readSheet(file, { signal: new AbortController().signal }));
    expect(message).toContain('a cell of row 2 has more than 32767 characters');
  });
});

describe('JSON lines', () => {
  test('have their names as columns, in any order, and their lines as rows', async () => {
    const sheet = await readFixture('plain.jsonl');
    expect(sheet.columns).toEqual(['user_id', 'type', 'amount']);
    expect(grid(sheet)).toEqual([
      [1, '1', 'add', '5.50'],
      [2, '2', 'add', '6.00'],
    ]);
    expect(column(sheet, 'amount')).toEqual(['number 5.50', 'text 6.00']);
  });

  test('keep every digit of a number', async () => {
    expect(column(await readFixture('numbers.jsonl'), 'amount')).toEqual([
      'number 0.30000000000000004',
      'number 1E+05',
      'number 1234.56',
    ]);
  });

  test('may hold booleans and nulls, and lists and objects as their JSON', async () => {
    const sheet = await readFixture('values.jsonl');
    expect(sheet.columns).toEqual(['user_id', 'a', 'b', 'c', 'd', 'e']);
    expect(grid(sheet)).toEqual([
      [1, '1', 'true', '', '{"x":[1,"y, \\"z\\""]}', 'é', ''],
      [4, '2', '', '', '', '', 'false'],
    ]);
    expect([...sheet.rows][0]?.cells.map(({ kind }) => kind)).toEqual([
      'number',
      'boolean',
      'empty',
      'text',
      'text',
      'empty',
    ]);
  });

  test('report a name that occurs twice in a line', async () => {
    const { problems } = await readFixture('repeated-name.jsonl');
    const problem = 'a name is there more than once; keep one of them';
    expect(problems).toEqual([1, 3].map((row) => ({ row, column: null, problem })));
  });
});
