/**
 * Proves a resource: the mirror has as many rows as the server counts. If not, finds the windows whose counts have changed,
 * and reads them again. Section "The cost of a run" of docs/architecture.md.
 */
import type { Capabilities } from '../api/capabilities.ts';
import { counted } from '../model/text.ts';
import { coverageOf, type DayRange, outsideEra } from '../model/era.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Window } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import { ContradictionError } from './failures.ts';
import { heldIn, pagesOf } from './plan.ts';
import { type Surplus, surplusWords } from './surplus.ts';
import type { VisitPorts, WindowVisitor } from './window-visitor.ts';

interface Sum {
  readonly total: number;
  readonly problem: string | null;
  /** Whether the windows have shown everything that the server shows, though its total may count more. */
  readonly proven: boolean;
  /** Whether the server has records that no window has shown: then nobody knows how fresh the rows are. */
  readonly missing: boolean;
}

/** After so many comparisons the difference is reported: a server that is written to all the time changes between two of them. */
const maxRounds = 3;

type SumPorts = Pick<
  VisitPorts,
  'run' | 'store' | 'resource' | 'capabilities' | 'surplus' | 'allowance' | 'trustsStored'
> & {
  readonly visitor: WindowVisitor;
  readonly only: DayRange | null;
  readonly isOpen: (window: Window) => boolean;
};

/** Compares the number of rows with the server's total, and reads the windows that differ again. */
export async function proveSum(ports: SumPorts): Promise<Sum> {
  const { visitor, store, resource, surplus } = ports;
  let total = await visitor.total(null);
  let live = store.accountedCount(resource);
  // Unreadable records explain the difference. They are reported with their windows, and reading again does not help.
  const isUnreadable = (): boolean => live <= total && live + surplus.unreadableIn(store.windows(resource)) >= total;
  // Before and after reading: what is left may be what the list is known to miscount.
  const isKnown = (): boolean => surplus.isKnown(total - live, total, store.windows(resource));
  /** Whether the difference is known, or stayed the same though everything that differs was read. */
  let isStill = isKnown();
  for (let round = 0; round < maxRounds && !isStill; round += 1) {
    const before = { total, live };
    // An empty list has nothing to search.
    if (total > 0) await readDiffering(ports, total, total - live);
    total = await visitor.total(null);
    live = store.accountedCount(resource);
    if (isUnreadable()) break;
    if (live !== before.live || total !== before.total) continue;
    isStill = isKnown() || isExplained(ports, total - live) || !(await readOutside(ports, live, total));
    live = store.accountedCount(resource);
  }
  if (live !== total && isUnreadable()) return { total, problem: null, proven: true, missing: false };
  return conclude(ports, total, live, isStill);
}

function isExplained({ store, resource, surplus, capabilities }: SumPorts, difference: number): boolean {
  return surplus.explains(difference, store.windows(resource), !addUp(capabilities));
}

/** Returns the result of the comparison. Remembers by how much the total is wrong, so that this is searched only once. */
function conclude(ports: SumPorts, total: number, live: number, isStill: boolean): Sum {
  const { store, resource, surplus, only, run } = ports;
  const difference = total - live;
  const windows = store.windows(resource);
  const isWhole = only === null && windows.every(({ state }) => state === 'settled');
  if (difference === 0) {
    if (isWhole) surplus.noteList(0, total, windows);
    return { total, problem: null, proven: true, missing: false };
  }
  const counts = `the mirror has ${counted(live, 'record')} and the server counts ${total}`;
  if (!isStill || !isWhole) return { total, problem: counts, proven: false, missing: false };
  const proven = isExplained(ports, difference) || surplus.isCapped(difference, total);
  surplus.noteList(difference, total, windows);
  const words = surplusWords(difference);
  store.recordEvent(run, {
    resource,
    kind: 'totals_differ',
    subject: String(difference),
    detail: `${words}: ${counts}`,
  });
  return { total, problem: `${words}: ${counts}`, proven, missing: !proven && difference > 0 };
}

