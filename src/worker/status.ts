/** What `status` tells besides the mirror's own: the worker and its jobs, whether the mirror is fresh enough, what is open. */
import type { Job } from '../model/job.ts';
import { type Timestamp, timestampOf } from '../model/time.ts';
import type { AlertStore, ProblemKind } from './store/alert-types.ts';
import type { HealthStore, OpenBatch } from './store/health-types.ts';
import type { LockOwner } from '../store/lock.ts';
import type { RunOutcome, WorkerStore } from './store/store-types.ts';
import { nextTime } from './decide.ts';
import { type Freshness, freshnessOf } from './health/freshness.ts';
import { occurrencesOf } from './occurrences.ts';

export interface JobStatus {
  readonly job: string;
  /** When it runs, undefined where it does not; a run of a worker that died is told until the next worker starts. */
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
  readonly alerts: readonly {
    readonly problem: string;
    readonly kind: ProblemKind;
    readonly since: Timestamp;
    readonly text: string;
    readonly next: string | null;
  }[];
  /** Batches with rows whose outcome is open. */
  readonly open_batches: readonly {
    readonly batch: string;
    readonly rows: OpenBatch['rows'];
    readonly is_in_hand: boolean;
  }[];
}

export interface StatusPorts {
  /** undefined where no worker has run for this mirror. */
  readonly store: WorkerStore | undefined;
  readonly alerts: Pick<AlertStore, 'load'> | undefined;
  readonly health: HealthStore;
  readonly jobs: readonly Job[];
  readonly maxStalenessMs: number;
  readonly now: number;
}

export function workerStatus({ store, alerts, health, jobs, maxStalenessMs, now }: StatusPorts): WorkerStatus {
  const worker = store?.scheduler() ?? null;
  const journal = health.journal();
  return {
    worker,
    jobs: jobs.map((job) => jobStatus(job, store, worker === null ? undefined : now)),
    freshness: freshnessOf(health.mirror(), { startedAt: now, now, maxStalenessMs }),
    alerts: (alerts?.load().alerts ?? []).map(({ problem, kind, since, text, next }) => ({
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

/** @param now undefined where no worker is there to begin it */
function jobStatus(job: Job, store: WorkerStore | undefined, now: number | undefined): JobStatus {
  const progress = store?.progress(job.name);
  const newest = store?.runs(1, job.name)[0];
  const latest = progress?.latest;
  const scheduled = { job, occurrences: occurrencesOf(job) };
  const next = now === undefined ? undefined : nextTime(scheduled, progress?.handledUntil ?? now, now);
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
