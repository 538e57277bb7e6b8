import { describe, expect, test } from 'vitest';
import type { Judgement } from '../../src/bulk/action.ts';
import {
  type BalanceObservation,
  type BalanceParameters,
  judgeBalance,
  observationOf,
} from '../../src/bulk/actions/balance-judge.ts';
import type { AnswerKind } from '../../src/journal/port.ts';

const token = 'am:abcdefghijkl';

interface Transaction {
  readonly amount?: unknown;
  readonly result?: string;
  readonly description?: string | null;
  readonly created_at?: string;
  readonly note?: string;
}

const ours: Transaction = { amount: 5, result: '+', description: `Credit ${token}` };
const half: Transaction = { ...ours, amount: 2.5 };
const cut: Transaction = { amount: 5, result: '+', description: 'Credit am:abc' };
const bare: Transaction = { amount: 5, result: '+', description: 'Credit' };
const others: Transaction = { amount: 5, result: '+', description: 'Credit am:zzzzzzzzzzzz' };
const upper: Transaction = { ...ours, description: `CREDIT ${token.toUpperCase()}` };
const about: Transaction = { ...ours, description: `Correction of ${token}, made twice` };
const team: Transaction = { ...ours, description: 'Team:blue bonus' };
const same: Transaction = { amount: 105, result: '=', description: 'Credit' };
const outside: Transaction = { amount: 2, result: '-', description: 'Renewal' };

interface Now {
  readonly balance: unknown;
  /** Null if the server shows none. */
  readonly transactions?: readonly Transaction[] | null;
}

interface More {
  readonly type?: BalanceParameters['type'];
  readonly amount?: string;
  readonly hidden?: boolean;
  readonly before?: Now;
}

function parametersOf(type: BalanceParameters['type'], amount: string): BalanceParameters {
  return { type, amount, description: 'Credit', expected_balance: null };
}

/** What a look sees of the user; null if there is none. */
function seen(now: Now | null, parameters = parametersOf('add', '5.00')): BalanceObservation {
  if (now === null) return observationOf(null, parameters, token);
  const { balance, transactions = [] } = now;
  const related =
    transactions === null ? {} : { balance_transactions: transactions.map((each, id) => ({ id, ...each })) };
  return observationOf({ id: 7, balance, ...related }, parameters, token);
}

/** By default the row adds 5 to 100. `before` is the user just before the row was sent. */
function judgementOf(now: Now | null, answer: AnswerKind | null, more: More = {}): Judgement {
  const { type = 'add', amount = '5.00', hidden = false, before = { balance: 100 } } = more;
  const parameters = parametersOf(type, amount);
  const look = (each: Now | null) =>
    seen(each === null || !hidden ? each : { ...each, transactions: null }, parameters);
  return judgeBalance({ user: 7, parameters, token }, look(before), look(now), answer);
}

function judged(...given: Parameters<typeof judgementOf>): string {
  const judgement = judgementOf(...given);
  const { kind } = judgement;
  return kind === 'applied' || kind === 'absent' ? `${kind} by ${judgement.evidence}` : kind;
}