/** Reads the windows whose count has changed and, if they do not explain the difference, the open and the unsettled ones. */
async function readDiffering(ports: SumPorts, total: number, difference: number): Promise<void> {
  const { visitor, store, resource, only, isOpen, surplus, capabilities, allowance } = ports;
  const requested = store
    .windows(resource)
    .filter((window) => only === null || (window.from < only.to && window.to > only.from));
  const sealed = requested.filter((window) => window.state === 'settled' && !isOpen(window));
  const others = requested.filter((window) => !sealed.includes(window) && !visitor.hasFailed(window));
  const unreadable = others.filter((window) => !isOpen(window) && surplus.searchedAt(window) !== undefined);
  const found = await findDifferences(
    {
      store,
      surplus,
      capabilities,
      count: (days) => visitor.total(days),
      locate: () => visitor.locateLosses(sealed, total),
      left: () => allowance.left(resource),
    },
    sealed,
  );
  const differing = new Map<Window, number | undefined>(found.windows);
  if (found.sum !== difference - surplus.list) {
    for (const window of others) {
      const isWhole = window.state === 'settled' && coverageOf(window) === 'everything';
      const counted = isWhole || unreadable.includes(window) ? await visitor.total(window) : undefined;
      // Unreadable records are not searched again while the count stays the same.
      if (!unreadable.includes(window) || counted !== window.serverTotal) differing.set(window, counted);
    }
  }
  const read = [...differing.keys()].filter((window) => coverageOf(window) !== 'outside');
  allowance.allow(resource, heldIn(store, resource, read), capabilities.pageSize);
  await visitor.visitAll([...differing.keys()], differing);
}

/**
 * Reads the records that no range of days shows, by reading the whole list. Returns false if the mirror reads them in every run,
 * if none can be missing, or if it takes too many requests.
 */
