/** Money as whole cents: what a balance is inside the sandbox. */
import { Big } from 'big.js';

/** The most that a balance column holds. */
export const mostCents = 999_999_999_999_999;

/** A number of the API as cents, rounded half away from zero as a decimal column does. */
export function centsOf(value: string | number): number {
  return new Big(typeof value === 'string' ? value.trim() : value).times(100).round(0, Big.roundHalfUp).toNumber();
}

/** Cents as the number that the API writes: 1250 is 12.5. Exact: both ends have at most 15 digits. */
export function numberOf(cents: number): number {
  return cents / 100;
}
