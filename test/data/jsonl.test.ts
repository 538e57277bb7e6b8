import { describe, expect, test } from 'vitest';
import { distinctColumns } from '../../src/data/column-type.ts';
import { jsonLines } from '../../src/data/text-lines.ts';
import type { Cell, ResultColumn } from '../../src/store/reading-types.ts';

function column(name: string, table: string | null = null, origin: string | null = null): ResultColumn {
  return { name, table, origin };
}

function line(columns: readonly ResultColumn[], row: readonly Cell[]): string {
  return jsonLines(columns)([row]);
}

describe('a JSON line', () => {
  test('has exact numbers, null as null and text as text', () => {
    const columns = ['a', 'b', 'c', 'd'].map((name) => column(name));
    expect(line(columns, [9007199254740993n, 0.1, null, 'x "y"\n'])).toBe(
      '{"a":9007199254740993,"b":0.1,"c":null,"d":"x \\"y\\"\\n"}\n',
    );
  });

  test('has stored objects and arrays as JSON, with all digits', () => {
    const columns = [column('data', 'packages', 'data'), column('which', 'coupons', 'applicable_products')];
    expect(line(columns, ['{"n":12345678901234567890}', '["a","b"]'])).toBe(
      '{"data":{"n":12345678901234567890},"which":["a","b"]}\n',
    );
  });

  test('has multi-line JSON on one line', () => {
    const text = line([column('_extra', 'users', '_extra')], ['{\n  "a": "x\\ny"\r\n}']);
    expect(text.trimEnd()).not.toMatch(/[\n\r]/);
    expect(JSON.parse(text)).toEqual({ _extra: { a: 'x\ny' } });
  });

  test.each([
    ['text that is no JSON', column('data', 'packages', 'data'), '{broken'],
    ['a scalar in a column of no fixed type', column('avatar', 'users', 'avatar'), '12'],
    ['what looks like JSON in a column of text', column('subject', 'emails', 'subject'), '[1]'],
    ['a computed column', column('x'), '{"a":1}'],
    ['a table of another program', column('data', 'other', 'data'), '{"a":1}'],
  ])('leaves %s as text', (_, each, text) => {
    expect(JSON.parse(line([each], [text]))).toEqual({ [each.name]: text });
  });

  test('has a valid number for infinity, and bytes as hexadecimal', () => {
    expect(JSON.parse(line([column('a'), column('b')], [-Infinity, Uint8Array.of(0, 255)]))).toEqual({
      a: -Infinity,
      b: '00ff',
    });
  });
});

test('two columns of the same name are refused, because an object can hold only one', () => {
  expect(() => distinctColumns([column('id'), column('name'), column('id')])).toThrow('two columns are called "id"');
});
