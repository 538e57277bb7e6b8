/** What is known of the mirror that the settings name, without a request. `status` must start fast: this loads no engine. */
import type { Releases } from '../model/releases.ts';
import { type ResourceName, resourceNames } from '../model/resources.ts';
import { type Clock, parseInstant, systemClock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { capabilityStatus, type CapabilityStatus, mirrorStatus, type MirrorStatus } from './status.ts';
import type { LockOwner } from '../store/lock.ts';
import type { RunDetail, RunReport } from '../store/mirror-types.ts';
import { rhythmOf } from './freshness-price.ts';
import { syncLock } from './store/bookkeeping.ts';
import { openMirrorStoreForReading } from './store/mirror-store.ts';

/** The status of the mirror. Throws a FileError where there is none. */
export function openStatus(settings: Settings, releases: Releases): MirrorStatus {
  const store = releases.add(openMirrorStoreForReading(settings.store.mirror));
  const rhythm = rhythmOf(store, systemClock, { ...settings.sync, ...settings.api });
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
    progress: progressOf(detail, pageSizes, clock.now()),
  };
}

/** The sum over the resources. Windows that are read twice bring more records than were expected. */
function progressOf(
  { status, started_at, resources, expected }: RunDetail,
  pageSizes: ReadonlyMap<ResourceName, number>,
  now: number,
) {
  const parts = Object.entries(resources) as [ResourceName, { readonly received: number; readonly requests: number }][];
  const records = parts.reduce((sum, [, { received }]) => sum + received, 0);
  const requests = parts.reduce((sum, [, each]) => sum + each.requests, 0);
  const known = Object.entries(expected) as [ResourceName, number][];
  const whole = known.length === 0 ? null : known.reduce((sum, [, count]) => sum + count, 0);
  const pages = known.reduce((sum, [name, count]) => sum + Math.ceil(count / (pageSizes.get(name) ?? 1)), 0);
  const spentMs = now - (parseInstant(started_at) ?? now);
  const isTold = status === 'running' && whole !== null && records > 0 && records < whole && spentMs > 0;
  return {
    records,
    /** Records that it set out to read; null where it does not know yet, or was of a version that did not note it. */
    expected: whole,
    requests,
    /** Pages of the records that it expects, a request each at the least; null where these are not known. */
    expectedRequests: whole === null ? null : pages,
    /** At the pace so far; null where that cannot be told, and of a run that has ended. */
    leftMs: isTold ? (spentMs / records) * (whole - records) : null,
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
