/**
 * Proves a resource: the mirror has as many rows as the server counts. If not, finds the days whose counts differ, by halves, and
 * has them read again. Section "Proving the total" of docs/architecture.md.
 */
import { coverageOf, type DayRange, outsideEra } from '../model/era.ts';
import type { ResourceName } from '../model/resources.ts';
import { counted } from '../model/text.ts';
import { addDays, type Day, daysBetween } from '../model/time.ts';
import type { Window } from '../store/mirror-types.ts';
import { ContradictionError } from './failures.ts';
import type { Profile } from './profile.ts';
import type { Allowance } from './run-bounds.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import { cutOut, isOpen, pagesOf, surplusOf } from './windows.ts';

interface Proof {
  /** The server's total, requested after everything else. */
  readonly total: number;
  /** Why the resource is not proven; null if it is. */
  readonly problem: string | null;
  /** Whether the server counts records that no window has shown: then nobody knows how fresh the rows are. */
  readonly missing: boolean;
}

/** After so many comparisons the difference is reported: a server that is written to all the time changes between two of them. */
const maxRounds = 3;

interface ProvePorts {
  readonly store: MirrorStore;
  readonly resource: ResourceName;
  readonly profile: Profile;
  readonly allowance: Allowance;
  /** Whether the profile comes from an earlier run. */
  readonly trustsStored: boolean;
  /** The first day that may still gain records. */
  readonly seal: Day;
  readonly only: DayRange | null;
  /** Returns how many records the server counts on these days, or in all. */
  readonly total: (days: DayRange | null) => Promise<number>;
  /** Reads the windows; those that failed before in this run are left out. */
  readonly read: (windows: readonly Window[]) => Promise<void>;
}

/** Compares the number of rows with the server's total, and reads the days that differ again. */
export async function proveTotal(ports: ProvePorts): Promise<Proof> {
  const { store, resource, only } = ports;
  let total = await ports.total(null);
  for (let round = 0; round < maxRounds && total !== expectedTotal(ports, total); round += 1) {
    const before = { total, expected: expectedTotal(ports, total) };
    // An empty list has nothing to search.
    if (total > 0) await readDiffering(ports, total - before.expected);
    total = await ports.total(null);
    const isStill = total === before.total && expectedTotal(ports, total) === before.expected;
    if (isStill && !(await readOutside(ports, total))) break;
  }
  const expected = expectedTotal(ports, total);
  if (total === expected) return { total, problem: null, missing: false };
  const live = store.accountedCount(resource);
  const problem = `the mirror has ${counted(live, 'record')} and the server counts ${total}`;
  const isWhole = only === null && store.windows(resource).every(({ state }) => state === 'settled');
  return { total, problem, missing: isWhole && total > expected };
}

/** What the server should count: the rows, and what its totals were found to count beyond what its pages show. */
function expectedTotal({ store, resource }: ProvePorts, total: number): number {
  const rows = store.accountedCount(resource);
  return rows + surplusOfList(store, resource, total - rows);
}

/**
 * Returns how many records the total of the whole list counts that no page shows: what was found when the list was read as one, if
 * that explains the difference, else what the surpluses of its windows add up to. A list of which no record at all was ever shown is
 * not believed to have nothing else.
 */
export function surplusOfList(
  store: Pick<MirrorStore, 'accountedCount' | 'listSurplus' | 'windows'>,
  resource: ResourceName,
  difference: number,
): number {
  if (store.accountedCount(resource) === 0) return 0;
  if (store.listSurplus(resource) === difference) return difference;
  return surplusOf(store.windows(resource));
}

/** Reads the days whose count has changed and, if they do not explain the difference, the open and the unsettled windows. */
async function readDiffering(ports: ProvePorts, difference: number): Promise<void> {
  const { store, resource, only, seal } = ports;
  const asked = store
    .windows(resource)
    .filter((window) => only === null || (window.from < only.to && window.to > only.from));
  const sealed = asked.filter((window) => window.state === 'settled' && !isOpen(window, seal));
  const { pieces, sum } = await findDifferences(ports, sealed);
  const rows = (days: DayRange) => store.accountedCount(resource, days);
  for (const piece of pieces) {
    for (const window of store.windows(resource).filter(({ from, to }) => from < piece.to && to > piece.from)) {
      // What its total counts beyond its rows cannot be parted.
      if (window.surplus > 0) store.resetWalks(resource, window.from);
      else if (window.state === 'settled') {
        store.replaceWindows(resource, cutOut(window, piece, rows));
      }
    }
  }
  const isDue = (window: Window) => pieces.some(({ from, to }) => window.from < to && window.to > from);
  const others = sum === difference ? [] : asked.filter((window) => !sealed.includes(window));
  const isOther = (window: Window) => others.some(({ from }) => from === window.from);
  await ports.read(store.windows(resource).filter((window) => isDue(window) || isOther(window)));
}

interface Differences {
  /** Days to read again. */
  readonly pieces: readonly DayRange[];
  /** By how much the server counts more on them than the mirror accounts for. */
  readonly sum: number;
}

/**
 * Finds the days of the sealed windows on which the server counts other records than the mirror has: it counts neighbours
 * together, then the first half of those that differ, and so on. For d differences on P pages that takes about 2·d·log₂(P/d)
 * requests. If it is not known which days a range shows, counts do not add up, and each window is counted.
 */
