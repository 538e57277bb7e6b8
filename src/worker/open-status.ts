/** What there is to tell of the worker of the settings. */
import { existsSync } from 'node:fs';
import type { Releases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { type WorkerStatus, workerStatus } from './status.ts';
import { openAlertStoreForReading } from './store/alerts.ts';
import { openHealthStore } from './store/health.ts';
import { workerFileOf } from './store/schema.ts';
import { openWorkerStoreForReading } from './store/store.ts';

/** What there is to tell of the worker of this mirror, whether one runs or not. Throws a FileError. */
export function openWorkerStatus(settings: Settings, clock: Clock, releases: Releases): WorkerStatus {
  const file = workerFileOf(settings.store.mirror);
  // There is none where no worker has run for this mirror.
  const store = existsSync(file) ? releases.add(openWorkerStoreForReading(file, clock)) : undefined;
  return workerStatus({
    store,
    alerts: store === undefined ? undefined : releases.add(openAlertStoreForReading(file)),
    health: releases.add(openHealthStore(settings.store, clock)),
    jobs: settings.jobs,
    maxStalenessMs: settings.worker.maxStalenessMs,
    now: clock.now(),
  });
}
