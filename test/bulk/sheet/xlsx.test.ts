import { describe, expect, test } from 'vitest';
import { column, grid, readFixture, refusalOf } from './fixture.ts';

const plain = [
  [2, '1', 'add', '5'],
  [3, '2', 'add', '2.5'],
];
const noValue =
  'has no stored value, or an outdated one; open the file in a spreadsheet program and save it there, or write the value itself';

describe('A workbook', () => {
  test('is read with the name of its sheet', async () => {
    const sheet = await readFixture('plain.xlsx');
    expect(grid(sheet)).toEqual(plain);
    expect(sheet).toMatchObject({ format: 'xlsx', sheet: 'Credits', delimiter: null, notes: [], problems: [] });
  });

  test('is read from its first visible sheet, and reports hidden ones before it', async () => {
    const sheet = await readFixture('hidden-first-sheet.xlsx');
    expect(sheet.sheet).toBe('Credits & more');
    expect(grid(sheet)).toEqual(plain);
    expect(sheet.notes).toEqual([
      'hidden sheets before it were skipped: "Old", "Older"',
      'other sheets were not read: "Notes"; `--sheet` names the one to read',
    ]);
  });

  test('is read from the named sheet, in any case, and reports if that is hidden', async () => {
    expect((await readFixture('hidden-first-sheet.xlsx', 'notes')).columns).toEqual(['note']);
    const hidden = await readFixture('hidden-first-sheet.xlsx', 'Old');
    expect(grid(hidden)).toEqual([[2, '1', 'add', '999']]);
    expect(hidden.notes).toEqual(['the sheet "Old" is hidden']);
  });

  test('is refused without the named sheet, with the nearest name suggested', async () => {
    const { message, advice } = await refusalOf(readFixture('hidden-first-sheet.xlsx', 'Note'));
    expect(message).toContain('hidden-first-sheet.xlsx has no sheet "Note"');
    expect(advice).toBe('Did you mean "Notes"?');
  });

  test('has its texts joined from runs and unescaped, without phonetic readings', async () => {
    const sheet = await readFixture('shared-texts.xlsx');
    expect(sheet.columns).toEqual(['username', 'description']);
    expect(grid(sheet)).toEqual([[2, '東京', 'a\r\nb & 😀 _x0041_ <c>']]);
  });

  test('has numbers read as they were typed, even if Excel stored the nearest double', async () => {
    const sheet = await readFixture('numbers.xlsx');
    expect([...sheet.rows].map(({ cells }) => [cells[1]?.raw, cells[1]?.text])).toEqual([
      ['1234.56', '1234.56'],
      ['0.57999999999999996', '0.58'],
      ['7.9600000000000004E-2', '0.0796'],
      ['0.30000000000000004', '0.30000000000000004'],
      ['1E+05', '100000'],
      ['1234567890123456', '1234567890123456'],
    ]);
  });

  test('has formulas read by their stored values, and reports those without', async () => {
    const sheet = await readFixture('formulas.xlsx');
    expect(column(sheet, 'amount')).toEqual(['number 3', 'error ', 'error ', 'number 7.5', 'text 12', 'empty ']);
    expect(sheet.problems).toEqual([
      { row: 3, column: 'amount', problem: `the formula "=A9*2" ${noValue}` },
      { row: 4, column: 'amount', problem: `the formula "=A9*2" ${noValue}` },
    ]);
  });

  test('of a program that does not calculate has its formula values ignored', async () => {
    const sheet = await readFixture('formulas-not-calculated.xlsx');
    expect(column(sheet, 'amount')).toEqual(['error ', 'number 4']);
    expect(sheet.problems).toEqual([{ row: 2, column: 'amount', problem: `the formula "=1+2" ${noValue}` }]);
  });

  test('reports cells with errors, even if pasted as text', async () => {
    const { problems } = await readFixture('error-cells.xlsx');
    const advice = 'correct its formula, or write the value itself';
    expect(problems).toEqual([
      { row: 2, column: 'amount', problem: `the cell holds the error "#N/A"; ${advice}` },
      { row: 3, column: 'amount', problem: `the cell holds the error "#DIV/0!"; ${advice}` },
      { row: 4, column: 'title', problem: `the cell holds the error "#REF!"; ${advice}` },
    ]);
  });

  test('has percentages and dates recognised by their format', async () => {
    expect(column(await readFixture('formats.xlsx'), 'amount')).toEqual([
      'number 46092.5',
      'percent 46092.5',
      'percent 46092.5',
      'date 46092.5',
      'date 46092.5',
      'formatted 46092.5',
      'formatted 46092.5',
      'date 46092.5',
      'formatted 46092.5',
      'number 46092.5',
    ]);
  });

  test('may hold booleans', async () => {
    expect(column(await readFixture('truth-values.xlsx'), 'amount')).toEqual(['boolean true', 'boolean false']);
  });

  test('keeps the numbers of its rows', async () => {
    const sheet = await readFixture('blank-rows.xlsx');
    expect([...sheet.rows].map(({ row }) => row)).toEqual([2, 9]);
  });

  test('has hidden rows read, with a note', async () => {
    const sheet = await readFixture('hidden-rows.xlsx');
    expect(grid(sheet)).toEqual(plain);
    expect(sheet.notes).toEqual(['1 row is hidden in the sheet, and read like the others; the first is row 2']);
  });

  test('reports a cell without a header, however far away', async () => {
    const sheet = await readFixture('cell-without-header.xlsx');
    expect(sheet.problems).toEqual([{ row: 2, column: null, problem: 'column XFD holds "6" but has no header' }]);
    expect([...sheet.rows].at(-1)?.row).toBe(1_048_576);
  });

  test.each(['without-references.xlsx', 'prefixed-names.xlsx'])(
    'is read in less common forms, too: %s',
    async (name) => {
      expect(grid(await readFixture(name))).toEqual(plain);
    },
  );
});
