/**
 * Finds the windows in which the server counts more or fewer records than before. Section "The cost of a run" of
 * docs/architecture.md.
 */
import type { Capabilities } from '../api/capabilities.ts';
import type { DayRange } from '../model/era.ts';
import type { Window } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import type { Surplus } from './surplus.ts';

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

/** The windows whose count has changed, with the new count, and the sum of the changes. */
interface Differences {
  readonly windows: Map<Window, number>;
  readonly sum: number;
}

type Counted = readonly [window: Window, count: number];

/** Compares what the server counts now with what it counted before. @param windows settled ones, in the order of their days */
export async function findDifferences(ports: DifferencePorts, windows: readonly Window[]): Promise<Differences> {
  const counts = addUp(ports.capabilities) ? await countByHalves(ports, windows) : await countEach(ports, windows);
  const differing = counts.filter(([window, count]) => count !== window.serverTotal);
  const sum = differing.reduce((before, [window, count]) => before + count - (window.serverTotal ?? 0), 0);
  return { windows: new Map(differing), sum };
}

/** Whether ranges show exactly the days of their windows, so that the counts of neighbours add up. */
export function addUp({ rangeEnd, dayShiftMinutes }: Capabilities): boolean {
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
