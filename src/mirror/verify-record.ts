/** What a comparison has found, put on record in the mirror for the next sync. */
import type { MirrorStore, Window } from '../store/mirror-types.ts';
import { syncLock } from './store/run-table.ts';

/**
 * The next sync compares the windows row by row, whatever else it reads. Throws a LockHeldError while a sync goes on: it
 * would not know of them.
 */
export function recordDifferences(
  store: Pick<MirrorStore, 'acquireLock' | 'releaseLock' | 'compareAgain'>,
  run: string,
  differing: readonly Window[],
): void {
  store.acquireLock(syncLock, run, 'verify');
  try {
    for (const window of differing) store.compareAgain(window.resource, window);
  } finally {
    store.releaseLock(syncLock, run);
  }
}
