/** What is done at the end of a run for the mirror itself: old records go, the log is folded in. */
import { setImmediate } from 'node:timers/promises';
import { resourceNames } from '../model/resources.ts';
import { type Clock, type Timestamp, timestampOf } from '../model/time.ts';
import type { MirrorStore, RunStatus } from '../store/mirror-types.ts';

/** Versions that go in one step: some milliseconds, for which a reader's or another writer's turn can wait. */
const versionsAStep = 1_000;

interface MaintenancePorts {
  readonly store: Pick<MirrorStore, 'pruneHistory' | 'pruneRuns' | 'pruneEvents' | 'optimize' | 'checkpoint'>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export interface Keep {
  /** How long ago a version in the history may have ended; for ever where it is not given. */
  readonly historyKeepMs?: number;
  /** How long ago a run may have begun; for ever where it is not given. */
  readonly runsKeepMs?: number;
  /** How long ago an event may be from; for ever where it is not given. */
  readonly eventsKeepMs?: number;
}

/** Runs or events that go in one step: some milliseconds. */
const recordsAStep = 500;

/** Does the maintenance of the mirror after a run; what a stop leaves, the next run does. */
export async function maintain(
  { store, clock, signal }: MaintenancePorts,
  status: RunStatus,
  keep: Keep,
): Promise<void> {
  async function prune(
    keepMs: number | undefined,
    rowsAStep: number,
    remove: (before: Timestamp, rows: number) => number,
  ): Promise<void> {
    if (keepMs === undefined) return;
    const before = timestampOf(Math.max(0, clock.now() - keepMs));
    while (!signal.aborted && remove(before, rowsAStep) === rowsAStep) await setImmediate();
  }
  if (status === 'complete') {
    for (const resource of resourceNames) {
      await prune(keep.historyKeepMs, versionsAStep, (before, rows) => store.pruneHistory(resource, before, rows));
    }
  }
  await prune(keep.runsKeepMs, recordsAStep, (before, rows) => store.pruneRuns(before, rows));
  await prune(keep.eventsKeepMs, recordsAStep, (before, rows) => store.pruneEvents(before, rows));
  if (!signal.aborted) store.optimize();
  // A stop shall not wait for readers.
  store.checkpoint(!signal.aborted);
}
