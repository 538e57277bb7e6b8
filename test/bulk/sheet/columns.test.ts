import { describe, expect, test } from 'vitest';
import { type ColumnRule, columnsOf } from '../../../src/bulk/row-reader.ts';
import { readFixture } from './fixture.ts';

const known: readonly ColumnRule[] = [
  { name: 'user_id', required: false, oneOf: 'key' },
  { name: 'email', required: false, oneOf: 'key' },
  { name: 'username', required: false, oneOf: 'key' },
  { name: 'type', required: true },
  { name: 'amount', required: true },
  { name: 'description', required: false },
];

describe('The columns of a sheet', () => {
  test('are found by their headers', async () => {
    const { index, problems } = columnsOf(await readFixture('plain.csv'), known);
    expect([...index]).toEqual([
      ['user_id', 0],
      ['type', 1],
      ['amount', 2],
    ]);
    expect(problems).toEqual([]);
  });

  test.each([
    ['unknown-header.csv', 'ammount', 'unknown column "ammount". Did you mean "amount"?'],
    ['unknown-header.csv', null, 'the column "amount" is missing'],
    ['repeated-header.csv', 'Amount', 'the column "Amount" is there more than once; keep one of them'],
    ['empty-header.csv', null, 'column C has cells but no header; name it or empty it'],
    [
      'several-keys.csv',
      null,
      'the columns "user_id", "email" are all there, and each could be meant; keep one of them',
    ],
    ['no-key.csv', null, 'one of the columns "user_id", "email", "username" is needed, and none is there'],
  ])('are refused in row 1 if they are unclear: %s', async (name, column, problem) => {
    expect(columnsOf(await readFixture(name), known).problems).toContainEqual({ row: 1, column, problem });
  });
});
