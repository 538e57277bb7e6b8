import { expect, test } from 'vitest';
import { numberFormat } from '../../../src/bulk/sheet/xlsx/number-format.ts';

const kinds = (code: string, ...values: number[]) => values.map((value) => numberFormat(code).kindOf(value));

test.each([
  ['General', 'number'],
  ['0', 'number'],
  ['@', 'number'],
  ['0.00', 'formatted'],
  ['#,##0.00', 'formatted'],
  ['000', 'formatted'],
  ['#,##0.00\\ "€"', 'formatted'],
  ['[$€-407]\\ #,##0.00', 'formatted'],
  ['#,##0.00 "dollars"', 'formatted'],
  ['_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-', 'formatted'],
  ['_(* #,##0.00_);_(* (#,##0.00);_(* "-"??_);_(@_)', 'formatted'],
  ['0.00E+00', 'formatted'],
  ['0.00%', 'percent'],
  ['dd/mm/yyyy', 'date'],
  ['[h]:mm', 'date'],
  // What is shown is another number, or none.
  ['#,##0,', 'altered'],
  ['0.0,,"M"', 'altered'],
  ['0"k"', 'altered'],
  ['"-"0', 'altered'],
  ['\\-0', 'altered'],
  ['(0)', 'altered'],
  ['0.00"0"', 'altered'],
  ['"1"0', 'altered'],
  ['0\\0', 'altered'],
  ['000-00', 'altered'],
  ['"paid"', 'altered'],
  [';;;', 'altered'],
  ['""', 'altered'],
  ['[>100]0.00;0', 'altered'],
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

test('a format may hide texts', () => {
  expect([';;;', '0;0;0;', '0;0;0;@', '0.00', '0;;'].map((code) => numberFormat(code).hidesText)).toEqual([
    true,
    true,
    false,
    false,
    false,
  ]);
});
