import { expect, test } from 'vitest';
import { distinctColumns } from '../../src/data/column-type.ts';
import { jsonLines } from '../../src/data/text-lines.ts';
import type { Cell, ResultColumn } from '../../src/data/reading-types.ts';

/** @param place `table.column`; without it, the column is computed */
function column(name: string, place = ''): ResultColumn {
  const [table, origin] = place.split('.');
  return { name, table: origin === undefined ? null : (table ?? null), origin: origin ?? null };
}

test.each<[what: string, place: string, cell: Cell, json: string]>([
  ['a whole number with all digits', '', 9007199254740993n, '9007199254740993'],
  ['a number', '', 0.1, '0.1'],
  ['null', '', null, 'null'],
  ['text', '', 'x "y"\n', '"x \\"y\\"\\n"'],
  ['a stored object with all digits', 'packages.data', '{"n":12345678901234567890}', '{"n":12345678901234567890}'],
  ['a stored array', 'coupons.applicable_products', '["a","b"]', '["a","b"]'],
  ['JSON of several lines on one line', 'users._extra', '{\n  "a": "x\\ny"\r\n}', '{   "a": "x\\ny" }'],
  ['text that is no JSON', 'packages.data', '{broken', '"{broken"'],
  ['a scalar in a column of no fixed type', 'users.avatar', '12', '"12"'],
  ['what looks like JSON in a column of text', 'emails.subject', '[1]', '"[1]"'],
  ['what looks like JSON in a computed column', '', '{"a":1}', '"{\\"a\\":1}"'],
  ['what looks like JSON in a table of another program', 'other.data', '{"a":1}', '"{\\"a\\":1}"'],
  ['infinity as a number too large for readers', '', -Infinity, '-1e999'],
  ['bytes as hexadecimal', '', Uint8Array.of(0, 255), '"00ff"'],
])('a JSON line has %s', (_, place, cell, json) => {
  expect(jsonLines([column('a', place), column('b')])([[cell, 1n]])).toBe(`{"a":${json},"b":1}\n`);
});

test('two columns of the same name are refused, because an object can hold only one', () => {
  expect(() => distinctColumns([column('id'), column('name'), column('id')])).toThrow('two columns are called "id"');
});
