/** Capabilities that were measured outside of a sync, put on record for the next one. */
import type { Capabilities } from '../api/capabilities.ts';
import type { ResourceName } from '../model/resources.ts';
import type { MirrorStore } from '../store/mirror-types.ts';
import { recordCapabilities } from './capability-record.ts';
import { syncLock } from './store/run-table.ts';

/**
 * Records what was measured; gives the resources that the next sync reads whole again, because the rules of their ranges
 * are others now. Throws a LockHeldError while a sync goes on: it would not know of the change.
 */
export function recordProbe(
  store: MirrorStore,
  run: string,
  measured: ReadonlyMap<ResourceName, Capabilities>,
): ResourceName[] {
  store.acquireLock(syncLock, run, 'doctor');
  try {
    return [...measured].filter(([resource, each]) => recordCapabilities(store, resource, each)).map(([name]) => name);
  } finally {
    store.releaseLock(syncLock, run);
  }
}
