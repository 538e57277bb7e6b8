/** Proves a resource: the mirror has as many rows as the server counts. If not, reads again what differs. */
import { counted } from '../model/text.ts';
import { coverageOf, type DayRange, outsideEra } from '../model/era.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Window } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import { addUp, findDifferences } from './differences.ts';
import { ContradictionError } from './failures.ts';
import { heldIn, pagesOf } from './plan.ts';
import { surplusWords } from './surplus.ts';
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
