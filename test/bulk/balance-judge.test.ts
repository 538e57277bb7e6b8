import { describe, expect, test } from 'vitest';
import { type BalanceParameters, judgeBalance, observationOf } from '../../src/bulk/actions/balance-judge.ts';
import type { AnswerKind } from '../../src/journal/port.ts';

const token = 'am:abcdefghijkl';

interface Transaction {
  readonly amount?: unknown;
  readonly result?: string;
  readonly description?: string | null;
}

const ours: Transaction = { amount: 5, result: '+', description: `Credit ${token}` };
const cut: Transaction = { amount: 5, result: '+', description: 'Credit am:abc' };
const bare: Transaction = { amount: 5, result: '+', description: 'Credit' };
const others: Transaction = { amount: 5, result: '+', description: 'Credit am:zzzzzzzzzzzz' };
const upper: Transaction = { ...ours, description: `CREDIT ${token.toUpperCase()}` };
const about: Transaction = { ...ours, description: `Correction of ${token}, made twice` };
const team: Transaction = { ...ours, description: 'Team:blue bonus' };
const outside: Transaction = { amount: 2, result: '-', description: 'Renewal' };

interface Now {
  readonly balance: unknown;
  readonly transactions?: readonly Transaction[];
}

interface More {
  readonly type?: BalanceParameters['type'];
  readonly amount?: string;
  readonly hidden?: boolean;
}

/** What is judged: the row adds 5 to 100 unless told; `before` is as it was just before it was sent. */
function judged(now: Now, answer: AnswerKind | null, more: More = {}): string {
  const { type = 'add', amount = '5.00', hidden = false } = more;
  const parameters = { type, amount, description: 'Credit', expected_balance: null };
  const sight = (balance: unknown, transactions: readonly Transaction[]) =>
    observationOf({ id: 7, balance, ...(hidden ? {} : { balance_transactions: transactions }) }, parameters, token);
  const judgement = judgeBalance(
    { user: 7, parameters, token },
    sight(100, []),
    sight(now.balance, now.transactions ?? []),
    answer,
  );
  const { kind } = judgement;
  return kind === 'applied' || kind === 'absent' ? `${kind} by ${judgement.evidence}` : kind;
}

type Case = readonly [what: string, answer: AnswerKind | null, now: Now, judgement: string, more?: More];

