import { describe, expect, test } from 'vitest';
import { batchCapProblem, rowCapProblem } from '../../src/journal/caps.ts';
import { type Caps, type Money, noCaps, type PlannedChange } from '../../src/model/money.ts';

const caps = (fields: Readonly<Partial<Record<keyof Caps, string | number>>>): Caps =>
  ({ ...noCaps, ...fields }) as Caps;

/** A row that changes a balance of 100 by this amount. */
const by = (amount: number): PlannedChange => ({ plannedBefore: '100.00', plannedAfter: String(100 + amount) });
/** A row that moves no money. */
const words: PlannedChange = { plannedBefore: 'a title', plannedAfter: 'another' };

describe('a row', () => {
  test.each([
    ['12.50', '12.50', null],
    ['-12.50', '12.50', null],
    ['12.51', '12.50', 'the balance would change by 12.51, more than bulk.max_row allows (12.50)'],
    ['-12.51', '12.50', 'the balance would change by -12.51, more than bulk.max_row allows (12.50)'],
    ['1000000', undefined, null],
  ])('that changes a balance by %s under a bound of %s', (change, maxRow, problem) => {
    expect(rowCapProblem(change, { maxRow: maxRow as Money | undefined })).toBe(problem);
  });
});

describe('a batch', () => {
  const cases: readonly (readonly [
    what: string,
    rows: readonly PlannedChange[],
    others: readonly PlannedChange[],
    bounds: Caps,
    problem: string | null,
  ])[] = [
    ['passes without bounds, however much it moves', [by(1e6)], [by(1e6)], noCaps, null],
    ['passes with as many rows as the bound', [by(1), words], [by(1)], caps({ maxRows: 2 }), null],
    [
      'is refused with one row more',
      [by(1), words, words],
      [],
      caps({ maxRows: 2 }),
      'there are 3 rows, more than bulk.max_rows allows (2)',
    ],
    [
      'is refused for one row that moves too much, however small the others',
      [by(1), by(-6), words],
      [],
      caps({ maxRow: '5' }),
      'the balance would change by -6.00, more than bulk.max_row allows (5)',
    ],
    [
      'passes with exactly the total, counted without signs',
      [by(5), by(-5), words],
      [],
      caps({ maxTotal: '10' }),
      null,
    ],
    [
      'is refused for a cent above the total, counted without signs',
      [by(5), by(-5.01)],
      [],
      caps({ maxTotal: '10' }),
      'the rows move 10.01 in all, more than bulk.max_total allows (10)',
    ],
    ['passes if what was moved within the day leaves room', [by(5)], [by(-5), words], caps({ maxDay: '10' }), null],
    [
      'is refused if others moved too much within the day',
      [by(5)],
      [by(-5.01)],
      caps({ maxDay: '10' }),
      'the rows move 5.00, and what else was sent within the last 24 hours moved 5.01: ' +
        'together more than bulk.max_day allows (10)',
    ],
    ['that moves nothing passes, however much others moved', [words, by(0)], [by(50)], caps({ maxDay: '10' }), null],
    ['passes whatever others moved if there is no bound on the day', [by(5)], [by(50)], caps({ maxTotal: '10' }), null],
  ];
  test.each(cases)('%s', (_, rows, others, bounds, problem) => {
    expect(batchCapProblem(rows, others, bounds)).toBe(problem);
  });
});
