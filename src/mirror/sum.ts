/** The proof of a resource: it has as many rows as the server says. What differs is read again, last what no range of days shows. */
import { counted } from '../model/text.ts';
import type { Capabilities } from '../api/capabilities.ts';
import { coverageOf, type DayRange, outsideEra } from '../model/era.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Window } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import { ContradictionError } from './failures.ts';
import { heldIn, pagesOf } from './plan.ts';
import { type Surplus, surplusWords } from './surplus.ts';
import type { VisitPorts, WindowVisitor } from './window-visitor.ts';

interface DifferencePorts {
  readonly store: Pick<MirrorStore, 'accountedCount'>;
  readonly surplus: Surplus;
  readonly capabilities: Capabilities;
  readonly count: (days: DayRange) => Promise<number>;
  /** Windows that lack records, by their places in the whole list; undefined where it is not known. */
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
function addUp({ rangeEnd, dayShiftMinutes }: Capabilities): boolean {
  return rangeEnd !== 'unknown' && dayShiftMinutes === 0;
}

/** Compares what the server counts with what it did. @param windows settled ones, in the order of their days */
async function findDifferences(ports: DifferencePorts, windows: readonly Window[]): Promise<Differences> {
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
    // One after another: each count shows where the next one is worth a request.
    for (let part = open.pop(); part !== undefined; part = open.pop()) {
      const { from, to, counted: count, requested } = part;
      if (count === stretch.expected(from, to)) continue;
      const [window] = stretch.windows.slice(from, to);
      if (to - from === 1 && window !== undefined) {
        note(window, requested ? count : await ports.count(window));
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

function stretchesOf(windows: readonly Window[]): Window[][] {
  const stretches: Window[][] = [];
  for (const window of windows) {
    const last = stretches.at(-1);
    if (last !== undefined && last.at(-1)?.to === window.from) last.push(window);
    else stretches.push([window]);
  }
  return stretches;
}

interface Sum {
  readonly total: number;
  readonly problem: string | null;
  /** Whether what the windows have shown is all that the server shows, though its total may count more. */
  readonly proven: boolean;
  /** Whether the server has records that no window has shown, so that nothing says how fresh the rows are. */
  readonly missing: boolean;
}

/** A server that is written to all the time changes between two looks; after this many the difference is reported. */
const rounds = 3;

type SumPorts = Pick<
  VisitPorts,
  'run' | 'store' | 'resource' | 'capabilities' | 'surplus' | 'allowance' | 'trustsStored'
> & {
  readonly visitor: WindowVisitor;
  readonly only: DayRange | null;
  readonly isOpen: (window: Window) => boolean;
};

/** Compares the number of rows with the server's total, and reads again what differs. */
export async function proveSum(ports: SumPorts): Promise<Sum> {
  const { visitor, store, resource, surplus } = ports;
  let total = await visitor.total(null);
  let live = store.accountedCount(resource);
  // What cannot be read is reported where it is; it is no reason to read anything again.
  const isReported = (): boolean => live <= total && live + surplus.unreadableIn(store.windows(resource)) >= total;
  // What is left once windows were read may be what the list is known to count, too.
  const isKnown = (): boolean => surplus.isKnown(total - live, total, store.windows(resource));
  /** Whether two looks, with everything that differs read between them, have shown the same, in this run or before. */
  let isStill = isKnown();
  for (let round = 0; round < rounds && !isStill; round += 1) {
    const before = { total, live };
    // A list that shows nothing at all has nothing to be searched.
    if (total > 0) await readDiffering(ports, total, total - live);
    total = await visitor.total(null);
    live = store.accountedCount(resource);
    if (isReported()) break;
    if (live !== before.live || total !== before.total) continue;
    isStill = isKnown() || isExplained(ports, total - live) || !(await readOutside(ports, live, total));
    live = store.accountedCount(resource);
  }
  if (live !== total && isReported()) return { total, problem: null, proven: true, missing: false };
  return endOf(ports, total, live, isStill);
}

function isExplained({ store, resource, surplus, capabilities }: SumPorts, difference: number): boolean {
  return surplus.explains(difference, store.windows(resource), !addUp(capabilities));
}

/** What the comparison has come to. What a total counts and no page shows is remembered, so that it is looked for once. */
function endOf(ports: SumPorts, total: number, live: number, isStill: boolean): Sum {
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

/** Reads the windows whose count is another now and, where these do not explain the difference, the open and the unsettled ones. */
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
      // What cannot be read is not searched again while as much is counted.
      if (!unreadable.includes(window) || counted !== window.serverTotal) differing.set(window, counted);
    }
  }
  const read = [...differing.keys()].filter((window) => coverageOf(window) !== 'outside');
  allowance.allow(resource, heldIn(store, resource, read), capabilities.pageSize);
  await visitor.visitAll([...differing.keys()], differing);
}

/** Reads what no range of days shows, by reading everything. False where each run does so anyway, or where it is too much for this run. */
async function readOutside(
  { visitor, store, resource, only, trustsStored, capabilities, allowance }: SumPorts,
  live: number,
  total: number,
): Promise<boolean> {
  const windows = store.windows(resource);
  // Where the server counts fewer than are held, there is nothing beside them that could be shown.
  if (live > total || only !== null || windows.some((window) => coverageOf(window) !== 'days')) return false;
  if (windows.some(({ state }) => state !== 'settled')) return false;
  if (trustsStored) {
    // The ranges may have been read too narrowly: that is found out by measuring, at less cost than reading everything.
    throw new ContradictionError(
      `the windows show ${counted(live, 'record')} of ${resource} and the server counts ${total}`,
    );
  }
  if (pagesOf(total, capabilities.pageSize) + 2 > allowance.left(resource)) return false;
  store.resetWindows(resource, [outsideEra, ...windows]);
  await visitor.visitAll(store.windows(resource).filter((window) => coverageOf(window) === 'outside'));
  return true;
}

/** Forgets the window of what no range of days shows where it was read and has no record: it costs the whole list to read. */
export function forgetEmptyOutside(store: MirrorStore, resource: ResourceName): void {
  const windows = store.windows(resource);
  const outside = windows.find((window) => coverageOf(window) === 'outside');
  if (outside?.state !== 'settled' || store.accountedCount(resource, outside) > 0) return;
  store.resetWindows(
    resource,
    windows.filter((window) => window !== outside),
  );
}
