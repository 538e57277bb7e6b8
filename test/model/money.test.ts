import { Big } from 'big.js';
import { expect, test } from 'vitest';
import {
  changeBetween,
  changeOf,
  decimalOf,
  grossOf,
  isSameTotal,
  moneyOf,
  moneyText,
  parseMoney,
} from '../../src/model/money.ts';

test.each([
  ['12.50', '12.50'],
  [' 12.5 ', '12.5'],
  ['+7', '7'],
  ['.50', '0.50'],
  ['3.', '3'],
  ['-0.01', '-0.01'],
  ['0012', '12'],
  ['1234567890123.45', '1234567890123.45'],
  ['1200000000000000000', '1200000000000000000'],
])('%j is the amount %s', (text, money) => {
  expect(parseMoney(text)).toEqual({ money });
});

test.each(['', 'ten', '1,50', '1e3', '0x10', '1.234', '12345678901234.56', '1+2', '5+', '1 000', 'NaN', '--1', '.'])(
  '%j is refused with the reason',
  (text) => {
    expect(parseMoney(text)).toHaveProperty('problem', expect.stringContaining(`"${text}"`));
  },
);

test('more decimals can be allowed, or none', () => {
  expect(parseMoney('1.234', 3)).toEqual({ money: '1.234' });
  expect(parseMoney('1.5', 0)).toHaveProperty('problem', '"1.5" has 1 decimal places; at most 0 are allowed');
});

test.each([
  [5, '5.00'],
  [0.1, '0.10'],
  [1e21, '1000000000000000000000.00'],
  [5e-7, '0.0000005'],
  [9007199254740993n, '9007199254740993.00'],
  ['9007199254740993', '9007199254740993.00'],
  [' 5.50 ', '5.50'],
  ['-0.125', '-0.125'],
  ['12E2', '1200.00'],
  ['1.5e+10', '15000000000.00'],
  ['25e-12', '0.000000000025'],
  ['-0', '0.00'],
  ['-0.00', '0.00'],
])('%o from a server is the amount %s, to the last digit', (value, amount) => {
  expect(moneyOf(value)).toBe(amount);
});

const noAmounts: readonly unknown[] = [
  '',
  ' ',
  'ten',
  '€5',
  '5 €',
  '5.',
  '.5',
  '+5',
  '5,00',
  '1 000',
  '5e',
  '0x10',
  'NaN',
  '1e1000',
  '5\n6',
  Number.NaN,
  Infinity,
  null,
  undefined,
  true,
  {},
  [5],
];
test.each(noAmounts.map((value) => [value]))('%o from a server is not an amount', (value) => {
  expect(decimalOf(value)).toBeNull();
  expect(moneyOf(value)).toBeNull();
});

test('an amount keeps its decimals beyond two', () => {
  expect(moneyText(new Big('5'))).toBe('5.00');
  expect(moneyText(new Big('0.12345678'))).toBe('0.12345678');
  expect(moneyText(new Big('-0.001'))).toBe('-0.001');
});

test('the change between two balances is exact, or unknown if one of them is', () => {
  expect(changeBetween('0.30', '0.10')?.toFixed()).toBe('-0.2');
  expect(changeBetween('12.00', '12.00')?.toFixed()).toBe('0');
  for (const [from, to] of [
    ['5', null],
    [null, '5'],
    ['5', 'much'],
    ['a title', '5'],
    [null, null],
  ] as const) {
    expect(changeBetween(from, to)).toBeNull();
  }
});

test('the gross total adds changes without signs, and ignores rows without amounts', () => {
  const rows = [
    { plannedBefore: '0.10', plannedAfter: '0.30' },
    { plannedBefore: '5.00', plannedAfter: '4.90' },
    { plannedBefore: 'a title', plannedAfter: 'another' },
    { plannedBefore: null, plannedAfter: '9.00' },
  ];
  expect(rows.map((row) => changeOf(row)?.toFixed() ?? null)).toEqual(['0.2', '-0.1', null, null]);
  expect(grossOf(rows).toFixed()).toBe('0.3');
  expect(grossOf([]).toFixed()).toBe('0');
});

test.each([
  ['8666.4', '8666.40', true],
  ['8666.40', '8666.40', true],
  [' 8666.400 ', '8666.40', true],
  ['-5', '-5.00', true],
  ['1.00/7.5/2', '1.00 / 7.50 / 2', true],
  ['3', '3', true],
  ['8666.41', '8666.40', false],
  ['86664', '8666.40', false],
  ['5', '-5.00', false],
  ['1.00', '1.00 / 7.50 / 2', false],
  ['1.00 / 7.50 / 3', '1.00 / 7.50 / 2', false],
  ['7.50 / 1.00 / 2', '1.00 / 7.50 / 2', false],
  ['8,666.40', '8666.40', false],
  ['yes', '8666.40', false],
  ['', '8666.40', false],
])('%j counts as typing the total %s: %s', (typed, total, isSame) => {
  expect(isSameTotal(typed, total)).toBe(isSame);
});

test.each([
  [0.1 + 0.2, '0.30'],
  [0.1 + 0.7, '0.80'],
  [-0.1 - 0.2, '-0.30'],
  [99.9999999999986, '100.00'],
  [4.35 * 100, '435.00'],
  [1_000_000_000.3 + 0.1, '1000000000.40'],
  [4_000_000_000_000.1 + 0.2, '4000000000000.30'],
  [8_000_000_000_000.01, '8000000000000.01'],
  [9_000_000_000_000.303, '9000000000000.303'],
  [0.12345678, '0.12345678'],
  [123456.123456, '123456.123456'],
  [1e-7, '0.0000001'],
  [-1e-20, '0.00'],
  [90071992547409.9, '90071992547409.90'],
  [1e21, '1000000000000000000000.00'],
])('the rounding error of %f is not read: %s', (value, amount) => {
  expect(moneyOf(value)).toBe(amount);
});
