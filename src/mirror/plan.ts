/** What a run does with the windows it finds (pure). Section "What a run does" of docs/architecture.md. */
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

/** How long after its end a window is still expected to gain records. */
export const graceMs = 48 * hourMs;

/** Small, and changed without a trace in their creation dates: read whole in each run. */
export const wholeResources: ReadonlySet<ResourceName> = new Set(['packages', 'coupons']);

export type Mode = 'default' | 'quick' | 'full';

export interface PlanInput {
  readonly windows: readonly Window[];
  /** Whether rows of the window are not as they were read; of one that is read anyway its walk finds that out. */
  readonly isAltered: (window: Window) => boolean;
  readonly isOpen: (window: Window) => boolean;
  readonly mode: Mode;
  /** Small resources that change without a trace are read whole in each run. */
  readonly whole: boolean;
  /** Only windows that hold days of this range; null for all. */
  readonly only: DayRange | null;
  /** Windows that were read whole at this time or later are not read again; null where that does not matter. */
  readonly readSince: Timestamp | null;
  /** Pages that re-reading of old windows may cost. */
  readonly budget: number;
  readonly pageSize: number;
  /** Records that the pages of a window show, as far as is known: what is only counted takes no request. */
  readonly shownIn: (window: Window) => number;
  /** When records of the window were found to be unreadable; undefined where none is known to be. */
  readonly searchedAt?: (window: Window) => Timestamp | undefined;
}

function duty(window: Window, input: PlanInput): Reason | undefined {
  if (window.state === 'pending') return 'never read';
  // Records that could not be read are searched again in their turn; what has changed beside them shows in the counts.
  const isSearched = window.state === 'unsettled' && input.searchedAt?.(window) !== undefined;
  if (window.state !== 'settled' && !isSearched) return 'left unfinished';
  if (input.only !== null || input.mode === 'full') return 'requested';
  if (input.isOpen(window)) return 'open: records may still be added';
  return input.whole ? 'read whole in each run' : undefined;
}

/** Requests that walking so many records takes. */
export function pagesOf(records: number, pageSize: number): number {
  return Math.max(1, Math.ceil(records / pageSize));
}

/** The windows with the rows held of each. */
export function heldIn(store: Pick<MirrorStore, 'accountedCount'>, resource: ResourceName, windows: readonly Window[]) {
  return windows.map((window) => ({ from: window.from, to: window.to, rows: store.accountedCount(resource, window) }));
}

/** The windows to walk, in order: those that must be, the open ones first, then the stalest that the budget allows. */
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
    const reason = duty(window, input);
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
