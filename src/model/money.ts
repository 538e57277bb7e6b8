/** Money is decimal: text in, big.js inside, text out. No amount ever passes through a float. */
import { Big } from 'big.js';
import { grouped } from './text.ts';

declare const brand: unique symbol;

/** A decimal amount in plain notation, `12.50`. */
export type Money = string & { readonly [brand]: 'Money' };

const plainDecimal = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)$/;

/**
 * Returns the text as an exact amount, with the decimal places it was written with, or why it is none. It may have `decimals`
 * places and 15 significant digits, so that a server that stores doubles cannot change it.
 */
export function parseMoney(text: string, decimals = 2): { money: Money } | { problem: string } {
  const trimmed = text.trim();
  if (!plainDecimal.test(trimmed)) return { problem: `"${text}" is not a plain decimal number such as 12.50` };
  // big.js does not accept a plus sign.
  const value = new Big(trimmed.replace('+', ''));
  const places = trimmed.split('.')[1]?.length ?? 0;
  if (places > decimals) return { problem: `"${text}" has ${places} decimal places; at most ${decimals} are allowed` };
  if (value.c.length > 15) return { problem: `"${text}" has more than 15 significant digits` };
  return { money: value.toFixed(places) as Money };
}

// With a larger exponent, a few characters would become gigabytes of digits.
const decimal = /^-?\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?$/i;

/** In a larger double, the last places are not cents. */
const largestDouble = 2 ** 43;
const maxPlaces = 6;

/** Returns the number without the noise of calculating with doubles: 0.1 + 0.2, 0.30000000000000004, becomes 0.3. */
function withoutNoise(value: number): Big {
  // The server wrote the shortest text that reads back as the number.
  const written = new Big(String(value));
  if (Math.abs(value) >= largestDouble) return written;
  const places = Math.min(maxPlaces, 14 - Math.max(0, written.e));
  // Nearly all numbers have few places, and there are a hundred thousand of them.
  if (written.c.length - written.e - 1 <= places) return written;
  const rounded = written.round(places);
  const noise = Math.max(1e-9, Math.abs(value) * 2 ** -50);
  return written.minus(rounded).abs().lte(noise) ? rounded : written;
}

/**
 * Returns the exact value of 5, 5.5, "5.50" or a whole number beyond 2^53, and of a double without the noise behind its sixth
 * place. Null for anything that is no plain number.
 */
export function decimalOf(value: unknown): Big | null {
  if (typeof value === 'number') return Number.isFinite(value) ? withoutNoise(value) : null;
  const text = typeof value === 'bigint' ? String(value) : value;
  if (typeof text !== 'string') return null;
  const trimmed = text.trim();
  return decimal.test(trimmed) ? new Big(trimmed) : null;
}

const minPlaces = 2;

/** Returns the amount in plain notation, with at least two places. */
export function moneyText(value: Big): Money {
  const places = Math.max(minPlaces, value.c.length - value.e - 1);
  const text = value.toFixed(places);
  return (/^-0\.?0*$/.test(text) ? text.slice(1) : text) as Money;
}

/** The amount as people read it: `+1,306.00 EUR`. @param isSigned shows the sign of what is above zero, too */
export function amountWords(amount: string, currency: string | undefined, isSigned = false): string {
  const [whole = '', cents] = amount.split('.', 2);
  const sign = isSigned && !/^-|^0*(?:\.0*)?$/.test(amount) ? '+' : '';
  const digits = `${sign}${grouped(whole)}${cents === undefined ? '' : `.${cents}`}`;
  return currency === undefined ? digits : `${digits} ${currency}`;
}

export function moneyOf(value: unknown): Money | null {
  const read = decimalOf(value);
  return read === null ? null : moneyText(read);
}

/** Planned balances of one row. For other actions these are texts that are no amounts. */
export interface PlannedChange {
  readonly plannedBefore: string | null;
  readonly plannedAfter: string | null;
}

/** Returns by how much the row changes the balance; null if it changes none. */
export function changeOf({ plannedBefore, plannedAfter }: PlannedChange): Big | null {
  return changeBetween(plannedBefore, plannedAfter);
}

/** Null if one of them is no amount. */
export function changeBetween(from: string | null, to: string | null): Big | null {
  const [before, after] = [decimalOf(from), decimalOf(to)];
  return before === null || after === null ? null : after.minus(before);
}

/** Returns the sum of the absolute changes. */
export function grossOf(rows: Iterable<PlannedChange>): Big {
  let sum = new Big(0);
  for (const row of rows) sum = sum.plus(changeOf(row)?.abs() ?? 0);
  return sum;
}

/** Absolute changes of balances. Undefined means that the bound is off. */
export interface Caps {
  readonly maxRow: Money | undefined;
  /** Of a batch; the next one of everything claimed within 24 hours. */
  readonly maxTotal: Money | undefined;
  readonly maxDay: Money | undefined;
  readonly maxRows: number | undefined;
  /** What amounts are in, for people. */
  readonly currency?: string | undefined;
}

/** For batches that take rows back: they cannot exceed what went out under the bounds. */
export const noCaps: Caps = { maxRow: undefined, maxTotal: undefined, maxDay: undefined, maxRows: undefined };

/** Returns whether the typed text means this total: `8666.4` equals `8666.40`, and spaces around numbers do not matter. */
export function isSameTotal(typed: string, total: string): boolean {
  const plainest = (text: string): string[] => text.split('/').map((part) => decimalOf(part)?.toFixed() ?? part);
  return plainest(typed).join('/') === plainest(total).join('/');
}
