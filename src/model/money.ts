/** Money is decimal: text in, big.js inside, text out. No amount ever passes through a float. */
import { Big } from 'big.js';

declare const brand: unique symbol;

/** A decimal amount in plain notation, `12.50`. */
export type Money = string & { readonly [brand]: 'Money' };

const plainDecimal = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)$/;

/**
 * The text as an exact amount, with the places it was written with, or the reason why it is none: at most `decimals`
 * places and 15 significant digits, so that a server that keeps doubles cannot change it.
 */
export function parseMoney(text: string, decimals = 2): { money: Money } | { problem: string } {
  const trimmed = text.trim();
  if (!plainDecimal.test(trimmed)) return { problem: `"${text}" is not a plain decimal number such as 12.50` };
  // big.js knows no plus sign.
  const value = new Big(trimmed.replace(/^\+/, ''));
  const places = trimmed.split('.')[1]?.length ?? 0;
  if (places > decimals) return { problem: `"${text}" has ${places} decimal places; at most ${decimals} are allowed` };
  if (value.c.length > 15) return { problem: `"${text}" has more than 15 significant digits` };
  return { money: value.toFixed(places) as Money };
}
