/** The sync: one run, under one lock, brings the mirror up to date with the server, related records included. */
import pLimit from 'p-limit';
import type { Client } from '../api/client.ts';
import type { Actor } from '../model/actor.ts';
import { FileError, IncompleteError, InterruptedError, OperatorError } from '../model/errors.ts';
import { type ResourceName, resourceNames } from '../model/resources.ts';
import { runId } from '../model/program.ts';
import { type Clock, secondMs, type Timestamp, timestampOf } from '../model/time.ts';
import { syncLock } from './store/bookkeeping.ts';
import { freeSpace } from '../model/files.ts';
import { type FreeSpace, requireSpace } from '../store/files/durable-file.ts';
import type { RunReport, RunStatus, SyncProgress } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import { Allowance, SpentError } from './allowance.ts';
import { endedBy, type ResourceEnd, type ResourcePorts, type SyncOptions, syncResource } from './resource-run.ts';
import { checkServer, noteClockDifference, OtherServerError } from './server-check.ts';
import { sharedFailure } from './failures.ts';
import { isRefusal, type Source } from './source.ts';
import { setImmediate } from 'node:timers/promises';
import { bytesText } from '../model/text.ts';

interface SyncPorts {
  readonly source: Source;
  readonly store: MirrorStore;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly progress: SyncProgress;
  /** Requests sent so far, retries among them, and their responses by HTTP status. */
  readonly counters: Client['counters'];
  /** As the system says where it is left out. */
  readonly freeSpace?: FreeSpace;
}

export interface SyncRequest extends SyncOptions {
  readonly resources: readonly ResourceName[];
  readonly concurrency: number;
  /** The mirror shall become that of this server, whatever it was read from. */
  readonly acceptNewServer?: boolean;
  readonly includes?: Includes;
  readonly actor?: Actor;
  /** What the run is called; a name is made where none is given. */
  readonly run?: string;
  /** How large the mirror's log may become, bytes; without a bound where it is not given. */
  readonly maxLogBytes?: number;
  /** How long ago a version in the history may have ended; for ever where it is not given. */
  readonly historyKeepMs?: number;
  /** How long ago a run may have begun; for ever where it is not given. */
  readonly runsKeepMs?: number;
  /** How long ago an event may be from; for ever where it is not given. */
  readonly eventsKeepMs?: number;
}

export interface SyncResult {
  readonly report: RunReport;
  /** Why the run is not complete; its exit code is the command's. */
  readonly error: OperatorError | null;
}

/** With the run, and what it may send, which the source keeps to. */
type RunPorts = SyncPorts & { readonly run: string; readonly allowance: Allowance };

/** Runs one sync. Only a lock held elsewhere, an OtherServerError and bugs are thrown, before anything was changed. */
export async function runSync(ports: SyncPorts, request: SyncRequest): Promise<SyncResult> {
  const { store, clock, signal } = ports;
  const run = request.run ?? runId(clock);
  store.acquireLock(syncLock, run);
  try {
    const allowance = new Allowance(request.requestsPerRun);
    const bounded = { ...ports, run, source: ports.source.within(allowance), allowance };
    const lost = await meetServer(bounded, request);
    store.beginRun(run, 'sync', request.resources, request.actor);
    const watched = watchDisk(bounded, request);
    const ends = await syncAll(watched, request, lost);
    const difference = noteClockDifference(store, run, bounded.source.serverAheadMs());
    const [resource] = request.resources;
    if (difference !== undefined && resource !== undefined)
      ports.progress({ kind: 'notice', resource, text: difference });
    const error = errorOf(ends, watched.signal);
    const status = statusOf(ends, signal);
    const { requests, retries, byStatus } = ports.counters;
    store.finishRun(run, { status, requests, retries, answers: byStatus, problem: error?.message ?? null });
    await maintain(watched, status, request);
    return { report: reportOf(store, run), error };
  } finally {
    store.releaseLock(syncLock, run);
  }
}

/** The same ports, stopped where the disk has no room for what is to be read, or the log has grown too long. */
function watchDisk(ports: RunPorts, { maxLogBytes = Infinity }: SyncRequest): RunPorts {
  const { store, progress, run } = ports;
  const stopping = new AbortController();
  const stop = (reason: OperatorError): void => stopping.abort(reason);
  const lookAtSpace = watchSpace(store, ports.freeSpace ?? freeSpace, stop);
  let resource: ResourceName = 'users';
  const note = progressNotes(ports);
  const emit = (text: string): void => progress({ kind: 'notice', resource, text });
  const lookAtLog = watchLog({ store, run, emit, stop }, maxLogBytes);
  return {
    ...ports,
    signal: AbortSignal.any([ports.signal, stopping.signal]),
    progress: (event) => {
      progress(event);
      note(event);
      resource = event.resource;
      lookAtSpace(event);
      if (event.kind === 'page') lookAtLog();
    },
  };
}

