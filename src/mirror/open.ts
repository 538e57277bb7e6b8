/** Opens the engines that sync and compare a mirror, for every command and every test. */
import { existsSync, statSync } from 'node:fs';
import type { Client } from '../api/operations.ts';
import { openApi } from '../api/open.ts';
import { openJournal } from '../journal/open.ts';
import type { Actor } from '../model/actor.ts';
import { OperatorError } from '../model/errors.ts';
import type { Releases } from '../model/releases.ts';
import { runId } from '../model/program.ts';
import type { Settings, Surroundings } from '../settings/settings.ts';
import type { FreeSpace } from '../store/files/durable-file.ts';
import type { SyncProgress, Window } from '../store/mirror-types.ts';
import { type Clock, systemClock } from '../model/time.ts';
import { type ForgetPorts, openForgetStore } from './forget.ts';
import type { ResourceName } from '../model/resources.ts';
import { storedProfile } from './profile.ts';
import { runSync, type SyncRequest, type SyncResult } from './sync.ts';
import { apiSource, type Source } from './source.ts';
import { type MirrorStore, openMirrorStore, openMirrorStoreForReading } from './store/mirror-store.ts';
import { openVerifyStore } from './store/verify-store.ts';
import { verify, type VerifyRequest, type VerifyResult } from './verify.ts';
import { syncLock } from './store/run-records.ts';
import { coverageOf } from '../model/era.ts';
import { plannedSteps, type SyncOptions } from './sync-resource.ts';
import { pagesOf, requestsFor, sealDay, type Step } from './windows.ts';

interface EngineOptions {
  /** The caller closes it. */
  readonly client: Client;
  readonly file: string;
  /** The most records to request per page. */
  readonly pageSize: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly progress: SyncProgress;
  readonly overSource?: (source: Source) => Source;
}

interface SyncEngineOptions extends EngineOptions {
  /** Fields whose change alone makes no version in the history. */
  readonly historyIgnore: readonly string[];
  readonly overStore?: (store: MirrorStore) => MirrorStore;
  /** Defaults to what the system says. */
  readonly freeSpace?: FreeSpace;
}

function sourceOf(options: EngineOptions): Source {
  const { client, pageSize, clock, overSource = (source) => source } = options;
  return overSource(apiSource(client, pageSize, clock));
}

/** Opens the engine of a sync. Makes the mirror if there is none. Throws a FileError. */
export function openSyncEngine(options: SyncEngineOptions) {
  const { client, file, clock, signal, progress, historyIgnore, freeSpace, overStore = (store) => store } = options;
  const source = sourceOf(options);
  const store = overStore(openMirrorStore(file, clock, { historyIgnore }));
  const space = freeSpace === undefined ? {} : { freeSpace };
  const ports = { source, store, clock, signal, progress, counters: client.counters, ...space };
  return { run: (request: SyncRequest) => runSync(ports, request), close: () => store.close() };
}

/** Opens the engine of a comparison, which cannot write to the mirror. Throws a FileError if there is none. */
export function openVerifyEngine(options: EngineOptions) {
  const { client, file, clock, signal, progress } = options;
  const store = openVerifyStore(file);
  const ports = { source: sourceOf(options), store, clock, signal, progress, counters: client.counters };
  return { run: (request: VerifyRequest) => verify(ports, request), close: () => store.close() };
}

/** The part of a sync's request that is not in the settings. */
type CommandRequest = Omit<SyncRequest, 'windowPages' | 'concurrency'>;

export function openSync(surroundings: Surroundings, releases: Releases) {
  const { settings, clock, signal } = surroundings;
  const client = openApi(surroundings, releases);
  const { windowPages, brake } = settings.sync;
  const { users, packages, emails } = settings.resources;
  return (request: CommandRequest, progress: SyncProgress): Promise<SyncResult> => {
    const options = { client, file: settings.store.mirror, pageSize: settings.api.pageSize, clock, signal, progress };
    const engine = releases.add(openSyncEngine({ ...options, historyIgnore: settings.history.ignore }));
    return engine.run({
      ...request,
      windowPages,
      brake,
      concurrency: settings.api.concurrency,
      includes: { users: users.include, packages: packages.include, emails: emails.include },
      historyKeepMs: settings.history.keepMs,
    });
  };
}

/** Opens the comparison over a mirror that is only read. Afterwards it records the windows that differ. */
export function openVerify(
  surroundings: Surroundings,
  releases: Releases,
): (request: Omit<VerifyRequest, 'concurrency'>, progress: SyncProgress) => Promise<VerifyResult> {
  const { settings, clock, signal } = surroundings;
  const client = openApi(surroundings, releases);
  const { concurrency, pageSize } = settings.api;
  return async (request, progress) => {
    const options = { client, file: settings.store.mirror, pageSize, clock, signal, progress };
    const result = await releases.add(openVerifyEngine(options)).run({ ...request, concurrency });
    if (result.differing.length > 0) noteDifferences(surroundings, result, releases);
    return result;
  };
}

