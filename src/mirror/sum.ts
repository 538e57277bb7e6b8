/**
 * The proof of a resource: its rows are as many as the server says it has. Where they are not, the windows whose counts
 * differ are read again, and last what no range of days shows.
 */
import { counted } from '../model/counted.ts';
import type { Capabilities } from '../api/capabilities.ts';
import { coverageOf, outsideEra, type DayRange } from '../model/era.ts';
import type { ResourceName } from '../model/resources.ts';
import type { MirrorStore, Window } from '../store/mirror-types.ts';
import type { Allowance } from './allowance.ts';
import { ContradictionError } from './contradiction.ts';
import { addUp, findDifferences } from './differences.ts';
import { heldIn, pagesOf } from './plan.ts';
import { surplusWords, type Surplus } from './surplus.ts';
import type { WindowVisitor } from './window-visitor.ts';

interface Sum {
  readonly total: number;
  readonly problem: string | null;
  /** Whether what the windows have shown is all that the server shows, though its total may count more. */
  readonly proven: boolean;
  /** Whether the server has records that no window has shown, so that nothing says how fresh the rows are. */
  readonly missing: boolean;
}

/** A server that is written to all the time changes between two looks; after this many the difference is told. */
const rounds = 3;

interface SumPorts {
  readonly run: string;
  readonly visitor: WindowVisitor;
  readonly store: MirrorStore;
  readonly resource: ResourceName;
  readonly capabilities: Capabilities;
  readonly surplus: Surplus;
  readonly allowance: Allowance;
  readonly only: DayRange | null;
  readonly isOpen: (window: Window) => boolean;
  /** Whether an unexplained lack of records is worth measuring the server's rules again. */
  readonly trusting: boolean;
}

/** Compares the number of rows with the server's total, and reads again what differs. */
export async function proveSum(ports: SumPorts): Promise<Sum> {
  const { visitor, store, resource, surplus } = ports;
  let total = await visitor.total(null);
  let live = store.accountedCount(resource);
  // What cannot be read is told where it is; it is no reason to read anything again.
  const isReported = (): boolean => live <= total && live + surplus.unreadableIn(store.windows(resource)) >= total;
  /** Whether two looks, with everything that differs read between them, have shown the same, in this run or before. */
  let isStill = surplus.isKnown(total - live, total, store.windows(resource));
  for (let round = 0; round < rounds && !isStill; round += 1) {
    const before = { total, live };
    // A list that shows nothing at all has nothing to be searched.
    if (total > 0) await readDiffering(ports, total, total - live);
    total = await visitor.total(null);
    live = store.accountedCount(resource);
    if (isReported()) break;
    if (live !== before.live || total !== before.total) continue;
    if (isExplained(ports, total - live) || !(await readOutside(ports, live, total))) isStill = true;
    else live = store.accountedCount(resource);
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
  const proven = isExplained(ports, difference);
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

/**
 * Reads the windows that may hold the difference: those whose count is another now, and where these do not explain it,
 * those still open and those not settled.
 */
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

/**
 * Reads the records that no range of days shows. False where they are read with every run already, or where that takes
 * more than the run may send: only a look at everything shows them.
 */
async function readOutside(
  { visitor, store, resource, only, trusting, capabilities, allowance }: SumPorts,
  live: number,
  total: number,
): Promise<boolean> {
  const windows = store.windows(resource);
  // Where the server counts fewer than are held, there is nothing beside them that could be shown.
  if (live > total || only !== null || windows.some((window) => coverageOf(window) !== 'days')) return false;
  if (windows.some(({ state }) => state !== 'settled')) return false;
  if (trusting) {
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
