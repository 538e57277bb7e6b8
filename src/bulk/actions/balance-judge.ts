/**
 * What is seen of a user's balance, and whether a change of it happened, by what was seen before and what is seen now. Pure
 * but for the look itself. The token is proof; the balance is weaker, since others change it too, and decides only where
 * the server itself said what it did. Section "Settling" of docs/architecture.md.
 */
import { Big } from 'big.js';
import type { ApiRecord } from '../../api/envelope.ts';
import type { AnswerKind } from '../../journal/port.ts';
import { counted } from '../../model/text.ts';
import type { BalanceChangeType } from '../../model/operations.ts';
import type { Judgement, LookingClient, Marks, Observation, Target } from '../action.ts';
import { decimalOf, moneyOf, moneyText } from '../../model/money.ts';
import { mayHaveLost, tokenAtEnd } from '../token.ts';
import { judgeMissingUser, nameOf, readUser, relatedIn, observationOfUser, textOf, textsOf } from './user-with.ts';

/** The balance that the row should leave. */
export function resultOf({ type, amount }: BalanceParameters, before: string): Big {
  switch (type) {
    case 'add':
      return new Big(before).plus(amount);
    case 'remove':
      return new Big(before).minus(amount);
    case 'set':
      return new Big(amount);
  }
}

export function judgeBalance(
  target: Target<BalanceParameters>,
  before: BalanceObservation,
  now: BalanceObservation,
  response: AnswerKind | null,
): Judgement {
  const after = now.balance;
  const { hits, agreeing } = now;
  if (agreeing > 1) return overApplied(target, before, now);
  if (hits === 1 && agreeing === 1) {
    return {
      kind: 'applied',
      evidence: 'token',
      after,
      note: `the transaction with ${target.token} is there`,
      recordId: now.recordId,
      contradiction: contradictionOf(target.parameters, before, now),
    };
  }
  if (hits > 0) {
    // A server that takes something back, or makes it in parts, may give each of them the same words.
    const note =
      hits === 1
        ? `the transaction with ${target.token} has another amount or direction`
        : `${hits} transactions carry ${target.token}, and ${agreeing === 1 ? 'one' : 'none'} of them has the amount and direction of the row`;
    return { kind: 'unclear', after, note, isMarked: true };
  }
  if (!now.found) return judgeMissingUser(response);
  const signs = signsOf(target.parameters, before, now);
  if (signs === undefined) return { kind: 'unclear', after, note: 'the balance cannot be read' };
  switch (response) {
    case 'accepted':
      return judgeAccepted(signs, after);
    case 'refused':
      return signs.absent || (!signs.shown && signs.unchanged)
        ? { kind: 'absent', evidence: signs.shown ? 'token' : 'balance', after, note: signs.words }
        : { kind: 'unclear', after, note: signs.words };
    case 'lost':
    case null:
      return signs.absent
        ? { kind: 'absent', evidence: 'token', after, note: signs.words }
        : { kind: 'unclear', after, note: signs.words };
  }
}

interface Signs {
  readonly shown: boolean;
  /** The balance is as it was. */
  readonly unchanged: boolean;
  /** The balance is what the row should leave. */
  readonly fits: boolean;
  /** Transactions that may be this row's without its token. */
  readonly alike: number;
  /** Transactions are shown, none may be the row's, and they account for whatever changed. */
  readonly absent: boolean;
  readonly words: string;
}

/** Undefined where a balance is missing. */
function signsOf(
  parameters: BalanceParameters,
  before: BalanceObservation,
  now: BalanceObservation,
): Signs | undefined {
  if (before.balance === null || now.balance === null) return undefined;
  const expected = resultOf(parameters, before.balance);
  const change = new Big(now.balance).minus(before.balance);
  const shown = before.shown && now.shown;
  const unchanged = change.eq(0);
  const fits = expected.eq(now.balance);
  const alike = Math.max(0, now.alike - before.alike);
  const reported = isExplained(before, now, change);
  // A balance that is what the row would leave may be the row's work, whatever else is shown beside it.
  const absent = shown && alike === 0 && (unchanged || (reported && !fits));
  const seen = unchanged
    ? `the balance is ${now.balance}, as it was before`
    : `the balance went from ${before.balance} to ${now.balance}${fits ? ', as it would by this row' : ''}`;
  const list = !shown
    ? 'the server shows no transactions'
    : alike > 0
      ? `${counted(alike, 'new transaction')} like it without its token`
      : 'no transaction of it is shown';
  return { shown, unchanged, fits, alike, absent, words: `${seen}; ${list}` };
}

