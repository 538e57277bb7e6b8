/**
 * Deletions: rows that a consistent walk did not show. Each is confirmed with the server before it goes, and where too
 * many would go nothing does. Section "Deletions" of docs/architecture.md.
 */
import type { MirrorStore, Window } from '../store/ports/mirror-store.ts';

/** How many rows of a window may go without being asked: the larger of a number and a share. */
const brakeRows = 50;
const brakeShare = 0.2;

export interface RemovalPorts {
  readonly store: Pick<MirrorStore, 'liveCount' | 'deleteRecords' | 'recordEvent'>;
  /** Asks the server for the record itself: true only where it answers that there is none. */
  readonly isAbsent: (id: number) => Promise<boolean>;
  readonly allowDeletions: boolean;
}

export interface ReconcilePorts extends RemovalPorts {
  readonly store: RemovalPorts['store'] & Pick<MirrorStore, 'unseenIds' | 'releaseUnseen'>;
}

export interface Reconciled {
  /** Why rows are left in doubt; null where every row of the window is now one of the server's. */
  readonly problem: string | null;
  /** Rows that the server has although its pages did not show them. */
  readonly alive: number;
}

/** Removes the window's rows that the server no longer has. */
export async function reconcile(
  ports: ReconcilePorts,
  run: string,
  window: Window,
  seen: ReadonlySet<number>,
): Promise<Reconciled> {
  const { store } = ports;
  store.releaseUnseen(window, seen);
  return removeAbsent(ports, run, window, store.unseenIds(window, seen));
}

/** Removes those of the window's rows that the server confirms to have no longer, unless they are too many. */
export async function removeAbsent(
  ports: RemovalPorts,
  run: string,
  window: Window,
  unseen: readonly number[],
): Promise<Reconciled> {
  const { store } = ports;
  if (unseen.length === 0) return { problem: null, alive: 0 };
  const live = store.liveCount(window.resource, window);
  if (!ports.allowDeletions && unseen.length > Math.max(brakeRows, live * brakeShare)) {
    const detail = `${unseen.length} of ${live} records would be removed; nothing was`;
    const subject = `${window.from}..${window.to} ${run}`;
    store.recordEvent(run, { resource: window.resource, kind: 'deletions_refused', subject, detail });
    return { problem: `${detail} (--allow-deletions lets them go)`, alive: 0 };
  }
  const absent: number[] = [];
  for (const id of unseen) {
    // One at a time: a handful of records, and an answer that fails ends the window.
    if (await ports.isAbsent(id)) absent.push(id);
  }
  store.deleteRecords(run, window.resource, absent);
  const alive = unseen.length - absent.length;
  const problem = alive === 0 ? null : `the pages did not show ${alive} records that the server still has`;
  return { problem, alive };
}
