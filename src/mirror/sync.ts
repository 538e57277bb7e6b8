/** A sync: one run, under one lock, brings the mirror up to date with the server. */
import { setImmediate } from 'node:timers/promises';
import pLimit from 'p-limit';
import type { Client } from '../api/operations.ts';
import type { Actor } from '../model/actor.ts';
import { FileError, IncompleteError, InterruptedError, OperatorError } from '../model/errors.ts';
import { eraStart } from '../model/era.ts';
import { type ResourceName, resourceNames } from '../model/resources.ts';
import { runId } from '../model/program.ts';
import { type Clock, timestampOf } from '../model/time.ts';
import { syncLock } from './store/run-records.ts';
import type { FreeSpace } from '../store/files/durable-file.ts';
import type { RunReport, RunStatus, SyncProgress } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import { type Includes, readIncludes } from './related.ts';
import { Allowance, SpentError, watchRun } from './run-bounds.ts';
import { endedBy, type ResourceEnd, type ResourcePorts, type SyncOptions, syncResource } from './sync-resource.ts';
import { byEarlierClock, checkServer, noteClockDifference, OtherServerError } from './server-check.ts';
import { sharedFailure } from './failures.ts';
import type { Source } from './source.ts';

export interface SyncPorts {
  readonly source: Source;
  readonly store: MirrorStore;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly progress: SyncProgress;
  /** Requests sent so far, retries included, and their responses by HTTP status. */
  readonly counters: Client['counters'];
  /** Defaults to what the system says. */
  readonly freeSpace?: FreeSpace;
}

export interface SyncRequest extends SyncOptions {
  readonly resources: readonly ResourceName[];
  readonly concurrency: number;
  /** Whether the mirror becomes the mirror of this server, whatever server it was read from. */
  readonly acceptNewServer?: boolean;
  readonly includes?: Includes;
  readonly actor?: Actor;
  /** The run's name; made up if not given. */
  readonly run?: string;
  /** How long versions in the history are kept after they ended; for ever if not given. */
  readonly historyKeepMs?: number;
}

export interface SyncResult {
  readonly report: RunReport;
  /** Why the run is not complete; its exit code is the command's. */
  readonly error: OperatorError | null;
}

/** The source sends no more requests than the allowance has. */
type RunPorts = SyncPorts & { readonly run: string; readonly allowance: Allowance };

/**
 * Runs one sync. Throws only before anything was changed: if another process holds the lock, or an OtherServerError. Bugs are
 * thrown as well.
 */
export async function runSync(ports: SyncPorts, request: SyncRequest): Promise<SyncResult> {
  const { store, clock, signal } = ports;
  const run = request.run ?? runId(clock);
  store.acquireLock(syncLock, run);
  try {
    const allowance = new Allowance(request.requestsPerRun);
    const bounded = { ...ports, run, source: ports.source.within(allowance), allowance };
    const unreachable = await meetServer(bounded, request);
    store.beginRun(run, 'sync', request.resources, request.actor);
    const watched = watchRun(bounded);
    const ends = await syncAll(watched, request, unreachable);
    const difference = noteClockDifference(store, run, bounded.source.serverAheadMs());
    const [resource] = request.resources;
    if (difference !== undefined && resource !== undefined)
      ports.progress({ kind: 'notice', resource, text: difference });
    const error = errorOf(request.resources, ends, watched.signal);
    const status = statusOf(ends, signal);
    const { requests, retries, byStatus } = ports.counters;
    store.finishRun(run, { status, requests, retries, answers: byStatus, problem: error?.message ?? null });
    await maintain(watched, status, request);
    return { report: reportOf(store, run), error };
  } finally {
    store.releaseLock(syncLock, run);
  }
}

/** Checks that the server is the same. Returns why it cannot be reached, if so: then the run ends without reading. */
async function meetServer(ports: RunPorts, { acceptNewServer = false }: SyncRequest): Promise<OperatorError | null> {
  const { source, store, run, signal } = ports;
  try {
    await checkServer({ source, store, run, signal }, acceptNewServer);
    return null;
  } catch (error) {
    if (error instanceof OtherServerError || !(error instanceof OperatorError)) throw error;
    return error;
  }
}

