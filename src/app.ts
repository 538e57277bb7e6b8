/**
 * Composition root: settings in, wired parts out, released in reverse order. The only place that chooses the store.
 * Each `open…` function makes one part and puts its release on the stack of whoever asked; it loads what that part is
 * made of and no more, since an export has no use for the 40 MB that the client and the engine take.
 */
import { existsSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Capabilities } from './api/capabilities.ts';
import type { Client } from './api/client.ts';
import type { ReadingProcess } from './data/reading-process.ts';
import type { Reports } from './data/reports/reports.ts';
import type { ForgetPorts } from './mirror/forget.ts';
import type { RunPlan } from './mirror/dry-run.ts';
import type { SyncProgress } from './mirror/progress.ts';
import type { SyncRequest, SyncResult } from './mirror/run.ts';
import type { CapabilityStatus, MirrorStatus } from './mirror/status.ts';
import type { VerifyRequest, VerifyResult } from './mirror/verify.ts';
import type { Log } from './model/log.ts';
import { moduleBeside } from './model/module.ts';
import type { ResourceName } from './model/resources.ts';
import { type Clock, dayMs, hourMs, systemClock } from './model/time.ts';
import { OperatorError } from './model/errors.ts';
import { runId } from './model/run-id.ts';
import { version } from './model/version.ts';
import { isLoopback } from './model/loopback.ts';
import { networkOf, serverOf } from './settings/server.ts';
import type { Settings } from './settings/settings.ts';
import type { CopySource, MirrorCopySource } from './data/copy-types.ts';
import type { Journal } from './journal/port.ts';
import type { JournalMemory } from './bulk/journal-memory.ts';
import type { ReadingStore, Snapshot } from './store/reading-types.ts';
import type { UserDirectory } from './bulk/user-directory.ts';
import type { WorkerStore } from './worker/store/store-types.ts';
import type { WorkerStatus } from './worker/status.ts';
import type { Watch, WatchPorts, WatchSettings } from './worker/watch.ts';
import type { Worker, WorkerPorts } from './worker/worker.ts';

/** What every part is made from. */
export interface Surroundings {
  readonly settings: Settings;
  readonly log: Log;
  readonly clock: Clock;
  /** Aborted when the command shall stop. */
  readonly signal: AbortSignal;
}

/** What was opened, so that it is closed whatever happens. */
export class Releases {
  readonly #stack: (() => void | Promise<void>)[] = [];

  /** Gives the part back, and closes it with the others. */
  add<T extends { close(): void | Promise<void> }>(part: T): T {
    this.#stack.push(() => part.close());
    return part;
  }

