/**
 * How creation time is cut into windows, and which of them a run reads, and why (pure). Sections "Windows and walks" and "What
 * a run does" of docs/architecture.md.
 */
import { coverageOf, type DayRange, eraEnd, eraStart } from '../model/era.ts';
import { addDays, type Day, dayOf, daysBetween, hourMs, type Timestamp } from '../model/time.ts';
import type { ResourceName } from '../model/resources.ts';
import type { NewWindow, Window } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';

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

export type Reason =
  | 'never read'
  | 'left unfinished'
  | 'rows are not as they were read'
  | 'open: records may still be added'
  | 'read whole in each run'
  | 'requested'
  | 'least recently read';

export interface Step {
  readonly window: Window;
  readonly reason: Reason;
}

/** How long after its end a window may still gain records. */
export const graceMs = 48 * hourMs;

/** Resources that are small and change without a trace in their creation dates: every run reads them whole. */
export const wholeResources: ReadonlySet<ResourceName> = new Set(['packages', 'coupons']);

export type Mode = 'default' | 'quick' | 'full';

export interface PlanInput {
  readonly windows: readonly Window[];
  /** Whether rows of the window are not as they were read. Not called for windows that are read anyway. */
  readonly isAltered: (window: Window) => boolean;
  readonly isOpen: (window: Window) => boolean;
  readonly mode: Mode;
  /** Whether every run reads the resource whole. */
  readonly whole: boolean;
  /** Plan only windows that hold days of this range; null for all. */
  readonly only: DayRange | null;
  /** Windows that were settled at this time or later are not read again; null if that does not matter. */
  readonly readSince: Timestamp | null;
  /** How many pages of old windows may be read again. */
  readonly budget: number;
  readonly pageSize: number;
  /** Returns how many records the pages of a window show, as far as is known: a surplus takes no request. */
  readonly shownIn: (window: Window) => number;
  /** Returns when records of the window were last found to be unreadable; undefined if none is. */
  readonly searchedAt?: (window: Window) => Timestamp | undefined;
}

/** Returns why the window must be read, whatever the budget; undefined if it need not be. */
function dutyOf(window: Window, input: PlanInput): Reason | undefined {
  if (window.state === 'pending') return 'never read';
  // Unreadable records are searched again in their turn. Other changes of the window show in the counts.
  const isSearched = window.state === 'unsettled' && input.searchedAt?.(window) !== undefined;
  if (window.state !== 'settled' && !isSearched) return 'left unfinished';
  if (input.only !== null || input.mode === 'full') return 'requested';
  if (input.isOpen(window)) return 'open: records may still be added';
  return input.whole ? 'read whole in each run' : undefined;
}

/** Returns how many requests it takes to walk so many records. */
export function pagesOf(records: number, pageSize: number): number {
  return Math.max(1, Math.ceil(records / pageSize));
}

/** Returns the days of the windows, with the number of rows held of each. */
export function heldIn(store: Pick<MirrorStore, 'accountedCount'>, resource: ResourceName, windows: readonly Window[]) {
  return windows.map((window) => ({ from: window.from, to: window.to, rows: store.accountedCount(resource, window) }));
}

/** Returns the windows to read, in order: those that must be read, open ones first, then the stalest ones within the budget. */
export function planSteps(input: PlanInput): Step[] {
  const { windows, isOpen, mode, only, pageSize, readSince } = input;
  const requested = windows.filter(
    ({ from, to, state, freshAsOf }) =>
      (only === null || (from < only.to && to > only.from)) &&
      (readSince === null || state !== 'settled' || (freshAsOf ?? '') < readSince),
  );
  const due: Step[] = [];
  const rest: Window[] = [];
  for (const window of requested) {
    const reason = dutyOf(window, input);
    if (reason === undefined) rest.push(window);
    else due.push({ window, reason });
  }
  due.sort((a, b) => Number(isOpen(b.window)) - Number(isOpen(a.window)));
  let budget = mode === 'default' ? input.budget : 0;
  const readAt = (window: Window) => window.freshAsOf ?? input.searchedAt?.(window) ?? '';
  for (const window of rest.sort((a, b) => readAt(a).localeCompare(readAt(b)))) {
    budget -= pagesOf(input.shownIn(window), pageSize);
    if (budget >= 0) due.push({ window, reason: 'least recently read' });
    else if (input.isAltered(window)) due.push({ window, reason: 'rows are not as they were read' });
  }
  return due;
}
