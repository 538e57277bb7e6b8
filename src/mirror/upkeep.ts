/** What is done at the end of a run for the mirror itself: old records go, the log is folded in. */
import { setImmediate } from 'node:timers/promises';
import { timestampOf, type Timestamp } from '../model/time.ts';
import type { MirrorStore, RunStatus } from '../store/mirror-types.ts';
import { pruneHistory, type PrunePorts } from './history.ts';

export interface Keep {
  /** How long ago a version in the history may have ended; for ever where it is not given. */
  readonly historyKeepMs?: number;
  /** How long ago a run may have begun; for ever where it is not given. */
  readonly runsKeepMs?: number;
  /** How long ago an event may have been told; for ever where it is not given. */
  readonly eventsKeepMs?: number;
}

/** Rows that go in one step: some milliseconds. */
const rowsAStep = 500;

/** Leaves the mirror tidy after a run; what a stop leaves, the next run does. */
export async function keepTidy(
  ports: PrunePorts & { readonly store: Pick<MirrorStore, 'pruneRuns' | 'pruneEvents' | 'optimize' | 'checkpoint'> },
  status: RunStatus,
  keep: Keep,
): Promise<void> {
  const { store, clock, signal } = ports;
  if (status === 'complete' && keep.historyKeepMs !== undefined) await pruneHistory(ports, keep.historyKeepMs);

  async function prune(keepMs: number | undefined, remove: (before: Timestamp, rows: number) => number): Promise<void> {
    if (keepMs === undefined) return;
    const before = timestampOf(Math.max(0, clock.now() - keepMs));
    while (!signal.aborted && remove(before, rowsAStep) === rowsAStep) await setImmediate();
  }
  await prune(keep.runsKeepMs, (before, rows) => store.pruneRuns(before, rows));
  await prune(keep.eventsKeepMs, (before, rows) => store.pruneEvents(before, rows));
  if (!signal.aborted) store.optimize();
  // Who was told to stop shall not be waited for.
  store.checkpoint(!signal.aborted);
}
