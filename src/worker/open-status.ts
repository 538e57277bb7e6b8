/** What `status` shows besides the mirror's own: the worker and its jobs, whether the mirror is fresh enough, what is open. */
import { existsSync } from 'node:fs';
import type { Job } from '../model/job.ts';
import type { Releases } from '../model/releases.ts';
import { type Clock, type Timestamp, timestampOf } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import type { LockOwner } from '../store/lock.ts';
import { nextTime, occurrencesOf } from './decide.ts';
import { type Freshness, freshnessOf } from './problems.ts';
import { type OpenBatch, openHealthStore } from './store/health.ts';
import type { Alert, JobProgress, JobRun, RunOutcome, WorkerStore } from './store/port.ts';

export interface JobStatus {
  readonly job: string;
  /** Null where it does not run; a run of a worker that died is shown until the next worker starts. */
  readonly running_since: Timestamp | null;
  readonly last: {
    readonly run: string;
    readonly outcome: RunOutcome | null;
    readonly exit_code: number | null;
    readonly finished_at: Timestamp | null;
    readonly problem: string | null;
  } | null;
  /** Null where nothing will begin it: no worker runs, or its time never comes. */
  readonly next_at: Timestamp | null;
}

export interface WorkerStatus {
  /** Null where none runs. */
  readonly worker: LockOwner | null;
  readonly jobs: readonly JobStatus[];
  readonly freshness: Freshness;
  readonly alerts: readonly Pick<Alert, 'problem' | 'kind' | 'since' | 'text' | 'next'>[];
  /** Batches with rows whose outcome is open. */
  readonly open_batches: readonly (Pick<OpenBatch, 'batch' | 'rows'> & { readonly is_in_hand: boolean })[];
}

/** What there is to show of the worker of this mirror, whether one runs or not. Throws a FileError. */
export async function openWorkerStatus(settings: Settings, clock: Clock, releases: Releases): Promise<WorkerStatus> {
  const { store: files, jobs, worker: limits } = settings;
  const store = await openStore(files.mirror, clock, releases);
  const health = releases.add(openHealthStore(files, clock));
  const now = clock.now();
  const worker = (await store?.scheduler()) ?? null;
  const progress = await store?.progress();
  const journal = await health.journal();
  const lines: JobStatus[] = [];
  for (const job of jobs) {
    const [newest] = (await store?.runs(1, job.name)) ?? [];
    lines.push(jobStatus(job, progress?.get(job.name), newest, worker === null ? undefined : now));
  }
  return {
    worker,
    jobs: lines,
    freshness: freshnessOf(await health.mirror(), { startedAt: now, now, maxStalenessMs: limits.maxStalenessMs }),
    alerts: ((await store?.alerts())?.alerts ?? []).map(({ problem, kind, since, text, next }) => ({
      problem,
      kind,
      since,
      text,
      next,
    })),
    open_batches: ('found' in journal ? journal.found.open : []).map(({ batch, rows, isInHand }) => ({
      batch,
      rows,
      is_in_hand: isInHand,
    })),
  };
}

/** `data/mirror.db` → `data/mirror.worker.db`. */
export function workerFileOf(mirror: string): string {
  return `${mirror.replace(/\.db$/, '')}.worker.db`;
}

/** Undefined where no worker has run for this mirror: then nothing of a database is loaded either. */
async function openStore(mirror: string, clock: Clock, releases: Releases): Promise<WorkerStore | undefined> {
  const file = workerFileOf(mirror);
  if (!existsSync(file)) return undefined;
  const { openWorkerStoreForReading } = await import('./store/sqlite.ts');
  return releases.add(openWorkerStoreForReading(file, clock));
}

/** @param now undefined where no worker is there to begin it */
function jobStatus(
  job: Job,
  { handledUntil, latest }: Partial<JobProgress> = {},
  newest: JobRun | undefined,
  now: number | undefined,
): JobStatus {
  const scheduled = { job, occurrences: occurrencesOf(job) };
  const next = now === undefined ? undefined : nextTime(scheduled, handledUntil ?? now, now);
  return {
    job: job.name,
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
    next_at: next === undefined ? null : timestampOf(next),
  };
}
