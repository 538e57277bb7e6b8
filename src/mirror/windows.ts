/**
 * Windows of creation time (pure): which days are sent for one, how they are cut and joined, which of them a run reads, and why.
 * Section "Windows" of docs/architecture.md.
 */
import { coverageOf, type DayRange, eraEnd, eraStart, startsWithDay } from '../model/era.ts';
import type { ResourceName } from '../model/resources.ts';
import { addDays, type Day, dayOf, daysBetween, hourMs, type Timestamp } from '../model/time.ts';
import type { NewWindow, Window } from '../store/mirror-types.ts';
import type { Profile } from './profile.ts';

/** How long after its end a window may still gain records. */
const graceMs = 48 * hourMs;

/** Resources that are small and change without a trace in their creation dates: every run reads them whole. */
export const wholeResources: ReadonlySet<ResourceName> = new Set(['packages', 'coupons']);

/** No page further down a list is requested: deep pages are slow, and many servers refuse to make them. */
const deepestRecord = 10_000;

/** Returns how many records a window may hold. Without an order only a single page can be trusted. */
export function largestWindow({ pageSize, ordered }: Profile, windowPages: number): number {
  return ordered ? Math.max(pageSize, Math.min(windowPages * pageSize, deepestRecord)) : pageSize;
}

/** The first day that is not sealed. Earlier days can lose records, but should gain none. */
export function sealDay(serverNow: number): Day {
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

/** Whether the windows, in the order of their days, leave no day out. Another program may have removed one. */
export function coverAllTime(windows: readonly DayRange[]): boolean {
  const days = windows.filter((window) => coverageOf(window) !== 'outside');
  const isWhole = days.length === 1 && days.every((window) => coverageOf(window) === 'everything');
  const follows = days.every(({ from }, at) => from === (days[at - 1]?.to ?? eraStart));
  return isWhole || (follows && days.at(-1)?.to === eraEnd);
}

/**
 * Returns the two days to send for a half-open window; null if no range shows it. If it is not known which days a range shows,
 * it is one day wider on each side, and the caller leaves out what lies outside of the window.
 */
export function requestedRange(window: DayRange, { dayBounds }: Pick<Profile, 'dayBounds'>): DayRange | null {
  if (coverageOf(window) !== 'days') return null;
  if (dayBounds === 'exact') return { from: window.from, to: addDays(window.to, -1) };
  if (dayBounds === 'next_day') return { from: window.from, to: window.to };
  return {
    from: window.from > eraStart ? addDays(window.from, -1) : eraStart,
    to: window.to < eraEnd ? addDays(window.to, 1) : eraEnd,
  };
}

/**
 * Returns how a record contradicts the range that showed it: `outside` if no server would show it there, `beside` if this
 * server's days are not those of its creation times. Compares text, since it runs for every record.
 */
export function strayIn(
  { from, to }: DayRange,
  { dayBounds }: Pick<Profile, 'dayBounds'>,
): (createdAt: unknown) => 'outside' | 'beside' | undefined {
  const outsideBefore = from > eraStart ? addDays(from, -1) : '';
  const outsideFrom = to < eraEnd ? addDays(to, 2) : null;
  const besideBefore = from > eraStart ? from : '';
  const besideFrom = to >= eraEnd ? null : dayBounds === 'next_day' ? to : addDays(to, 1);
  return (createdAt) => {
    if (typeof createdAt !== 'string' || !startsWithDay(createdAt)) return undefined;
    if (createdAt < outsideBefore || (outsideFrom !== null && createdAt >= outsideFrom)) return 'outside';
    if (dayBounds === 'wide') return undefined;
    if (createdAt < besideBefore) return 'beside';
    // Servers differ in whether midnight belongs to the range that ends with it.
    const isBehind = besideFrom !== null && createdAt >= besideFrom;
    return isBehind && !createdAt.startsWith('00:00:00', 'yyyy-mm-dd '.length) ? 'beside' : undefined;
  };
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
export function splitWindow(window: Window, at: Day, before: number): NewWindow[] {
  const rest = window.serverTotal === null ? null : Math.max(0, window.serverTotal - before);
  return [
    { from: window.from, to: at, serverTotal: before },
    { from: at, to: window.to, serverTotal: rest },
  ];
}

/**
 * Cuts the days `piece` out of a settled window, to be read again. What lies before and behind stays as it was read.
 * @param rows how many records the mirror accounts for on some days
 */
export function cutOut(window: Window, piece: DayRange, rows: (days: DayRange) => number): NewWindow[] {
  const { state, freshAsOf } = window;
  const from = piece.from > window.from ? piece.from : window.from;
  const to = piece.to < window.to ? piece.to : window.to;
  return [
    { from: window.from, to: from, state, freshAsOf },
    // The middle keeps its time: a walk that fails takes nothing away.
    { from, to, state: 'pending' as const, freshAsOf },
    { from: to, to: window.to, state, freshAsOf },
  ]
    .filter((each) => each.from < each.to)
    .map((each) => ({ ...each, serverTotal: rows(each) }));
}

/**
 * Joins small settled neighbours, but not the open window: otherwise years of nightly runs would leave one window a day.
 * @param maxRecords the most records of a joined window
 */
export function mergeWindows(windows: readonly Window[], seal: Day, maxRecords: number): NewWindow[] {
  const merged: NewWindow[] = [];
  for (const window of windows) {
    const last = merged.at(-1);
    const both = (last?.serverTotal ?? Infinity) + (window.serverTotal ?? Infinity);
    if (
      last?.state === 'settled' &&
      coverageOf(last) === 'days' &&
      window.state === 'settled' &&
      !isOpen(window, seal) &&
      both <= maxRecords &&
      last.freshAsOf &&
      window.freshAsOf
    ) {
      const freshAsOf = last.freshAsOf < window.freshAsOf ? last.freshAsOf : window.freshAsOf;
      const surplus = (last.surplus ?? 0) + window.surplus;
      const joined = { state: 'settled', serverTotal: both, freshAsOf, surplus } as const;
      merged[merged.length - 1] = { from: last.from, to: window.to, ...joined };
    } else {
      merged.push(window);
    }
  }
  return merged;
}

/** How many records the windows' totals count that no page shows. */
export function surplusOf(windows: readonly Pick<Window, 'surplus'>[]): number {
  return windows.reduce((sum, { surplus }) => sum + surplus, 0);
}

/** Whether the window has one of the days. */
export function holdsSome({ from, to }: DayRange, days: readonly Day[]): boolean {
  return days.some((day) => day >= from && day < to);
}

/** What is wrong with a window whose rows another program has changed since they were read. */
export function touchedWords({ from, to }: DayRange): string {
  return `another program has changed rows of ${from}..${to}; the next sync compares them with the server`;
}

type Reason =
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

export type Mode = 'default' | 'quick' | 'full';

export interface Choice {
  readonly windows: readonly Window[];
  /** Whether another program has changed rows of the window since it was read. */
  readonly isTouched: (window: Window) => boolean;
  /** The first day that may still gain records. */
  readonly seal: Day;
  readonly mode: Mode;
  /** Whether every run reads the resource whole. */
  readonly whole: boolean;
  /** Only windows that hold days of this range; null for all. */
  readonly only: DayRange | null;
  /** Windows that were settled at this time or later are not read again; null if that does not matter. */
  readonly readSince: Timestamp | null;
  /** How many pages of old windows may be read again. */
  readonly budget: number;
  readonly pageSize: number;
}

/** Returns how many requests it takes to walk so many records. */
export function pagesOf(records: number, pageSize: number): number {
  return Math.max(1, Math.ceil(records / pageSize));
}

/** How many requests the window takes, as far as is known: records that only totals count take none. */
export function requestsFor({ serverTotal, surplus }: Window, pageSize: number): number {
  return pagesOf((serverTotal ?? 0) - surplus, pageSize);
}

/** Returns why the window must be read, whatever the budget; undefined if it need not be. */
function dutyOf(window: Window, { only, mode, seal, whole }: Choice): Reason | undefined {
  if (window.state === 'pending') return 'never read';
  if (window.state !== 'settled') return 'left unfinished';
  if (only !== null || mode === 'full') return 'requested';
  if (isOpen(window, seal)) return 'open: records may still be added';
  return whole ? 'read whole in each run' : undefined;
}

/**
 * Returns the windows to read: those that must be read, open ones first and then the largest, which take longest; then those
 * that were read longest ago, as far as the budget reaches.
 */
export function choose(choice: Choice): Step[] {
  const { windows, seal, mode, only, pageSize, readSince } = choice;
  const requested = windows.filter(
    ({ from, to, state, freshAsOf }) =>
      (only === null || (from < only.to && to > only.from)) &&
      (readSince === null || state !== 'settled' || (freshAsOf ?? '') < readSince),
  );
  const due: Step[] = [];
  const rest: Window[] = [];
  for (const window of requested) {
    const reason = dutyOf(window, choice);
    if (reason === undefined) rest.push(window);
    else due.push({ window, reason });
  }
  const rank = ({ window }: Step) => (isOpen(window, seal) ? Infinity : (window.serverTotal ?? 0));
  due.sort((a, b) => (rank(a) === rank(b) ? 0 : rank(b) - rank(a)));
  let budget = mode === 'default' ? choice.budget : 0;
  for (const window of rest.sort((a, b) => (a.freshAsOf ?? '').localeCompare(b.freshAsOf ?? ''))) {
    budget -= requestsFor(window, pageSize);
    if (budget >= 0) due.push({ window, reason: 'least recently read' });
    else if (choice.isTouched(window)) due.push({ window, reason: 'rows are not as they were read' });
  }
  return due;
}
