/** Opens the worker of the settings, the watch over it, and the server of its health. */
import type { Log } from '../model/log.ts';
import { isLoopback } from '../model/address.ts';
import type { Releases } from '../model/releases.ts';
import { version } from '../model/program.ts';
import { networkOf, secretIn } from '../settings/server.ts';
import type { Settings, Surroundings } from '../settings/settings.ts';
import { jsonResponse, openHealthServer, type Pages } from './health-server.ts';
import { metricsText, metricsType } from './metrics.ts';
import { openHealthOf, openWorkerStore } from './open-store.ts';
import { sleepByClock, sleepFor } from './sleep.ts';
import { Watch, type WatchPorts, type WatchSettings } from './watch.ts';
import { Worker, type WorkerPorts } from './worker.ts';

/** The settings that the watch can take over while it runs. */
export function watchSettingsOf(settings: Settings): WatchSettings {
  const { worker, alerts } = settings;
  return { maxStalenessMs: worker.maxStalenessMs, ...alerts, network: networkOf(settings) };
}

type Ports = Pick<WorkerPorts, 'runCommand' | 'emit' | 'inTurn' | 'id' | 'prepare'> &
  Pick<WatchPorts, 'folder' | 'environment' | 'pasteable' | 'isOneOfMany'>;

export interface OpenWorker {
  readonly worker: Worker;
  readonly watch: Watch;
  /** Works until the signal of the surroundings is aborted. Throws a LockHeldError if another worker has this mirror. */
  readonly run: () => Promise<void>;
}

/**
 * Opens the worker of the settings and the watch over it. Both do nothing before `run`, but the health is served from now on.
 * Throws a FileError; throws a UsageError if it cannot listen on the address and no other worker runs for this mirror.
 */
export async function openWorker(
  { settings, clock, log, signal }: Surroundings,
  ports: Ports & Partial<Pick<WorkerPorts, 'sleep'>>,
  releases: Releases,
): Promise<OpenWorker> {
  const store = await openWorkerStore(settings, clock, releases);
  const health = releases.add(openHealthOf(settings, clock));
  const times = { clock: store.clock, sleep: sleepFor, rest: ports.sleep ?? sleepByClock };
  const ended = new AbortController();
  let watching = Promise.resolve();
  const emit: WorkerPorts['emit'] = (event) => {
    ports.emit(event);
    watch.onEvent(event);
    // Until then, another worker may own the mirror.
    if (event.kind === 'started') watching = watch.run(AbortSignal.any([signal, ended.signal]));
  };
  const worker = new Worker({ ...times, ...ports, emit, store, signal }, settings.jobs);
  const profile = settings.profile ?? null;
  const watch = new Watch(
    { ...times, ...ports, view: () => worker.view(), store, health, log, profile, version: version() },
    watchSettingsOf(settings),
    await store.alerts(),
  );
  // If another worker runs for this mirror, `run` says so. Listening here would only say that the port is taken.
  const servesHealth = ports.isOneOfMany !== true && (await store.scheduler()) === undefined;
  if (servesHealth) await serveHealth(settings, watch.pages, log, releases);
  const run = async (): Promise<void> => {
    try {
      await worker.run();
    } finally {
      ended.abort();
      // Before the releases close the files that it reads.
      await watching;
    }
  };
  return { worker, watch, run };
}

async function serveHealth({ worker }: Settings, pages: Pages, log: Log, releases: Releases): Promise<void> {
  const { listen } = worker;
  if (listen === undefined) return;
  const token = secretIn(worker.token, worker.tokenFile, 'worker.token');
  const { url } = releases.add(await openHealthServer(listen, pages, log, token));
  log.info({ url }, `health and metrics are at ${url}`);
  if (!isLoopback(listen.host)) {
    log.warn({ url }, 'other machines can read the health of this worker with the token, which they send unencrypted');
  }
}

/** By profile: the watches over running workers, and why other workers cannot start. */
export interface Watched {
  readonly watches: Map<string, Watch>;
  readonly troubles: Map<string, string>;
}

/**
 * Serves the health of several workers together. A page is bad if that page of any worker is. Throws a UsageError if it cannot
 * listen on the address.
 */
export async function openHealthOfAll(
  settings: Settings,
  { watches, troubles }: Watched,
  log: Log,
  releases: Releases,
): Promise<void> {
  const page = (path: string) => async () => {
    const found = await Promise.all(
      Array.from(watches, async ([profile, { pages }]) => [profile, await pages[path]?.()] as const),
    );
    for (const [profile, problem] of troubles) {
      if (!watches.has(profile)) found.push([profile, jsonResponse(false, { status: 'not ready', problem })]);
    }
    const isGood = found.every(([, each]) => each?.status === 200);
    const profiles = Object.fromEntries(found.map(([profile, each]) => [profile, JSON.parse(each?.body ?? '{}')]));
    const status = isGood ? 'good' : 'bad';
    return jsonResponse(isGood, { status, profiles });
  };
  const metrics = async () => {
    const each = await Promise.all(Array.from(watches.values(), (watch) => watch.metrics()));
    return { status: 200, type: metricsType, body: metricsText(each.flat()) } as const;
  };
  await serveHealth(
    settings,
    { '/healthz': page('/healthz'), '/readyz': page('/readyz'), '/metrics': metrics },
    log,
    releases,
  );
}
