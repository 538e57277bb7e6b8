/** What `status` and the console show: the mirror, the worker and its jobs, freshness, and what is wrong. */
import { statSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { type MirrorStatus, openStatus } from '../mirror/open-status.ts';
import { databaseText } from '../model/address.ts';
import { type ExitCode, FileError, type OperatorError, rankOf } from '../model/errors.ts';
import { type Releases, withReleases } from '../model/releases.ts';
import { type Clock, systemClock, type Timestamp, timestampOf } from '../model/time.ts';
import type { ServerReading, Settings } from '../settings/settings.ts';
import type { LockOwner } from '../store/lock.ts';
import { otherServer } from '../store/open.ts';
import type { RunReport } from '../store/mirror-types.ts';
import type { Problem } from './problem-words.ts';
import { checkCode, keyOf, problemsOf, ranIn, statusProblems } from './problems.ts';
import { openHealthOf, openWorkerStoreIfMade } from './open-store.ts';
import { openJournalDoubt } from '../bulk/open-memory.ts';
import { filesNow, type JobFacts, jobsNow } from './facts.ts';
import type { Check, Freshness, JournalHealth } from './store/health.ts';
import type { RunOutcome } from './store/port.ts';

export interface WorkerStatus {
  /** Null if no worker runs. */
  readonly worker: LockOwner | null;
  /** Empty if the shared store cannot be reached: their state is not known then. */
  readonly jobs: readonly JobStatus[];
  readonly freshness: Freshness;
  /** The store of journal, jobs and alerts; null if they are in files. */
  readonly shared_store: {
    readonly address: string;
    /** How far its clock, which jobs and batches use, is ahead of this machine's; null if that is not known. */
    readonly clock_ahead_ms: number | null;
  } | null;
}

export interface JobStatus {
  readonly job: string;
  /** Null if it is not running. */
  readonly running_since: Timestamp | null;
  readonly last: {
    readonly run: string;
    readonly outcome: RunOutcome | null;
    readonly exit_code: number | null;
    readonly finished_at: Timestamp | null;
    readonly problem: string | null;
  } | null;
  /** Null if it will not begin: no worker runs, or its time never comes. */
  readonly next_at: Timestamp | null;
}

interface Worked {
  readonly worker: WorkerStatus;
  /** What the worker would tell of now, whether it runs or not, and what keeps it from working. */
  readonly told: readonly Problem[];
}

/**
 * Reads the state of this mirror's worker, whether it runs or not. Throws a FileError.
 * @param lastSync the last sync if it was not complete: the mirror itself says why, better than its job could
 */
async function openWorkerStatus(
  settings: Settings,
  clock: Clock,
  releases: Releases,
  lastSync?: RunReport,
): Promise<Worked> {
  const { worker: limits, store } = settings;
  const { jobs, owner, alerts, now, aheadMs, problem } = await recordOf(settings, clock, releases);
  const times = { startedAt: now, now, maxStalenessMs: limits.maxStalenessMs };
  const files = await filesNow(openHealthOf(settings, clock), times);
  const { mirror, freshness } = files;
  // That the shared store cannot be reached is told once.
  const journal: Check<JournalHealth> = problem === null ? files.journal : { absent: true };
  // Only the worker itself can know that it cannot write.
  const [trouble = null] = alerts.flatMap(({ problem: { code, facts }, endedAt }) =>
    code === 'worker_file' && endedAt === null ? [facts.message] : [],
  );
  const judged = jobs.filter((each) => lastSync === undefined || !ranIn(lastSync, each));
  const present = problemsOf({ jobs: judged, mirror, journal, freshness, trouble }, []);
  const lost = store.shared === undefined ? await journalProblem(settings, journal) : null;
  const since = new Map(alerts.map((alert) => [keyOf(alert.problem), alert.problem.since]));
  return {
    worker: {
      worker: owner,
      jobs: jobs.map((each) => jobStatus(each, owner !== null)),
      freshness,
      shared_store:
        store.shared === undefined ? null : { address: databaseText(store.shared), clock_ahead_ms: aheadMs },
    },
    told: [
      ...(problem === null ? [] : [{ code: 'shared_store', facts: problem, since: null } as const]),
      ...(lost === null ? [] : [{ code: 'journal', facts: { message: lost }, since: null } as const]),
      ...('problem' in mirror
        ? [{ code: 'no_mirror', facts: { message: mirror.problem, advice: '' }, since: null } as const]
        : []),
      ...present.map((each): Problem => ({ ...each, since: since.get(keyOf(each)) ?? each.since })),
    ],
  };
}

async function journalProblem(settings: Settings, check: Check<JournalHealth>): Promise<string | null> {
  if ('problem' in check && statSync(settings.store.journal, { throwIfNoEntry: false })?.size !== 0)
    return check.problem;
  // The clock is used only to write.
  return openJournalDoubt(settings, systemClock);
}

/** Reads the worker's store. A shared store that cannot be reached becomes a `problem`, so that the mirror is still shown. */
async function recordOf(settings: Settings, clock: Clock, releases: Releases) {
  try {
    const store = await openWorkerStoreIfMade(settings, clock, releases);
    const now = (store?.clock ?? clock).now();
    return {
      jobs: await jobsNow(store, settings.jobs, now),
      owner: (await store?.scheduler()) ?? null,
      alerts: (await store?.alerts()) ?? [],
      now,
      aheadMs: store === undefined ? null : now - clock.now(),
      problem: null,
    };
  } catch (error) {
    if (settings.store.shared === undefined || !(error instanceof FileError)) throw error;
    const problem = { message: error.message, advice: error.advice ?? '' };
    return { jobs: [], owner: null, alerts: [], now: clock.now(), aheadMs: null, problem };
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

function jobStatus({ job, latest, runningSince, nextAt }: JobFacts, hasWorker: boolean): JobStatus {
  return {
    job: job.name,
    running_since: runningSince,
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
    next_at: nextAt === null || !hasWorker ? null : timestampOf(nextAt),
  };
}

/** The state of mirror, worker and journal, read together. */
export interface WholeStatus {
  /** Or why the mirror cannot be read. */
  readonly mirror: MirrorStatus | FileError;
  readonly worker: WorkerStatus;
  /** The worst first. */
  readonly problems: readonly Problem[];
}

/** Reads the state of one server. Throws a FileError if the worker's file cannot be read. */
export function openWholeStatus(settings: Settings, clock: Clock): Promise<WholeStatus> {
  return withReleases(async (releases) => {
    let mirror: MirrorStatus;
    try {
      mirror = openStatus(settings, releases);
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      const { worker } = await openWorkerStatus(settings, clock, releases);
      return { mirror: error, worker, problems: [problemOf('no_mirror', error)] };
    }
    const last = mirror.runs.find(({ status }) => status !== 'running');
    const lastSync = last?.status === 'complete' ? undefined : last;
    const { worker, told } = await openWorkerStatus(settings, clock, releases, lastSync);
    const other = otherServer(settings.store.mirror, mirror.server?.address ?? null, settings.api.baseUrl);
    const found = other === undefined ? told : [problemOf('other_server', other), ...told];
    return { mirror, worker, problems: statusProblems(mirror, found) };
  });
}

/** The state of one server of the config file. */
export interface ServerState {
  /** Null for the settings outside of the profiles. */
  readonly profile: string | null;
  /** The exit code of `status --check` for this server. */
  readonly check: ExitCode;
  readonly fresh_as_of: Timestamp | null;
  readonly is_running: boolean;
  readonly has_worker: boolean;
  readonly problems: readonly Problem[];
}

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

async function stateOf(
  { profile, reading: { settings, problems } }: ServerReading,
  clock: Clock,
): Promise<ServerState> {
  const none = { profile, check: 2, fresh_as_of: null, is_running: false, has_worker: false } as const;
  if (settings === undefined) return { ...none, problems: problems.map((error) => problemOf('settings', error)) };
  try {
    const { mirror, worker, problems: found } = await openWholeStatus(settings, clock);
    if (mirror instanceof FileError) return { ...none, problems: found };
    const { fresh_as_of, running } = mirror;
    const state = { fresh_as_of, is_running: running !== null, has_worker: worker.worker !== null };
    return { profile, check: checkCode(found), ...state, problems: found };
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    return { ...none, problems: [problemOf('no_mirror', error)] };
  }
}

function problemOf(code: 'settings' | 'no_mirror' | 'other_server', { message, advice = '' }: OperatorError): Problem {
  return { code, facts: { message, advice }, since: null };
}