async function findDifferences(ports: ProvePorts, sealed: readonly Window[]): Promise<Differences> {
  if (ports.profile.dayBounds === 'wide') return countEach(ports, sealed);
  const pieces: DayRange[] = [];
  let sum = 0;
  for (const days of stretchesOf(sealed)) {
    const open = [{ days, off: (await ports.total(days)) - accounted(ports, days) }];
    // One after another: each count shows where the next one is worth a request.
    for (let part = open.pop(); part !== undefined; part = open.pop()) {
      if (part.off === 0) continue;
      const at = isWorthParting(ports, part.days, part.off) ? middleOf(ports, part.days) : undefined;
      if (at === undefined) {
        pieces.push(part.days);
        sum += part.off;
        continue;
      }
      const [first, second] = [
        { from: part.days.from, to: at },
        { from: at, to: part.days.to },
      ];
      const off = (await ports.total(first)) - accounted(ports, first);
      open.push({ days: first, off }, { days: second, off: part.off - off });
    }
  }
  return { pieces, sum };
}

/** Counts each window as it was counted when it was last read, as far as the run may send requests. */
async function countEach(ports: ProvePorts, sealed: readonly Window[]): Promise<Differences> {
  const byDays = sealed.filter((window) => coverageOf(window) === 'days');
  const pieces: DayRange[] = [];
  let sum = 0;
  if (byDays.length > ports.allowance.left(ports.resource)) return { pieces, sum };
  for (const window of byDays) {
    const off = (await ports.total(window)) - (window.serverTotal ?? 0);
    if (off === 0) continue;
    pieces.push(window);
    sum += off;
  }
  return { pieces, sum };
}

/** How many records the server should count on these days if nothing has changed. */
function accounted({ store, resource, profile }: ProvePorts, days: DayRange): number {
  const within = store.windows(resource).filter(({ from, to }) => from >= days.from && to <= days.to);
  const atMidnight = profile.dayBounds === 'next_day' ? store.midnightCount(resource, days.to) : 0;
  return store.accountedCount(resource, days) + atMidnight + surplusOf(within);
}

/** Whether counting halves costs less than reading the days. */
function isWorthParting({ store, resource, profile }: ProvePorts, days: DayRange, off: number): boolean {
  const windows = store.windows(resource).filter(({ from, to }) => from < days.to && to > days.from);
  if (windows.length === 1 && windows.some(({ surplus }) => surplus > 0)) return false;
  const pages = pagesOf(store.accountedCount(resource, days), profile.pageSize);
  return pages > 1 && Math.abs(off) < pages / 2;
}

/** Returns the day that parts the rows of these days in two halves; undefined for a single day. Windows with a surplus stay whole. */
function middleOf({ store, resource }: ProvePorts, days: DayRange): Day | undefined {
  if (daysBetween(days.from, days.to) < 2) return undefined;
  const middle = store.middleDay(resource, days) ?? days.from;
  const at = middle > days.from ? middle : addDays(days.from, 1);
  const whole = store.windows(resource).find(({ from, to, surplus }) => surplus > 0 && from < at && to > at);
  if (whole === undefined) return at;
  if (whole.from > days.from) return whole.from;
  return whole.to < days.to ? whole.to : undefined;
}

/** Joins windows that follow each other without a gap. */
function stretchesOf(windows: readonly Window[]): DayRange[] {
  const stretches: DayRange[] = [];
  for (const { from, to } of windows) {
    const last = stretches.at(-1);
    if (last?.to === from) stretches[stretches.length - 1] = { from: last.from, to };
    else stretches.push({ from, to });
  }
  return stretches;
}

/**
 * Reads the records that no range of days shows, by reading the whole list. Returns false if the mirror reads them in every run,
 * if none can be missing, or if it takes too many requests.
 */
async function readOutside(ports: ProvePorts, total: number): Promise<boolean> {
  const { store, resource, only, trustsStored, profile, allowance } = ports;
  const windows = store.windows(resource);
  // If the server counts fewer records than the mirror has, it has no others to show.
  if (expectedTotal(ports, total) > total || only !== null || windows.some((window) => coverageOf(window) !== 'days')) {
    return false;
  }
  if (windows.some(({ state }) => state !== 'settled')) return false;
  if (trustsStored) {
    const live = counted(store.accountedCount(resource), 'record');
    // The ranges may have been too narrow. Measuring them again takes fewer requests than reading everything.
    throw new ContradictionError(`the windows show ${live} of ${resource} and the server counts ${total}`);
  }
  if (pagesOf(total, profile.pageSize) + 2 > allowance.left(resource)) return false;
  store.resetWindows(resource, [outsideEra, ...windows]);
  await ports.read(store.windows(resource).filter((window) => coverageOf(window) === 'outside'));
  return true;
}

/**
 * Forgets the window of records that no range of days shows if it turned out to be empty: reading it means reading the whole
 * list.
 */
export function forgetEmptyOutside(store: MirrorStore, resource: ResourceName): void {
  const windows = store.windows(resource);
  const outside = windows.find((window) => coverageOf(window) === 'outside');
  if (outside?.state !== 'settled' || store.accountedCount(resource, outside) > 0) return;
  store.resetWindows(
    resource,
    windows.filter((window) => window !== outside),
  );
}