/** @param unreachable why the server cannot be reached; null if it can */
async function syncAll(
  ports: RunPorts,
  options: SyncRequest,
  unreachable: OperatorError | null,
): Promise<ResourceEnd[]> {
  const { store, progress, run, signal } = ports;
  const limit = pLimit(options.concurrency);
  const ends = await Promise.allSettled(
    options.resources.map(async (resource): Promise<ResourceEnd> => {
      const end = await syncWithIncludes({ ...ports, resource, limit, options }, unreachable).catch(
        (error: unknown) => {
          // A stop ends the run in order, and what is in the mirror by now is reported.
          if (!signal.aborted) throw error;
          return { status: 'partial', serverTotal: null, problem: stopWords(signal), error: null } as const;
        },
      );
      store.finishResource(run, resource, {
        status: end.status,
        requests: ports.source.requests(resource),
        live: store.liveCount(resource),
        server_total: end.serverTotal,
        fresh_as_of: store.freshAsOf(resource),
        problem: end.problem,
      });
      progress({ kind: 'end', resource, status: end.status, problem: end.problem });
      return end;
    }),
  );
  return ends.map((end) => {
    if (end.status === 'rejected') throw end.reason;
    return end.value;
  });
}

async function syncWithIncludes(
  ports: ResourcePorts & { readonly options: SyncRequest },
  unreachable: OperatorError | null,
): Promise<ResourceEnd> {
  if (unreachable !== null) return endedBy(unreachable, ports);
  const { source, endWith } = await readIncludes(ports, ports.options.includes?.[ports.resource] ?? []);
  return endWith(await syncResource({ ...ports, source }));
}

function stopWords({ reason }: AbortSignal): string {
  return reason instanceof OperatorError && !(reason instanceof InterruptedError) ? reason.message : 'interrupted';
}

function statusOf(ends: readonly ResourceEnd[], signal: AbortSignal): RunStatus {
  if (signal.aborted) return 'interrupted';
  if (ends.every(({ status }) => status === 'complete')) return 'complete';
  return ends.every(({ status }) => status === 'failed') ? 'failed' : 'partial';
}

/** Returns the error that the run ends with: the failure that all resources share, or else that the mirror is not complete. */
function errorOf(
  resources: readonly ResourceName[],
  ends: readonly ResourceEnd[],
  signal: AbortSignal,
): OperatorError | null {
  if (signal.aborted) return signal.reason instanceof OperatorError ? signal.reason : null;
  if (ends.every(({ status }) => status === 'complete')) return null;
  // A damaged mirror, or one that cannot be written to, is not the server's fault, and trying again does not help.
  const fileError = ends.map(({ error }) => error).find((error) => error instanceof FileError);
  const shared = fileError ?? sharedFailure(ends.map(({ error, status }) => ({ error, reached: status !== 'failed' })));
  if (shared !== undefined) return shared;
  const byProblem = Map.groupBy(resources, (_, at) => ends[at]?.problem ?? null);
  byProblem.delete(null);
  const problems = [...byProblem].map(([problem, names]) => `${names.join(', ')}: ${problem}`);
  const spent = ends.map(({ error }) => error).find((error) => error instanceof SpentError);
  const advice = spent?.advice ?? 'Run `admin-mirror sync` again, and `admin-mirror status` to see what is open.';
  return new IncompleteError(`the mirror is not complete: ${problems.join('; ')}`, {
    advice: `What was read is kept. ${advice}`,
  });
}

function reportOf(store: MirrorStore, run: string): RunReport {
  const report = store.runs(1).find((each) => each.run === run);
  if (report === undefined) throw new Error(`run ${run} is not on record`);
  return report;
}

/** Versions removed in one step. It takes some milliseconds, for which readers and other writers can wait. */
const versionsPerStep = 1_000;

/** Maintains the mirror after a run. If it is stopped, the next run does the rest. */
async function maintain(ports: SyncPorts, status: RunStatus, { historyKeepMs, resources }: SyncRequest): Promise<void> {
  const { source, store, clock, signal, progress } = ports;
  if (status === 'complete' && historyKeepMs !== undefined) {
    // A clock that is ahead would take away what is still to be kept, and nothing brings it back.
    const now = Date.parse(byEarlierClock(timestampOf(clock.now()), source.serverAheadMs()));
    const before = timestampOf(Math.max(Date.parse(eraStart), now - historyKeepMs));
    const prune = async (remove: () => number): Promise<void> => {
      while (!signal.aborted && remove() === versionsPerStep) await setImmediate();
    };
    for (const resource of resourceNames) {
      await prune(() => store.pruneHistory(resource, before, versionsPerStep));
    }
    await prune(() => store.pruneDeletions(before, versionsPerStep));
  }
  try {
    if (!signal.aborted) store.optimize();
    // A stop must not wait for readers.
    store.checkpoint(!signal.aborted);
  } catch (error) {
    // On a full disk the log stays beside the file. Every row is in it, and the next run folds it in.
    if (!(error instanceof FileError)) throw error;
    const [resource = 'users'] = resources;
    progress({ kind: 'notice', resource, text: `the next run will fold the log into the file: ${error.message}` });
  }
}
