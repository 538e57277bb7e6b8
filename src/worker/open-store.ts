/** What the worker keeps, and how mirror and journal are: in files, or in the store that several machines share. */
import { existsSync } from 'node:fs';
import { refuseMovedFile } from '../journal/open.ts';
import type { Releases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { sharedStoreOf } from '../settings/server.ts';
import type { FleetPlace } from './fleet.ts';
import { type HealthStore, openHealthStore } from './store/health.ts';
import type { WorkerStore } from './store/store.ts';

/** `data/mirror.db` → `data/mirror.worker.db`. */
export function workerFileOf(mirror: string): string {
  return `${mirror.replace(/\.db$/, '')}.worker.db`;
}

/** What the worker of this mirror keeps, made where there is nothing yet. Throws a FileError. */
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

/** The place of this worker among those of other machines. Only with a shared store. Throws a FileError. */
export async function openFleetPlace(
  settings: Settings,
  worker: string,
  clock: Clock,
  releases: Releases,
): Promise<FleetPlace> {
  const store = sharedStoreOf(settings);
  if (store === undefined) throw new Error('without a shared store there is one worker');
  const { openFleetPlace: open } = await import('./store/postgres.ts');
  return releases.add(await open(store, worker, clock));
}

/** Undefined where no worker has run for this mirror: then nothing of a database is loaded either. Throws a FileError. */
export async function openWorkerStoreToLook(
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

/** The health of the files and of the shared store that the settings name; none has to exist. The caller closes it. */
export function openHealthOf(settings: Settings, clock: Clock): HealthStore {
  const store = sharedStoreOf(settings);
  if (store === undefined) return openHealthStore(settings.store, clock);
  const ofShared = async () => (await import('./store/postgres.ts')).sharedJournalLooks(store, clock);
  return openHealthStore(settings.store, clock, ofShared);
}