function noteDifferences(
  { settings, clock, log }: Surroundings,
  { differing }: VerifyResult,
  releases: Releases,
): void {
  try {
    const { mirror } = settings.store;
    const store = releases.add(openMirrorStore(mirror, clock, { historyIgnore: settings.history.ignore }));
    recordDifferences(store, runId(clock), differing);
  } catch (error) {
    // The comparison is valid even if the mirror cannot be written to, or if a sync is writing to it.
    if (!(error instanceof OperatorError)) throw error;
    log.warn({}, `the next sync does not know what differs: ${error.message}; \`sync --full\` compares everything`);
  }
}

/** Plans the next sync. */
export function openPlan(settings: Settings, request: CommandRequest, releases: Releases): RunPlan {
  const store = releases.add(openMirrorStoreForReading(settings.store.mirror));
  const { requestsPerRun, resources } = request;
  const options = { ...request, ...settings.sync, requestsPerRun };
  const plans = resources.map((resource) => [resource, planResource(store, systemClock, resource, options)] as const);
  const steps = plans.flatMap(([, planned]) => planned);
  const known = steps.reduce((sum, { requests }) => sum + (requests ?? 0), 0);
  return { resources: Object.fromEntries(plans), requests: known };
}

/**
 * Returns the fewest requests that a comparison takes; null for a resource that was never read. Throws a FileError if there is no
 * mirror.
 */
export function openVerifyPlan(
  settings: Settings,
  { resources, deep }: Pick<VerifyRequest, 'resources' | 'deep'>,
  releases: Releases,
): Readonly<Partial<Record<ResourceName, number | null>>> {
  const store = releases.add(openMirrorStoreForReading(settings.store.mirror));
  return Object.fromEntries(
    resources.map((resource) => {
      const pageSize = storedProfile(store, resource)?.profile.pageSize;
      const windows = store.windows(resource);
      if (pageSize === undefined || windows.length === 0) return [resource, null];
      if (!deep) return [resource, 1 + windows.filter((window) => coverageOf(window) === 'days').length];
      const pages = windows.map((window) => pagesOf(store.accountedCount(resource, window), pageSize));
      return [resource, pages.reduce((sum, each) => sum + each, 2)];
    }),
  );
}

/** Opens what forgetting a person needs. Throws a FileError if there is no mirror. */
export async function openForget(
  settings: Settings,
  actor: Actor,
  clock: Clock,
  releases: Releases,
): Promise<ForgetPorts> {
  const store = releases.add(openForgetStore(settings.store.mirror, clock));
  const { journal } = settings.store;
  const hasJournal = existsSync(journal) && statSync(journal).size > 0;
  return { store, journal: hasJournal ? await openJournal(settings, actor, clock, releases) : 'none', clock };
}

const differs = '`admin-mirror verify` found rows that differ from the server';

/** Has the next sync compare these windows row by row. Throws a LockHeldError during a sync. */
export function recordDifferences(
  store: Pick<MirrorStore, 'acquireLock' | 'releaseLock' | 'windows' | 'leaveWindow'>,
  run: string,
  differing: readonly Window[],
): void {
  store.acquireLock(syncLock, run, 'verify');
  try {
    for (const { resource, from, to } of differing) {
      const found = store.windows(resource).filter((window) => window.from < to && window.to > from);
      for (const window of found) store.leaveWindow(run, window, { ...window, cause: 'rows_differ', problem: differs });
    }
  } finally {
    store.releaseLock(syncLock, run);
  }
}

interface PlannedStep {
  readonly reason:
    | Step['reason']
    | 'first contact: everything is read'
    | 'count, and the windows that differ if it does';
  /** How many windows of creation time; null if they are not known yet. */
  readonly windows: number | null;
  /** The fewest requests; null if they depend on what the server has. */
  readonly requests: number | null;
}

export interface RunPlan {
  readonly resources: Partial<Record<ResourceName, readonly PlannedStep[]>>;
  /** The sum of the known requests. */
  readonly requests: number;
}

function planResource(
  store: MirrorStore,
  clock: Clock,
  resource: ResourceName,
  options: SyncOptions,
): readonly PlannedStep[] {
  const profile = storedProfile(store, resource)?.profile;
  if (profile === undefined || store.windows(resource).length === 0) {
    return [{ reason: 'first contact: everything is read', windows: null, requests: null }];
  }
  const seal = sealDay(clock.now() + profile.clockAheadMs);
  const byReason = new Map<Step['reason'], { windows: number; requests: number }>();
  for (const { window, reason } of plannedSteps({ store, resource, options, profile, seal }, null)) {
    const sum = byReason.get(reason) ?? { windows: 0, requests: 0 };
    sum.windows += 1;
    sum.requests += requestsFor(window, profile.pageSize);
    byReason.set(reason, sum);
  }
  return [
    ...[...byReason].map(([reason, sum]) => ({ reason, ...sum })),
    { reason: 'count, and the windows that differ if it does', windows: null, requests: 1 },
  ];
}
