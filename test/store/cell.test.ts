import { describe, expect, test } from 'vitest';
import type { Field, FieldType } from '../../src/model/resources.ts';
import { cellOf, jsonText } from '../../src/store/cell.ts';

function convert(type: FieldType, value: unknown, nullable = false) {
  const field: Field = { name: 'field', type, nullable, note: '' };
  return cellOf(field)(value);
}

describe('a value of the expected type', () => {
  test.each([
    ['integer', 12, 12n],
    ['flag', 1, 1n],
    ['number', 12.5, 12.5],
    ['number', 12, 12n],
    ['string', '007', '007'],
    ['timestamp', '2026-03-11T10:00:00.000000Z', '2026-03-11T10:00:00.000000Z'],
    ['object', { a: [1] }, '{"a":[1]}'],
    ['strings', ['a', 'b'], '["a","b"]'],
    ['any', 'text', 'text'],
    ['any', { a: 1 }, '{"a":1}'],
    ['any', 5, 5n],
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
    ['number', '5', 5n],
    ['number', '-0.10', -0.1],
  ] as const)('is converted where nothing is lost: %s %j', (type, value, cell) => {
    expect(convert(type, value)).toEqual({ cell });
  });

  test.each([
    ['integer', '007', '007', 'string'],
    ['integer', '12.0', '12.0', 'string'],
    ['integer', 1.5, 1.5, 'number'],
    ['integer', 'many', 'many', 'string'],
    ['number', '1e3', '1e3', 'string'],
    ['number', '0.30000000000000004', '0.30000000000000004', 'string'],
    ['number', '12345678901234567.89', '12345678901234567.89', 'string'],
    ['number', { amount: 5 }, '{"amount":5}', 'object'],
    ['string', 5, 5n, 'number'],
    ['string', ['a'], '["a"]', 'array'],
    ['timestamp', 1_700_000_000, 1_700_000_000n, 'number'],
    ['object', 'text', 'text', 'string'],
  ] as const)('is kept as it came and reported where something would be: %s %j', (type, value, cell, odd) => {
    expect(convert(type, value)).toEqual({ cell, odd });
  });
});

test('null is reported only where the reference does not allow it', () => {
  expect(convert('string', null, true)).toEqual({ cell: null });
  expect(convert('string', null)).toEqual({ cell: null, odd: 'null' });
});

test('an integer beyond 2^53 keeps its digits, in a column and inside JSON', () => {
  expect(convert('integer', 9007199254740993n)).toEqual({ cell: 9007199254740993n });
  expect(jsonText({ big: 123456789012345678901234567890n })).toBe('{"big":123456789012345678901234567890}');
});
