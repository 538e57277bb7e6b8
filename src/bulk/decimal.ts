/** Amounts as servers, mirrors and files give them, to exact decimals and to text. No float is ever calculated with. */
import { Big } from 'big.js';
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
