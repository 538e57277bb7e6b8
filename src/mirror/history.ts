/** What the history no longer has to tell, removed. Section "History" of docs/architecture.md. */
import { setImmediate } from 'node:timers/promises';
import { resourceNames } from '../model/resources.ts';
import { timestampOf, type Clock } from '../model/time.ts';
import type { MirrorStore } from '../store/mirror-types.ts';

/** Versions that go in one step: some milliseconds, for which a reader's or another writer's turn can wait. */
const versionsAStep = 1_000;

export interface PrunePorts {
  readonly store: Pick<MirrorStore, 'pruneHistory'>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Removes the versions that ended longer than `keepMs` ago, in small steps; what a stop leaves, the next run removes. */
export async function pruneHistory({ store, clock, signal }: PrunePorts, keepMs: number): Promise<void> {
  const before = timestampOf(Math.max(0, clock.now() - keepMs));
  for (const resource of resourceNames) {
    while (!signal.aborted && store.pruneHistory(resource, before, versionsAStep) === versionsAStep) {
      await setImmediate();
    }
  }
}
