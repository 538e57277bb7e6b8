/**
 * Reads a user's balance and transactions, and judges from two such readings whether a change of the balance was made. Pure except
 * for the reading. The token is proof. The balance is weaker evidence, since others change it too; it decides only if the server
 * itself said what it did. Section "Settling" of docs/architecture.md.
 */
import { Big } from 'big.js';
import type { ApiRecord } from '../../api/body.ts';
import type { AnswerKind } from '../../journal/port.ts';
import { counted } from '../../model/text.ts';
import type { BalanceChangeType } from '../../model/operations.ts';
import type { Judgement, LookingClient, Marks, Observation, Target } from '../action.ts';
import { decimalOf, moneyOf, moneyText } from '../../model/money.ts';
import { parseInstant } from '../../model/time.ts';
import { correctionOf, mayHaveLost, saysCorrection, tokenAtEnd } from '../token.ts';
import { judgeMissingUser, nameOf, readUser, relatedIn, observationOfUser, textOf, textsOf } from './user-with.ts';

/** The balance that the row should produce. */
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
  const making = makingIn(now);
  if (excessOf(making) > 0) return overApplied(target, before, now);
  if (hits === agreeing && agreeing > 0) {
    return {
      kind: 'applied',
      evidence: 'token',
      after,
      note:
        agreeing === 1
          ? `the transaction with ${target.token} is there`
          : `${madeWords(making)}: ${agreeing} transactions carry ${target.token}`,
      recordId: now.recordId,
      contradiction: contradictionOf(target.parameters, before, now),
    };
  }
  if (hits > 0) {
    // A server that takes a change back, or makes it in parts, may give all of these transactions the same text.
    const note =
      hits === 1
        ? `the transaction with ${target.token} has another amount or direction`
        : `${hits} transactions carry ${target.token}, and ${agreeingWords(agreeing)} the amount and direction of the row`;
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
  /** Whether both readings have transactions. */
  readonly shown: boolean;
  readonly unchanged: boolean;
  /** The balance is what the row should produce. */
  readonly fits: boolean;
  /** New transactions that may be the row's although they lack its token. */
  readonly alike: number;
  /** Transactions are shown, none can be the row's, and they explain every change of the balance. */
  readonly absent: boolean;
  readonly words: string;
}

/** Returns undefined if a balance is missing. */
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
  // If the balance is what the row would produce, the row may have produced it, even if other transactions explain it.
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

/** Whether the transactions between the two readings add up to the change of the balance. */
function isExplained(before: BalanceObservation, now: BalanceObservation, change: Big): boolean {
  if (before.sum === null || now.sum === null || before.sets !== now.sets) return false;
  return new Big(now.sum).minus(before.sum).eq(change);
}

/**
 * Says how the balance contradicts a transaction that is there; null if it does not. The balance is neither what the row should
 * produce nor explained by all transactions together: the server cut it off at a bound, or another writer overwrote it.
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

/** Judges after a response of success: a balance that is exactly right confirms it. */
function judgeAccepted(signs: Signs, after: string | null): Judgement {
  const note = signs.words;
  // The same amount added twice would produce another balance, but a second `set` would not, so the transactions count, too.
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
  const making = makingIn(now);
  const isAsOnce =
    before.balance !== null && now.balance !== null && resultOf(parameters, before.balance).eq(now.balance);
  const doubt =
    isAsOnce && parameters.type !== 'set'
      ? `, but the balance is ${now.balance}, as after one of them: check it before you take anything back`
      : '';
  return {
    kind: 'over_applied',
    evidence: 'token',
    after: now.balance,
    note: `${madeWords(making)}: ${now.agreeing} transactions carry ${token}${doubt}`,
    reversal: reversalOf(target, excessOf(making), `made ${now.agreeing} times`),
  };
}

/** The command that takes back what was made `times` times too often. */
export function reversalOf(
  { user, parameters: { type, amount }, token }: Target<BalanceParameters>,
  times: number,
  why: string,
): string {
  if (type === 'set') return 'none is needed: the balance was set to the same amount each time';
  const excess = moneyText(new Big(amount).times(times));
  return (
    `\`admin-mirror users update-balance ${user} --type ${type === 'add' ? 'remove' : 'add'} --amount ${excess} ` +
    `--description "${correctionOf(token)}, ${why}"\``
  );
}

/** A row's instruction. Amounts are decimal text. */
export interface BalanceParameters {
  readonly [name: string]: unknown;
  readonly type: BalanceChangeType;
  readonly amount: string;
  readonly description: string | null;
  /** The row is sent only if the balance is this. */
  readonly expected_balance: string | null;
}

export interface BalanceObservation extends Observation {
  readonly balance: string | null;
  /** Whether the server shows transactions of the user. */
  readonly shown: boolean;
  /** Transactions with the row's token, other than those that take it back. */
  readonly hits: number;
  /** Those of them that do what the row says. */
  readonly agreeing: number;
  /** How many of these were taken back since; missing if none, and in journals of earlier versions. */
  readonly takenBack?: number;
  /** Other transactions that do what the row says and whose text does not show that they belong to another row. */
  readonly alike: number;
  /** Transactions that set the balance. */
  readonly sets: number;
  /** Sum of all transactions that add or remove; null if one of them does not show its amount or direction. */
  readonly sum: string | null;
  /** Tokens of other rows in transactions that do what this row does. */
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

/** Reads the user with transactions. A 404 is an observation; other errors of the client are thrown. */
export async function lookAtBalance(
  client: LookingClient,
  target: Target<BalanceParameters>,
  signal?: AbortSignal,
): Promise<BalanceObservation> {
  const record = await readUser(client, target, 'balance_transactions', signal);
  return observationOf(record, target.parameters, target.token);
}

/** The observation of a user's record, which may lack its transactions. @param record null if there is no such user */
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
  /** Tokens at the end of its texts. */
  readonly tokens: readonly string[];
  readonly texts: readonly string[];
  /** Undefined if it is not shown. */
  readonly type: BalanceChangeType | undefined;
  /** As shown: some servers give a removed amount a minus sign. */
  readonly amount: Big | null;
  /** The balance before the change. */
  readonly before: string | null;
  /** Time as the server writes it. */
  readonly at: string | null;
}

