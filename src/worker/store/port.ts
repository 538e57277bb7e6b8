/** What the worker stores: runs of jobs, and alerts. */
import type { Actor } from '../../model/actor.ts';
import type { Timestamp } from '../../model/time.ts';
import type { JobEnd } from '../run-job.ts';
import type { MirrorState } from '../fleet.ts';

/**
 * How a run ended, or why there was none. `complete`, `partial`, `locked`: with exit code 0, 5, 7. `failed`: with any other.
 * `timed_out`: it took longer than its job allows. `interrupted`: a person or the system sent it a signal. `stopped`: the worker
 * was stopped. `killed`: the worker died. `skipped`: a job of `after` was not complete. `missed`: no worker was running at its
 * time, and the job does not catch up.
 */
export type RunOutcome =
  | 'complete'
  | 'partial'
  | 'locked'
  | 'failed'
  | 'timed_out'
  | 'interrupted'
  | 'stopped'
  | 'killed'
  | 'skipped'
  | 'missed';

/** Why a run was begun. `caught_up`: its time had been missed. `by_hand`: with `schedule --once`, or in the console. */
type RunCause = 'scheduled' | 'caught_up' | 'by_hand';

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
}

/**
 * `job_failed`: a job ended neither complete nor partial, or did not run at its time. `job_partial`: a part of a job failed.
 * `stale`: the mirror is older than allowed. `deletions_refused`: too many rows would have been removed at once.
 * `batch_unknown`: the outcome of a row is unknown. `worker_file`: the worker cannot write its own file. `test`: a test alert.
 */
export type ProblemKind =
  | 'job_failed'
  | 'job_partial'
  | 'stale'
  | 'deletions_refused'
  | 'batch_unknown'
  | 'worker_file'
  | 'test';

/** Something that is wrong. It leaves the machine, so it contains no personal data and no secrets. */
export interface Problem {
  /** Identifies the problem while it lasts: `job_failed:sync`. */
  readonly problem: string;
  readonly kind: ProblemKind;
  /** One line for a person: what is wrong, and the reason. */
  readonly text: string;
  /** What to do next, with commands in backquotes; null if there is nothing to do. */
  readonly next: string | null;
  readonly job: string | null;
  readonly run: string | null;
  readonly outcome: string | null;
  readonly exitCode: number | null;
}

/** An open problem that was sent. */
export interface Alert extends Problem {
  readonly since: Timestamp;
  /** When it was last sent. */
  readonly sentAt: Timestamp;
}

export type Channel = 'webhook' | 'command';

/** One message for one channel. */
export interface Message {
  /** Sent along: a message that is delivered twice has the same id both times. */
  readonly id: string;
  readonly channel: Channel;
  /** JSON text. */
  readonly payload: string;
  readonly at: Timestamp;
  /** How many deliveries failed. */
  readonly attempts: number;
  /** The earliest time of the next delivery. */
  readonly notBefore: Timestamp;
}

export interface AlertBook {
  readonly alerts: readonly Alert[];
  /** Undelivered messages, the oldest first. */
  readonly messages: readonly Message[];
}

/** One of several workers. `gone`: it has been silent for longer than a lease lasts. */
export interface FleetMember {
  readonly worker: string;
  readonly host: string;
  readonly pid: number;
  readonly since: Timestamp;
  readonly seen_at: Timestamp;
  readonly state: 'works' | 'waits' | 'gone';
  /** The mirror of its machine, compared with the published one. */
  readonly mirror: MirrorState;
}
