/** Opens the worker's store and the health of mirror and journal: in files, or in the store that several machines share. */
import { existsSync } from 'node:fs';
import { refuseMovedFile } from '../journal/open.ts';
import type { Releases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { sharedStoreOf } from '../settings/server.ts';
import type { Membership } from './fleet.ts';
import { type HealthStore, openHealthStore } from './store/health.ts';
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
    const { openWorkerStore: openFile } = await import('./store/sqlite.ts');
    return releases.add(openFile(workerFileOf(settings.store.mirror), clock));
  }
  const { openSharedWorkerStore } = await import('./store/postgres.ts');
  return releases.add(await openSharedWorkerStore(store, clock));
}

/** Adds this worker to those of the shared store, which must be set. Throws a FileError. */
export async function openFleetMembership(
  settings: Settings,
  worker: string,
  clock: Clock,
  releases: Releases,
): Promise<Membership> {
  const store = sharedStoreOf(settings);
  if (store === undefined) throw new Error('without a shared store there is one worker');
  const { openMembership } = await import('./store/postgres.ts');
  return releases.add(await openMembership(store, worker, clock));
}

/** Opens the worker's store for reading; undefined, without loading any database code, if no worker has run. Throws a FileError. */
export async function openWorkerStoreIfMade(
  settings: Settings,
  clock: Clock,
  releases: Releases,
): Promise<WorkerStore | undefined> {
  const store = sharedStoreOf(settings);
  if (store === undefined) {
    const file = workerFileOf(settings.store.mirror);
    if (!existsSync(file)) return undefined;
    const { openWorkerStoreForReading } = await import('./store/sqlite.ts');
    return releases.add(openWorkerStoreForReading(file, clock));
  }
  const { openSharedWorkerStoreIfMade } = await import('./store/postgres.ts');
  const opened = await openSharedWorkerStoreIfMade(store, clock);
  return opened && releases.add(opened);
}

/** Opens the health of the files and the shared store of the settings. None of them has to exist. The caller closes it. */
export function openHealthOf(settings: Settings, clock: Clock): HealthStore {
  const store = sharedStoreOf(settings);
  if (store === undefined) return openHealthStore(settings.store, clock);
  const ofShared = async () => (await import('./store/postgres.ts')).sharedJournalCheck(store, clock);
  return openHealthStore(settings.store, clock, ofShared);
}
