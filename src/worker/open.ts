/** The worker of the settings, and the watch over it. */
import { isLoopback } from '../model/loopback.ts';
import type { Releases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import { version } from '../model/version.ts';
import { networkOf } from '../settings/network.ts';
import type { Settings, Surroundings } from '../settings/settings.ts';
import { openHealthServer } from './health-server.ts';
import { workerFileOf } from './open-status.ts';
import { restFor, sleepFor } from './sleep.ts';
import { openHealthStore } from './store/health.ts';
import type { WorkerStore } from './store/port.ts';
import { openWorkerStore as openStore } from './store/sqlite.ts';
import { Watch, type WatchPorts, type WatchSettings } from './watch.ts';
import { Worker, type WorkerPorts } from './worker.ts';

/** What the worker of this mirror keeps, made where there is nothing yet. Throws a FileError. */
export function openWorkerStore(settings: Settings, clock: Clock, releases: Releases): WorkerStore {
  return releases.add(openStore(workerFileOf(settings.store.mirror), clock));
}

/** What of the settings may change while the watch goes on. */
export function watchSettingsOf(settings: Settings): WatchSettings {
  const { worker, alerts } = settings;
  return { maxStalenessMs: worker.maxStalenessMs, ...alerts, network: networkOf(settings) };
}

type Ports = Pick<WorkerPorts, 'runCommand' | 'emit'> & Pick<WatchPorts, 'folder' | 'environment' | 'pasteable'>;

/**
 * The worker that runs the jobs of the settings, and the watch over it, in real time unless `sleep` is given; they do nothing
 * before `run`. Health is served from now on where the settings say so. Throws a FileError, and a UsageError where the address
 * cannot be listened on and no other worker is at this mirror.
 */
export async function openWorker(
  { settings, clock, log, signal }: Surroundings,
  ports: Ports & Partial<Pick<WorkerPorts, 'sleep'>>,
  releases: Releases,
): Promise<{ readonly worker: Worker; readonly watch: Watch }> {
  const store = openWorkerStore(settings, clock, releases);
  const health = releases.add(openHealthStore(settings.store, clock));
  const times = { clock, sleep: sleepFor, rest: ports.sleep ?? restFor };
  const emit: WorkerPorts['emit'] = (event) => {
    ports.emit(event);
    watch.onEvent(event);
  };
  const worker = new Worker({ ...times, ...ports, emit, store, signal }, settings.jobs);
  const profile = settings.profile ?? null;
  const watch = await Watch.open(
    { ...times, ...ports, view: () => worker.view(), store, health, log, profile, version: version() },
    watchSettingsOf(settings),
  );
  // Where another worker is at this mirror, this one ends by saying so, and not by saying that the port is taken.
  const { listen, token } = settings.worker;
  if (listen !== undefined && (await store.scheduler()) === undefined) {
    const { url } = releases.add(await openHealthServer(listen, watch.pages, log, token));
    log.info({ url }, `health and metrics are at ${url}`);
    if (!isLoopback(listen.host)) {
      log.warn({ url }, 'other machines can read the health of this worker: with the token, which they send in clear');
    }
  }
  return { worker, watch };
}
