/**
 * Amounts as servers, mirrors and files give them, to exact decimals and to text - no float is ever calculated with -, and
 * the bounds on the money that goes out, in a row, in a batch and in a day. Pure. Section "Writing" of docs/architecture.md.
 */
import { Big } from 'big.js';
import { type ApprovalSubject, type ApprovalTotals, movesMoney } from '../model/approval.ts';
import { counted } from '../model/counted.ts';
import type { Money } from '../model/money.ts';

const decimal = /^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/i;

/** 5, 5.5, "5.50" and whole numbers beyond 2^53 as what they say; null for anything that is no plain number. */
export function decimalOf(value: unknown): Big | null {
  // Of a number, the shortest text that reads back as it is what the server wrote.
  const text = typeof value === 'number' || typeof value === 'bigint' ? String(value) : value;
  return typeof text === 'string' && decimal.test(text.trim()) ? new Big(text.trim()) : null;
}

const leastPlaces = 2;

/** In plain notation with two places, or as many as it has. */
export function moneyText(value: Big): Money {
  const places = Math.max(leastPlaces, value.c.length - value.e - 1);
  const text = value.toFixed(places);
  return (/^-0\.?0*$/.test(text) ? text.slice(1) : text) as Money;
}

export function moneyOf(value: unknown): Money | null {
  const read = decimalOf(value);
  return read === null ? null : moneyText(read);
}

/** Undefined where a bound is off. Amounts are changes of balances without their signs. */
export interface Caps {
  readonly maxRow: Money | undefined;
  /** Of a batch, and of all that is claimed within 24 hours. */
  readonly maxTotal: Money | undefined;
  readonly maxDay: Money | undefined;
  readonly maxRows: number | undefined;
}

/** For what takes rows back: it can be no more than what went out under the bounds. */
export const noCaps: Caps = { maxRow: undefined, maxTotal: undefined, maxDay: undefined, maxRows: undefined };

/** Balances of one row, as the plan has them; of other actions, text that is no amount. */
interface PlannedChange {
  readonly plannedBefore: string | null;
  readonly plannedAfter: string | null;
}

/** By how much the row changes the balance; null where it changes none. */
export function changeOf({ plannedBefore, plannedAfter }: PlannedChange): Big | null {
  return changeBetween(plannedBefore, plannedAfter);
}

/** Null where one of them is no amount. */
export function changeBetween(from: string | null, to: string | null): Big | null {
  const [before, after] = [decimalOf(from), decimalOf(to)];
  return before === null || after === null ? null : after.minus(before);
}

/** Why the row changes too much, in words; null where it does not. */
export function rowCapProblem(change: string | Big, { maxRow }: Pick<Caps, 'maxRow'>): string | null {
  const amount = new Big(change);
  if (maxRow === undefined || amount.abs().lte(maxRow)) return null;
  return `the balance would change by ${moneyText(amount)}, more than bulk.max_row allows (${maxRow})`;
}

/**
 * Why the batch must not go out, in words; null where it may.
 * @param others changes of other rows that were claimed within the day
 */
export function batchCapProblem(
  rows: readonly PlannedChange[],
  others: readonly PlannedChange[],
  caps: Caps,
): string | null {
  if (caps.maxRows !== undefined && rows.length > caps.maxRows) {
    return `there are ${counted(rows.length, 'row')}, more than bulk.max_rows allows (${caps.maxRows})`;
  }
  if (caps.maxRow === undefined && caps.maxTotal === undefined && caps.maxDay === undefined) return null;
  let total = new Big(0);
  for (const row of rows) {
    const change = changeOf(row);
    const problem = change === null ? null : rowCapProblem(change, caps);
    if (problem !== null) return problem;
    if (change !== null) total = total.plus(change.abs());
  }
  if (caps.maxTotal !== undefined && total.gt(caps.maxTotal)) {
    return `the rows move ${moneyText(total)} in all, more than bulk.max_total allows (${caps.maxTotal})`;
  }
  if (caps.maxDay === undefined || total.eq(0)) return null;
  const before = grossOf(others);
  if (before.plus(total).lte(caps.maxDay)) return null;
  return (
    `the rows move ${moneyText(total)}, and other batches have moved ${moneyText(before)} within the last 24 hours: ` +
    `together more than bulk.max_day allows (${caps.maxDay})`
  );
}

/**
 * What the policy of approval goes by.
 * @param others changes of rows that the same person has sent alone within the day
 */
export function approvalTotals(
  subject: ApprovalSubject,
  rows: readonly PlannedChange[],
  others: readonly PlannedChange[],
): ApprovalTotals {
  if (!movesMoney(subject)) return { money: null, rows: rows.length, aloneToday: String(others.length) };
  let [rowAmount, net] = [new Big(0), new Big(0)];
  for (const row of rows) {
    const change = changeOf(row) ?? new Big(0);
    net = net.plus(change);
    if (change.abs().gt(rowAmount)) rowAmount = change.abs();
  }
  const money = { rowAmount: moneyText(rowAmount), net: moneyText(net), gross: moneyText(grossOf(rows)) };
  return { money, rows: rows.length, aloneToday: moneyText(grossOf(others)) };
}

/** What to do about a bound that holds. */
export const capAdvice =
  'Look at the amounts. If they are meant, raise the bound in the config file, or set it to off.';

/** Changes up and down, without their signs. */
function grossOf(rows: Iterable<PlannedChange>): Big {
  let sum = new Big(0);
  for (const row of rows) sum = sum.plus(changeOf(row)?.abs() ?? 0);
  return sum;
}
