/** What `status` shows besides the mirror's own: the worker and its jobs, whether the mirror is fresh enough, what is open. */
import { statSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { type MirrorStatus, openStatus } from '../mirror/open-status.ts';
import { databaseText } from '../model/address.ts';
import { FileError, type OperatorError, rankOf } from '../model/errors.ts';
import type { Job } from '../model/job.ts';
import { type Releases, withReleases } from '../model/releases.ts';
import { type Clock, secondMs, timestampOf } from '../model/time.ts';
import type { ServerReading, Settings } from '../settings/settings.ts';
import { nextTime, occurrencesOf } from './decide.ts';
import { checkCode, freshnessOf, type StatusProblem, statusProblems } from './problems.ts';
import { openHealthOf, openWorkerStoreToLook, workerFileOf } from './open-store.ts';
import type { JobProgress, JobRun } from './store/port.ts';

export type WorkerStatus = Readonly<Awaited<ReturnType<typeof openWorkerStatus>>>;
export type JobStatus = Readonly<ReturnType<typeof jobStatus>>;

/** What there is to show of the worker of this mirror, whether one runs or not. Throws a FileError. */
export async function openWorkerStatus(settings: Settings, clock: Clock, releases: Releases) {
  const { jobs, worker: limits, store } = settings;
  const health = releases.add(openHealthOf(settings, clock));
  const { problem, ...record } = await recordOf(settings, clock, releases);
  const now = (record.clock ?? clock).now();
  const journal = problem === null ? await health.journal() : null;
  return {
    /** Null where none runs. */
    worker: record.worker,
    /** Every worker of a shared store, those that wait and those that are gone too; none where there is no such store. */
    fleet: record.fleet,
    /** None where nobody knows what became of them, since the shared store is away. */
    jobs: (problem === null ? jobs : []).map((job) =>
      jobStatus(
        job,
        record.progress?.get(job.name),
        record.newest.get(job.name),
        record.worker === null ? undefined : now,
      ),
    ),
    freshness: freshnessOf(await health.mirror(), { startedAt: now, now, maxStalenessMs: limits.maxStalenessMs }),
    alerts: record.alerts.map(({ problem, kind, since, text, next }) => ({ problem, kind, since, text, next })),
    open_batches: (journal !== null && 'found' in journal ? journal.found.open : []).map(
      ({ batch, rows, isInHand }) => ({ batch, rows, is_in_hand: isInHand }),
    ),
    /** Where journal, jobs and alerts are, and why it cannot be used; null where they are in files. */
    shared_store:
      store.shared === undefined
        ? null
        : {
            address: databaseText(store.shared),
            problem,
            /** By how much its clock, by which jobs and batches go, is ahead of this machine's; null before anything is there. */
            clock_ahead_ms: record.clock === undefined ? null : now - clock.now(),
          },
  };
}

/** What is on record of the jobs. A shared store that is away does not hide the mirror. */
async function recordOf(settings: Settings, clock: Clock, releases: Releases) {
  const newest = new Map<string, JobRun | undefined>();
  try {
    const store = await openWorkerStoreToLook(settings, clock, releases);
    for (const { name } of settings.jobs) newest.set(name, (await store?.runs(1, name))?.[0]);
    return {
      worker: (await store?.scheduler()) ?? null,
      progress: await store?.progress(),
      newest,
      alerts: (await store?.alerts())?.alerts ?? [],
      fleet: (await store?.fleet()) ?? [],
      clock: store?.clock,
      problem: null,
    };
  } catch (error) {
    if (settings.store.shared === undefined || !(error instanceof FileError)) throw error;
    const problem = { problem: error.message, next: error.advice ?? '' };
    return { worker: null, progress: undefined, newest, alerts: [], fleet: [], clock: undefined, problem };
  }
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

/** @param now undefined where no worker is there to begin it */
function jobStatus(
  job: Job,
  { handledUntil, latest }: Partial<JobProgress> = {},
  newest: JobRun | undefined,
  now: number | undefined,
) {
  const scheduled = { job, occurrences: occurrencesOf(job) };
  const next = now === undefined ? undefined : nextTime(scheduled, handledUntil ?? now, now);
  return {
    job: job.name,
    /** Null where it does not run; a run of a worker that died is shown until the next worker starts. */
    running_since: newest?.outcome === null ? newest.startedAt : null,
    last:
      latest === undefined
        ? null
        : {
            run: latest.run,
            outcome: latest.outcome,
            exit_code: latest.exitCode,
            finished_at: latest.finishedAt,
            problem: latest.problem,
          },
    /** Null where nothing will begin it: no worker runs, or its time never comes. */
    next_at: next === undefined ? null : timestampOf(next),
  };
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
  isDone: boolean;
}

/**
 * Gives the state; one reading serves all calls of a second. Where no sync goes on, what was written since is seen at once: a page
 * after a click shows what the click did. @param elapsed milliseconds of a time that nobody sets
 */
export function openWholeStatus(
  settings: Settings,
  clock: Clock,
  elapsed: () => number = () => performance.now(),
): () => Promise<WholeStatus> {
  let last: Reading | undefined;
  const { mirror, journal, shared } = settings.store;
  const files = [mirror, journal, workerFileOf(mirror)].flatMap((file) => [file, `${file}-wal`]);

  function isCurrent({ at, since, mark, isWriting, isDone }: Reading, now: number): boolean {
    // The clock of the console may be set, and then ages are others.
    if (elapsed() - since > sharedMs || Math.abs(now - at) > sharedMs) return false;
    // What others write into a shared store, no file shows.
    return isWriting || (shared === undefined ? mark === markOf(files) : !isDone);
  }

  return () => {
    const now = clock.now();
    if (last !== undefined && isCurrent(last, now)) return last.status;
    const status = readStatus(settings, clock);
    const reading: Reading = {
      at: now,
      since: elapsed(),
      mark: markOf(files),
      status,
      isWriting: false,
      isDone: false,
    };
    last = reading;
    void status
      .then(({ mirror: found }) => (reading.isWriting = !(found instanceof FileError) && found.running !== null))
      // A failure is for those who wait for it, and for nobody after them.
      .catch(() => (last = last === reading ? undefined : last))
      .finally(() => (reading.isDone = true));
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

/** How a server of the config file is, in a few words. */
export type ServerState = Readonly<Awaited<ReturnType<typeof stateOf>>>;

/** The state of each, the worst first, then the stalest. One after the other: the files of one are open at a time. */
export async function openServerStates(all: readonly ServerReading[], clock: Clock): Promise<ServerState[]> {
  const states: ServerState[] = [];
  for (const each of all) {
    states.push(await stateOf(each, clock));
    // A console serves others meanwhile.
    await setImmediate();
  }
  return states.sort(
    (a, b) => rankOf(a.check) - rankOf(b.check) || (a.fresh_as_of ?? '').localeCompare(b.fresh_as_of ?? ''),
  );
}

/** Its profile is null outside of the profiles; `check` is what `status --check` ends with for it alone. */
async function stateOf({ profile, reading: { settings, problems } }: ServerReading, clock: Clock) {
  const none = { profile, check: 2, fresh_as_of: null, is_running: false, has_worker: false } as const;
  if (settings === undefined) return { ...none, problems: problems.map((error) => problemOf('settings', error)) };
  try {
    return await withReleases(async (releases) => {
      const mirror = openStatus(settings, releases);
      const worker = await openWorkerStatus(settings, clock, releases);
      const problems = statusProblems(mirror, worker);
      return {
        profile,
        check: checkCode(problems),
        fresh_as_of: mirror.fresh_as_of,
        is_running: mirror.running !== null,
        has_worker: worker.worker !== null,
        problems,
      };
    });
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    return { ...none, problems: [problemOf('no_mirror', error)] };
  }
}

function problemOf(kind: 'settings' | 'no_mirror', { message, advice = '' }: OperatorError): StatusProblem {
  return { kind, problem: message, next: advice };
}
