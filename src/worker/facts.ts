/** What is known of a mirror and its jobs at one moment: what the worker tells of, and what `status` and the console show. */
import type { Job } from '../model/job.ts';
import { nextTime } from '../model/job.ts';
import type { Timestamp } from '../model/time.ts';
import {
  type Check,
  type Freshness,
  freshnessOf,
  type HealthStore,
  type JournalHealth,
  type MirrorHealth,
} from './store/health.ts';
import type { JobRun } from './store/port.ts';
import type { WorkerStore } from './store/store.ts';

export interface JobFacts {
  readonly job: Job;
  /** When it begins next, ms since 1970; null if it never does. */
  readonly nextAt: number | null;
  /** Null if it is not running. */
  readonly runningSince: Timestamp | null;
  /** The last run that ended or was skipped; undefined if there is none. */
  readonly latest: JobRun | undefined;
  /** The last run that says whether the job works. */
  readonly judged: JobRun | undefined;
}

export interface Facts {
  /** Undefined if the worker's store could not be read. */
  readonly jobs: readonly JobFacts[] | undefined;
  readonly mirror: Check<MirrorHealth>;
  readonly journal: Check<JournalHealth>;
  readonly freshness: Freshness;
  /** Why the worker cannot write its file; null if it can. */
  readonly trouble: string | null;
}

/** The state of each job. @param store undefined if no worker has run. Throws a FileError if the store cannot be read. */
export async function jobsNow(
  store: Pick<WorkerStore, 'progress' | 'runs'> | undefined,
  jobs: readonly Job[],
  now: number,
): Promise<JobFacts[]> {
  const progress = await store?.progress();
  const facts: JobFacts[] = [];
  for (const job of jobs) {
    const [newest] = (await store?.runs(1, job.name)) ?? [];
    const known = { handledUntil: now, latest: undefined, judged: undefined, ...progress?.get(job.name) };
    // A run that died is not on record as ended before the next worker starts.
    const died = newest?.outcome === 'killed' ? newest : undefined;
    facts.push({
      job,
      nextAt: nextTime(job, Math.max(known.handledUntil, now)) ?? null,
      runningSince: newest?.outcome === null ? newest.startedAt : null,
      latest: died ?? known.latest,
      judged: died ?? known.judged,
    });
  }
  return facts;
}

/** The state of the files, and how fresh the mirror is. @param startedAt since when there may be no mirror */
export async function filesNow(
  health: HealthStore,
  times: { readonly startedAt: number; readonly now: number; readonly maxStalenessMs: number },
): Promise<Pick<Facts, 'mirror' | 'journal' | 'freshness'>> {
  const mirror = await health.mirror();
  return { mirror, journal: await health.journal(), freshness: freshnessOf(mirror, times) };
}
