/** The worker of the settings, and the watch over it. */
import { statSync } from 'node:fs';
import { openStatus } from '../mirror/open-status.ts';
import type { MirrorStatus } from '../mirror/status.ts';
import { FileError } from '../model/errors.ts';
import { isLoopback } from '../model/loopback.ts';
import { Releases, withReleases } from '../model/releases.ts';
import { type Clock, secondMs } from '../model/time.ts';
import { version } from '../model/version.ts';
import { networkOf } from '../settings/network.ts';
import type { Settings, Surroundings } from '../settings/settings.ts';
import { ByHand } from './by-hand.ts';
import { commandRunner } from './command.ts';
import { openHealthServer } from './health-server.ts';
import { openWorkerStatus, openWorkerStoreToLook, workerFileOf, type WorkerStatus } from './open-status.ts';
import { type StatusProblem, statusProblems } from './status-problems.ts';
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

/** What people start in the console; what still runs is waited for when it is released. */
export function openByHand(
  { settings, clock, log, signal }: Surroundings,
  {
    folder,
    environment,
    globalFlags,
  }: Pick<Parameters<typeof commandRunner>[0], 'folder' | 'environment' | 'globalFlags'>,
  releases: Releases,
): ByHand {
  // Below it on the stack: the store is closed after the last run is on record.
  const opened = releases.add(new Releases());
  const run = commandRunner({ folder, environment, globalFlags, log });
  return releases.add(
    new ByHand({ run, openStore: () => openWorkerStore(settings, clock, opened), clock, log, signal }),
  );
}

/** A run of a job, or by hand, as it is on record; undefined where there is none of that name. Throws a FileError. */
export async function openJobRun(settings: Settings, run: string, clock: Clock, releases: Releases) {
  const store = await openWorkerStoreToLook(settings, clock, releases);
  return store?.run(run);
}

/** The last runs of jobs and by hand, newest first. Throws a FileError. */
export async function openJobRuns(settings: Settings, limit: number, clock: Clock, releases: Releases) {
  const store = await openWorkerStoreToLook(settings, clock, releases);
  return (await store?.runs(limit)) ?? [];
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

/** The state of mirror, worker and journal as one look shows it. */
export type WholeStatus =
  | {
      readonly mirror: MirrorStatus;
      readonly worker: WorkerStatus;
      /** The worst first. */
      readonly problems: readonly StatusProblem[];
    }
  /** There is no mirror that can be read, and why. */
  | { readonly mirror: FileError; readonly worker: WorkerStatus };

/** Counting a million rows for each of twenty readers is what it saves; nobody sees a second. */
const sharedMs = secondMs;

interface Reading {
  readonly at: number;
  /** By the clock of the machine, which nobody sets. */
  readonly since: number;
  readonly mark: string;
  readonly status: Promise<WholeStatus>;
  isWriting: boolean;
}

/**
 * Gives the state; one reading serves all calls of a second, and of the time that it takes. Where no sync goes on, what was
 * written since is seen at once: a page after a click shows what the click did.
 * @param elapsed milliseconds of a time that nobody sets
 */
export function openWholeStatus(
  settings: Settings,
  clock: Clock,
  elapsed: () => number = () => performance.now(),
): () => Promise<WholeStatus> {
  let last: Reading | undefined;
  const { mirror, journal } = settings.store;
  const files = [mirror, journal, workerFileOf(mirror)].flatMap((file) => [file, `${file}-wal`]);

  function isCurrent({ at, since, mark, isWriting }: Reading, now: number): boolean {
    // The clock of the console may be set, and then ages are others.
    if (elapsed() - since > sharedMs || Math.abs(now - at) > sharedMs) return false;
    return isWriting || mark === markOf(files);
  }

  return () => {
    const now = clock.now();
    if (last !== undefined && isCurrent(last, now)) return last.status;
    const status = readStatus(settings, clock);
    const reading: Reading = { at: now, since: elapsed(), mark: markOf(files), status, isWriting: false };
    last = reading;
    status.then(
      ({ mirror: found }) => (reading.isWriting = !(found instanceof FileError) && found.running !== null),
      // A failure is for those who wait for it, and for nobody after them.
      () => (last = last === reading ? undefined : last),
    );
    return status;
  };
}

function markOf(files: readonly string[]): string {
  return files
    .map((file) => statSync(file, { throwIfNoEntry: false }))
    .map((found) => (found === undefined ? '' : `${found.ino} ${found.size} ${found.mtimeMs}`))
    .join();
}

async function readStatus(settings: Settings, clock: Clock): Promise<WholeStatus> {
  const worker = await withReleases((releases) => openWorkerStatus(settings, clock, releases));
  try {
    const mirror = await withReleases((releases) => openStatus(settings, releases));
    return { mirror, worker, problems: statusProblems(mirror, worker) };
  } catch (error) {
    if (error instanceof FileError) return { mirror: error, worker };
    throw error;
  }
}
