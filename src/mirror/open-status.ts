/** What is known of the mirror that the settings name, without a request. `status` must start fast: this loads no engine. */
import type { Releases } from '../model/releases.ts';
import { type ResourceName, resourceNames } from '../model/resources.ts';
import { type Clock, systemClock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { capabilityStatus, type CapabilityStatus, mirrorStatus, type MirrorStatus } from './status.ts';
import type { LockOwner } from '../store/lock.ts';
import type { RunReport } from '../store/mirror-types.ts';
import { priceOptions, rhythmOf } from './freshness-price.ts';
import { runProgress } from './run-progress.ts';
import { syncLock } from './store/run-table.ts';
import { openMirrorStoreForReading } from './store/mirror-store.ts';

/** The status of the mirror. Throws a FileError where there is none. */
export function openStatus(settings: Settings, releases: Releases): MirrorStatus {
  const store = releases.add(openMirrorStoreForReading(settings.store.mirror));
  const rhythm = rhythmOf(store, systemClock, priceOptions(settings, settings.sync.requestsPerRun));
  return { ...mirrorStatus(store), rhythm };
}

/** The last syncs, newest first. Throws a FileError where there is no mirror. */
export function openRuns(settings: Settings, limit: number, releases: Releases): RunReport[] {
  return releases.add(openMirrorStoreForReading(settings.store.mirror)).runs(limit);
}

/** A sync as it is on record, how far it is, and who owns the lock; null where there is none of that name. */
export function openRun(settings: Settings, run: string, clock: Clock, releases: Releases) {
  const store = releases.add(openMirrorStoreForReading(settings.store.mirror));
  const detail = store.run(run);
  if (detail === undefined) return null;
  const owner = store.lockOwner(syncLock);
  const pageSizes = new Map(
    resourceNames.map((name) => [name, capabilityStatus(store, name)?.page_size ?? settings.api.pageSize]),
  );
  return {
    detail,
    /** The living process that runs it; null where none does. */
    owner: owner?.run === run ? owner : null,
    progress: runProgress(detail, pageSizes, clock.now()),
  };
}

/** Whoever writes the mirror now. Throws a FileError where there is no mirror. */
export function openWriter(settings: Settings, releases: Releases): LockOwner | null {
  return releases.add(openMirrorStoreForReading(settings.store.mirror)).lockOwner(syncLock) ?? null;
}

/** What the mirror has on record of a list of the server. Throws a FileError where there is no mirror. */
export function openCapabilities(
  settings: Settings,
  releases: Releases,
): (resource: ResourceName) => CapabilityStatus | null {
  const store = releases.add(openMirrorStoreForReading(settings.store.mirror));
  return (resource) => capabilityStatus(store, resource);
}
