import { describe, expect, test } from 'vitest';
import { problemsIn, recordIn } from '../../src/api/body.ts';
import { parseExactly, stringifyExactly } from '../../src/api/exact.ts';

describe('a number', () => {
  test('beyond double precision is kept exactly, and others stay numbers', () => {
    const text =
      '{"a":9007199254740993,"b":-12345678901234567890,"c":0.12345678901234567,"d":12.50,"e":9007199254740991}';
    const value = parseExactly(text);
    expect(value).toEqual({
      a: 9_007_199_254_740_993n,
      b: -12_345_678_901_234_567_890n,
      c: '0.12345678901234567',
      d: 12.5,
      e: 9_007_199_254_740_991,
    });
    expect(stringifyExactly({ a: 9_007_199_254_740_993n })).toBe('{"a":9007199254740993}');
  });

  test('that is a long decimal without a long part is kept, too', () => {
    expect(parseExactly('[1234567890.12345678]')).toEqual(['1234567890.12345678']);
    expect(parseExactly('[0.1000000000000000000]')).toEqual([0.1]);
  });

  test('is noticed wherever it stands', () => {
    for (let offset = 0; offset < 40; offset += 1) {
      const around = ' '.repeat(offset);
      expect(parseExactly(`${around}12345678901234567`)).toBe(12_345_678_901_234_567n);
      expect(parseExactly(`${around}123456789012345`)).toBe(123_456_789_012_345);
    }
  });
});

test('problems come from either error format, and long ones are cut', () => {
  expect(problemsIn({ success: false, errors: ['One.', 'Two.'] })).toEqual(['One.', 'Two.']);
  const fields = { message: 'The given data was invalid.', errors: { email: ['Taken.'], username: 'Short.' } };
  expect(problemsIn(fields)).toEqual(['email: Taken.', 'username: Short.']);
  expect(problemsIn({ message: 'Unauthenticated.' })).toEqual(['Unauthenticated.']);
  expect(problemsIn({ message: 'x'.repeat(9_000) })[0]).toHaveLength(500);
  for (const none of [null, 'text', 3, [], {}]) expect(problemsIn(none)).toEqual([]);
});

test('a single record is found bare, under data or under user', () => {
  const user = { id: 7 };
  for (const body of [user, { data: user }, { status: true, user }]) expect(recordIn(body)).toBe(user);
  for (const body of [null, [], {}, { data: [user] }]) expect(recordIn(body)).toBe(undefined);
});
