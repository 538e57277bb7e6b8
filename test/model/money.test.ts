import { expect, test } from 'vitest';
import { parseMoney } from '../../src/model/money.ts';

test.each([
  ['12.50', '12.50'],
  [' 12.5 ', '12.5'],
  ['+7', '7'],
  ['.50', '0.50'],
  ['3.', '3'],
  ['-0.01', '-0.01'],
  ['0012', '12'],
  ['123456789012.34', '123456789012.34'],
])('%j is the amount %s', (text, money) => {
  expect(parseMoney(text)).toEqual({ money });
});

test.each(['', 'ten', '1,50', '1e3', '0x10', '1.234', '12345678901234.56', '1 000', 'NaN', '--1', '.'])(
  '%j is refused with the reason',
  (text) => {
    expect(parseMoney(text)).toHaveProperty('problem', expect.stringContaining(`"${text}"`));
  },
);

test('places can be allowed or forbidden', () => {
  expect(parseMoney('1.234', 3)).toEqual({ money: '1.234' });
  expect(parseMoney('1.5', 0)).toHaveProperty('problem', '"1.5" has 1 decimal places; at most 0 are allowed');
});