/** Puts on record how far the run is: what it expects at once, requests once a second, as a write for each page would cost. */
function progressNotes({ store, source, clock, run }: RunPorts): SyncProgress {
  const notedAt = new Map<ResourceName, number>();
  return ({ resource, ...event }) => {
    const isDue = clock.now() - (notedAt.get(resource) ?? -Infinity) >= secondMs;
    if (event.kind !== 'expected' && !(event.kind === 'page' && isDue)) return;
    notedAt.set(resource, clock.now());
    const requests = source.requests(resource);
    store.noteProgress(run, resource, event.kind === 'expected' ? { requests, expected: event.records } : { requests });
  };
}

/** Makes sure of the server; gives what keeps it from being reached, with which the run ends before it has begun. */
async function meetServer(ports: RunPorts, { acceptNewServer = false }: SyncRequest): Promise<OperatorError | null> {
  const { source, store, run, signal } = ports;
  try {
    await checkServer({ contact: source.contact, store, run, signal }, acceptNewServer);
    return null;
  } catch (error) {
    if (error instanceof OtherServerError || !(error instanceof OperatorError)) throw error;
    return error;
  }
}

/** @param lost why the server cannot be reached; null where it can */
async function syncAll(ports: RunPorts, options: SyncRequest, lost: OperatorError | null): Promise<ResourceEnd[]> {
  const { store, progress, run, signal } = ports;
  const limit = pLimit(options.concurrency);
  const ends = await Promise.allSettled(
    options.resources.map(async (resource): Promise<ResourceEnd> => {
      const end = await syncWithIncludes({ ...ports, resource, limit, options }, lost).catch((error: unknown) => {
        // A stop is the run's own end; what is in the mirror by now is reported like any other.
        if (!signal.aborted) throw error;
        return { status: 'partial', serverTotal: null, problem: stopWords(signal), error: null } as const;
      });
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
  lost: OperatorError | null,
): Promise<ResourceEnd> {
  if (lost !== null) return endedBy(lost, ports);
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

/** The error that the run ends with: one kind of failure for all resources is that failure, anything else is a part. */
function errorOf(ends: readonly ResourceEnd[], signal: AbortSignal): OperatorError | null {
  if (signal.aborted) return signal.reason instanceof OperatorError ? signal.reason : null;
  if (ends.every(({ status }) => status === 'complete')) return null;
  // A mirror that is damaged, or cannot be written to, is no fault of any server, and trying again does not help.
  const ofFile = ends.map(({ error }) => error).find((error) => error instanceof FileError);
  const shared = ofFile ?? sharedFailure(ends.map(({ error, status }) => ({ error, reached: status !== 'failed' })));
  if (shared !== undefined) return shared;
  const problems = ends.flatMap(({ problem }) => (problem === null ? [] : [problem]));
  const spent = ends.map(({ error }) => error).find((error) => error instanceof SpentError);
  const advice = spent?.advice ?? 'Run `admin-mirror sync` again, and `admin-mirror status` to see what is open.';
  return new IncompleteError(`the mirror is not complete: ${[...new Set(problems)].join('; ')}`, {
    advice: `What was read is kept. ${advice}`,
  });
}

function reportOf(store: MirrorStore, run: string): RunReport {
  const report = store.runs(1).find((each) => each.run === run);
  if (report === undefined) throw new Error(`run ${run} is not on record`);
  return report;
}

/** Versions that go in one step: some milliseconds, for which a reader's or another writer's turn can wait. */
const versionsAStep = 1_000;

/** Runs or events that go in one step: some milliseconds. */
const recordsAStep = 500;

/** Does the maintenance of the mirror after a run; what a stop leaves, the next run does. */
async function maintain({ store, clock, signal }: SyncPorts, status: RunStatus, keep: SyncRequest): Promise<void> {
  async function prune(
    keepMs: number | undefined,
    rowsAStep: number,
    remove: (before: Timestamp, rows: number) => number,
  ): Promise<void> {
    if (keepMs === undefined) return;
    const before = timestampOf(Math.max(0, clock.now() - keepMs));
    while (!signal.aborted && remove(before, rowsAStep) === rowsAStep) await setImmediate();
  }
  if (status === 'complete') {
    for (const resource of resourceNames) {
      await prune(keep.historyKeepMs, versionsAStep, (before, rows) => store.pruneHistory(resource, before, rows));
    }
    await prune(keep.historyKeepMs, versionsAStep, (before, rows) => store.pruneDeletions(before, rows));
  }
  await prune(keep.runsKeepMs, recordsAStep, (before, rows) => store.pruneRuns(before, rows));
  await prune(keep.eventsKeepMs, recordsAStep, (before, rows) => store.pruneEvents(before, rows));
  if (!signal.aborted) store.optimize();
  // A stop shall not wait for readers.
  store.checkpoint(!signal.aborted);
}

interface LogWatchPorts {
  readonly store: Pick<MirrorStore, 'logBytes' | 'checkpoint' | 'recordEvent'>;
  readonly run: string;
  readonly emit: (text: string) => void;
  /** Ends the run in order. */
  readonly stop: (reason: IncompleteError) => void;
}

/** It is reported first at this part of the limit, and at each doubling from there. */
const firstPart = 16;

/** A function to be called after each step that writes; looking at the size of a file is all that it mostly does. */
export function watchLog({ store, run, emit, stop }: LogWatchPorts, limit: number): () => void {
  const first = limit / firstPart;
  let next = first;
  let stopped = false;
  return () => {
    const bytes = store.logBytes();
    if (bytes < next || stopped) return;
    if (store.checkpoint(false) === 'folded') {
      next = first;
      return;
    }
    next = Math.min(bytes * 2, Math.max(limit, bytes + 1));
    const text = `the mirror's log has grown to ${bytesText(bytes)}, because another process reads an older state of the mirror and keeps the log from being folded in`;
    // Once a run: it stays in the mirror for who looks later.
    store.recordEvent(run, { resource: null, kind: 'log_held', subject: `${run} ${bytesText(bytes)}`, detail: text });
    emit(text);
    if (bytes < limit) return;
    stopped = true;
    stop(
      new IncompleteError(`${text}; ${bytesText(limit)} is the most that it may take`, {
        advice:
          'End exports, queries and other programs that have the mirror open, then run `admin-mirror sync` again.',
      }),
    );
  };
}

/** So many records show how much room one takes, with its indices. */
const enoughRecords = 1_000;

/** So many make little of what a mirror takes without any. */
const manyRecords = 10 * enoughRecords;

/** Calls `stop`, once, where the records still to come have no room. Of a small mirror, the first of them show how much each takes. */
function watchSpace(
  store: Pick<MirrorStore, 'footprint' | 'liveCount'>,
  free: FreeSpace,
  stop: (reason: OperatorError) => void,
): SyncProgress {
  const before = store.footprint();
  const isFilled = before.records >= manyRecords;
  let [growth, came, next, stopped] = [0, 0, enoughRecords, false];
  return (event) => {
    if (event.kind === 'expected') growth += Math.max(0, event.records - store.liveCount(event.resource));
    if (event.kind === 'page') came += event.records;
    if (stopped || (isFilled ? event.kind !== 'expected' : came < next)) return;
    next = came * 2;
    const { folder, bytes, records } = store.footprint();
    const added = records - before.records;
    if (!isFilled && added < enoughRecords) return;
    const each = isFilled ? bytes / records : (bytes - before.bytes) / added;
    try {
      requireSpace('sync', folder, (growth - added) * each, free);
    } catch (error) {
      stopped = true;
      stop(error as OperatorError);
    }
  };
}

/** Related records to be mirrored, by resource; none where a resource is left out. */
type Includes = Readonly<Partial<Record<ResourceName, readonly string[]>>>;

interface IncludePorts {
  readonly source: Source;
  readonly store: Pick<MirrorStore, 'includedRelations' | 'includeRelations' | 'abandonRelations'>;
  readonly resource: ResourceName;
  readonly signal: AbortSignal;
}

/** What was not read before is tried in one request: a server that refuses it costs no more in each run. */
async function readIncludes(ports: IncludePorts, wanted: readonly string[]) {
  const { source, store, resource } = ports;
  let include = wanted;
  let problem: string | null = null;

  function goOnWith(left: readonly string[], reason: string): void {
    const missing = wanted.filter((name) => !left.includes(name)).join(', ');
    problem = `${resource} are mirrored without their ${missing}: ${reason}; change the setting resources.${resource}.include`;
    include = left;
  }

  const included = store.includedRelations(resource);
  if (wanted.some((name) => !included.includes(name))) {
    const reason = await refusalOf(ports, wanted);
    if (reason !== undefined) {
      // Those were given before; whether they still are, the pages show.
      goOnWith(
        wanted.filter((name) => included.includes(name)),
        reason,
      );
    }
  }
  if (include.length + included.length > 0) store.includeRelations(resource, include);

  const page: Source['page'] = async (requested, request, capabilities, signal, wanted) => {
    if (include.length === 0) return source.page(requested, request, capabilities, signal, wanted);
    try {
      return await source.page(requested, { ...request, include }, capabilities, signal, wanted);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      // Where it is not the related records that are refused, this is refused as well.
      const plain = await source.page(requested, request, capabilities, signal, wanted);
      if (include.length > 0) {
        goOnWith([], error.message);
        store.abandonRelations(resource);
      }
      return plain;
    }
  };

  return {
    /** Requests the related records with each page, for as long as the server gives them. */
    source: { ...source, page },
    endWith: (end: ResourceEnd): ResourceEnd =>
      problem === null || end.error !== null ? end : endWithProblem(end, problem),
  };
}

/** Why the server does not send the related records; undefined where it does. */
async function refusalOf({ source, resource, signal }: IncludePorts, wanted: readonly string[]) {
  try {
    return await source.includeProblem(resource, wanted, signal);
  } catch (error) {
    signal.throwIfAborted();
    // What else is wrong with the server is reported by the reading itself.
    if (error instanceof OperatorError) return error.message;
    throw error;
  }
}

function endWithProblem(end: ResourceEnd, problem: string): ResourceEnd {
  return {
    ...end,
    status: end.status === 'complete' ? 'partial' : end.status,
    problem: end.problem === null ? problem : `${end.problem}; ${problem}`,
  };
}
