import * as fc from 'fast-check';
import { Big } from 'big.js';
import { describe, expect, test } from 'vitest';
import { amountOf, type DecimalMark, markQuestion } from '../../../src/bulk/sheet/amount.ts';
import { textCell } from '../../../src/bulk/sheet/rows.ts';
import type { SheetCell } from '../../../src/bulk/sheet/sheet.ts';
import { readFixture } from './fixture.ts';

const read = (text: string, mark: DecimalMark = null, decimals = 2): string => {
  const amount = amountOf(textCell(text), { decimals, mark });
  return typeof amount === 'string' ? amount : `= ${amount.toFixed()}`;
};
const ambiguous = 'is ambiguous';

describe('An amount', () => {
  test.each([
    ['1234.56', '= 1234.56'],
    ['5', '= 5'],
    ['0.30', '= 0.3'],
    ['-5.00', '= -5'],
    ['007', '= 7'],
    ['\u00a07.00\u00a0', '= 7'],
    ['0', '= 0'],
    ['1234567890123.45', '= 1234567890123.45'],
    ['0.30000000000000004', 'has 17 decimal places; at most 2 are allowed'],
    ['1.234', 'has 3 decimal places'],
    ['12345678901234.56', 'has more than 15 significant digits'],
    ['1E+05', 'is in scientific notation'],
    ['-12.55e-10', 'is in scientific notation'],
    ['+1,5E5', 'is in scientific notation'],
    ['1e5x', 'is not an amount'],
    ['1,234.56', ambiguous],
    ['1.234,56', ambiguous],
    ['5,00', ambiguous],
    ['1.234.567', ambiguous],
    ['€5', 'has a currency sign'],
    ['25%', 'is a percentage'],
    ['+5', 'has a plus sign'],
    ['\u22125', 'begins with a dash that is not a minus sign'],
    ['５.００', 'has digits other than 0 to 9'],
    ['(5.00)', 'is not an amount'],
    ['5 000', 'is not an amount'],
    ['5\u00a0000', '"5\\u{a0}000" is not an amount'],
    ['.5', 'is not an amount'],
    ['5.', 'is not an amount'],
    ['5\u22123', 'is not an amount'],
    ['', 'the cell is empty; an amount is needed'],
    ['#N/A', 'the cell holds the error "#N/A"'],
    ['1'.repeat(101), 'is not an amount'],
    ['1'.repeat(30_000), 'is not an amount'],
  ])('in text: %j', (text, outcome) => {
    expect(read(text)).toContain(outcome);
  });

  test.each([
    ['1,234.56', 'point', '= 1234.56'],
    ['1234.56', 'point', '= 1234.56'],
    ['1,23', 'point', 'is not a number whose decimals follow a point'],
    ['1.234,56', 'point', 'is not a number whose decimals follow a point'],
    ['1,2345.00', 'point', 'is not a number whose decimals follow a point'],
    ['1.234,56', 'comma', '= 1234.56'],
    ['1234,56', 'comma', '= 1234.56'],
    ['5,00', 'comma', '= 5'],
    ['1.234', 'comma', '= 1234'],
    ['0.500', 'comma', 'is not a number whose decimals follow a comma'],
    ['-0,500', 'point', 'is not a number whose decimals follow a point'],
    ['1,234.56', 'comma', 'is not a number whose decimals follow a comma'],
    ['-1.234,5', 'comma', '= -1234.5'],
    ['1,234.567', 'point', 'has 3 decimal places'],
    ['five', 'comma', 'is not an amount'],
  ] as const)('in text with a given decimal mark: %j with %s', (text, mark, outcome) => {
    expect(read(text, mark)).toContain(outcome);
  });

  test('has as many decimals as allowed, and no more', () => {
    expect(read('1.234', null, 3)).toBe('= 1.234');
    expect(read('1.2', null, 0)).toContain('has 1 decimal places; at most 0 are allowed');
  });

  test('in a number cell is read as it is stored, whatever decimal mark is given for text', async () => {
    const options = { decimals: 2, mark: 'comma' } as const;
    const cells = [...(await readFixture('numbers.xlsx')).rows].map(({ cells }) => cells[1] as SheetCell);
    expect(
      cells.map((cell) => amountOf(cell, options)).map((each) => (typeof each === 'string' ? each : each.toFixed())),
    ).toEqual([
      '1234.56',
      '0.58',
      '"0.0796" has 4 decimal places; at most 2 are allowed',
      '"0.30000000000000004" has 17 decimal places; at most 2 are allowed',
      '100000',
      '"1234567890123456" has more than 15 significant digits',
    ]);
  });

  test.each([
    ['formats.xlsx', 3, '"46092.5" is formatted as a percentage; write the amount itself, formatted as a number'],
    ['formats.xlsx', 5, '"46092.5" is formatted as a date; format the cell as a number'],
    ['truth-values.xlsx', 2, '"true" is a truth value, not an amount'],
    ['formulas.xlsx', 3, 'the formula "=A9*2" has no stored value'],
  ])('is not taken from a cell that means something else: %s, row %i', async (name, row, problem) => {
    const cell = [...(await readFixture(name)).rows].find((each) => each.row === row)?.cells[1] as SheetCell;
    expect(amountOf(cell, { decimals: 2, mark: null })).toContain(problem);
  });

  test('of up to 15 digits is read exactly, however it is written', () => {
    const amounts = fc.tuple(
      fc.bigInt({ min: -(10n ** 15n) + 1n, max: 10n ** 15n - 1n }),
      fc.integer({ min: 0, max: 2 }),
    );
    fc.assert(
      fc.property(amounts, ([digits, decimals]) => {
        const amount = new Big(digits.toString()).div(new Big(10).pow(decimals));
        const [whole = '', places] = amount.toFixed(decimals).split('.');
        const grouped = (separator: string): string => whole.replace(/\B(?=(\d{3})+$)/g, separator);
        const after = (mark: string): string => (places === undefined ? '' : mark + places);
        expect(read(whole + after('.'))).toBe(`= ${amount.toFixed()}`);
        expect(read(grouped(',') + after('.'), 'point')).toBe(`= ${amount.toFixed()}`);
        expect(read(grouped('.') + after(','), 'comma')).toBe(`= ${amount.toFixed()}`);
      }),
    );
  });
});

