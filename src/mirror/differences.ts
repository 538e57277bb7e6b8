/**
 * Finds the windows in which the server counts another number of records than it did, by halves over ranges of days: a
 * few counts in place of one for each window. Section "What a run does" of docs/architecture.md.
 */
import type { Capabilities } from '../api/capabilities.ts';
import type { DayRange } from '../model/era.ts';
import type { MirrorStore, Window } from '../store/mirror-types.ts';
import type { Surplus } from './surplus.ts';

interface DifferencePorts {
  readonly store: Pick<MirrorStore, 'accountedCount'>;
  readonly surplus: Surplus;
  readonly capabilities: Capabilities;
  /** Records that the server counts in the days. */
  readonly count: (days: DayRange) => Promise<number>;
  /** Windows that lack records, by their places in the whole list; undefined where it cannot be told. */
  readonly locate: () => Promise<readonly Window[] | undefined>;
  /** Requests that may be sent. */
  readonly left: () => number;
}

/** Windows whose count is another, with the count of now, and how much they explain together. */
interface Differences {
  readonly windows: Map<Window, number>;
  readonly sum: number;
}

/** What a stretch of neighbouring windows is expected to count, from what each of them did. */
class Stretch {
  readonly windows: readonly Window[];
  /** Rows and surplus before each window. */
  readonly #before: number[] = [0];
  /** Records that the range of a window counts and another window owns: those of the midnight with which it ends. */
  readonly #edges: number[] = [];
  readonly #common: number;

  constructor({ store, surplus }: DifferencePorts, windows: readonly Window[]) {
    this.windows = windows;
    this.#common = surplus.inEach();
    for (const window of windows) {
      const own = store.accountedCount(window.resource, window);
      const more = surplus.of(window);
      this.#edges.push((window.serverTotal ?? 0) - own - more);
      this.#before.push((this.#before.at(-1) ?? 0) + own + more - this.#common);
    }
  }

  days(from: number, to: number): DayRange {
    return { from: this.#at(from).from, to: this.#at(to - 1).to };
  }

  expected(from: number, to: number): number {
    return (this.#before[to] ?? 0) - (this.#before[from] ?? 0) + this.#common + (this.#edges[to - 1] ?? 0);
  }

  /** What the rest of a stretch counts, by what the whole and its first part do. */
  rest(whole: number, first: number, at: number): number {
    return whole - first + (this.#edges[at - 1] ?? 0) + this.#common;
  }

  #at(index: number): Window {
    const window = this.windows[index];
    if (window === undefined) throw new Error(`there is no window ${index}`);
    return window;
  }
}

/** Whether ranges show exactly the days of their windows, so that the counts of neighbours add up. */
export function addUp({ rangeEnd, dayShiftMinutes }: Capabilities): boolean {
  return rangeEnd !== 'unknown' && dayShiftMinutes === 0;
}

/**
 * Compares what the server counts with what it did.
 * @param windows settled ones, in the order of their days
 */
export async function findDifferences(ports: DifferencePorts, windows: readonly Window[]): Promise<Differences> {
  const found = new Map<Window, number>();
  let sum = 0;
  const note = (window: Window, counted: number): void => {
    if (counted === window.serverTotal) return;
    found.set(window, counted);
    sum += counted - (window.serverTotal ?? 0);
  };
  if (!addUp(ports.capabilities)) {
    const located = await ports.locate();
    // Each by itself, where that can be afforded: else the next walks find what there is, the stalest windows first.
    const counted = located ?? (windows.length > ports.left() ? [] : windows);
    for (const window of windows) if (counted.includes(window)) note(window, await ports.count(window));
    return { windows: found, sum };
  }
  for (const stretch of stretchesOf(windows).map((each) => new Stretch(ports, each))) {
    const open: {
      readonly from: number;
      readonly to: number;
      readonly counted: number;
      readonly requested: boolean;
    }[] = [];
    const all = stretch.windows.length;
    const counted = await ports.count(stretch.days(0, all));
    // A total that is off by as much for the whole as for both halves cannot be found by halves.
    if (all > 1 && counted !== stretch.expected(0, all)) {
      const middle = Math.floor(all / 2);
      const halves = [
        { from: 0, to: middle },
        { from: middle, to: all },
      ];
      for (const { from, to } of halves)
        open.push({ from, to, counted: await ports.count(stretch.days(from, to)), requested: true });
      const off = open.map((half) => half.counted - stretch.expected(half.from, half.to));
      if (off.every((each) => each === counted - stretch.expected(0, all))) continue;
    } else if (all === 1) open.push({ from: 0, to: 1, counted, requested: true });
    // One after another: each count tells where the next is worth asking.
    for (let part = open.pop(); part !== undefined; part = open.pop()) {
      const { from, to, counted: count, requested: asked } = part;
      if (count === stretch.expected(from, to)) continue;
      const [window] = stretch.windows.slice(from, to);
      if (to - from === 1 && window !== undefined) {
        note(window, asked ? count : await ports.count(window));
        continue;
      }
      const middle = Math.floor((from + to) / 2);
      const first = await ports.count(stretch.days(from, middle));
      open.push({ from, to: middle, counted: first, requested: true });
      open.push({ from: middle, to, counted: stretch.rest(count, first, middle), requested: false });
    }
  }
  return { windows: found, sum };
}

/** The windows in stretches without a gap. */
function stretchesOf(windows: readonly Window[]): Window[][] {
  const stretches: Window[][] = [];
  for (const window of windows) {
    const last = stretches.at(-1);
    if (last !== undefined && last.at(-1)?.to === window.from) last.push(window);
    else stretches.push([window]);
  }
  return stretches;
}