/** The balance transactions of a user; undefined if the record came without them. */
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

/** Whether the change does what the row says, as far as it shows. A missing amount or direction counts as the right one. */
export function does(change: ShownChange, { type, amount }: Pick<BalanceParameters, 'type' | 'amount'>): boolean {
  const magnitude = type === 'set' ? change.amount : (change.amount?.abs() ?? null);
  return (magnitude === null || magnitude.eq(amount)) && (change.type === undefined || change.type === type);
}

/** How often a row was made, as the server shows it, and how many of these were taken back since. */
interface Making {
  readonly made: number;
  readonly takenBack: number;
}

function makingIn({ agreeing, takenBack = 0 }: BalanceObservation): Making {
  return { made: agreeing, takenBack };
}

/** How often the row was made too often and was not taken back; 0 or less if it was not. */
export function excessOf({ made, takenBack }: Making): number {
  return made - takenBack - 1;
}

export function madeWords({ made, takenBack }: Making): string {
  const back = `, and ${takenBack} of them ${takenBack === 1 ? 'was' : 'were'} taken back`;
  return `made ${made} times${takenBack > 0 ? back : ''}`;
}

/** The first words of a sentence about how many of several transactions have the amount and direction of a row. */
export function agreeingWords(agreeing: number): string {
  return agreeing > 1 ? `${agreeing} of them have` : `${agreeing === 1 ? 'one' : 'none'} of them has`;
}

const opposite = { add: 'remove', remove: 'add' } as const;

export interface ShownMaking extends Making {
  /** The changes that took it back. */
  readonly corrections: readonly ShownChange[];
}

/**
 * Counts how many of the row's own changes were taken back: by opposite changes that name its token as the printed command does, of
 * a whole multiple of its amount, and not before the first of them. One that goes the row's own way, such as the undoing of such a
 * change, counts against them. Counts nothing for a row that was made once, or that set the balance: there is nothing to correct.
 * @param changes all changes of the user
 */
export function makingOf(
  own: readonly ShownChange[],
  changes: readonly ShownChange[],
  { type, amount }: Pick<BalanceParameters, 'type' | 'amount'>,
  token: string,
): ShownMaking {
  const once = new Big(amount);
  const corrections: ShownChange[] = [];
  let takenBack = 0;
  if (own.length > 1 && type !== 'set' && once.gt(0)) {
    for (const change of changes) {
      if (own.includes(change) || change.amount?.mod(once).eq(0) !== true || !corrects(change, own, token)) continue;
      const times = change.amount.abs().div(once).toNumber();
      if (change.type === type) takenBack -= times;
      else if (change.type === opposite[type] && times > 0) {
        takenBack += times;
        corrections.push(change);
      }
    }
  }
  return { made: own.length, takenBack: Math.max(0, takenBack), corrections };
}

/** Whether the change says that it corrects one of these. A server that takes a change back itself may give it the same text. */
function corrects({ texts, at }: ShownChange, own: readonly ShownChange[], token: string): boolean {
  const time = parseInstant(at) ?? Infinity;
  return (
    texts.some((text) => saysCorrection(text, token) && !own.some((each) => each.texts.includes(text))) &&
    own.some((each) => (parseInstant(each.at) ?? -Infinity) <= time)
  );
}

function tallyOf(
  changes: readonly ShownChange[],
  parameters: BalanceParameters,
  token: string,
): Omit<BalanceObservation, keyof Observation | 'balance'> {
  const own = changes.filter((change) => change.tokens.includes(token) && does(change, parameters));
  const { made: agreeing, takenBack, corrections } = makingOf(own, changes, parameters, token);
  let [hits, alike, sets] = [0, 0, 0];
  let sum: Big | null = new Big(0);
  let recordId: string | null = null;
  const others: { token: string; at: string | null }[] = [];
  for (const change of changes) {
    const { tokens, texts, type: direction, amount } = change;
    const agrees = does(change, parameters);
    if (tokens.includes(token)) {
      if (!corrections.includes(change)) {
        hits += 1;
        recordId ??= change.id;
      }
    } else if (agrees && tokens.length > 0) {
      others.push(...tokens.map((each) => ({ token: each, at: change.at })));
    } else if (agrees && texts.every((text) => mayHaveLost(text, token))) {
      alike += 1;
    }
    if (direction === 'set') sets += 1;
    else if (direction === undefined || amount === null) sum = null;
    else sum = sum === null ? null : direction === 'add' ? sum.plus(amount.abs()) : sum.minus(amount.abs());
  }
  const known = { hits, agreeing, ...(takenBack > 0 && { takenBack }), alike, sets, others, recordId };
  return { shown: true, ...known, sum: sum === null ? null : moneyText(sum) };
}
