/**
 * Whether a change of a balance happened, by what was seen before and what is seen now. Pure. The token is proof; the
 * balance is weaker, since others change it too, and decides only where the server itself said what it did. Section
 * "Settling" of docs/architecture.md.
 */
import { Big } from 'big.js';
import { counted } from '../../model/counted.ts';
import type { AnswerKind } from '../../journal/port.ts';
import type { Judgement, Target } from '../action.ts';
import { moneyText } from '../decimal.ts';
import type { BalanceParameters, BalanceSighting } from './balance-sighting.ts';

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
  before: BalanceSighting,
  now: BalanceSighting,
  answer: AnswerKind | null,
): Judgement {
  const after = now.balance;
  if (now.hits > 1) return overApplied(target, now);
  if (now.hits === 1) {
    if (now.agreeing === 1) {
      return {
        kind: 'applied',
        evidence: 'token',
        after,
        note: `the transaction with ${target.token} is there`,
        recordId: now.recordId,
        contradiction: contradictionOf(target.parameters, before, now),
      };
    }
    return { kind: 'unclear', after, note: `the transaction with ${target.token} has another amount or direction` };
  }
  if (!now.found) {
    const note = 'the user is not there any more';
    return answer === 'refused'
      ? { kind: 'absent', evidence: 'answer', after, note }
      : { kind: 'unclear', after, note };
  }
  const signs = signsOf(target.parameters, before, now);
  if (signs === undefined) return { kind: 'unclear', after, note: 'the balance cannot be read' };
  switch (answer) {
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

/** Undefined where a balance was not told. */
function signsOf(parameters: BalanceParameters, before: BalanceSighting, now: BalanceSighting): Signs | undefined {
  if (before.balance === null || now.balance === null) return undefined;
  const expected = resultOf(parameters, before.balance);
  const change = new Big(now.balance).minus(before.balance);
  const shown = before.shown && now.shown;
  const unchanged = change.eq(0);
  const fits = expected.eq(now.balance);
  const alike = Math.max(0, now.alike - before.alike);
  const told = isExplained(before, now, change);
  // A balance that is what the row would leave may be the row's work, whatever else is shown beside it.
  const absent = shown && alike === 0 && (unchanged || (told && !fits));
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
function isExplained(before: BalanceSighting, now: BalanceSighting, change: Big): boolean {
  if (before.sum === null || now.sum === null || before.sets !== now.sets) return false;
  return new Big(now.sum).minus(before.sum).eq(change);
}

/**
 * The transaction is there, and the balance is neither what it should leave nor what all transactions together make of it:
 * it was cut off at a bound, or another writer overwrote it.
 */
function contradictionOf(parameters: BalanceParameters, before: BalanceSighting, now: BalanceSighting): string | null {
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

function overApplied({ user, parameters, token }: Target<BalanceParameters>, now: BalanceSighting): Judgement {
  const { type, amount } = parameters;
  const times = now.hits - 1;
  const excess = moneyText(new Big(amount).times(times));
  const back = type === 'add' ? 'remove' : 'add';
  const command =
    `admin-mirror users update-balance ${user} --type ${back} --amount ${excess} ` +
    `--description "Correction of ${token}, made ${now.hits} times"`;
  return {
    kind: 'over_applied',
    evidence: 'token',
    after: now.balance,
    note: `made ${now.hits} times: ${now.hits} transactions carry ${token}`,
    reversal: type === 'set' ? 'none is needed: the balance was set to the same amount each time' : command,
  };
}
