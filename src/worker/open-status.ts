/** What `status` shows besides the state of the mirror: the worker and its jobs, freshness, alerts, open batches. */
import { existsSync, statSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { journalDoubt } from '../bulk/journal-memory.ts';
import { MirrorsJournalMemory } from '../store/journal-memory.ts';
import { type MirrorStatus, openStatus } from '../mirror/open-status.ts';
import { databaseText } from '../model/address.ts';
import { FileError, type OperatorError, rankOf } from '../model/errors.ts';
import type { Job } from '../model/job.ts';
import { type Releases, withReleases } from '../model/releases.ts';
import { type Clock, secondMs, systemClock, timestampOf } from '../model/time.ts';
import type { ServerReading, Settings } from '../settings/settings.ts';
import { nextTime } from './decide.ts';
import { checkCode, freshnessOf, jobProblems, type StatusProblem, statusProblems } from './problems.ts';
import { openHealthOf, openWorkerStoreIfMade, workerFileOf } from './open-store.ts';
import type { Check, JournalHealth } from './store/health.ts';
import type { Alert, JobProgress, JobRun } from './store/port.ts';

export type WorkerStatus = Readonly<Awaited<ReturnType<typeof openWorkerStatus>>>;
export type JobStatus = Readonly<ReturnType<typeof jobStatus>>;

/** Reads the state of this mirror's worker, whether it runs or not. Throws a FileError. */
export async function openWorkerStatus(settings: Settings, clock: Clock, releases: Releases) {
  const { jobs, worker: limits, store } = settings;
  const health = releases.add(openHealthOf(settings, clock));
  const { problem, ...record } = await recordOf(settings, clock, releases);
  const now = (record.clock ?? clock).now();
  const journal = problem === null ? await health.journal() : null;
  return {
    /** Null if no worker runs. */
    worker: record.worker,
    /** Every worker of a shared store, including those that wait or are gone; empty without a shared store. */
    fleet: record.fleet,
    /** Empty if the shared store cannot be reached: their state is not known then. */
    jobs: (problem === null ? jobs : []).map((job) =>
      jobStatus(
        job,
        record.progress?.get(job.name),
        record.newest.get(job.name),
        record.worker === null ? undefined : now,
        record.alerts,
      ),
    ),
    freshness: freshnessOf(await health.mirror(), { startedAt: now, now, maxStalenessMs: limits.maxStalenessMs }),
    alerts: record.alerts.map(({ problem, kind, since, text, next }) => ({ problem, kind, since, text, next })),
    open_batches: (journal !== null && 'found' in journal ? journal.found.open : []).map(
      ({ batch, rows, isInHand }) => ({ batch, rows, is_in_hand: isInHand }),
    ),
    /** Why the journal's file cannot be used, or that it is lost; null if nothing is known to be wrong with it. */
    journal_problem: journal === null || store.shared !== undefined ? null : await journalProblem(settings, journal),
    /** The store of journal, jobs and alerts, and why it cannot be used; null if they are in files. */
    shared_store:
      store.shared === undefined
        ? null
        : {
            address: databaseText(store.shared),
            problem,
            /** How far its clock, which jobs and batches use, is ahead of this machine's; null if the store is empty. */
            clock_ahead_ms: record.clock === undefined ? null : now - clock.now(),
          },
  };
}

async function journalProblem({ store: { mirror, journal } }: Settings, check: Check<JournalHealth>) {
  if ('found' in check) return null;
  if ('problem' in check && statSync(journal, { throwIfNoEntry: false })?.size !== 0) return check.problem;
  if (!existsSync(mirror)) return null;
  try {
    // The clock is used only to write.
    const memoryOf = (releases: Releases) => releases.add(new MirrorsJournalMemory(mirror, systemClock));
    return await withReleases((releases) => journalDoubt(memoryOf(releases), journal, undefined));
  } catch (error) {
    // That the mirror cannot be read is told of by those who show it.
    if (error instanceof FileError) return null;
    throw error;
  }
}

/** Reads the worker's store. A shared store that cannot be reached becomes a `problem`, so that the mirror is still shown. */
async function recordOf(settings: Settings, clock: Clock, releases: Releases) {
  const newest = new Map<string, JobRun | undefined>();
  try {
    const store = await openWorkerStoreIfMade(settings, clock, releases);
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

/** Reads one run, of a job or by hand; undefined if there is none of that name. Throws a FileError. */
export async function openJobRun(settings: Settings, run: string, clock: Clock, releases: Releases) {
  const store = await openWorkerStoreIfMade(settings, clock, releases);
  return store?.run(run);
}

/** Reads the last runs, of jobs and by hand, newest first. Throws a FileError. */
export async function openJobRuns(settings: Settings, limit: number, clock: Clock, releases: Releases) {
  const store = await openWorkerStoreIfMade(settings, clock, releases);
  return (await store?.runs(limit)) ?? [];
}

/** @param now undefined if no worker runs */
function jobStatus(
  job: Job,
  progress: JobProgress | undefined,
  newest: JobRun | undefined,
  now: number | undefined,
  alerts: readonly Alert[],
) {
  const next = now === undefined ? undefined : nextTime(job, progress?.handledUntil ?? now, now);
  // A run that died is not on record as ended before the next worker starts.
  const latest = newest?.outcome === 'killed' ? newest : progress?.latest;
  return {
    job: job.name,
    /** Null if it is not running. */
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
    /** Null if it will not begin: no worker runs, or its time never comes. */
    next_at: next === undefined ? null : timestampOf(next),
    /** What the worker would alert about now, whether it runs or not. */
    problems: problemsOfJob({ job, latest }, alerts),
  };
}

function problemsOfJob(view: Parameters<typeof jobProblems>[0], alerts: readonly Alert[]) {
  const { latest } = view;
  const known = new Map(alerts.map((alert) => [alert.problem, alert]));
  return jobProblems(view, known).map(({ problem, kind, text, next }) => {
    const since = known.get(problem)?.since ?? latest?.finishedAt ?? latest?.startedAt ?? null;
    return { kind, since, text, next };
  });
}

/** The state of mirror, worker and journal, read together. */
export type WholeStatus =
  | {
      readonly mirror: MirrorStatus;
      readonly worker: WorkerStatus;
      /** The worst first. */
      readonly problems: readonly StatusProblem[];
    }
  /** Why the mirror cannot be read. */
  | { readonly mirror: FileError; readonly worker: WorkerStatus };

/** For so long all callers share one reading. Otherwise twenty readers would each count a million rows. */
const sharedMs = secondMs;

interface Reading {
  readonly at: number;
  /** From the monotonic clock. */
  readonly since: number;
  readonly fingerprint: string;
  readonly status: Promise<WholeStatus>;
  isWriting: boolean;
  isDone: boolean;
}

/**
 * Returns a function that reads the state; all calls within a second share one reading. Unless a sync is running, a change of the
 * files ends the reading at once, so that a page shows what the click before it did. @param elapsed monotonic time, ms
 */
export function openWholeStatus(
  settings: Settings,
  clock: Clock,
  elapsed: () => number = () => performance.now(),
): () => Promise<WholeStatus> {
  let last: Reading | undefined;
  const { mirror, journal, shared } = settings.store;
  const files = [mirror, journal, workerFileOf(mirror)].flatMap((file) => [file, `${file}-wal`]);

  function isCurrent({ at, since, fingerprint, isWriting, isDone }: Reading, now: number): boolean {
    // If the clock was set, all ages in the reading are wrong.
    if (elapsed() - since > sharedMs || Math.abs(now - at) > sharedMs) return false;
    // Files do not show what others write into a shared store.
    return isWriting || (shared === undefined ? fingerprint === fingerprintOf(files) : !isDone);
  }

  return () => {
    const now = clock.now();
    if (last !== undefined && isCurrent(last, now)) return last.status;
    const status = readStatus(settings, clock);
    const reading: Reading = {
      at: now,
      since: elapsed(),
      fingerprint: fingerprintOf(files),
      status,
      isWriting: false,
      isDone: false,
    };
    last = reading;
    void status
      .then(({ mirror: found }) => (reading.isWriting = !(found instanceof FileError) && found.running !== null))
      // Those who wait for a reading get its failure; later callers read again.
      .catch(() => (last = last === reading ? undefined : last))
      .finally(() => (reading.isDone = true));
    return status;
  };
}

function fingerprintOf(files: readonly string[]): string {
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

/** The state of one server of the config file. */
export type ServerState = Readonly<Awaited<ReturnType<typeof stateOf>>>;

/** Reads the state of each server; sorts by severity, then by age. Opens the files of one server at a time. */
export async function openServerStates(all: readonly ServerReading[], clock: Clock): Promise<ServerState[]> {
  const states: ServerState[] = [];
  for (const each of all) {
    states.push(await stateOf(each, clock));
    // Lets a console serve other requests meanwhile.
    await setImmediate();
  }
  return states.sort(
    (a, b) => rankOf(a.check) - rankOf(b.check) || (a.fresh_as_of ?? '').localeCompare(b.fresh_as_of ?? ''),
  );
}

/** `profile` is null for the settings outside of the profiles. `check` is the exit code of `status --check` for this server. */
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
