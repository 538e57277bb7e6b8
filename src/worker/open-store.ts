/** Opens the worker's store and the health of mirror and journal: in files, or in the store that several machines share. */
import { existsSync } from 'node:fs';
import { openBackendToLook, refuseMovedFile } from '../journal/open.ts';
import type { Releases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { sharedStoreOf } from '../settings/server.ts';
import { type HealthStore, openHealthStore } from './store/health.ts';
import * as sqlite from './store/sqlite.ts';
import type { WorkerStore } from './store/store.ts';

/** `data/mirror.db` → `data/mirror.worker.db`. */
export function workerFileOf(mirror: string): string {
  return `${mirror.replace(/\.db$/, '')}.worker.db`;
}

/** Opens the store of this mirror's worker; creates it if it does not exist. Throws a FileError. */
export async function openWorkerStore(settings: Settings, clock: Clock, releases: Releases): Promise<WorkerStore> {
  const store = sharedStoreOf(settings);
  if (store === undefined) {
    refuseMovedFile(settings);
    return releases.add(sqlite.openWorkerStore(workerFileOf(settings.store.mirror), clock));
  }
  const { openSharedWorkerStore } = await import('./store/postgres.ts');
  return releases.add(await openSharedWorkerStore(store, clock));
}

/** Opens the worker's store for reading; undefined if no worker has run. Throws a FileError. */
export async function openWorkerStoreIfMade(
  settings: Settings,
  clock: Clock,
  releases: Releases,
): Promise<WorkerStore | undefined> {
  const store = sharedStoreOf(settings);
  if (store === undefined) {
    const file = workerFileOf(settings.store.mirror);
    return existsSync(file) ? releases.add(sqlite.openWorkerStoreForReading(file, clock)) : undefined;
  }
  const { openSharedWorkerStoreIfMade } = await import('./store/postgres.ts');
  const opened = await openSharedWorkerStoreIfMade(store, clock);
  return opened && releases.add(opened);
}

/** The health of mirror and journal of the settings. Neither has to exist. */
export function openHealthOf(settings: Settings, clock: Clock): HealthStore {
  return openHealthStore(settings.store.mirror, () => openBackendToLook(settings, clock));
}
