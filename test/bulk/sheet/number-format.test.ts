import { expect, test } from 'vitest';
import { builtInFormat, numberFormat } from '../../../src/bulk/sheet/xlsx/number-format.ts';

const kinds = (code: string, ...values: number[]) => values.map((value) => numberFormat(code).kindOf(value));

test.each([
  ['General', 'number'],
  ['0', 'number'],
  ['@', 'number'],
  ['0.00', 'formatted'],
  ['#,##0.00', 'formatted'],
  ['#,##0.00\\ "€"', 'formatted'],
  ['#,##0.00 "dollars"', 'formatted'],
  ['_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-', 'formatted'],
  ['_(* #,##0.00_);_(* (#,##0.00);_(* "-"??_);_(@_)', 'formatted'],
  ['0.00%', 'percent'],
  ['dd/mm/yyyy', 'date'],
  ['[h]:mm', 'date'],
  // What is shown is another number, or none.
  ['#,##0,', 'altered'],
  ['0.0,,"M"', 'altered'],
  ['0"k"', 'altered'],
  ['"-"0', 'altered'],
  ['(0)', 'altered'],
  ['0.00"0"', 'altered'],
  ['0\\0', 'altered'],
  ['000-00', 'altered'],
  ['"paid"', 'altered'],
  [';;;', 'altered'],
  ['[>100]0.00;0', 'altered'],
  ['0".00"', 'altered'],
  ['0\\ 00', 'altered'],
  ['−0', 'altered'],
  ['0.00E+00', 'altered'],
  ['# ?/?', 'altered'],
  ['0"%"', 'altered'],
  ['0.00 "T€"', 'altered'],
  ['0"⟩5⟨"', 'altered'],
  ['#\\ ##0.00', 'formatted'],
  ["#'##0.00", 'formatted'],
])('the format %s shows 5 as %s', (code, kind) => {
  expect(kinds(code, 5)).toEqual([kind]);
});

test('each sign has its own section, and a loss must look like one', () => {
  expect(kinds('0;0', 5, -5)).toEqual(['number', 'altered']);
  expect(kinds('0.00;-0.00', 5, -5)).toEqual(['formatted', 'formatted']);
  expect(kinds('0.00;[Red]0.00', 5, -5)).toEqual(['formatted', 'formatted']);
  expect(kinds('0.00;(0.00)', -5)).toEqual(['formatted']);
  expect(kinds('0.00;', 5, -5)).toEqual(['formatted', 'altered']);
  expect(kinds('0.00;-0.00;;', 5, 0)).toEqual(['formatted', 'altered']);
});

test('a format may hide texts, or add to them', () => {
  expect(
    [';;;', '0;0;0;', '0;0;0;@', '0.00', '0;;', '@"x"', '0;0;0;"Mr "@', '@'].map(
      (code) => numberFormat(code).altersText,
    ),
  ).toEqual([true, true, false, false, false, true, true, false]);
});

test.each([
  ['0', 12.5],
  ['#,##0', 12.5],
  ['0.0', 7.25],
  ['0.0E+00', 125],
  ['# ?/?', 0.3],
])('a format that rounds the number shows another one: %s of %d', (code, value) => {
  expect(kinds(code, value)).toEqual(['altered']);
});

test('a zero may be shown as a dash, as in accounts', () => {
  expect(kinds('_(* #,##0.00_);_(* (#,##0.00);_(* "-"??_);_(@_)', 0, 5, -5)).toEqual([
    'formatted',
    'formatted',
    'formatted',
  ]);
});

test.each([
  [0, 12.5, 'number'],
  [1, 12.5, 'altered'],
  [2, 12.5, 'formatted'],
  [4, 1234.56, 'formatted'],
  [10, 0.5, 'percent'],
  [14, 46092, 'date'],
  [44, 5, 'formatted'],
])('the format %d, which no file describes, shows %d as %s', (id, value, kind) => {
  expect(builtInFormat(id).kindOf(value)).toBe(kind);
});

test('a zero is not shown by #, and the cell looks empty', () => {
  expect([...kinds('#', 0, 5), ...kinds('#,###', 0), ...kinds('#,##0', 0)]).toEqual([
    'altered',
    'number',
    'altered',
    'formatted',
  ]);
});
