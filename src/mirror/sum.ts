/**
 * The proof of a resource: its rows are as many as the server says it has. Where they are not, the windows whose counts
 * differ are read again, and last what no range of days shows.
 */
import { coverageOf, outsideEra, type DayRange } from '../model/era.ts';
import type { ResourceName } from '../model/resources.ts';
import type { MirrorStore, Window } from '../store/ports/mirror-store.ts';
import { ContradictionError } from './contradiction.ts';
import type { WindowVisitor } from './window-visitor.ts';

export interface Sum {
  readonly total: number;
  readonly problem: string | null;
}

/** A server that is written to all the time changes between two looks; after this many the difference is told. */
const rounds = 3;

export interface SumPorts {
  readonly visitor: WindowVisitor;
  readonly store: MirrorStore;
  readonly resource: ResourceName;
  readonly only: DayRange | null;
  readonly isOpen: (window: Window) => boolean;
  /** Whether an unexplained lack of records is worth measuring the server's rules again. */
  readonly trusting: boolean;
}

/** Compares the number of rows with the server's total, and reads again what differs. */
export async function proveSum(ports: SumPorts): Promise<Sum> {
  const { visitor, store, resource } = ports;
  let total = await visitor.total(null);
  let live = store.accountedCount(resource);
  // What cannot be read is told where it is; it is no reason to read anything again.
  const isExplained = (): boolean => live <= total && live + visitor.unreadable >= total;
  for (let round = 0; round < rounds && !isExplained(); round += 1) {
    const before = { total, live };
    const differing = await differingWindows(ports);
    await visitor.visitAll([...differing.keys()], differing);
    total = await visitor.total(null);
    live = store.accountedCount(resource);
    if (!isExplained() && live === before.live && total === before.total) {
      // A window that could not be read has its own reason, and may hold all that is missing.
      if (store.windows(resource).some(({ state }) => state !== 'settled')) break;
      if (!(await readOutside(ports, live, total))) {
        distrust(ports, live, total);
        break;
      }
      live = store.accountedCount(resource);
    }
  }
  if (isExplained()) return { total, problem: null };
  return { total, problem: `the mirror has ${live} records and the server counts ${total}` };
}

/**
 * Nothing changed between two looks, everything was read, and still records are missing: then the walks that seemed
 * consistent were not, and what they showed is no ground for saying how fresh the rows are.
 */
function distrust({ store, resource, only }: SumPorts, live: number, total: number): void {
  if (only !== null || live >= total) return;
  const problem = `${total - live} records of the server are in no range of days`;
  const windows = store.windows(resource);
  store.resetWindows(
    resource,
    windows.map(({ from, to }) => ({ from, to, state: 'unsettled', problem })),
  );
}

/**
 * Windows that may hold the difference: those still open, those not settled, and those whose count is another now, with
 * the count where it was asked.
 */
async function differingWindows(ports: SumPorts): Promise<Map<Window, number | undefined>> {
  const { visitor, store, resource, only, isOpen } = ports;
  const differing = new Map<Window, number | undefined>();
  for (const window of store.windows(resource)) {
    if (only !== null && (window.to <= only.from || window.from >= only.to)) continue;
    if (visitor.hasFailed(window)) continue;
    const isWhole = coverageOf(window) === 'everything';
    // Counting an open window costs about as much as reading it, unless it is one over everything.
    const counted =
      window.state !== 'settled' || (isOpen(window) && !isWhole) ? undefined : await visitor.total(window);
    if (isWhole || counted === undefined || counted !== window.serverTotal) differing.set(window, counted);
  }
  return differing;
}

/** Reads the records that no range of days shows. False where they are read with every run already. */
async function readOutside(
  { visitor, store, resource, only, trusting }: SumPorts,
  live: number,
  total: number,
): Promise<boolean> {
  const windows = store.windows(resource);
  if (only !== null || windows.some((window) => coverageOf(window) !== 'days')) return false;
  if (trusting && live < total) {
    // The ranges may have been read too narrowly: that is found out by measuring, at less cost than reading everything.
    throw new ContradictionError(`the windows show ${live} records of ${resource} and the server counts ${total}`);
  }
  store.resetWindows(resource, [outsideEra, ...windows]);
  await visitor.visitAll(store.windows(resource).filter((window) => coverageOf(window) === 'outside'));
  return true;
}
