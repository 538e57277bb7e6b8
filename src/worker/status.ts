/** What `status` tells besides the mirror's own: the worker and its jobs, whether the mirror is fresh enough, what is open. */
import type { Job } from '../model/job.ts';
import { parseInstant, secondMs, type Timestamp, timestampOf } from '../model/time.ts';
import type { AlertStore, ProblemKind } from './store/alerts.ts';
import type { HealthStore, Look, MirrorHealth, OpenBatch } from './store/health.ts';
import type { LockOwner } from '../store/lock.ts';
import type { RunOutcome, WorkerStore } from './store/store-types.ts';
import { nextTime } from './decide.ts';
import { occurrencesOf } from './occurrences.ts';
import type { ResourceName } from '../model/resources.ts';

export interface JobStatus {
  readonly job: string;
  /** When it runs, undefined where it does not; a run of a worker that died is shown until the next worker starts. */
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

interface StatusPorts {
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

interface ResourceFreshness {
  readonly fresh_as_of: Timestamp | null;
  /** Since its `fresh_as_of`; where it has none, since the last that a run had proven, or since it was first asked for. */
  readonly staleness_seconds: number;
  readonly is_fresh: boolean;
}

export interface Freshness {
  readonly is_fresh: boolean;
  /** Of the stalest resource. */
  readonly staleness_seconds: number;
  readonly max_staleness_seconds: number;
  readonly resources: Readonly<Partial<Record<ResourceName, ResourceFreshness>>>;
  /** Why the mirror could not be looked at; null where it could. */
  readonly problem: string | null;
}

/**
 * A mirror that was never complete has its time, too: from when it was first asked for, so that a first sync of hours is
 * no alarm, and starting the worker again and again does not put it off. Resources that no sync was asked for don't count.
 * @param startedAt of the worker: from then on counts what there is no mirror of at all
 */
export function freshnessOf(
  mirror: Look<MirrorHealth>,
  {
    startedAt,
    now,
    maxStalenessMs,
  }: { readonly startedAt: number; readonly now: number; readonly maxStalenessMs: number },
): Freshness {
  const max_staleness_seconds = maxStalenessMs / secondMs;
  if ('problem' in mirror) {
    return { is_fresh: false, staleness_seconds: 0, max_staleness_seconds, resources: {}, problem: mirror.problem };
  }
  const lines = 'found' in mirror ? mirror.found.resources : [];
  const resources: Partial<Record<ResourceName, ResourceFreshness>> = {};
  let oldest = lines.length === 0 ? now - startedAt : 0;
  for (const { resource, freshAsOf, knownAt } of lines) {
    // A clock that was set back makes nothing fresher than now.
    const age = Math.max(0, now - (parseInstant(freshAsOf ?? knownAt) ?? 0));
    oldest = Math.max(oldest, age);
    resources[resource] = {
      fresh_as_of: freshAsOf,
      staleness_seconds: age / secondMs,
      is_fresh: age <= maxStalenessMs,
    };
  }
  return {
    is_fresh: oldest <= maxStalenessMs,
    staleness_seconds: oldest / secondMs,
    max_staleness_seconds,
    resources,
    problem: null,
  };
}