async function readOutside(
  { visitor, store, resource, only, trustsStored, capabilities, allowance }: SumPorts,
  live: number,
  total: number,
): Promise<boolean> {
  const windows = store.windows(resource);
  // If the server counts fewer records than the mirror has, it has no others to show.
  if (live > total || only !== null || windows.some((window) => coverageOf(window) !== 'days')) return false;
  if (windows.some(({ state }) => state !== 'settled')) return false;
  if (trustsStored) {
    // The ranges may have been too narrow. Measuring them again takes fewer requests than reading everything.
    throw new ContradictionError(
      `the windows show ${counted(live, 'record')} of ${resource} and the server counts ${total}`,
    );
  }
  if (pagesOf(total, capabilities.pageSize) + 2 > allowance.left(resource)) return false;
  store.resetWindows(resource, [outsideEra, ...windows]);
  await visitor.visitAll(store.windows(resource).filter((window) => coverageOf(window) === 'outside'));
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

interface DifferencePorts {
  readonly store: Pick<MirrorStore, 'accountedCount'>;
  readonly surplus: Surplus;
  readonly capabilities: Capabilities;
  readonly count: (days: DayRange) => Promise<number>;
  /** Finds the windows that lack records by their places in the whole list; undefined if that fails. */
  readonly locate: () => Promise<readonly Window[] | undefined>;
  /** Returns how many requests may still be sent. */
  readonly left: () => number;
}

type Counted = readonly [window: Window, count: number];

/**
 * Compares what the server counts now with what it counted before. Returns the windows whose count has changed, with the new
 * count, and the sum of the changes. @param windows settled ones, in the order of their days
 */
async function findDifferences(ports: DifferencePorts, windows: readonly Window[]) {
  const counts = addUp(ports.capabilities) ? await countByHalves(ports, windows) : await countEach(ports, windows);
  const differing = counts.filter(([window, count]) => count !== window.serverTotal);
  const sum = differing.reduce((before, [window, count]) => before + count - (window.serverTotal ?? 0), 0);
  return { windows: new Map(differing), sum };
}

/** Whether ranges show exactly the days of their windows, so that the counts of neighbours add up. */
function addUp({ rangeEnd, dayShiftMinutes }: Capabilities): boolean {
  return rangeEnd !== 'unknown' && dayShiftMinutes === 0;
}

/** Counts the windows that are found to lack records or, if they cannot be found, each window. */
async function countEach(ports: DifferencePorts, windows: readonly Window[]): Promise<Counted[]> {
  const located = await ports.locate();
  // If there are not enough requests to count each window, later walks find the differences, the stalest windows first.
  const counted = located ?? (windows.length > ports.left() ? [] : windows);
  const counts: Counted[] = [];
  for (const window of windows) if (counted.includes(window)) counts.push([window, await ports.count(window)]);
  return counts;
}

async function countByHalves(ports: DifferencePorts, windows: readonly Window[]): Promise<Counted[]> {
  const counts: Counted[] = [];
  for (const neighbours of stretchesOf(windows)) counts.push(...(await searchStretch(ports, neighbours)));
  return counts;
}

/** Some windows of a stretch, from one place up to another. */
interface Part {
  readonly from: number;
  readonly to: number;
  readonly counted: number;
  /** Whether the server counted it; else the count was inferred. */
  readonly isRequested: boolean;
}

/** Counts halves, then halves of those, as long as a part does not count what it should. */
async function searchStretch(ports: DifferencePorts, windows: readonly Window[]): Promise<Counted[]> {
  const { count } = ports;
  const stretch = new Stretch(ports, windows);
  const counts: Counted[] = [];
  const open = await firstParts(count, stretch);
  // One after another: each count shows where the next one is worth a request.
  for (let part = open.pop(); part !== undefined; part = open.pop()) {
    const { from, to, counted, isRequested } = part;
    if (counted === stretch.expected(from, to)) continue;
    const [window] = windows.slice(from, to);
    if (to - from === 1 && window !== undefined) {
      counts.push([window, isRequested ? counted : await count(window)]);
      continue;
    }
    const middle = Math.floor((from + to) / 2);
    const first = await count(stretch.days(from, middle));
    open.push({ from, to: middle, counted: first, isRequested: true });
    open.push({ from: middle, to, counted: stretch.rest(counted, first, middle), isRequested: false });
  }
  return counts;
}

/** Counts the whole stretch and, if that is not what it should be, both of its halves. Returns the parts to search. */
async function firstParts(count: DifferencePorts['count'], stretch: Stretch): Promise<Part[]> {
  const all = stretch.windows.length;
  const counted = await count(stretch.days(0, all));
  if (all === 1) return [{ from: 0, to: 1, counted, isRequested: true }];
  const off = counted - stretch.expected(0, all);
  if (off === 0) return [];
  const middle = Math.floor(all / 2);
  const halves: Part[] = [];
  for (const [from, to] of [[0, middle] as const, [middle, all] as const])
    halves.push({ from, to, counted: await count(stretch.days(from, to)), isRequested: true });
  // A total that is off by as much in the whole as in both halves cannot be found by halves.
  return halves.every((half) => half.counted - stretch.expected(half.from, half.to) === off) ? [] : halves;
}

/** Neighbouring windows, and what the server should count in any run of them if nothing has changed. */
class Stretch {
  readonly windows: readonly Window[];
  /** At each place, what the windows before it count together, apart from the surplus that is in every total. */
  readonly #before: number[] = [0];
  /** Records that the range of a window counts and the next window owns: those of the midnight between them. */
  readonly #edges: number[] = [];
  /** The surplus that is in every total, whatever its days. */
  readonly #common: number;

  constructor({ store, surplus }: DifferencePorts, windows: readonly Window[]) {
    this.windows = windows;
    this.#common = surplus.inEach();
    for (const window of windows) {
      const own = store.accountedCount(window.resource, window);
      const beyond = surplus.of(window);
      this.#edges.push((window.serverTotal ?? 0) - own - beyond);
      this.#before.push((this.#before.at(-1) ?? 0) + own + beyond - this.#common);
    }
  }

  days(from: number, to: number): DayRange {
    return { from: this.#at(from).from, to: this.#at(to - 1).to };
  }

  /** What the server should count from one window up to another. */
  expected(from: number, to: number): number {
    return (this.#before[to] ?? 0) - (this.#before[from] ?? 0) + this.#common + (this.#edges[to - 1] ?? 0);
  }

  /** Infers the count of the second part from those of the whole and of the first part. */
  rest(whole: number, first: number, at: number): number {
    return whole - first + (this.#edges[at - 1] ?? 0) + this.#common;
  }

  #at(index: number): Window {
    const window = this.windows[index];
    if (window === undefined) throw new Error(`there is no window ${index}`);
    return window;
  }
}

/** Groups windows that follow each other without a gap. */
function stretchesOf(windows: readonly Window[]): Window[][] {
  const stretches: Window[][] = [];
  for (const window of windows) {
    const last = stretches.at(-1);
    if (last !== undefined && last.at(-1)?.to === window.from) last.push(window);
    else stretches.push([window]);
  }
  return stretches;
}