/** What is shown as done between the two looks sums to the change of the balance. */
function isExplained(before: BalanceObservation, now: BalanceObservation, change: Big): boolean {
  if (before.sum === null || now.sum === null || before.sets !== now.sets) return false;
  return new Big(now.sum).minus(before.sum).eq(change);
}

/**
 * The transaction is there, and the balance is neither what it should leave nor what all transactions together make of it:
 * it was cut off at a bound, or another writer overwrote it.
 */
function contradictionOf(
  parameters: BalanceParameters,
  before: BalanceObservation,
  now: BalanceObservation,
): string | null {
  if (before.balance === null || now.balance === null) return null;
  const expected = resultOf(parameters, before.balance);
  if (expected.eq(now.balance) || isExplained(before, now, new Big(now.balance).minus(before.balance))) return null;
  return `the balance was ${before.balance}, should be ${moneyText(expected)} and is ${now.balance}`;
}

/** The server said that it did it: the balance, where it is exactly what it should be, agrees. */
function judgeAccepted(signs: Signs, after: string | null): Judgement {
  const note = signs.words;
  // Twice the same amount without a token would leave another balance, but a `set` twice would not.
  if (signs.fits && signs.alike <= 1) {
    return { kind: 'applied', evidence: signs.alike === 1 ? 'record' : 'balance', after, note };
  }
  if (signs.absent) return { kind: 'absent', evidence: 'token', after, note };
  return { kind: 'unclear', after, note };
}

function overApplied(
  target: Target<BalanceParameters>,
  before: BalanceObservation,
  now: BalanceObservation,
): Judgement {
  const { parameters, token } = target;
  const isAsOnce =
    before.balance !== null && now.balance !== null && resultOf(parameters, before.balance).eq(now.balance);
  const doubt =
    isAsOnce && parameters.type !== 'set'
      ? `, but the balance is ${now.balance}, as after one: look before you take back`
      : '';
  return {
    kind: 'over_applied',
    evidence: 'token',
    after: now.balance,
    note: `made ${now.agreeing} times: ${now.agreeing} transactions carry ${token}${doubt}`,
    reversal: reversalOf(target, now.agreeing - 1, `made ${now.agreeing} times`),
  };
}

/** How to take back what was made so many times too often. */
export function reversalOf(
  { user, parameters: { type, amount }, token }: Target<BalanceParameters>,
  times: number,
  why: string,
): string {
  if (type === 'set') return 'none is needed: the balance was set to the same amount each time';
  const excess = moneyText(new Big(amount).times(times));
  return (
    `admin-mirror users update-balance ${user} --type ${type === 'add' ? 'remove' : 'add'} --amount ${excess} ` +
    `--description "Correction of ${token}, ${why}"`
  );
}

/** A row's instruction. Amounts are decimal text. */
export interface BalanceParameters {
  readonly [name: string]: unknown;
  readonly type: BalanceChangeType;
  readonly amount: string;
  readonly description: string | null;
  /** The row is sent only while the balance is this. */
  readonly expected_balance: string | null;
}

export interface BalanceObservation extends Observation {
  readonly balance: string | null;
  /** Whether the server shows transactions of the user. */
  readonly shown: boolean;
  /** Transactions with the row's token. */
  readonly hits: number;
  /** Those of them that do what the row says. */
  readonly agreeing: number;
  /** Others that do what the row says, and whose text does not show that they are another's. */
  readonly alike: number;
  /** Transactions that set the balance. */
  readonly sets: number;
  /** What the others sum to; null where one of them does not show its amount or direction. */
  readonly sum: string | null;
  /** Tokens of other rows in transactions that do what this one does. */
  readonly others: Marks['others'];
  /** Id of the transaction with the row's token. */
  readonly recordId: string | null;
}

