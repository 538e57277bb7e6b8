/** What the look just before a row is sent decides. */
import { describe, expect, test } from 'vitest';
import { type BalanceParameters, observationOf } from '../../src/bulk/actions/balance-judge.ts';
import { balance } from '../../src/bulk/actions/balance.ts';
import {
  NotFound,
  RefusedInput,
  type Response,
  ServerFailed,
  Unreachable,
  WriteOutcomeUnknown,
} from '../../src/api/errors.ts';
import { unsentState } from '../../src/journal/claim-view.ts';
import type { Action } from '../../src/bulk/action.ts';
import { decideSending, sendMarginOf, sendRow } from '../../src/bulk/send-row.ts';
import type { Sending } from '../../src/bulk/sending.ts';
import type { Intent, Journal, NewIntent } from '../../src/journal/port.ts';
import { FileError, UsageError } from '../../src/model/errors.ts';
import { dayMs, timestampOf } from '../../src/model/time.ts';
import { defaultOptions } from '../support/bulk.ts';
import { newBatch, newIntent, newJournal } from '../support/journal.ts';
import { sandboxNow } from '../support/sandbox.ts';

const token = 'am:abcdefghijkl';
const ours = { amount: 5, result: '+', description: `Credit ${token}` };
const other = { amount: 2, result: '-', description: 'Renewal' };
const parameters = { type: 'add', amount: '5.00', description: 'Credit', expected_balance: null } as const;