type Case = readonly [what: string, answer: AnswerKind | null, now: Now | null, judgement: string, more?: More];

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
    'the server took it back in the same words',
    'accepted',
    { balance: 100, transactions: [ours, { ...ours, result: '-' }] },
    'unclear',
  ],
  ['the server made it in two halves', 'accepted', { balance: 105, transactions: [half, half] }, 'unclear'],
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
  ['nothing is there, and no response is on record', null, { balance: 100 }, 'absent by token'],
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
  ['a balance that could not be read before', 'lost', { balance: 105 }, 'unclear', { before: { balance: 'much' } }],
  ['the user is gone', 'lost', null, 'unclear'],
  ['the user is gone, and no response is on record', null, null, 'unclear'],
  ['the user is gone', 'refused', null, 'absent by answer'],
  ['removed, and hidden', 'accepted', { balance: 95 }, 'applied by balance', { type: 'remove', hidden: true }],
  ['hidden now, and shown before', 'lost', { balance: 100, transactions: null }, 'unclear'],
  [
    'shown now, and hidden before',
    'lost',
    { balance: 100 },
    'unclear',
    { before: { balance: 100, transactions: null } },
  ],
  [
    'one more of those like it than before',
    'accepted',
    { balance: 105, transactions: [bare, bare] },
    'applied by record',
    { before: { balance: 100, transactions: [bare] } },
  ],
  [
    'the balance fits, beside two like it without a token',
    'accepted',
    { balance: 105, transactions: [same, same] },
    'unclear',
    { type: 'set', amount: '105.00' },
  ],
  [
    'others account for the change, but one of them does not show its amount',
    'lost',
    { balance: 98, transactions: [{ ...outside, amount: undefined }] },
    'unclear',
  ],
  [
    'others account for the change, but one of them does not show its direction',
    'lost',
    { balance: 98, transactions: [{ amount: 2, description: 'Renewal' }] },
    'unclear',
  ],
  [
    'others account for the change, but one before did not show its amount',
    'lost',
    { balance: 98, transactions: [] },
    'unclear',
    { before: { balance: 100, transactions: [{ ...outside, amount: undefined }, outside] } },
  ],
  [
    'others account for the change, but the balance was set beside them',
    'lost',
    { balance: 98, transactions: [outside, { ...outside, result: '=', amount: 98 }] },
    'unclear',
  ],
  [
    'the balance was set to the amount of the change',
    'lost',
    { balance: 98, transactions: [{ ...outside, result: '=' }] },
    'unclear',
  ],
  [
    'others account for the change, of what was set before',
    'lost',
    { balance: 98, transactions: [{ ...outside, result: '=' }, outside] },
    'absent by token',
    { before: { balance: 100, transactions: [{ ...outside, result: '=' }] } },
  ],
  [
    'the token is there, and no amount',
    'lost',
    { balance: 105, transactions: [{ result: '+', description: token }] },
    'applied by token',
  ],
  [
    'the token is there, and no direction',
    'lost',
    { balance: 105, transactions: [{ amount: 5, description: token }] },
    'applied by token',
  ],
  [
    'the token is there, and the amount with a sign',
    'lost',
    { balance: 95, transactions: [{ amount: -5, result: 'remove', description: token }] },
    'applied by token',
    { type: 'remove' },
  ],
  [
    'the token is there, and the other sign of what was set',
    'lost',
    { balance: 5, transactions: [{ amount: 5, result: '=', description: token }] },
    'unclear',
    { type: 'set', amount: '-5.00' },
  ],
  [
    'the token is there, and what was set is below zero',
    'lost',
    { balance: -5, transactions: [{ amount: -5, result: '=', description: token }] },
    'applied by token',
    { type: 'set', amount: '-5.00' },
  ],
  [
    'like it, with a text that ends with a part of another token',
    'accepted',
    { balance: 105, transactions: [{ ...bare, description: 'Credit am:zz', note: 'by hand' }] },
    'applied by balance',
  ],
];

const back: Transaction = { amount: 5, result: '-', description: `Correction of ${token}, made 2 times` };

