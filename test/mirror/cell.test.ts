import { describe, expect, test } from 'vitest';
import type { Field, FieldType } from '../../src/model/resources.ts';
import { cellOf, jsonText } from '../../src/mirror/cell.ts';

function convert(type: FieldType, value: unknown, nullable = false) {
  const field: Field = { name: 'field', type, nullable, note: '' };
  return cellOf(field)(value);
}

describe('a value of the expected type', () => {
  test.each([
    ['integer', 12, 12n],
    ['flag', 1, 1n],
    ['number', 12.5, 12.5],
    ['number', 12, 12],
    ['string', '007', '007'],
    ['timestamp', '2026-03-11T10:00:00.000000Z', '2026-03-11T10:00:00.000000Z'],
    ['object', { a: [1] }, '{"a":[1]}'],
    ['strings', ['a', 'b'], '["a","b"]'],
    ['any', 'text', 'text'],
    ['any', { a: 1 }, '{"a":1}'],
    ['any', 5, '5'],
    ['any', true, 'true'],
  ] as const)('of a %s field is stored: %j', (type, value, cell) => {
    expect(convert(type, value)).toEqual({ cell });
  });
});

describe('a value of another type', () => {
  test.each([
    ['integer', '12', 12n],
    ['flag', true, 1n],
    ['flag', false, 0n],
    ['flag', '0', 0n],
    ['object', [], '{}'],
    ['number', '12.50', 12.5],
    ['number', '5', 5],
    ['integer', '12.00', 12n],
    ['number', '-0.10', -0.1],
  ] as const)('is converted if nothing is lost: %s %j', (type, value, cell) => {
    expect(convert(type, value)).toEqual({ cell });
  });

  test.each([
    ['integer', '007', 'string'],
    ['integer', '', 'string'],
    ['integer', 1.5, 'number'],
    ['integer', 1e300, 'number'],
    ['integer', 'many', 'string'],
    ['flag', [], 'array'],
    ['number', '1e3', 'string'],
    ['number', '0.30000000000000004', 'string'],
    ['number', '12345678901234567.89', 'string'],
    ['number', true, 'boolean'],
    ['number', { amount: 5 }, 'object'],
    ['string', ['a'], 'array'],
    ['string', false, 'boolean'],
    ['timestamp', 1_700_000_000, 'number'],
    ['object', 'text', 'string'],
    ['object', 5, 'number'],
    ['strings', 'text', 'string'],
  ] as const)('is left out of its column and reported if something would be lost: %s %j', (type, value, odd) => {
    expect(convert(type, value)).toEqual({ cell: null, odd, stray: true });
  });

  test.each([
    ['string', 5, '5', 'number'],
    ['string', 12.5, '12.5', 'number'],
    ['object', [1], '[1]', 'array'],
    ['strings', { 0: 'a' }, '{"0":"a"}', 'object'],
  ] as const)('is stored as equivalent text and reported: %s %j', (type, value, cell, odd) => {
    expect(convert(type, value)).toEqual({ cell, odd });
  });
});

test('null is reported only if the reference does not allow it', () => {
  expect(convert('string', null, true)).toEqual({ cell: null });
  expect(convert('string', null)).toEqual({ cell: null, odd: 'null' });
});

test('an integer beyond 2^53 keeps its digits, in a column and inside JSON', () => {
  expect(convert('integer', 9007199254740993n)).toEqual({ cell: 9007199254740993n });
  expect(convert('integer', 1e17)).toEqual({ cell: 100_000_000_000_000_000n });
  expect(convert('any', 9007199254740993n)).toEqual({ cell: '9007199254740993' });
  expect(convert('integer', 2n ** 63n)).toEqual({ cell: null, odd: 'number', stray: true });
  // A double of that size could also stand for another number.
  expect(convert('number', 2n ** 60n)).toEqual({ cell: null, odd: 'number', stray: true });
  expect(jsonText({ big: 123456789012345678901234567890n })).toBe('{"big":123456789012345678901234567890}');
});

test('half a surrogate pair becomes U+FFFD in JSON, and nothing else changes', () => {
  const text = String.raw`{"a\ud800b":["\udfff","\ud83d\ude00","\\ud800","\u0001"],"n":1}`;
  const json = jsonText(JSON.parse(text));
  expect(json).toBe(String.raw`{"a�b":["�","😀","\\ud800","\u0001"],"n":1}`);
  expect(json.isWellFormed()).toBe(true);
});
