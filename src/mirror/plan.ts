/** Plans which windows a run reads, and why (pure). Section "What a run does" of docs/architecture.md. */
import type { DayRange } from '../model/era.ts';
import { hourMs, type Timestamp } from '../model/time.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Window } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';

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