describe('what was taken back with the mark in its text', () => {
  const early = { created_at: '2026-03-11T10:05:00Z' };
  const late = { created_at: '2026-03-11T10:06:00Z' };

  test.each<[what: string, transactions: readonly Transaction[], judgement: string]>([
    ['once of two', [ours, ours, back], 'applied by token'],
    ['once of two, listed with the newest first', [back, ours, ours], 'applied by token'],
    ['twice of three, at once', [ours, ours, ours, { ...back, amount: 10 }], 'applied by token'],
    ['twice of three, one after the other', [ours, ours, ours, back, back], 'applied by token'],
    ['twice of two', [ours, ours, back, back], 'applied by token'],
    ['once of three', [ours, ours, ours, back], 'over_applied'],
    ['not at all, since the amount is no multiple', [ours, ours, { ...back, amount: 7.5 }], 'over_applied'],
    ['not at all, since the amount is 0', [ours, ours, { ...back, amount: 0 }], 'over_applied'],
    ['not at all, since no amount is shown', [ours, ours, { ...back, amount: undefined }], 'over_applied'],
    ['not at all, since the balance was set', [ours, ours, { ...back, result: '=' }], 'over_applied'],
    ['with a sign at the amount', [ours, ours, { ...back, amount: -5 }], 'applied by token'],
    [
      'at a time, when the payments show none',
      [ours, ours, { ...back, created_at: '2026-03-11T10:20:30.000000Z' }],
      'applied by token',
    ],
    [
      'with capitals',
      [ours, ours, { ...back, description: back.description?.toUpperCase() ?? '' }],
      'applied by token',
    ],
    ['with the mark at its end', [ours, ours, { ...back, description: `Correction of ${token}` }], 'applied by token'],
    [
      'by a row with a mark of its own',
      [ours, ours, { ...back, description: `Correction of ${token} am:zzzzzzzzzzzz` }],
      'applied by token',
    ],
    ['with other words', [ours, ours, { ...back, description: `About ${token}, made 2 times` }], 'over_applied'],
    [
      'with another mark',
      [ours, ours, { ...back, description: 'Correction of am:zzzzzzzzzzzz, made 2 times' }],
      'over_applied',
    ],
    [
      'with a longer mark',
      [ours, ours, { ...back, description: `Correction of ${token}m, made 2 times` }],
      'over_applied',
    ],
    [
      'and given again',
      [ours, ours, back, { ...back, result: '+', description: `Reversal: ${back.description}` }],
      'over_applied',
    ],
    ['twice by mistake, and given again once', [ours, ours, back, back, { ...back, result: '+' }], 'applied by token'],
    [
      'before the first of them',
      [
        { ...ours, ...late },
        { ...ours, ...late },
        { ...back, ...early },
      ],
      'over_applied',
    ],
    [
      'after the first of them',
      [
        { ...ours, ...late },
        { ...ours, ...early },
        { ...back, ...early },
      ],
      'applied by token',
    ],
    ['at an unknown time', [{ ...ours, ...late }, { ...ours, ...late }, back], 'applied by token'],
    ['beside one with the mark and another amount', [ours, ours, { ...ours, amount: 6 }, back], 'unclear'],
  ])('counts: %s', (_, transactions, judgement) => {
    expect(judged({ balance: 105, transactions }, 'accepted')).toBe(judgement);
  });

  test('is not what the server takes back in the words of the row', () => {
    const own = { ...ours, description: `Correction of ${token}` };
    expect(judged({ balance: 105, transactions: [own, own, { ...own, result: '-' }] }, 'accepted')).toBe(
      'over_applied',
    );
  });

  test('is said, and only the rest is in the command', () => {
    expect(judgementOf({ balance: 105, transactions: [ours, ours, back] }, 'accepted')).toEqual({
      kind: 'applied',
      evidence: 'token',
      after: '105.00',
      note: `made 2 times, and 1 of them was taken back: 2 transactions carry ${token}`,
      recordId: '0',
      contradiction: null,
    });
    expect(judgementOf({ balance: 110, transactions: [back, ours, ours, ours] }, 'accepted')).toMatchObject({
      note: `made 3 times, and 1 of them was taken back: 3 transactions carry ${token}`,
      reversal: expect.stringMatching(/--type remove --amount 5\.00 --description "Correction of/) as string,
    });
    const four = { balance: 105, transactions: [ours, ours, ours, ours, back, { ...back, amount: 10 }] };
    expect(judgementOf(four, 'accepted').note).toMatch(/^made 4 times, and 3 of them were taken back: 4 transactions/);
  });
});

describe('the judgement of a user’s balance', () => {
  test.each(cases.map(([what, answer, now, judgement, more]) => ({ what, answer, now, judgement, more })))(
    'is, if $what, response $answer: $judgement',
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
    'says whether the balance contradicts a change that is shown, if it %s',
    (_, balance, transactions, words) => {
      const parameters = { type: 'add', amount: '5.00', description: null, expected_balance: null } as const;
      const before = observationOf({ id: 7, balance: 100, balance_transactions: [] }, parameters, token);
      const now = observationOf({ id: 7, balance, balance_transactions: transactions }, parameters, token);
      const judgement = judgeBalance({ user: 7, parameters, token }, before, now, 'accepted');
      expect(judgement.kind === 'applied' && (judgement.contradiction ?? '')).toMatch(words);
    },
  );

  test.each([
    ['before', { balance: 'much' }, { balance: 105, transactions: [ours] }],
    ['now', { balance: 100 }, { balance: 'much', transactions: [ours] }],
  ])('sees no contradiction to a change that is shown if the balance cannot be read %s', (_, before, now) => {
    expect(judgementOf(now, 'accepted', { before })).toMatchObject({ kind: 'applied', contradiction: null });
  });

  test('tells which transactions are the row’s own, are like it, or belong to other rows that do the same', () => {
    const transactions = [
      { ...ours, id: 31 },
      { ...ours, id: 32, amount: 6 },
      { ...others, created_at: '2026-03-11T10:00:00Z' },
      { ...others, amount: 6 },
      bare,
      same,
    ];
    const { found, balance, ...rest } = seen({ balance: 5, transactions });
    expect(rest).toEqual({
      email: null,
      username: null,
      shown: true,
      hits: 2,
      agreeing: 1,
      alike: 1,
      sets: 1,
      sum: '27.00',
      others: [{ token: 'am:zzzzzzzzzzzz', at: '2026-03-11T10:00:00Z' }],
      recordId: '31',
    });
    expect(seen({ balance: 5, transactions: [bare] })).toMatchObject({ others: [], recordId: null });
    expect([found, balance, seen(null).found, seen(null).balance]).toEqual([true, '5.00', false, null]);
  });

  test('says how to reverse what was made too often', () => {
    const parameters = { type: 'remove', amount: '2.50', description: null, expected_balance: null } as const;
    const twice = [1, 2, 3].map(() => ({ amount: 2.5, result: '-', description: token }));
    const before = observationOf({ id: 7, balance: 10, balance_transactions: [] }, parameters, token);
    const now = observationOf({ id: 7, balance: 2.5, balance_transactions: twice }, parameters, token);
    expect(judgeBalance({ user: 7, parameters, token }, before, now, 'accepted')).toMatchObject({
      kind: 'over_applied',
      note: `made 3 times: 3 transactions carry ${token}`,
      reversal: expect.stringMatching(/update-balance 7 --type add --amount 5\.00 /) as string,
    });
    const asOnce = observationOf({ id: 7, balance: 7.5, balance_transactions: twice }, parameters, token);
    expect(judgeBalance({ user: 7, parameters, token }, before, asOnce, 'accepted')).toMatchObject({
      note: expect.stringContaining('but the balance is 7.50, as after one of them: check') as string,
    });
    const again = { balance: 110, transactions: [ours, ours] };
    expect(judgementOf(again, 'accepted')).toMatchObject({
      reversal: expect.stringMatching(/update-balance 7 --type remove --amount 5\.00 /) as string,
    });
    const set = { ...ours, amount: 110, result: '=' };
    const setTwice = { balance: 110, transactions: [set, set] };
    expect(judgementOf(setTwice, 'accepted', { type: 'set', amount: '110.00' })).toMatchObject({
      kind: 'over_applied',
      note: `made 2 times: 2 transactions carry ${token}`,
      reversal: 'none is needed: the balance was set to the same amount each time',
    });
    const unknown = { ...before, balance: null };
    for (const [first, last] of [
      [unknown, now],
      [before, unknown],
      [unknown, unknown],
    ] as const) {
      const judgement = judgeBalance(
        { user: 7, parameters, token },
        first,
        { ...now, balance: last.balance },
        'accepted',
      );
      expect(judgement.note).toBe(`made 3 times: 3 transactions carry ${token}`);
    }
  });
});
