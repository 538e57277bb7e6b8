/** Cuts creation time into windows (pure). Section "Windows and walks" of docs/architecture.md. */
import { coverageOf, eraEnd, eraStart, type DayRange } from '../model/era.ts';
import { addDays, dayOf, daysBetween, type Day } from '../model/time.ts';
import type { NewWindow, Window } from '../store/mirror-types.ts';

/** The first day that is not sealed. Earlier days can lose records, but should gain none. */
export function sealDay(serverNow: number, graceMs: number): Day {
  return dayOf(serverNow - graceMs);
}

/** Whether the window may still gain records: it is not sealed, or it is not a range of days. */
export function isOpen(window: DayRange, seal: Day): boolean {
  return coverageOf(window) !== 'days' || window.to > seal;
}

/** The windows of a new mirror: all of time, cut at the given days. */
export function firstWindows(cuts: readonly Day[]): NewWindow[] {
  const within = cuts.filter((day) => day > eraStart && day < eraEnd);
  const days = [...new Set([eraStart, ...within, eraEnd])].sort();
  return days.slice(1).map((to, index) => ({ from: days[index] ?? eraStart, to }));
}

/** The days of the oldest and the newest record, as far as is known. */
export interface Extent {
  readonly oldest: Day | null;
  readonly newest: Day | null;
}

/** The best day to cut the window in two; undefined if it cannot be cut: it is a single day, or not a range of days. */
export function splitDay(window: DayRange, extent: Extent): Day | undefined {
  if (coverageOf(window) !== 'days') return undefined;
  const oldest = extent.oldest ?? window.from;
  const from = oldest > window.from ? oldest : window.from;
  const last = extent.newest === null ? window.to : addDays(extent.newest, 1);
  const to = last < window.to ? last : window.to;
  const days = daysBetween(from, to);
  if (days > 1) return addDays(from, Math.floor(days / 2));
  // The records lie on one day, or outside the known extent: cut off the empty side, or cut in the middle.
  if (from > window.from && from < window.to) return from;
  if (to < window.to && to > window.from) return to;
  const width = daysBetween(window.from, window.to);
  return width > 1 ? addDays(window.from, Math.floor(width / 2)) : undefined;
}

/** Cuts the window at a day. @param before how many records the server counts in the window before that day */
export function splitWindow(window: Window, at: Day, before: number): [NewWindow, NewWindow] {
  const rest = window.serverTotal === null ? null : Math.max(0, window.serverTotal - before);
  return [
    { from: window.from, to: at, serverTotal: before },
    { from: at, to: window.to, serverTotal: rest },
  ];
}

/**
 * Joins small settled neighbours, but not the open window: otherwise years of nightly runs would leave one window a day.
 * @param maxRecords the most records of a joined window
 * @param surplus by how much every total is too large, whatever its days
 */
export function mergeWindows(windows: readonly Window[], seal: Day, maxRecords: number, surplus = 0): NewWindow[] {
  const merged: NewWindow[] = [];
  for (const window of windows) {
    const last = merged.at(-1);
    const both = (last?.serverTotal ?? Infinity) + (window.serverTotal ?? Infinity) - surplus;
    if (
      last?.state === 'settled' &&
      coverageOf(last) === 'days' &&
      window.state === 'settled' &&
      !isOpen(window, seal) &&
      both - surplus <= maxRecords &&
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