const cases: readonly Case[] = [
  ['the token is there', 'accepted', { balance: 105, transactions: [ours] }, 'applied by token'],
  ['the token is there after an error', 'lost', { balance: 105, transactions: [ours] }, 'applied by token'],
  ['the token is there after a refusal', 'refused', { balance: 105, transactions: [ours] }, 'applied by token'],
  [
    'the token is there and others changed it too',
    null,
    { balance: 103, transactions: [ours, outside] },
    'applied by token',
  ],
  ['money as text', 'lost', { balance: '105.00', transactions: [{ ...ours, amount: '5.00' }] }, 'applied by token'],
  ['the token is there twice', 'accepted', { balance: 110, transactions: [ours, ours] }, 'over_applied'],
  [
    'the token is there with another amount',
    'lost',
    { balance: 106, transactions: [{ ...ours, amount: 6 }] },
    'unclear',
  ],
  [
    'the token is there with another direction',
    'lost',
    { balance: 95, transactions: [{ ...ours, result: '-' }] },
    'unclear',
  ],
  ['nothing is there', 'lost', { balance: 100 }, 'absent by token'],
  ['nothing is there, and nothing is known of an answer', null, { balance: 100 }, 'absent by token'],
  ['nothing is there after success', 'accepted', { balance: 100 }, 'absent by token'],
  ['nothing is there after a refusal', 'refused', { balance: 100 }, 'absent by token'],
  ['others account for the change', 'lost', { balance: 98, transactions: [outside] }, 'absent by token'],
  [
    'another row of ours accounts for it, and the balance fits',
    'lost',
    { balance: 105, transactions: [others] },
    'unclear',
  ],
  ['the balance fits, and no transaction yet', 'accepted', { balance: 105 }, 'applied by balance'],
  ['the balance fits, and no transaction yet, after an error', 'lost', { balance: 105 }, 'unclear'],
  ['the balance fits, and no transaction yet, after a refusal', 'refused', { balance: 105 }, 'unclear'],
  ['a change that nothing accounts for', 'lost', { balance: 103 }, 'unclear'],
  ['a token cut short', 'accepted', { balance: 105, transactions: [cut] }, 'applied by record'],
  ['a token cut short, after an error', 'lost', { balance: 105, transactions: [cut] }, 'unclear'],
  ['the token in capitals', 'lost', { balance: 105, transactions: [upper] }, 'applied by token'],
  ['the token in the words of another change', 'lost', { balance: 105, transactions: [about] }, 'unclear'],
  ['words that look like a mark, and the end cut off', 'lost', { balance: 105, transactions: [team] }, 'unclear'],
  [
    'words that look like a mark, after success',
    'accepted',
    { balance: 105, transactions: [team] },
    'applied by record',
  ],
  ['a token cut off, after an error', 'lost', { balance: 105, transactions: [bare] }, 'unclear'],
  ['a token cut off, and others changed it', 'lost', { balance: 103, transactions: [bare, outside] }, 'unclear'],
  ['tokens cut off, twice', 'accepted', { balance: 110, transactions: [bare, bare] }, 'unclear'],
  ['hidden, and the balance fits', 'accepted', { balance: 105 }, 'applied by balance', { hidden: true }],
  ['hidden, twice', 'accepted', { balance: 110 }, 'unclear', { hidden: true }],
  ['hidden, unchanged, after an error', 'lost', { balance: 100 }, 'unclear', { hidden: true }],
  ['hidden, and the balance fits, after an error', 'lost', { balance: 105 }, 'unclear', { hidden: true }],
  ['hidden, unchanged, after a refusal', 'refused', { balance: 100 }, 'absent by balance', { hidden: true }],
  ['hidden, changed, after a refusal', 'refused', { balance: 105 }, 'unclear', { hidden: true }],
  [
    'set to what it was, and hidden',
    'lost',
    { balance: 100 },
    'unclear',
    { type: 'set', amount: '100.00', hidden: true },
  ],
  ['set to what it was', 'accepted', { balance: 100 }, 'applied by balance', { type: 'set', amount: '100.00' }],
  ['a balance that cannot be read', 'lost', { balance: 'much' }, 'unclear'],
];

describe('what is seen of a user says', () => {
  test.each(cases.map(([what, answer, now, judgement, more]) => ({ what, answer, now, judgement, more })))(
    '$what, answer $answer: $judgement',
    ({ answer, now, judgement, more }) => {
      expect(judged(now, answer, more)).toBe(judgement);
    },
  );

  test.each([
    ['fits', 105, [ours], /^$/],
    ['is what all transactions together make of it', 103, [ours, outside], /^$/],
    ['is as it was', 100, [ours], /was 100.00, should be 105.00 and is 100.00/],
    ['was cut off', 101, [ours, outside], /should be 105.00 and is 101.00/],
  ] as const)(
    'whether the balance contradicts a change that is there, where it %s',
    (_, balance, transactions, words) => {
      const parameters = { type: 'add', amount: '5.00', description: null, expected_balance: null } as const;
      const before = observationOf({ id: 7, balance: 100, balance_transactions: [] }, parameters, token);
      const now = observationOf({ id: 7, balance, balance_transactions: transactions }, parameters, token);
      const judgement = judgeBalance({ user: 7, parameters, token }, before, now, 'accepted');
      expect(judgement.kind === 'applied' && (judgement.contradiction ?? '')).toMatch(words);
    },
  );

  test('how to take back what was made too often', () => {
    const parameters = { type: 'remove', amount: '2.50', description: null, expected_balance: null } as const;
    const twice = [1, 2, 3].map(() => ({ amount: 2.5, result: '-', description: token }));
    const before = observationOf({ id: 7, balance: 10, balance_transactions: [] }, parameters, token);
    const now = observationOf({ id: 7, balance: 2.5, balance_transactions: twice }, parameters, token);
    expect(judgeBalance({ user: 7, parameters, token }, before, now, 'accepted')).toMatchObject({
      kind: 'over_applied',
      note: expect.stringContaining('made 3 times') as string,
      reversal: expect.stringMatching(/update-balance 7 --type add --amount 5\.00 /) as string,
    });
  });
});
