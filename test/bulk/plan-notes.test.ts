import { describe, expect, test } from 'vitest';
import { sizeNotes, userNotes } from '../../src/bulk/plan-rows.ts';

function noted(...changes: string[]): [row: number, notes: string[]][] {
  return [...sizeNotes(new Map(changes.map((change, at) => [at + 2, change])))];
}

describe('The size of a change', () => {
  test('is noted for the five largest only, and for none if all are equal', () => {
    const largest = (row: number) => [row, ['one of the largest changes']];
    expect(noted('5', '-5', '5.00')).toEqual([]);
    expect(noted('7')).toEqual([]);
    expect(noted()).toEqual([]);
    const nine = noted('1', '9', '2', '-8', '3', '7', '4', '6', '5', '0');
    expect(nine).toEqual([[3, ['the largest change']], ...[5, 7, 9].map(largest)]);
    const many = Array.from({ length: 30 }, (_, at) => String(at < 20 ? 1 : 2));
    expect(noted(...many).map(([row]) => row)).toEqual([22, 23, 24, 25, 26]);
  });

  test('is noted for all that are more than ten times the median, whatever their sign', () => {
    expect(noted('1', '1', '1', '10', '-10.01')).toEqual([
      [6, ['the largest change', 'more than 10 times the median of 1.00']],
      [5, ['one of the largest changes']],
    ]);
    expect(noted('0.10', '0.20', '1.01')[0]?.[1]).not.toContain('more than 10 times the median of 0.20');
    // Works for two rows, too.
    expect(noted('2.50', '30')).toEqual([[3, ['the largest change', 'more than 10 times the median of 2.50']]]);
    const far = Array.from({ length: 40 }, (_, at) => (at < 30 ? '1' : '99'));
    expect(noted(...far)).toHaveLength(10);
  });
});

describe('A user', () => {
  test.each([
    [{ status: 'active', email_verified_at: '2026-01-01T00:00:00.000000Z' }, []],
    [{ status: undefined, email_verified_at: undefined }, []],
    [
      { status: 'suspended', email_verified_at: null },
      ['the status of the user is "suspended"', 'the email is not verified'],
    ],
    [{ status: 'a\u001B[2Jb' }, ['the status of the user is "a\\u{1b}[2Jb"']],
  ])('with %j gets the notes %j', (fields, notes) => {
    expect(userNotes({ fields })).toEqual(notes);
  });
});