interface User {
  readonly balance?: number;
  readonly email?: string | null;
  readonly username?: string | null;
  /** Null if the server shows none. */
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
/** It was sent with a balance of 100 before, and the server asked to come back later. */
const again = { ...first, attempts: 1, seenBefore: look() };

const decided = (planned: object, seen: ReturnType<typeof look> | User = {}, unknown: string | null = null) =>
  decideSending(balance, planned as Intent, 'found' in seen ? seen : look(seen), unknown);

test('no row begins in the last ten seconds of its lock, or in the last part of a short lock', () => {
  expect([45_000, 90_000, 9_000, 900].map(sendMarginOf)).toEqual([10_000, 10_000, 2_000, 200]);
});

describe('a row that was never sent', () => {
  test('is sent if nothing speaks against it', () => {
    expect(decided(first)).toEqual({ kind: 'send' });
    expect(decided(first, { balance: 90, transactions: [other] })).toEqual({ kind: 'send' });
  });

  test('shows that the journal is behind if its mark is on the server, whatever else is there', () => {
    const behind = {
      kind: 'behind',
      why: `row 2 stands on the server with its mark ${token}, and was never sent from here`,
    };
    expect(decided(first, { transactions: [ours] })).toEqual(behind);
    expect(decided(first, { transactions: [ours] }, 'am:zzzzzzzzzzzz')).toEqual(behind);
  });

  test('is not sent if the server shows the same change with an unknown mark', () => {
    expect(decided(first, {}, 'am:zzzzzzzzzzzz')).toEqual({ kind: 'unknown_mark', mark: 'am:zzzzzzzzzzzz' });
  });

  test('is skipped if the balance that its plan relied on has changed', () => {
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
  ])('is skipped if the user is found %s', (_, planned, user, note) => {
    expect(decided({ ...first, ...planned }, user)).toMatchObject({ kind: 'move', to: 'skipped', note });
  });
});

test.each([
  [0, null, null, 'skipped'],
  [1, null, null, 'skipped'],
  [1, null, 503, 'not_applied'],
  [0, 'person', null, 'skipped'],
  [1, 'person', null, 'not_applied'],
] as const)(
  'a row with %i attempts, evidence %s and status %s becomes %s if it must not be sent',
  (attempts, evidence, httpStatus, to) => {
    expect(unsentState({ attempts, evidence, httpStatus })).toBe(to);
  },
);

describe('a row that was sent and is to be sent again', () => {
  test('is sent if nothing of it is on the server', () => {
    expect(decided(again)).toEqual({ kind: 'send' });
    expect(decided(again, { balance: 98, transactions: [other] })).toEqual({ kind: 'send' });
    expect(decided({ ...again, seenBefore: null })).toEqual({ kind: 'send' });
    expect(decided(again, {}, 'am:zzzzzzzzzzzz')).toMatchObject({ kind: 'unknown_mark' });
  });

  test('is applied if its mark is on the server, and needs a person if it is there twice', () => {
    expect(decided(again, { balance: 105, transactions: [ours] })).toEqual({
      kind: 'move',
      to: 'applied',
      fields: {
        evidence: 'token',
        discrepancy: null,
        after: '105.00',
        recordId: expect.anything() as string,
        problem: null,
      },
      note: `the transaction with ${token} is there`,
      judgement: expect.objectContaining({ kind: 'applied' }),
    });
    const note = expect.stringMatching(/^over-applied: made 2 times: .* Reversal: /) as string;
    expect(decided(again, { balance: 110, transactions: [ours, ours] })).toEqual({
      kind: 'move',
      to: 'needs_human',
      fields: { evidence: 'token', discrepancy: 'over_applied', after: '110.00', recordId: null, problem: note },
      note,
      judgement: expect.objectContaining({ kind: 'over_applied' }),
    });
  });

  test('stays unknown if its mark is there after several requests that the server put off, since another may be made', () => {
    const twice = { ...again, attempts: 2 };
    const there = { balance: 105, transactions: [ours] };
    const note = `the transaction with ${token} is there, although the server said to come back later; it was sent 2 times`;
    const fields = { evidence: 'token', after: '105.00', problem: note };
    expect(decided(twice, there)).toEqual({ kind: 'move', to: 'unknown', fields, note });
    expect(decided({ ...twice, evidence: 'person' }, there)).toMatchObject({ to: 'applied' });
    expect(decided(twice, { balance: 110, transactions: [ours, ours] })).toMatchObject({ to: 'needs_human' });
  });

  test('is applied with a discrepancy if the balance contradicts its mark, unless a person sends it', () => {
    const there = { balance: 100, transactions: [ours] };
    const problem = `the transaction with ${token} is there, but the balance was 100.00, should be 105.00 and is 100.00`;
    expect(decided(again, there)).toMatchObject({ to: 'applied', fields: { discrepancy: 'balance', problem } });
    const byPerson = { ...again, evidence: 'person' };
    expect(decided(byPerson, there)).toMatchObject({ to: 'applied', fields: { discrepancy: null, problem: null } });
  });

  test('needs a person if its mark has another amount, even if a person sends it', () => {
    const note = `the transaction with ${token} has another amount or direction`;
    const end = { kind: 'move', to: 'needs_human', fields: { problem: note }, note };
    for (const planned of [again, { ...again, evidence: 'person' }]) {
      expect(decided(planned, { balance: 106, transactions: [{ ...ours, amount: 6 }] })).toEqual(end);
    }
  });

  test('stays unknown if the balance changed and nothing explains it, unless a person sends it', () => {
    const note =
      'the server said to come back later, and the user is not as before: ' +
      'the balance went from 100.00 to 105.00, as it would by this row; no transaction of it is shown';
    expect(decided(again, { balance: 105 })).toEqual({ kind: 'move', to: 'unknown', fields: { problem: note }, note });
    expect(decided({ ...again, evidence: 'person' }, { balance: 105 })).toEqual({ kind: 'send' });
  });

  test('is sent if transactions are hidden and the balance is unchanged, otherwise stays unknown', () => {
    const hidden = { ...again, seenBefore: look({ transactions: null }) };
    expect(decided(hidden, { transactions: null })).toEqual({ kind: 'send' });
    expect(decided(hidden, { balance: 101, transactions: null })).toMatchObject({ to: 'unknown' });
    // Another action may be unsure about a user who is unchanged.
    const unsure = {
      ...balance,
      judge: () => ({ kind: 'unclear', after: null, note: '' }),
    } as unknown as typeof balance;
    const by = (seen: User) =>
      decideSending(unsure, hidden as unknown as Intent, look({ transactions: null, ...seen }), null);
    expect([by({}), by({ balance: 101 })]).toMatchObject([{ kind: 'send' }, { to: 'unknown' }]);
    // Transactions are shown, and one is like it, but the balance has not changed yet.
    const bare = { amount: 5, result: '+', description: 'Credit' };
    expect(decided(again, { transactions: [bare] })).toMatchObject({ to: 'unknown' });
  });
});

/** One row of user 7 in a journal, and a server whose user shows these transactions. */
async function sending(
  user: User = {},
  more: {
    readonly againReason?: string;
    readonly acceptUnknownMarks?: true;
    readonly row?: Partial<NewIntent>;
    readonly serverAheadMs?: number;
  } = {},
) {
  let now = sandboxNow;
  const clock = { now: () => now };
  const { journal } = await newJournal(clock);
  const row = newIntent(2, 7, { token, parameters, fingerprint: 'print', plannedBefore: '100.00', ...more.row });
  await journal.addBatch(newBatch({ againReason: more.againReason ?? null }), [row]);
  await journal.acquireLock('one');
  await journal.claim('one', { repeatsSince: timestampOf(0), daySince: timestampOf(0) }, () => []);
  const body = () => ({ id: 7, balance: user.balance ?? 100, balance_transactions: user.transactions ?? [] });
  const requests: unknown[] = [];
  const client = {
    getUser: () => Promise.resolve({ body: body() }),
    list: () => Promise.reject(new Unreachable('no list')),
    redact: (text: string) => text.replaceAll('secret', '…'),
    counters: { serverAheadMs: more.serverAheadMs },
    sendExactly: (...given: readonly unknown[]): Promise<Response> => {
      requests.push(given[0]);
      return Promise.resolve({ status: 200, body: {}, raw: '{"key":"secret"}' });
    },
  };
  const found = await journal.batch('one');
  if (found === undefined) throw new Error('the batch is gone');
  const signal = new AbortController().signal;
  const common = {
    journal,
    memory: null,
    client,
    clock,
    signal,
    batch: found,
    action: balance,
    options: defaultOptions,
    acceptUnknownMarks: more.acceptUnknownMarks,
  };
  const world = { ...common, sleep: () => Promise.resolve(), progress: () => {} } as unknown as Sending;
  const intent = async () => {
    const each = await journal.intent('one', 2);
    if (each === undefined) throw new Error('the row is gone');
    return each;
  };
  const go = async (over: object = {}) => sendRow({ ...world, ...over }, await intent());
  /** With another client. */
  const by = (over: Partial<typeof client>) => go({ client: { ...client, ...over } });
  const within = (over: Partial<Journal>) => go({ journal: { ...journal, ...over } });
  const fails = (thrown: Error, action = balance as unknown as Action) =>
    go({ action, client: { ...client, sendExactly: () => Promise.reject(thrown) } });
  const notes = async () => (await Array.fromAsync(journal.audit({}))).map(({ note }) => note);
  return { journal, go, by, within, fails, intent, requests, notes, pass: (ms: number) => void (now += ms), world };
}

const problemOf = (end: object): string => ('stop' in end ? ((end.stop as Error | null)?.message ?? 'none') : 'later');

describe('a row on its way', () => {
  test('is blocked, too, if the other row was opened after the look', async () => {
    const { journal, within, intent, requests } = await sending();
    const move: Journal['move'] = (step) => (step.to === 'sending' ? Promise.resolve(false) : journal.move(step));
    expect(await within({ move })).toEqual({ state: 'blocked', stop: null });
    expect([(await intent()).problem, requests]).toEqual(['another write for the same user is open', []]);
  });

  test('stays planned if its user cannot be read or its approval has ended; a bug is passed on', async () => {
    const { by, within, intent } = await sending();
    const [away, bug] = [new Unreachable('nobody is there'), new TypeError('a bug')];
    expect(await by({ getUser: () => Promise.reject(away) })).toEqual({ state: 'planned', stop: away });
    await expect(by({ getUser: () => Promise.reject(bug) })).rejects.toThrow(bug);
    const denied = new UsageError('it was denied');
    expect(await within({ move: () => Promise.reject(denied) })).toEqual({ state: 'planned', stop: denied });
    const full = new FileError('the disk is full');
    await expect(within({ move: () => Promise.reject(full) })).rejects.toThrow(full);
    expect((await intent()).state).toBe('planned');
  });

  test('goes back to planned if the mirror cannot remember it, and nothing is sent', async () => {
    const { go, intent, requests, notes } = await sending();
    const memory = (error: Error) => ({
      recall: () => {
        throw error;
      },
      remember: () => true,
      close: () => {},
    });
    await expect(go({ memory: memory(new FileError('the mirror is away')) })).rejects.toThrow(/the mirror is away/);
    expect([(await intent()).state, requests]).toEqual(['planned', []]);
    expect(await notes()).toContain('nothing was sent');
    await expect(go({ memory: memory(new TypeError('a bug')) })).rejects.toThrow(/a bug/);
    expect((await intent()).state).toBe('sending');
  });

  test('may be sent with at least ten seconds of its lock left and within half of bulk.settle_after', async () => {
    const { by, journal, go, pass, world } = await sending();
    const may: boolean[] = [];
    const ask =
      (ms: number) =>
      (...given: readonly unknown[]) => {
        pass(ms);
        may.push((given[4] as () => boolean)());
        return Promise.reject(new Unreachable('not yet'));
      };
    const half = defaultOptions.settleAfterMs / 2;
    await by({ sendExactly: ask(half) });
    await by({ sendExactly: ask(half + 1) });
    for (const left of [10_000, 9_999]) {
      const lock = { ...journal, lockRemainingMs: () => left };
      await go({ journal: lock, client: { ...world.client, sendExactly: ask(0) } });
    }
    expect(may).toEqual([true, false, true, false]);
  });

  test('is unknown if the server asks to come back later and has made such a row before', async () => {
    const { go, intent, world } = await sending();
    const busy = new ServerFailed('too many requests', 429, { waitMs: 5 });
    const client = { ...world.client, sendExactly: () => Promise.reject(busy) };
    expect(await go({ client, makesPutOff: true })).toMatchObject({ state: 'unknown', stop: null });
    expect(await intent()).toMatchObject({ state: 'unknown', httpStatus: 429, answerKind: 'lost', attempts: 1 });
  });
});

describe('the same change with the mark of another journal', () => {
  const mark = 'am:zzzzzzzzzzzz';
  const at = (ms: number) => timestampOf(sandboxNow - ms);
  const beside = (created?: string) => ({
    transactions: [{ ...ours, description: `Credit ${mark}`, created_at: created }],
  });
  const isHeld = async (user: User, more?: Parameters<typeof sending>[1], over: Partial<Journal> = {}) => {
    const { within, requests } = await sending(user, more);
    const problem = problemOf(await within(over));
    expect(requests).toHaveLength(problem.includes(mark) ? 0 : 1);
    return problem.includes(`with the mark ${mark}, which is not in this journal`);
  };

  test('holds a row back if it was made within the time of the settings, or at an unknown time', async () => {
    const { againWithinMs } = defaultOptions;
    expect(await isHeld(beside(at(1)))).toBe(true);
    expect(await isHeld(beside(at(againWithinMs)))).toBe(true);
    expect(await isHeld(beside(at(againWithinMs + 1)))).toBe(false);
    expect(await isHeld(beside())).toBe(true);
  });

  test('holds no row back if a person accepts unknown marks, or if this journal knows the mark', async () => {
    expect(await isHeld(beside(at(1)), { againReason: 'it is meant' })).toBe(true);
    expect(await isHeld(beside(at(1)), { acceptUnknownMarks: true })).toBe(false);
    const asked: unknown[] = [];
    // Another row of the same file is meant, too.
    for (const known of [
      { batch: 'other', state: 'applied' },
      { batch: 'one', state: 'not_applied' },
    ] as const) {
      const rowOfToken = (...given: readonly [string, string]) => {
        asked.push(given);
        return Promise.resolve({ ...known, row: 3, claimedAt: at(0) });
      };
      expect(await isHeld(beside(at(1)), {}, { rowOfToken })).toBe(false);
    }
    expect(asked).toEqual([
      ['print', mark],
      ['print', mark],
    ]);
  });

  test('holds a row back if it was made, by the server’s clock, over a day later than the old payment in this journal', async () => {
    const { againWithinMs } = defaultOptions;
    const day = dayMs;
    const held = async (claimed: number, made: number | undefined, batch = 'other', serverAheadMs = 0) => {
      const rowOfToken = () => Promise.resolve({ batch, row: 3, state: 'applied' as const, claimedAt: at(claimed) });
      const { within, requests } = await sending(beside(made === undefined ? made : at(made)), { serverAheadMs });
      const problem = problemOf(await within({ rowOfToken }));
      expect(requests).toHaveLength(problem.includes(mark) ? 0 : 1);
      return problem.includes(`with the mark ${mark}, which was made later than this journal says`);
    };
    expect(await held(againWithinMs + day + 1, againWithinMs)).toBe(true);
    expect(await held(againWithinMs + day, againWithinMs)).toBe(false);
    expect(await held(againWithinMs, againWithinMs - 2 * day)).toBe(false);
    expect(await held(againWithinMs + 1, againWithinMs - 2 * day)).toBe(true);
    expect(await held(againWithinMs + day + 1, undefined)).toBe(false);
    // Another row of the same sheet.
    expect(await held(againWithinMs + day + 1, againWithinMs, 'one')).toBe(false);
    // The server's clock is ahead.
    expect(await held(againWithinMs + 1, againWithinMs - 2 * day, 'other', 3 * day)).toBe(false);
  });
});

describe('the response to a row', () => {
  const response = (status: number) => ({ response: { status, body: {}, raw: `HTTP ${status}` } });
  const deleting = { ...balance, operation: 'users.delete', body: () => ({}) } as unknown as Action;

  test.each([
    ['a lost one', new WriteOutcomeUnknown('lost'), balance, 'lost', null],
    ['an error', new WriteOutcomeUnknown('failed', response(500)), balance, 'lost', 'HTTP 500'],
    ['a conflict', new WriteOutcomeUnknown('conflict', response(409)), balance, 'lost', 'HTTP 409'],
    ['a conflict of a deletion', new WriteOutcomeUnknown('conflict', response(409)), deleting, 'refused', 'HTTP 409'],
    ['an error of a deletion', new WriteOutcomeUnknown('failed', response(500)), deleting, 'lost', 'HTTP 500'],
    ['a lost one of a deletion', new WriteOutcomeUnknown('lost'), deleting, 'lost', null],
    ['a refusal', new RefusedInput('no', 422, [], response(422)), balance, 'refused', 'HTTP 422'],
    ['no such user', new NotFound('no user', response(404)), balance, 'refused', 'HTTP 404'],
  ] as const)('is recorded by its kind: %s', async (_, error, action, answerKind, answer) => {
    const { fails, intent } = await sending();
    const end = await fails(error, action);
    expect(await intent()).toMatchObject({
      answerKind,
      answer,
      httpStatus: answer === null ? null : Number(answer.slice(5)),
    });
    expect(problemOf(end)).toBe('none');
  });
});
