/** The bounds of creation time, and the windows that stand for what no range of days can reach. */
import type { Day } from './time.ts';

/** MySQL's earliest date. A window from here on reaches back to the first record. */
export const eraStart = '1000-01-01' as Day;
/** Far enough for what is really created, and not so far that a server's own arithmetic leaves its calendar. */
export const eraEnd = '3000-01-01' as Day;
/** Before all days: a window from here on is not one of days. */
export const outsideStart = '0000-01-01' as Day;

export interface DayRange {
  readonly from: Day;
  readonly to: Day;
}

/** Records without a creation time, or with one that is no date of the era: no range of days shows them. */
export const outsideEra: DayRange = { from: outsideStart, to: eraStart };

/** Every record, for a server that has no ranges. */
export const everything: DayRange = { from: outsideStart, to: eraEnd };

/** Which records a window owns: those of its days, those outside of the era, or all. */
export function coverageOf(window: DayRange): 'days' | 'outside' | 'everything' {
  if (window.from !== outsideStart) return 'days';
  return window.to === eraStart ? 'outside' : 'everything';
}

const dash = 45;

/** Whether the text begins like `2026-03-11`; anything else says nothing of a range. */
export function startsWithDay(text: string): boolean {
  return text.charCodeAt(4) === dash && text.charCodeAt(7) === dash;
}

/**
 * Whether a record that a request for the window shows is taken in with it: its own, and any whose creation time puts it in no
 * window that would be requested for it. Without those, a window would count them as read and leave their rows as they were.
 */
export function takes(window: DayRange, createdAt: unknown): boolean {
  return (
    owns(window, createdAt) ||
    owns(outsideEra, createdAt) ||
    (typeof createdAt === 'string' && !startsWithDay(createdAt))
  );
}

/** Whether a record's creation time lies in the window; timestamps in ISO 8601 compare as text. */
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
