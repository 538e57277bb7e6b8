import SqliteDatabase from 'better-sqlite3';
import { assert, bigInt, double, jsonValue, object, oneof, property, record, string } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { resourceOf } from '../../src/model/resources.ts';
import { cellOf, type Cell } from '../../src/mirror/cell.ts';
import { recordRows } from '../../src/mirror/rows.ts';
import { cellIn, eachRow } from '../../src/mirror/store/upsert.ts';

const int64 = bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const { fields } = resourceOf('users');

/** Any value that a response may have for a field. */
const served = oneof(
  jsonValue(),
  string({ unit: 'binary' }),
  double({ noNaN: true, noDefaultInfinity: true }),
  int64,
  object({ maxDepth: 2 }),
);

interface Stored {
  readonly type: string;
  readonly value: unknown;
}

function storing() {
  const database = new SqliteDatabase(':memory:').defaultSafeIntegers();
  const bound = database.prepare<[Cell], Stored>(
    'WITH cell AS (SELECT ? AS value) SELECT typeof(value) AS type, value FROM cell',
  );
  return { database, bound };
}

describe('rows in JSON are read as the cells that they were made from', () => {
  test('for any value of a field', () => {
    const { bound, database } = storing();
    const read = database.prepare<[Uint8Array], Record<string, unknown>>(
      `SELECT ${fields.map(({ name }, index) => `typeof(${cellIn(name)}) AS t${index}, ${cellIn(name)} AS v${index}`).join(', ')},
       ${cellIn('_extra')} AS extra FROM ${eachRow}`,
    );
    const shape = Object.fromEntries(fields.slice(1).map(({ name }) => [name, served]));
    assert(
      property(record(shape), (values) => {
        const { json } = recordRows('users', [{ id: 1, ...values }]);
        const row = read.get(json);
        for (const [index, field] of fields.entries()) {
          if (field.name === 'id') continue;
          const value = (values as Record<string, unknown>)[field.name];
          const { cell, stray } = cellOf(field)(value);
          const stored = bound.get(cell);
          const [type, found] = [row?.[`t${index}`], row?.[`v${index}`]];
          // A REAL column stores a whole number as a floating-point number.
          const real = field.type === 'number' && typeof found === 'bigint';
          expect(real ? { type: 'real', value: Number(found) } : { type, value: found }).toEqual(stored);
          const extra = row?.['extra'] as string | null | undefined;
          expect(Object.hasOwn(JSON.parse(extra ?? '{}') as object, field.name)).toBe(stray === true);
        }
      }),
      { numRuns: 300 },
    );
    database.close();
  });

  test.each([
    ['a real that looks like an integer', 'balance', 1e17],
    ['the smallest real', 'balance', 5e-324],
    ['all digits of a real', 'balance', 0.1 + 0.2],
    ['a text with a zero byte', 'username', 'a\u0000b'],
    ['half a surrogate pair', 'username', 'a\ud83db'],
    ['digits as text', 'username', '007'],
  ])('%s', (_, field, value) => {
    const { bound, database } = storing();
    const read = database.prepare<[Uint8Array], Stored>(
      `SELECT typeof(${cellIn(field)}) AS type, ${cellIn(field)} AS value FROM ${eachRow}`,
    );
    expect(read.get(recordRows('users', [{ id: 1, [field]: value }]).json)).toEqual(bound.get(value));
    database.close();
  });
});

test('an oddity of a page is reported once, however many records show it', () => {
  const records = [1, 2, 3].map((id) => ({ id, username: id, colour: 'red' }));
  const { drifts, ids, unusable } = recordRows('users', [...records, { id: 'none' }]);
  expect(ids).toEqual([1, 2, 3]);
  expect(unusable).toBe(1);
  expect(drifts.filter(({ subject }) => subject === 'colour')).toHaveLength(1);
  expect(drifts.filter(({ subject }) => subject === 'username').map(({ kind }) => kind)).toContain('changed_type');
});
