/** What is decided of a row by the look just before it goes out. */
import { describe, expect, test } from 'vitest';
import { type BalanceParameters, observationOf } from '../../src/bulk/actions/balance-judge.ts';
import { balance } from '../../src/bulk/actions/balance.ts';
import { decideSending } from '../../src/bulk/send-row.ts';
import type { Intent } from '../../src/journal/port.ts';
import { newIntent } from '../support/journal.ts';

const token = 'am:abcdefghijkl';
const ours = { amount: 5, result: '+', description: `Credit ${token}` };
const other = { amount: 2, result: '-', description: 'Renewal' };
const parameters = { type: 'add', amount: '5.00', description: 'Credit', expected_balance: null } as const;

interface User {
  readonly balance?: number;
  readonly email?: string | null;
  readonly username?: string | null;
  /** Null where the server shows none. */
  readonly transactions?: readonly object[] | null;
}

function look({ balance: amount = 100, email = null, username = null, transactions = [] }: User = {}) {
  const related = transactions === null ? {} : { balance_transactions: transactions };
  return observationOf({ id: 7, balance: amount, email, username, ...related }, parameters, token);
}

const first = {
  ...newIntent(2, 7, { token, parameters, plannedBefore: '100.00' }),
  attempts: 0,
  evidence: null,
  seenBefore: null,
};
/** It was sent, and was put off by the server, with a balance of 100 before. */
const again = { ...first, attempts: 1, seenBefore: look() };

const decided = (planned: object, seen: ReturnType<typeof look> | User = {}, unknown: string | null = null) =>
  decideSending(balance, planned as Intent, 'found' in seen ? seen : look(seen), unknown);

describe('a row that was never sent', () => {
  test('goes out where nothing speaks against it', () => {
    expect(decided(first)).toEqual({ kind: 'send' });
    expect(decided(first, { balance: 90, transactions: [other] })).toEqual({ kind: 'send' });
  });

  test('shows by its mark that the journal is behind, whatever else stands there', () => {
    const behind = {
      kind: 'behind',
      why: `row 2 stands on the server with its mark ${token}, and was never sent from here`,
    };
    expect(decided(first, { transactions: [ours] })).toEqual(behind);
    expect(decided(first, { transactions: [ours] }, 'am:zzzzzzzzzzzz')).toEqual(behind);
  });

  test('stays where the same change stands there with a mark that nobody here knows', () => {
    expect(decided(first, {}, 'am:zzzzzzzzzzzz')).toEqual({ kind: 'unknown_mark', token: 'am:zzzzzzzzzzzz' });
  });

  test('is left out where what the plan relied on is not so any more', () => {
    const set: BalanceParameters = { ...parameters, type: 'set' };
    const problem = 'the balance is 99.00, and was 100.00 in the plan';
    expect(decided({ ...first, parameters: set }, { balance: 99 })).toEqual({
      kind: 'move',
      to: 'skipped',
      fields: { before: '99.00', problem },
      note: problem,
    });
  });

  test.each([
    [
      'by another address',
      { key: 'email:anna@x.example' },
      { email: 'bert@x.example' },
      'the user is no longer known by email:anna@x.example',
    ],
    [
      'with another email',
      { plannedEmail: 'anna@x.example' },
      { email: 'bert@x.example' },
      'the user has the email bert@x.example, and had anna@x.example in the plan',
    ],
    [
      'with another name',
      { plannedUsername: 'Anna' },
      { username: 'Bert' },
      'the user is called Bert, and was called Anna in the plan',
    ],
  ])('is left out where the user is found %s', (_, planned, user, note) => {
    expect(decided({ ...first, ...planned }, user)).toMatchObject({ kind: 'move', to: 'skipped', note });
  });

  test('goes out where the names differ in capitals alone, or are not shown', () => {
    const named = { ...first, plannedEmail: 'Anna@x.example', plannedUsername: 'Anna' };
    expect(decided(named, { email: 'anna@X.example', username: 'ANNA' })).toEqual({ kind: 'send' });
    expect(decided(named)).toEqual({ kind: 'send' });
    expect(decided(first, { email: 'bert@x.example', username: 'Bert' })).toEqual({ kind: 'send' });
  });
});

describe('a row that was sent, and shall go again', () => {
  test('goes where nothing of it is there', () => {
    expect(decided(again)).toEqual({ kind: 'send' });
    expect(decided(again, { balance: 98, transactions: [other] })).toEqual({ kind: 'send' });
    expect(decided({ ...again, seenBefore: null })).toEqual({ kind: 'send' });
    expect(decided(again, {}, 'am:zzzzzzzzzzzz')).toMatchObject({ kind: 'unknown_mark' });
  });

  test('is applied where its mark is there, and needs a person where it is there twice', () => {
    expect(decided(again, { balance: 105, transactions: [ours] })).toEqual({
      kind: 'move',
      to: 'applied',
      fields: { evidence: 'token', discrepancy: null, after: '105.00', problem: null },
      note: `the transaction with ${token} is there`,
      judgement: expect.objectContaining({ kind: 'applied' }),
    });
    const note = expect.stringMatching(/^over-applied: made 2 times: .* Reversal: /) as string;
    expect(decided(again, { balance: 110, transactions: [ours, ours] })).toEqual({
      kind: 'move',
      to: 'needs_human',
      fields: { evidence: 'token', discrepancy: 'over_applied', after: '110.00', problem: note },
      note,
      judgement: expect.objectContaining({ kind: 'over_applied' }),
    });
  });

  test('needs a person where its mark stands beside another amount, also if a person sends it', () => {
    const note = `the transaction with ${token} has another amount or direction`;
    const end = { kind: 'move', to: 'needs_human', fields: { problem: note }, note };
    for (const planned of [again, { ...again, evidence: 'person' }]) {
      expect(decided(planned, { balance: 106, transactions: [{ ...ours, amount: 6 }] })).toEqual(end);
    }
  });

  test('stays open where something moved that nothing explains, unless a person sends it', () => {
    const note =
      'the server asked to come back later, and it is not as it was before: ' +
      'the balance went from 100.00 to 105.00, as it would by this row; no transaction of it is shown';
    expect(decided(again, { balance: 105 })).toEqual({ kind: 'move', to: 'unknown', fields: { problem: note }, note });
    expect(decided({ ...again, evidence: 'person' }, { balance: 105 })).toEqual({ kind: 'send' });
  });

  test('goes where transactions are hidden and the balance is as it was, and stays open where it is not', () => {
    const hidden = { ...again, seenBefore: look({ transactions: null }) };
    expect(decided(hidden, { transactions: null })).toEqual({ kind: 'send' });
    expect(decided(hidden, { balance: 101, transactions: null })).toMatchObject({ to: 'unknown' });
    // They are shown: one like it is there, which the balance does not show yet.
    const bare = { amount: 5, result: '+', description: 'Credit' };
    expect(decided(again, { transactions: [bare] })).toMatchObject({ to: 'unknown' });
  });
});
