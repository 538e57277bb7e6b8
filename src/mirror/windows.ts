/** The cutting of creation time into windows (pure). Section "Windows and walks" of docs/architecture.md. */
import { coverageOf, eraEnd, eraStart, type DayRange } from '../model/era.ts';
import { addDays, dayOf, daysBetween, type Day } from '../model/time.ts';
import type { NewWindow, Window } from '../store/mirror-types.ts';

/** The first day that is not sealed. Days before it can lose records, not gain any. */
export function sealDay(serverNow: number, graceMs: number): Day {
  return dayOf(serverNow - graceMs);
}

/** Whether records may still be added to the window: it is not sealed, or not one of days. */
export function isOpen(window: DayRange, seal: Day): boolean {
  return coverageOf(window) !== 'days' || window.to > seal;
}

/** The windows of a mirror that has none: history and the open end, cut at further days where the caller needs it. */
export function firstWindows(cuts: readonly Day[]): NewWindow[] {
  const within = cuts.filter((day) => day > eraStart && day < eraEnd);
  const days = [...new Set([eraStart, ...within, eraEnd])].sort();
  return days.slice(1).map((to, index) => ({ from: days[index] ?? eraStart, to }));
}

/** Days between which all records lie, as far as is known. */
export interface Extent {
  readonly oldest: Day | null;
  readonly newest: Day | null;
}

/** The day at which the window is best cut in two, undefined where it cannot be: a single day, or no days. */
export function splitDay(window: DayRange, extent: Extent): Day | undefined {
  if (coverageOf(window) !== 'days') return undefined;
  const oldest = extent.oldest ?? window.from;
  const from = oldest > window.from ? oldest : window.from;
  const last = extent.newest === null ? window.to : addDays(extent.newest, 1);
  const to = last < window.to ? last : window.to;
  const days = daysBetween(from, to);
  if (days > 1) return addDays(from, Math.floor(days / 2));
  // The records lie on one day, or beside what was thought to be their extent: cut the empty side off, or halve.
  if (from > window.from && from < window.to) return from;
  if (to < window.to && to > window.from) return to;
  const width = daysBetween(window.from, window.to);
  return width > 1 ? addDays(window.from, Math.floor(width / 2)) : undefined;
}

/** The window cut at a day, with the records that the server counts before that day. */
export function splitWindow(window: Window, at: Day, before: number): [NewWindow, NewWindow] {
  const rest = window.serverTotal === null ? null : Math.max(0, window.serverTotal - before);
  return [
    { from: window.from, to: at, serverTotal: before },
    { from: at, to: window.to, serverTotal: rest },
  ];
}

/**
 * Joins small settled neighbours, so that years of nightly runs do not leave a window a day; not the open end.
 * @param most records of a joined window @param more what each total is too large by, whatever its days
 */
export function mergeWindows(windows: readonly Window[], seal: Day, most: number, more = 0): NewWindow[] {
  const merged: NewWindow[] = [];
  for (const window of windows) {
    const last = merged.at(-1);
    const both = (last?.serverTotal ?? Infinity) + (window.serverTotal ?? Infinity) - more;
    if (
      last?.state === 'settled' &&
      coverageOf(last) === 'days' &&
      window.state === 'settled' &&
      !isOpen(window, seal) &&
      both - more <= most &&
      last.freshAsOf &&
      window.freshAsOf
    ) {
      const freshAsOf = last.freshAsOf < window.freshAsOf ? last.freshAsOf : window.freshAsOf;
      merged[merged.length - 1] = { from: last.from, to: window.to, state: 'settled', serverTotal: both, freshAsOf };
    } else {
      merged.push(window);
    }
  }
  return merged;
}
