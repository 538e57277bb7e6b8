/** The limits of creation time, and windows for records that no range of days can reach. */
import type { Day } from './time.ts';

/** MySQL's earliest date. A window that begins here reaches back to the first record. */
export const eraStart = '1000-01-01' as Day;
/** Later than anything is really created, and early enough for a server's own date arithmetic. */
export const eraEnd = '3000-01-01' as Day;
/** Before all days: a window that begins here is not one of days. */
export const outsideStart = '0000-01-01' as Day;

export interface DayRange {
  readonly from: Day;
  readonly to: Day;
}

/** Records without a creation time, or with one outside the era: no range of days shows them. */
export const outsideEra: DayRange = { from: outsideStart, to: eraStart };

/** Every record, for a server that has no ranges. */
export const everything: DayRange = { from: outsideStart, to: eraEnd };

/** Returns which records a window owns: those of its days, those outside the era, or all. */
export function coverageOf(window: DayRange): 'days' | 'outside' | 'everything' {
  if (window.from !== outsideStart) return 'days';
  return window.to === eraStart ? 'outside' : 'everything';
}

const dash = 45;

/** Returns whether the text begins like `2026-03-11`; other text says nothing about a range. */
export function startsWithDay(text: string): boolean {
  return text.charCodeAt(4) === dash && text.charCodeAt(7) === dash;
}

/**
 * Returns whether the mirror takes a record in if a request for the window shows it: the window's own records, and those that
 * no window would be requested for. Otherwise the window would count them as read and leave their rows out of date.
 */
export function takes(window: DayRange, createdAt: unknown): boolean {
  return (
    owns(window, createdAt) ||
    owns(outsideEra, createdAt) ||
    (typeof createdAt === 'string' && !startsWithDay(createdAt))
  );
}

/** Returns whether the creation time lies in the window. Timestamps in ISO 8601 compare as text. */
export function owns(window: DayRange, createdAt: unknown): boolean {
  const inEra = typeof createdAt === 'string' && createdAt >= eraStart && createdAt < eraEnd;
  switch (coverageOf(window)) {
    case 'everything':
      return true;
    case 'outside':
      return !inEra;
    case 'days':
      return inEra && createdAt >= window.from && createdAt < window.to;
  }
}
