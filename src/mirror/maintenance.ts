/** What is done at the end of a run for the mirror itself: old records go, the log is folded in. */
import { setImmediate } from 'node:timers/promises';
import { resourceNames } from '../model/resources.ts';
import { type Clock, type Timestamp, timestampOf } from '../model/time.ts';
import type { MirrorStore, RunStatus } from '../store/mirror-types.ts';

/** Versions that go in one step: some milliseconds, for which a reader's or another writer's turn can wait. */
const versionsAStep = 1_000;

interface PrunePorts {
  readonly store: Pick<MirrorStore, 'pruneHistory'>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Removes the versions that ended longer than `keepMs` ago, in small steps; what a stop leaves, the next run removes. */
async function pruneHistory({ store, clock, signal }: PrunePorts, keepMs: number): Promise<void> {
  const before = timestampOf(Math.max(0, clock.now() - keepMs));
  for (const resource of resourceNames) {
    while (!signal.aborted && store.pruneHistory(resource, before, versionsAStep) === versionsAStep) {
      await setImmediate();
    }
  }
}

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
