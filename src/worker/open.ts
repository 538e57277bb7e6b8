/** Opens the worker of the settings, the watch over it, and the server of the health of all workers of this process. */
import { schedule } from 'node-cron';
import type { Log } from '../model/log.ts';
import { isLoopback } from '../model/address.ts';
import type { Releases } from '../model/releases.ts';
import { version } from '../model/program.ts';
import type { Job } from '../model/job.ts';
import { sleepFor } from '../model/time.ts';
import { networkOf, secretIn } from '../settings/server.ts';
import type { Settings, Surroundings } from '../settings/settings.ts';
import { openHealthServer, pagesOf, type Watched } from './health-server.ts';
import { openHealthOf, openWorkerStore } from './open-store.ts';
import { Watch, type WatchPorts, type WatchSettings } from './watch.ts';
import { Worker, type WorkerPorts } from './worker.ts';

function watchSettingsOf(settings: Settings): WatchSettings {
  const { worker, alerts } = settings;
  return { maxStalenessMs: worker.maxStalenessMs, ...alerts, network: networkOf(settings) };
}

type Ports = Pick<WorkerPorts, 'runCommand' | 'emit' | 'inTurn' | 'prepare'> &
  Pick<WatchPorts, 'folder' | 'environment' | 'pasteable'>;

interface OpenWorker {
  readonly watch: Watch;
  /** Works until the signal of the surroundings is aborted. Throws a LockHeldError if another worker has this mirror. */
  readonly run: () => Promise<void>;
}

/** Opens the worker of the settings and the watch over it. Both do nothing before `run`. Throws a FileError. */
export async function openWorker(
  { settings, clock, log, signal }: Surroundings,
  ports: Ports & Partial<Pick<WorkerPorts, 'sleep'>>,
  releases: Releases,
): Promise<OpenWorker> {
  const store = await openWorkerStore(settings, clock, releases);
  const health = openHealthOf(settings, clock);
  const times = { clock: store.clock, sleep: ports.sleep ?? sleepFor };
  const ended = new AbortController();
  let watching = Promise.resolve();
  const emit: WorkerPorts['emit'] = (event) => {
    ports.emit(event);
    watch.onEvent(event);
    // Until then, another worker may own the mirror.
    if (event.kind === 'started') watching = watch.run(AbortSignal.any([signal, ended.signal]));
  };
  const worker = new Worker({ ...ports, ...times, emit, store, signal }, settings.jobs);
  const profile = settings.profile ?? null;
  const watch = new Watch(
    {
      ...times,
      ...ports,
      jobs: settings.jobs,
      state: () => worker.state(),
      store,
      health,
      log,
      profile,
      version: version(),
    },
    watchSettingsOf(settings),
    await store.alerts(),
  );
  const run = async (): Promise<void> => {
    const tasks = settings.jobs.map((job) => wakenBy(job, worker));
    try {
      await worker.run();
    } finally {
      for (const task of tasks) void task.destroy();
      ended.abort();
      // Before the releases close the files that it reads.
      await watching;
    }
  };
  return { watch, run };
}

/**
 * node-cron wakes the worker at each time of the job. It leaves out the night in which summer time begins, and a machine that slept:
 * then the worker's own look finds what is due, half a minute later at most.
 */
function wakenBy({ cron, timezone }: Job, worker: Worker) {
  return schedule(cron, () => worker.wake(), { timezone, suppressMissedWarning: true });
}

/** Serves the health of the workers in this process. Throws a UsageError if it cannot listen on the address. */
export async function openHealth({ worker }: Settings, watched: Watched, log: Log, releases: Releases): Promise<void> {
  const { listen } = worker;
  if (listen === undefined) return;
  const token = secretIn(worker.token, worker.tokenFile, 'worker.token');
  const { url } = releases.add(await openHealthServer(listen, pagesOf(watched), log, token));
  log.info({ url }, `health and metrics are at ${url}`);
  if (!isLoopback(listen.host)) {
    log.warn({ url }, 'other machines can read the health of this worker with the token, which they send unencrypted');
  }
}