const nothing = {
  shown: false,
  hits: 0,
  agreeing: 0,
  alike: 0,
  sets: 0,
  sum: null,
  others: [],
  recordId: null,
} as const;

/** Looks at the user, with transactions. Throws what the client throws, but for 404. */
export async function lookAtBalance(
  client: LookingClient,
  target: Target<BalanceParameters>,
  signal?: AbortSignal,
): Promise<BalanceObservation> {
  const record = await readUser(client, target, 'balance_transactions', signal);
  return observationOf(record, target.parameters, target.token);
}

/** Of a user with transactions, as far as they are there; null where there is no such user. */
export function observationOf(
  record: ApiRecord | null,
  parameters: BalanceParameters,
  token: string,
): BalanceObservation {
  const seen = { ...observationOfUser(record), balance: moneyOf(record?.['balance']) };
  const changes = changesOf(record);
  return { ...seen, ...(changes === undefined ? nothing : tallyOf(changes, parameters, token)) };
}

const directions: Readonly<Record<string, BalanceChangeType>> = {
  '+': 'add',
  '-': 'remove',
  '=': 'set',
  add: 'add',
  remove: 'remove',
  set: 'set',
};

/** A change of a balance as the server shows it. */
export interface ShownChange {
  readonly id: string;
  /** At the end of its texts. */
  readonly tokens: readonly string[];
  readonly texts: readonly string[];
  /** Undefined where it is not shown. */
  readonly type: BalanceChangeType | undefined;
  /** As it is shown: of what was taken, some servers show a sign. */
  readonly amount: Big | null;
  /** What the balance was before. */
  readonly before: string | null;
  /** As the server says it. */
  readonly at: string | null;
}

/** The balance transactions of a user; undefined where the record came without them. */
export function changesOf(record: ApiRecord | null): readonly ShownChange[] | undefined {
  return relatedIn(record, 'balance_transactions')?.map(changeIn);
}

function changeIn(record: ApiRecord): ShownChange {
  const texts = textsOf(record);
  return {
    id: nameOf(record),
    tokens: texts.flatMap((text) => tokenAtEnd(text) ?? []),
    texts,
    type: directions[String(record['result'])] ?? directions[String(record['type'])],
    amount: decimalOf(record['amount']),
    before: moneyOf(record['balance_before_transaction']),
    at: textOf(record['created_at']),
  };
}

/** The change does what the row says, as far as it shows; an amount that is missing speaks neither for nor against. */
export function does(change: ShownChange, { type, amount }: Pick<BalanceParameters, 'type' | 'amount'>): boolean {
  const magnitude = type === 'set' ? change.amount : (change.amount?.abs() ?? null);
  return (magnitude === null || magnitude.eq(amount)) && (change.type === undefined || change.type === type);
}

function tallyOf(
  changes: readonly ShownChange[],
  parameters: BalanceParameters,
  token: string,
): Omit<BalanceObservation, keyof Observation | 'balance'> {
  let [hits, agreeing, alike, sets] = [0, 0, 0, 0];
  let sum: Big | null = new Big(0);
  let recordId: string | null = null;
  const others: { token: string; at: string | null }[] = [];
  for (const change of changes) {
    const { tokens, texts, type: direction, amount } = change;
    const alikeIt = does(change, parameters);
    if (tokens.includes(token)) {
      hits += 1;
      recordId ??= change.id;
      if (alikeIt) agreeing += 1;
    } else if (alikeIt && tokens.length > 0) {
      others.push(...tokens.map((each) => ({ token: each, at: change.at })));
    } else if (alikeIt && texts.every((text) => mayHaveLost(text, token))) {
      alike += 1;
    }
    if (direction === 'set') sets += 1;
    else if (direction === undefined || amount === null) sum = null;
    else sum = sum === null ? null : direction === 'add' ? sum.plus(amount.abs()) : sum.minus(amount.abs());
  }
  const known = { hits, agreeing, alike, sets, others, recordId };
  return { shown: true, ...known, sum: sum === null ? null : moneyText(sum) };
}
