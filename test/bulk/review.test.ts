/** A batch as a person reviews it: row by row, those with notes first. */
import { describe, expect, test } from 'vitest';
import { notedRows, rowsInJournal, parameterWords, reviewRow, wrongTable } from '../../src/bulk/review.ts';
import type { Batch, Intent, NewIntent } from '../../src/journal/port.ts';
import type { Table } from '../../src/model/spreadsheet.ts';
import { newBatch, newIntent, newJournal } from '../support/journal.ts';

const intent = (fields: object): Intent => ({ ...newIntent(2, 7), before: null, after: null, ...fields }) as Intent;

async function batchWith(...rows: readonly NewIntent[]) {
  const { journal } = await newJournal();
  await journal.addBatch(newBatch({ columns: ['user_id', '_row', 'type', '_problem', 'amount'] }), rows);
  return { journal, batch: (await journal.batch('one')) as Batch };
}

const row = (number: number, fields: Partial<NewIntent> = {}) => newIntent(number, number, fields);
const rowsOf = async ({ columns, rows }: Table) => [[...columns], ...(await Array.fromAsync(rows))];

describe('a row', () => {
  test.each([
    ['planned', { before: '1.00', after: '2.00' }, ['0.00', '5.00', '5.00']],
    ['invalid', { before: '1.00', after: '2.00' }, ['0.00', '5.00', '5.00']],
    ['applied', { before: '1.00', after: '7.50' }, ['1.00', '7.50', '6.50']],
    ['sending', { before: null, after: null }, ['0.00', null, null]],
    ['planned', { plannedBefore: 'a title', plannedAfter: 'another' }, ['a title', 'another', null]],
  ])('that is %s is shown as planned, or as seen if it was sent', (state, fields, shown) => {
    const { before, after, change } = reviewRow(intent({ state, ...fields }));
    expect([before, after, change]).toEqual(shown);
  });

  test('is shown with its user, notes and problem', () => {
    const named = { plannedUsername: 'Anna', plannedEmail: 'anna@x.example', notes: ['large'], problem: 'odd' };
    expect(reviewRow(intent({ state: 'planned', ...named }))).toEqual({
      row: 2,
      state: 'planned',
      user_id: 7,
      username: 'Anna',
      email: 'anna@x.example',
      before: '0.00',
      after: '5.00',
      change: '5.00',
      notes: ['large'],
      problem: 'odd',
    });
  });

  test('shows its parameters in short', () => {
    expect(parameterWords({ type: 'add', amount: 5, description: null, list: [1] })).toBe('add 5');
    expect(parameterWords({ type: 'add', amount: '5', expected_balance: '60.23' })).toBe(
      'add 5 if the balance is 60.23',
    );
    expect(parameterWords({ text: 'two\nlines\t\there' })).toBe('two lines here');
    expect(parameterWords({ text: 'x'.repeat(40) })).toBe('x'.repeat(40));
    expect(parameterWords({ text: 'x'.repeat(41) })).toBe(`${'x'.repeat(39)}…`);
  });
});

describe('a plan', () => {
  const notes = ['look'];
  const rows = [
    row(2),
    row(3, { notes }),
    row(4, { notes, plannedAfter: '-50.00' }),
    row(5, { notes, plannedAfter: '9.00' }),
    row(6, { notes }),
  ];

  test('lists the rows with notes by the size of their change, the largest first, otherwise in order', async () => {
    const { journal } = await batchWith(...rows);
    expect((await notedRows(rowsInJournal(journal, { batch: 'one' }))).map(({ row: number }) => number)).toEqual([
      4, 5, 3, 6,
    ]);
    // Rows without an amount come last.
    const words = { notes, plannedAfter: 'words' };
    const { journal: other } = await batchWith(row(2, words), row(3, { notes }), row(4, words), row(5, { notes }));
    expect((await notedRows(rowsInJournal(other, { batch: 'one' }))).map(({ row: number }) => number)).toEqual([
      3, 5, 2, 4,
    ]);
  });

  test('as a sheet of wrong rows has only those, with the columns of the file but not its older results', async () => {
    const cells = ['9', 'old', 'add', 'an older reason'];
    const { journal, batch } = await batchWith(row(2), row(3, { state: 'invalid', problem: 'no user', cells }));
    const table = wrongTable(journal, batch);
    expect(table.name).toBe('wrong');
    expect(await rowsOf(table)).toEqual([
      ['_row', '_problem', 'user_id', 'type', 'amount'],
      [3, 'no user', '9', 'add', null],
    ]);
  });
});
