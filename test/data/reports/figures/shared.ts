/** Helpers to compute the figures of reports. They share nothing with the reports. */
import { Big } from 'big.js';
import type { JsonRecord } from '../../../../src/sandbox/envelope.ts';
import type { World } from '../world.ts';

/** The rows that a report must have. */
export type Figures = (world: World) => readonly JsonRecord[];

export const day = 86_400_000;

/** The exact sum, as the nearest number. */
export function sum(amounts: readonly unknown[]): number {
  return amounts.reduce((total: Big, each) => total.plus(new Big(each as number | string)), new Big(0)).toNumber();
}

export function text(record: JsonRecord, key: string): string {
  return String(record[key]);
}

export function wholeDays(from: number, to: unknown): number {
  return Math.trunc((from - Math.trunc(Date.parse(String(to)) / 1_000) * 1_000) / day);
}

export function groups<T>(list: readonly T[], keyOf: (each: T) => string): [string, T[]][] {
  const map = new Map<string, T[]>();
  for (const each of list) map.set(keyOf(each), [...(map.get(keyOf(each)) ?? []), each]);
  return [...map];
}

/** To one decimal place, half away from zero. */
export function percent(part: number, whole: number): number | null {
  return whole === 0 ? null : new Big(part).times(100).div(whole).round(1, Big.roundHalfUp).toNumber();
}

/** By several keys, ascending, or descending if the key begins with `-`; null comes first. */
export function ordered<T extends JsonRecord>(rows: readonly T[], ...keys: readonly string[]): T[] {
  return rows.toSorted((a, b) => {
    for (const key of keys) {
      const falling = key.startsWith('-');
      const name = falling ? key.slice(1) : key;
      const [x, y] = falling ? [b[name], a[name]] : [a[name], b[name]];
      if (x === y) continue;
      if (x === null) return -1;
      if (y === null) return 1;
      return (x as string | number) < (y as string | number) ? -1 : 1;
    }
    return 0;
  });
}

/** The days from the first to the last, inclusive. */
export function daysFrom(first: number, last: number): string[] {
  const list: string[] = [];
  for (let at = first; at <= last; at += day) list.push(new Date(at).toISOString().slice(0, 10));
  return list;
}