describe('The question for the decimal mark of a sheet', () => {
  const number = (raw: string): SheetCell => ({ kind: 'number', text: raw, raw });
  const question = (rows: readonly (readonly (SheetCell | string | undefined)[])[], columns = [0]) => {
    const sheet = rows.map((cells, at) => ({
      row: at + 2,
      cells: cells.map((each) => (typeof each === 'string' ? textCell(each) : each)),
    }));
    const found = markQuestion(sheet as Parameters<typeof markQuestion>[0], columns, 2);
    return found && { ...found, readings: found.readings.map(({ mark, amount }) => `${mark} ${amount.toFixed()}`) };
  };

  test('is not asked if every amount is plain or a number cell', () => {
    expect(question([])).toBeNull();
    expect(question([['5'], ['1234.56'], ['-7.00'], [number('1,5')], ['']])).toBeNull();
    expect(question([['1,50', '5']], [1])).toBeNull();
    expect(question([['5'], []], [0, 1])).toBeNull();
  });

  test('names the first ambiguous amount, its readings, and how many there are', () => {
    expect(question([['5'], ['1,234'], ['2,500']])).toEqual({
      row: 3,
      column: 0,
      text: '1,234',
      count: 2,
      readings: ['point 1234'],
    });
    expect(
      question(
        [
          ['x', '1,234.5'],
          ['y', '7'],
        ],
        [1],
      ),
    ).toEqual({
      row: 2,
      column: 1,
      text: '1,234.5',
      count: 1,
      readings: ['point 1234.5'],
    });
    expect(
      question(
        [
          ['1,500', '1,5'],
          ['8', '9'],
        ],
        [0],
      )?.readings,
    ).toEqual(['point 1500']);
  });

  test('has two readings if both marks fit all amounts', () => {
    // With three decimals allowed, the comma may be a decimal mark, too.
    const rows = [{ row: 2, cells: [textCell('1,234')] }];
    expect(markQuestion(rows, [0], 3)?.readings.map(({ mark }) => mark)).toEqual(['comma', 'point']);
  });

  test('offers only marks that fit all amounts', () => {
    expect(question([['1,50'], ['1.234']])?.readings).toEqual(['comma 1.5']);
    expect(question([['1.234.567'], ['1.50']])).toBeNull();
    expect(question([['0,500']])).toBeNull();
    expect(question([['1,50'], ['0.500']])).toBeNull();
    expect(question([['1,234,567', '2,50']], [0, 1])).toBeNull();
    expect(question([['1,50', '1,234,567']], [0, 1])).toBeNull();
  });

  test('ignores cells that hold something else', () => {
    expect(question([['€1,50'], ['see above, please'], ['1,50']])).toMatchObject({ row: 4, count: 1 });
  });
});
