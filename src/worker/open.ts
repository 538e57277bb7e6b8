/** The worker of the settings, and the watch over it. */
import { isLoopback } from '../model/loopback.ts';
import type { Releases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import { version } from '../model/version.ts';
import { networkOf } from '../settings/server.ts';
import type { Settings, Surroundings } from '../settings/settings.ts';
import { openHealthServer } from './health/server.ts';
import { restFor, sleepFor } from './sleep.ts';
import { openAlertStore } from './store/alerts.ts';
import { openHealthStore } from './store/health.ts';
import { workerFileOf } from './store/schema.ts';
import { openWorkerStore as openStore } from './store/store.ts';
import type { WorkerStore } from './store/store-types.ts';
import { openWatch as makeWatch, type Watch, type WatchPorts, type WatchSettings } from './watch.ts';
import { openWorker as makeWorker, type Worker, type WorkerPorts } from './worker.ts';

/** What the worker of this mirror keeps, made where there is nothing yet. Throws a FileError. */
export function openWorkerStore(settings: Settings, clock: Clock, releases: Releases): WorkerStore {
  return releases.add(openStore(workerFileOf(settings.store.mirror), clock));
}

/** The worker that runs the jobs of the settings, wired, in real time unless `sleep` is given; it does nothing before `run`. */
export function openWorker(
  { settings, clock, signal }: Omit<Surroundings, 'log'>,
  ports: Pick<WorkerPorts, 'runCommand' | 'emit'> & Partial<Pick<WorkerPorts, 'sleep'>>,
  releases: Releases,
): Worker {
  const store = openWorkerStore(settings, clock, releases);
  return makeWorker({ sleep: sleepFor, rest: ports.sleep ?? restFor, ...ports, store, clock, signal }, settings.jobs);
}

/** What of the settings may change while the watch goes on. */
export function watchSettingsOf(settings: Settings): WatchSettings {
  const { worker, alerts } = settings;
  return { maxStalenessMs: worker.maxStalenessMs, ...alerts, network: networkOf(settings) };
}

/**
 * The watch over a worker, wired, answering over HTTP where the settings say so; it looks at nothing before it is told to.
 * Throws a FileError, and a UsageError where the address cannot be listened on and no other worker is at this mirror.
 */
export async function openWatch(
  { settings, clock, log }: Omit<Surroundings, 'signal'>,
  ports: Pick<WatchPorts, 'view' | 'folder' | 'environment' | 'pasteable'> & Partial<Pick<WatchPorts, 'sleep'>>,
  releases: Releases,
): Promise<Watch> {
  const alertStore = releases.add(openAlertStore(workerFileOf(settings.store.mirror), clock));
  const lock = openWorkerStore(settings, clock, releases);
  const opened = makeWatch(
    {
      sleep: sleepFor,
      ...ports,
      scheduler: () => lock.scheduler(),
      alertStore,
      health: releases.add(openHealthStore(settings.store, clock)),
      clock,
      log,
      profile: settings.profile ?? null,
      version: version(),
    },
    watchSettingsOf(settings),
  );
  // Where another worker is at this mirror, this one ends by saying so, and not by saying that the port is taken.
  const { listen, token } = settings.worker;
  if (listen !== undefined && lock.scheduler() === undefined) {
    const { url } = releases.add(await openHealthServer(listen, opened.pages, log, token));
    log.info({ url }, `health and metrics are at ${url}`);
    if (!isLoopback(listen.host)) {
      log.warn({ url }, 'other machines can ask about health: with the token, and all of it in clear on the way');
    }
  }
  return opened;
}