  /** Closes everything, the last opened first; the first failure is thrown after all were tried. */
  async close(): Promise<void> {
    const failures: unknown[] = [];
    for (let release = this.#stack.pop(); release !== undefined; release = this.#stack.pop()) {
      try {
        // One after the other: what was opened later may still use what was opened before.
        await release();
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw failures[0];
  }
}

/** Runs the work with a stack of its own, and closes what it opened however it ends. */
export async function withReleases<T>(work: (releases: Releases) => Promise<T>): Promise<T> {
  const releases = new Releases();
  let result: T;
  try {
    result = await work(releases);
  } catch (error) {
    // The work's own failure is the one to tell.
    await releases.close().catch(() => {});
    throw error;
  }
  await releases.close();
  return result;
}

/** The client of the server that the settings name. Throws a UsageError where address or key are missing. */
export async function openApi(
  { settings, log, clock }: Omit<Surroundings, 'signal'>,
  releases: Releases,
): Promise<Client> {
  const { openClient } = await import('./api/client.ts');
  const { baseUrl, key, warnings } = serverOf(settings);
  for (const warning of warnings) log.warn({}, warning);
  const { timeoutMs, concurrency, attempts, requestsPerSecond, pageSize } = settings.api;
  const network = networkOf(settings);
  const options = { timeoutMs, concurrency, attempts, requestsPerSecond, pageSize, network, log, clock };
  const server = { baseUrl, key: key.reveal(), userAgent: `admin-mirror/${version()}` };
  return releases.add(openClient({ ...server, ...options }));
}

/** Runs a sync with the settings; what of the request the settings say is not asked for. */
export type RunSync = (
  request: Omit<SyncRequest, 'graceMs' | 'windowPages' | 'concurrency'>,
  progress: SyncProgress,
) => Promise<SyncResult>;

const syncBounds = {
  /** How long after its end a window is still expected to gain records. */
  graceMs: 48 * hourMs,
  runsKeepMs: 400 * dayMs,
  eventsKeepMs: 400 * dayMs,
  /** A log that readers hold open ends the run in order before it fills the disk. */
  maxLogBytes: 4e9,
} as const;

/** The parts of a sync, wired; gives the function that runs one. */
export async function openSync(surroundings: Surroundings, releases: Releases): Promise<RunSync> {
  const { openSyncEngine } = await import('./mirror/open.ts');
  const { settings, clock, signal } = surroundings;
  const client = await openApi(surroundings, releases);
  const { windowPages, brake } = settings.sync;
  const { users, packages, emails } = settings.resources;
  return (request, progress) => {
    const options = { client, file: settings.store.mirror, pageSize: settings.api.pageSize, clock, signal, progress };
    const engine = releases.add(openSyncEngine({ ...options, historyIgnore: settings.history.ignore }));
    return engine.run({
      ...request,
      ...syncBounds,
      windowPages,
      brake,
      concurrency: settings.api.concurrency,
      includes: { users: users.include, packages: packages.include, emails: emails.include },
      historyKeepMs: settings.history.keepMs,
    });
  };
}

/**
 * The comparison of the mirror with the server, wired; while it compares, the mirror is opened so that it cannot be
 * written to. Afterwards the windows that differ are put on record, so that the next sync compares them.
 */
export async function openVerify(
  surroundings: Surroundings,
  releases: Releases,
): Promise<(request: Omit<VerifyRequest, 'concurrency'>, progress: SyncProgress) => Promise<VerifyResult>> {
  const { openVerifyEngine } = await import('./mirror/open.ts');
  const { settings, clock, signal } = surroundings;
  const client = await openApi(surroundings, releases);
  const { concurrency, pageSize } = settings.api;
  return async (request, progress) => {
    const options = { client, file: settings.store.mirror, pageSize, clock, signal, progress };
    const result = await releases.add(openVerifyEngine(options)).run({ ...request, concurrency });
    if (result.differing.length > 0) await noteDifferences(surroundings, result, releases);
    return result;
  };
}

async function noteDifferences(
  { settings, clock, log }: Surroundings,
  { differing }: VerifyResult,
  releases: Releases,
): Promise<void> {
  const [{ recordDifferences }, { openMirrorStore }] = await Promise.all([
    import('./mirror/verify-record.ts'),
    import('./mirror/store/mirror-store.ts'),
  ]);
  try {
    const { mirror } = settings.store;
    const store = releases.add(openMirrorStore(mirror, clock, { historyIgnore: settings.history.ignore }));
    recordDifferences(store, runId(clock), differing);
  } catch (error) {
    // A mirror that cannot be written to, or that a sync is writing, can be compared all the same.
    if (!(error instanceof OperatorError)) throw error;
    log.warn({}, `the next sync is not told what differs: ${error.message}; \`sync --full\` compares everything`);
  }
}

/** What forgetting a person works on. Throws a FileError where there is no mirror. */
export async function openForget(settings: Settings, clock: Clock, releases: Releases): Promise<ForgetPorts> {
  const { openForgetStore } = await import('./mirror/store/forget-store.ts');
  const store = releases.add(openForgetStore(settings.store.mirror, clock));
  const { journal } = settings.store;
  const hasJournal = existsSync(journal) && statSync(journal).size > 0;
  return { store, journal: hasJournal ? await openJournal(settings, clock, releases) : 'none', clock };
}

/** The journal, made where there is none. Throws a FileError. */
export async function openJournal(settings: Settings, clock: Clock, releases: Releases): Promise<Journal> {
  const sqlite = await import('./journal/sqlite.ts');
  return releases.add(await sqlite.openJournal(settings.store.journal, clock));
}

/** The journal to be looked at; undefined where nothing was ever recorded. Throws a FileError. */
export async function openJournalForReading(
  settings: Settings,
  clock: Clock,
  releases: Releases,
): Promise<Journal | undefined> {
  const { journal } = settings.store;
  if (!existsSync(journal)) return undefined;
  const sqlite = await import('./journal/sqlite.ts');
  return releases.add(await sqlite.openJournalForReading(journal, clock));
}

/** The mirror, to find users in; null where there is none. */
export async function openDirectory(settings: Settings, releases: Releases): Promise<UserDirectory | null> {
  const { mirror } = settings.store;
  if (!existsSync(mirror)) return null;
  const { openUserDirectory } = await import('./bulk/user-directory.ts');
  return releases.add(openUserDirectory(mirror));
}

/** What the mirror remembers of the journal; null where there is no mirror. */
export async function openJournalMemory(
  settings: Settings,
  clock: Clock,
  releases: Releases,
): Promise<JournalMemory | null> {
  const { mirror } = settings.store;
  if (!existsSync(mirror)) return null;
  const sqlite = await import('./bulk/journal-memory.ts');
  return releases.add(sqlite.openJournalMemory(mirror, clock));
}

/** What the next sync would do. Throws a FileError where there is no mirror. */
export async function openPlan(
  settings: Settings,
  request: Omit<SyncRequest, 'graceMs' | 'windowPages' | 'concurrency'>,
  releases: Releases,
): Promise<RunPlan> {
  const [{ planRun }, { openMirrorStoreForReading }] = await Promise.all([
    import('./mirror/dry-run.ts'),
    import('./mirror/store/mirror-store.ts'),
  ]);
  const store = releases.add(openMirrorStoreForReading(settings.store.mirror));
  return planRun(store, systemClock, request.resources, {
    ...request,
    ...syncBounds,
    ...settings.sync,
    requestsPerRun: request.requestsPerRun,
  });
}

/** What the mirror says of itself. Throws a FileError where there is none. */
export async function openStatus(settings: Settings, releases: Releases): Promise<MirrorStatus> {
  const [{ mirrorStatus }, { openMirrorStoreForReading }] = await Promise.all([
    import('./mirror/status.ts'),
    import('./mirror/store/mirror-store.ts'),
  ]);
  return mirrorStatus(releases.add(openMirrorStoreForReading(settings.store.mirror)));
}

/** What the mirror has on record of a list of the server. Throws a FileError where there is no mirror. */
export async function openCapabilities(
  settings: Settings,
  releases: Releases,
): Promise<(resource: ResourceName) => CapabilityStatus | null> {
  const [{ capabilityStatus }, { openMirrorStoreForReading }] = await Promise.all([
    import('./mirror/status.ts'),
    import('./mirror/store/mirror-store.ts'),
  ]);
  const store = releases.add(openMirrorStoreForReading(settings.store.mirror));
  return (resource) => capabilityStatus(store, resource);
}

/** Puts what was measured on record in the mirror; gives the resources that are to be read whole again for it. */
export async function openProbeRecord(
  { settings, clock }: Pick<Surroundings, 'settings' | 'clock'>,
  releases: Releases,
): Promise<(run: string, measured: ReadonlyMap<ResourceName, Capabilities>) => ResourceName[]> {
  const [{ recordProbe }, { openMirrorStore }] = await Promise.all([
    import('./mirror/probe-record.ts'),
    import('./mirror/store/mirror-store.ts'),
  ]);
  const store = releases.add(openMirrorStore(settings.store.mirror, clock));
  return (run, measured) => recordProbe(store, run, measured);
}

/** The saved reports: those that come with the program, and the operator's own. Throws a FileError. */
export async function openReports(settings: Settings): Promise<Reports> {
  const { loadReports } = await import('./data/reports/reports.ts');
  // Beside src/ in a clone, beside dist/ in the package.
  const shipped = fileURLToPath(new URL('../reports/', import.meta.url));
  return loadReports({ shipped, own: settings.export.reports });
}

/** A mirror with every table and without a record, to look at SQL against. The caller releases it. */
export async function openBlank(): Promise<Snapshot> {
  const { blankSnapshot } = await import('./data/blank.ts');
  return blankSnapshot();
}

/** The mirror, for exports and queries. Throws a FileError where there is none to read. */
export async function openReading(settings: Settings, releases: Releases): Promise<ReadingStore> {
  const { openReadingStore } = await import('./store/reading.ts');
  return releases.add(openReadingStore(settings.store.mirror));
}

/**
 * A process of its own that reads the mirror, for what may take longer than anybody waits: it can be stopped in the midst
 * of a statement. It opens the file that it is told, and there throws a FileError where there is none to read.
 */
export async function openReadingProcess(releases: Releases): Promise<ReadingProcess> {
  const { ReadingProcess } = await import('./data/reading-process.ts');
  return releases.add(new ReadingProcess(moduleBeside('./store/reading', import.meta.url)));
}

/** The mirror, to be copied; it need not be there yet. */
export async function openMirrorToCopy(settings: Settings, clock: Clock = systemClock): Promise<MirrorCopySource> {
  const { mirrorToCopy } = await import('./data/copy-source.ts');
  return mirrorToCopy(settings.store.mirror, clock);
}

/** The mirror and the journal, to be copied; neither need be there. */
export async function openFilesToCopy(
  settings: Settings,
): Promise<{ readonly mirror: CopySource; readonly journal: CopySource }> {
  const { journalToCopy } = await import('./data/copy-source.ts');
  return { mirror: await openMirrorToCopy(settings), journal: journalToCopy(settings.store.journal) };
}

/** What the worker of this mirror keeps, made where there is nothing yet. Throws a FileError. */
export async function openWorkerStore(settings: Settings, clock: Clock, releases: Releases): Promise<WorkerStore> {
  const [sqlite, { workerFileOf }] = await Promise.all([
    import('./worker/store/store.ts'),
    import('./worker/store/schema.ts'),
  ]);
  return releases.add(sqlite.openWorkerStore(workerFileOf(settings.store.mirror), clock));
}

/** The same to be looked at; undefined where no worker has run for this mirror. Throws a FileError. */
export async function openWorkerStoreForReading(
  settings: Settings,
  clock: Clock,
  releases: Releases,
): Promise<WorkerStore | undefined> {
  const [sqlite, { workerFileOf }] = await Promise.all([
    import('./worker/store/store.ts'),
    import('./worker/store/schema.ts'),
  ]);
  const file = workerFileOf(settings.store.mirror);
  return existsSync(file) ? releases.add(sqlite.openWorkerStoreForReading(file, clock)) : undefined;
}

/** The worker that runs the jobs of the settings, wired, in real time unless `sleep` is given; it does nothing before `run`. */
export async function openWorker(
  { settings, clock, signal }: Omit<Surroundings, 'log'>,
  ports: Pick<WorkerPorts, 'runCommand' | 'tell'> & Partial<Pick<WorkerPorts, 'sleep'>>,
  releases: Releases,
): Promise<Worker> {
  const [worker, { restFor, sleepFor }] = await Promise.all([
    import('./worker/worker.ts'),
    import('./worker/sleep.ts'),
  ]);
  const store = await openWorkerStore(settings, clock, releases);
  return worker.openWorker(
    { sleep: sleepFor, rest: ports.sleep ?? restFor, ...ports, store, clock, signal },
    settings.jobs,
  );
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
  const [watch, { openHealthServer }, { openAlertStore }, { openHealthStore }, { workerFileOf }, { sleepFor }] =
    await Promise.all([
      import('./worker/watch.ts'),
      import('./worker/health/server.ts'),
      import('./worker/store/alerts.ts'),
      import('./worker/store/health.ts'),
      import('./worker/store/schema.ts'),
      import('./worker/sleep.ts'),
    ]);
  const alertStore = releases.add(openAlertStore(workerFileOf(settings.store.mirror), clock));
  const lock = await openWorkerStore(settings, clock, releases);
  const opened = watch.openWatch(
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

/** What there is to tell of the worker of this mirror, whether one runs or not. Throws a FileError. */
export async function openWorkerStatus(settings: Settings, clock: Clock, releases: Releases): Promise<WorkerStatus> {
  const [{ workerStatus }, { openAlertStoreForReading }, { openHealthStore }, { workerFileOf }] = await Promise.all([
    import('./worker/status.ts'),
    import('./worker/store/alerts.ts'),
    import('./worker/store/health.ts'),
    import('./worker/store/schema.ts'),
  ]);
  const store = await openWorkerStoreForReading(settings, clock, releases);
  const file = workerFileOf(settings.store.mirror);
  return workerStatus({
    store,
    alerts: store === undefined ? undefined : releases.add(openAlertStoreForReading(file)),
    health: releases.add(openHealthStore(settings.store, clock)),
    jobs: settings.jobs,
    maxStalenessMs: settings.worker.maxStalenessMs,
    now: clock.now(),
  });
}
