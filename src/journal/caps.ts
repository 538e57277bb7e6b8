/**
 * The bounds on money that goes out: in a row or by hand, in a batch, and in a day. Pure. Section "Writing" of
 * docs/architecture.md.
 */
import { Big } from 'big.js';
import { counted } from '../model/text.ts';
import {
  amountWords,
  type Caps,
  changeOf,
  grossOf,
  type Money,
  moneyText,
  type PlannedChange,
} from '../model/money.ts';

/** Returns why the row changes too much; null if it does not. */
export function rowCapProblem(
  change: string | Big,
  { maxRow, currency }: Pick<Caps, 'maxRow' | 'currency'>,
): string | null {
  if (maxRow === undefined) return null;
  const amount = new Big(change);
  if (amount.abs().lte(maxRow)) return null;
  const [by, most] = [amountWords(moneyText(amount), currency), amountWords(maxRow, currency)];
  return `the balance would change by ${by}, more than bulk.max_row allows (${most})`;
}

/** Returns why the batch has too many rows; null if it does not. */
export function rowsCapProblem(rows: number, { maxRows }: Pick<Caps, 'maxRows'>): string | null {
  if (maxRows === undefined || rows <= maxRows) return null;
  return `there are ${counted(rows, 'row')}, more than bulk.max_rows allows (${maxRows})`;
}

/**
 * Returns why the batch must not go out; null if it may.
 * @param others what else was sent within 24 hours
 */
export function batchCapProblem(
  rows: readonly PlannedChange[],
  others: readonly PlannedChange[],
  caps: Caps,
): string | null {
  const tooMany = rowsCapProblem(rows.length, caps);
  if (tooMany !== null) return tooMany;
  if (caps.maxRow === undefined && caps.maxTotal === undefined && caps.maxDay === undefined) return null;
  let total = new Big(0);
  for (const row of rows) {
    const change = changeOf(row);
    const problem = change === null ? null : rowCapProblem(change, caps);
    if (problem !== null) return problem;
    if (change !== null) total = total.plus(change.abs());
  }
  const words = (amount: Big | Money): string =>
    amountWords(typeof amount === 'string' ? amount : moneyText(amount), caps.currency);
  if (caps.maxTotal !== undefined && total.gt(caps.maxTotal)) {
    return `the rows move ${words(total)} in all, more than bulk.max_total allows (${words(caps.maxTotal)})`;
  }
  if (caps.maxDay === undefined || total.eq(0)) return null;
  const before = grossOf(others);
  if (before.plus(total).lte(caps.maxDay)) return null;
  return (
    `the rows move ${words(total)}, and what else was sent within the last 24 hours moved ${words(before)}: ` +
    `together more than bulk.max_day allows (${words(caps.maxDay)})`
  );
}

/** What to do if a bound refuses a row or batch. */
export const capAdvice =
  'Check the rows and their amounts. If they are right, raise the bound in the config file, or set it to off.';
