/** Files of other programs, and a comparison with another reader. */
import { readSheet as judge } from 'read-excel-file/node';
import { expect, test } from 'vitest';
import { column, fixture, grid, readFixture } from './fixture.ts';

test('A workbook of LibreOffice is read, with its percentages, dates, errors and truth values', async () => {
  const sheet = await readFixture('others/libreoffice.xlsx');
  expect(sheet.sheet).toBe('Crédits');
  expect([...sheet.rows].map(({ row }) => row)).toEqual([2, 3, 4, 6, 7, 8, 9, 10]);
  expect(column(sheet, 'amount')).toEqual([
    'number 1234.56',
    'number 0.58',
    'number 0.3',
    'percent 0.25',
    'date 46092',
    'error #N/A',
    'boolean true',
    'text 1.234,56',
  ]);
  expect([...sheet.rows][0]?.cells[2]?.text).toBe('for the outage, 3 < 5\nsecond line 東京');
  expect(sheet.problems.map(({ row, column }) => [row, column])).toEqual([[8, 'amount']]);
  expect((await readFixture('others/libreoffice.xlsx', 'Last year')).notes).toEqual([
    'the sheet "Last year" is hidden',
  ]);
});

test('CSV of LibreOffice is read, with a cell of two lines', async () => {
  const sheet = await readFixture('others/libreoffice.csv');
  expect(sheet.delimiter).toBe(';');
  expect(grid(sheet).slice(0, 2)).toEqual([
    [2, '1', '1234.56', 'for the outage, 3 < 5\nsecond line 東京'],
    [3, '2', '0.58', ''],
  ]);
  expect(sheet.problems.map(({ row, column }) => [row, column])).toEqual([[8, 'amount']]);
});

test.each(['openpyxl', 'xlsxwriter'])(
  'A workbook of %s is read, but its formulas have no stored values',
  async (name) => {
    const sheet = await readFixture(`others/${name}.xlsx`);
    expect(column(sheet, 'amount').slice(0, 3)).toEqual(['number 1234.56', 'number 0.58', 'error ']);
    expect(sheet.problems.map(({ row, column }) => [row, column])).toEqual([[4, 'amount']]);
  },
);

test.each(['plain', 'blank-rows', 'truth-values', 'amounts-as-text', 'prefixed-names'])(
  'Another reader finds the same cells: %s',
  async (name) => {
    const sheet = await readFixture(`${name}.xlsx`);
    const judged = await judge(fixture(`${name}.xlsx`), { parseNumber: String, trim: false });
    const textOf = (cell: unknown): string => {
      if (typeof cell === 'string') return cell.trim();
      return cell === null ? '' : JSON.stringify(cell);
    };
    for (const { row, cells } of sheet.rows) {
      expect((judged[row - 1] ?? []).map(textOf)).toEqual(cells.map(({ text }) => text));
    }
    expect(sheet.rows.length).toBeGreaterThan(0);
  },
);

const others = (name: string) => readFixture(`others/${name}`);

test.each(['java-numbers', 'java-large-ids'])('Whole numbers as Java stores them are written out: %s', async (name) => {
  const [first, second] = grid(await others(`${name}.xlsx`));
  const ids = name === 'java-numbers' ? ['5', '6'] : ['12345678', '12345679'];
  expect([first, second]).toEqual([
    [2, ids[0], 'add', '5', 'bonus'],
    [3, ids[1], 'add', '12.5', 'bonus'],
  ]);
});

test.each(['backslash-names', 'no-shared-texts'])('A workbook that Excel opens is read: %s', async (name) => {
  const sheet = await others(`${name}.xlsx`);
  expect(grid(sheet)).toEqual([[2, '5', 'add', '5', 'bonus']]);
  expect([sheet.notes, sheet.problems]).toEqual([[], []]);
});

test.each(['sep-line-in-quotes', 'sep-line-filled'])('A line with the separator is understood: %s', async (name) => {
  expect(grid(await others(`${name}.csv`))).toEqual([[2, '5', 'add', '5', 'x']]);
});

test('A number that is shown as another one is not read as the stored one', async () => {
  expect(column(await others('shown-in-thousands.xlsx'), 'amount')).toEqual(['altered 5000', 'altered 5000000']);
  expect(column(await others('padded-name.xlsx'), 'username')).toEqual(['formatted 7']);
});

test('CSV that is not UTF-8 is read as Windows-1252, with a note that shows what to check', async () => {
  const sheet = await readFixture('latin-1.csv');
  expect(grid(sheet)).toEqual([
    [2, 'anna', 'add', '5.00'],
    [3, 'josé', 'add', '5.00'],
  ]);
  expect(sheet.notes).toEqual([
    'the file is not UTF-8 and was read as Windows-1252; check that these are right: "josé"',
  ]);
});
