/**
 * When changes need a second pair of eyes: the policy of the config file, applied to the totals of a batch. Amounts
 * are exact decimals. Pure.
 */
import { Big } from 'big.js';
import { counted } from './text.ts';
import { amountWords, changeOf, type Money, moneyOf, moneyText, type PlannedChange } from './money.ts';
import { durationText } from './time.ts';

/** What may need approval: the actions of `bulk`. */
export const approvalSubjects = ['balance', 'notify', 'email', 'create', 'update', 'delete'] as const;
export type ApprovalSubject = (typeof approvalSubjects)[number];

/** Returns whether its rows change balances, so that amounts can be thresholds. */
export function movesMoney(subject: ApprovalSubject): boolean {
  return subject === 'balance';
}

export const mostApprovers = 3;
export const defaultGoodFor = '72h';

/** Approval is needed above a threshold, not at it; undefined: not set. Without any threshold it is always needed. */
export interface ApprovalPolicy {
  /** The largest absolute change of one balance. */
  readonly rowAmount: Money | undefined;
  /** The absolute value of the sum of all changes. */
  readonly net: Money | undefined;
  /** The sum of all absolute changes. */
  readonly gross: Money | undefined;
  readonly rows: number | undefined;
  /** What one person may send within 24 hours without approval: the gross total if money moves, else rows. */
  readonly alonePerDay: Money | undefined;
  readonly approvers: number;
  /** How long an approval holds, and how long a batch may wait for one. */
  readonly goodForMs: number;
}

export type ApprovalPolicies = Readonly<Partial<Record<ApprovalSubject, ApprovalPolicy>>>;

/** What rows would do, as the policy counts it. */
export interface PlanTotals {
  /** The largest absolute change of one balance. Then the sum of all changes, signed and absolute. */
  readonly rowAmount: Money;
  readonly net: Money;
  readonly gross: Money;
  readonly rows: number;
  /** Rows whose change of a balance cannot be known beforehand. */
  readonly unknown: number;
}

const zero = '0.00' as Money;
export const noTotals: PlanTotals = { rowAmount: zero, net: zero, gross: zero, rows: 0, unknown: 0 };

/**
 * Returns the totals with one more row.
 * @param change of a balance; null if the row changes none
 */
export function withRow(totals: PlanTotals, change: Big | null): PlanTotals {
  const rows = totals.rows + 1;
  if (change === null) return { ...totals, rows };
  const size = change.abs();
  return {
    rowAmount: size.gt(totals.rowAmount) ? moneyText(size) : totals.rowAmount,
    net: moneyText(change.plus(totals.net)),
    gross: moneyText(size.plus(totals.gross)),
    rows,
    unknown: totals.unknown,
  };
}

/**
 * Returns why approval is needed; empty if it is not.
 * @param aloneToday what the same person has sent without approval within 24 hours, apart from this: gross total if money moves,
 * else rows
 * @param currency what amounts are in, for people
 */
export function approvalReasons(
  policy: ApprovalPolicy,
  subject: ApprovalSubject,
  totals: PlanTotals,
  aloneToday = '0',
  currency?: string,
): string[] {
  const { rows } = totals;
  const money = movesMoney(subject) ? totals : null;
  const { alonePerDay } = policy;
  const limits = [policy.rowAmount, policy.net, policy.gross, policy.rows, alonePerDay];
  if (limits.every((limit) => limit === undefined)) return ['it always needs approval'];
  const reasons: string[] = [];
  const hasAmount = [policy.rowAmount, policy.net, policy.gross, alonePerDay].some((limit) => limit !== undefined);
  if (hasAmount && money !== null && money.unknown > 0) {
    reasons.push('nobody can say beforehand by how much setting a balance changes it');
  }
  const words = (amount: string): string => amountWords(amount, money === null ? undefined : currency);
  const compare = (limit: Money | undefined, amount: string | undefined, what: string): void => {
    if (limit === undefined || amount === undefined || new Big(amount).abs().lte(limit)) return;
    reasons.push(`${what} ${words(new Big(amount).abs().toFixed())}, more than ${words(limit)}`);
  };
  compare(policy.rowAmount, money?.rowAmount, 'one row changes a balance by');
  compare(policy.net, money?.net, 'the net total is');
  compare(policy.gross, money?.gross, 'the gross total is');
  if (policy.rows !== undefined && rows > policy.rows) {
    reasons.push(`there are ${counted(rows, 'row')}, more than ${policy.rows}`);
  }
  const today = new Big(aloneToday).plus(money === null ? rows : new Big(money.gross).abs());
  const unit = money === null ? 'rows' : 'in all';
  if (alonePerDay !== undefined && today.gt(alonePerDay)) {
    reasons.push(
      `with it, one person would have sent ${words(today.toFixed())} ${unit} alone within 24 hours, more than ${words(alonePerDay)}`,
    );
  }
  return reasons;
}

/** A write by hand. `body` is JSON text; `balance` is the user's just before, if it is known. */
interface WriteByHand {
  readonly operation: string;
  readonly body: string;
  readonly balance?: string | null;
}

/** Returns what one write by hand would do: the subjects that it falls under, each with its totals. */
export function writeTotals(write: WriteByHand): readonly (readonly [ApprovalSubject, PlanTotals])[] {
  const subject = subjectsOfWrites[write.operation];
  if (subject === undefined) return [];
  const row = changeByHand(write);
  if (row === null) return [[subject, withRow(noTotals, null)]];
  const change = changeOf(row);
  return [[subject, change === null ? { ...noTotals, rows: 1, unknown: 1 } : withRow(noTotals, change)]];
}

/** Returns a write by hand as a row that changes a balance; null if it changes none. Setting changes it from what it was. */
export function changeByHand({ operation, body, balance = null }: WriteByHand): PlannedChange | null {
  const subject = subjectsOfWrites[operation];
  if (subject === undefined || !movesMoney(subject)) return null;
  const { type, amount } = fieldsOf(body);
  const isAdded = type === 'add' || type === 'remove';
  return { plannedBefore: isAdded ? '0' : balance, plannedAfter: moneyOf(amount) };
}

const subjectsOfWrites: Readonly<Record<string, ApprovalSubject>> = {
  'users.update-balance': 'balance',
  'users.send-notification': 'notify',
  'users.send-email': 'email',
  'users.create': 'create',
  'users.update': 'update',
  'users.delete': 'delete',
};

function fieldsOf(body: string): { readonly type?: unknown; readonly amount?: unknown } {
  try {
    return (JSON.parse(body) as { readonly type?: unknown } | null) ?? {};
  } catch {
    return {};
  }
}

/** Returns the policy by the names of the config file, without what is not set. */
export function policyByName(policy: ApprovalPolicy): Readonly<Record<string, string | number>> {
  const named = {
    row_amount: policy.rowAmount,
    net: policy.net,
    gross: policy.gross,
    rows: policy.rows,
    alone_per_day: policy.alonePerDay,
    approvers: policy.approvers,
    good_for: durationText(policy.goodForMs),
  };
  return Object.fromEntries(Object.entries(named).filter((each) => each[1] !== undefined)) as Record<
    string,
    string | number
  >;
}
