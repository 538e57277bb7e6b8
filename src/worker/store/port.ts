/** What the worker stores: runs of jobs, and alerts. */
import type { Actor } from '../../model/actor.ts';
import type { Timestamp } from '../../model/time.ts';
import type { Problem } from '../problem-words.ts';
import type { JobEnd } from '../run-job.ts';

/**
 * How a run ended, or why there was none. `complete`, `partial`, `locked`: with exit code 0, 5, 7. `failed`: with any other.
 * `interrupted`: a person or the system sent it a signal. `stopped`: the worker was stopped. `killed`: the worker died. `skipped`: a
 * job of `after` was not complete.
 */
export type RunOutcome =
  | 'complete'
  | 'partial'
  | 'locked'
  | 'failed'
  | 'interrupted'
  | 'stopped'
  | 'killed'
  | 'skipped';

/** Why a run was begun. `by_hand`: with `schedule --once`, or in the console. */
type RunCause = 'scheduled' | 'by_hand';

export interface NewJobRun {
  readonly run: string;
  readonly job: string;
  readonly cause: RunCause;
  /** The scheduled time, ms since 1970; null for a run by hand. */
  readonly occurrence: number | null;
  /** 2 if the worker was stopped, or died, during the first attempt. */
  readonly attempt: number;
  /** As a person would type it. */
  readonly command: string;
  /** Who began it in the console; absent for all other runs. */
  readonly actor?: Actor;
}

export interface JobRunEnd extends JobEnd {
  readonly outcome: RunOutcome;
}

/** One run. If the run was skipped, both times say when that was recorded. */
export interface JobRun extends NewJobRun, JobEnd {
  readonly startedAt: Timestamp;
  /** null while it runs. */
  readonly finishedAt: Timestamp | null;
  /** null while it runs. */
  readonly outcome: RunOutcome | null;
}

export interface JobProgress {
  /** All occurrences up to this time have run or were skipped; ms since 1970. */
  readonly handledUntil: number;
  /** The last run that ended or was skipped, but not one by hand that ended as `locked`. */
  readonly latest: JobRun | undefined;
  /** The last of these that says whether the job works: not one that was skipped or stopped with the worker. */
  readonly judged: JobRun | undefined;
}

export const channels = ['webhook', 'command'] as const;
export type Channel = (typeof channels)[number];

/** A problem that was noticed, and what was told of it. */
export interface Alert {
  /** Its code, its facts as they were last seen, and when it was first noticed. */
  readonly problem: Problem & { readonly since: Timestamp };
  /** When its channel was last told that it is there; a channel that was told of its end is not in it. */
  readonly told: Readonly<Partial<Record<Channel, Timestamp>>>;
  /** When it ended; null while it lasts. */
  readonly endedAt: Timestamp | null;
}
