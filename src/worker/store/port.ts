/** What the worker keeps from one start to the next: runs of jobs, and alerts. */
import type { Actor } from '../../model/actor.ts';
import type { Timestamp } from '../../model/time.ts';
import type { CommandEnd } from '../command.ts';
import type { MirrorState } from '../fleet.ts';

/**
 * How a run ended, or why there was none. `complete`: with 0. `partial`: with 5. `locked`: with 7. `failed`: with anything else.
 * `timed_out`: it took longer than its job allows. `interrupted`: a person, or the system, sent it a signal. `stopped`: the
 * worker was. `killed`: the worker died. `skipped`: a job that it comes after was not complete. `overlapped`: the one before was
 * still running. `missed`: no worker was running at its time, and the job does not catch up.
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
  | 'overlapped'
  | 'missed';

/** Why a run was begun. `caught_up`: its time had passed unnoticed. `by_hand`: `schedule --once`, or in the console. */
type RunCause = 'scheduled' | 'caught_up' | 'by_hand';

export interface NewJobRun {
  readonly run: string;
  readonly job: string;
  readonly cause: RunCause;
  /** The time of the job that it is for, ms since 1970; null where it is by hand. */
  readonly occurrence: number | null;
  /** 2 where the worker was stopped, or died, in the first. */
  readonly attempt: number;
  /** As a person would type it. */
  readonly command: string;
  /** Who began it by hand in the console; not there of any other. */
  readonly actor?: Actor;
}

export interface JobRunEnd extends CommandEnd {
  readonly outcome: RunOutcome;
}

/** One run, or one that did not come to be: then it began and ended when that was noted. */
export interface JobRun extends NewJobRun, CommandEnd {
  readonly startedAt: Timestamp;
  /** null while it runs. */
  readonly finishedAt: Timestamp | null;
  /** null while it runs. */
  readonly outcome: RunOutcome | null;
}

export interface JobProgress {
  /** Occurrences up to here are dealt with, ms since 1970. */
  readonly handledUntil: number;
  /** The last that ended or did not come to be, overlapped ones apart. */
  readonly latest: JobRun | undefined;
}

/**
 * `job_failed`: a job ended otherwise than complete or partial, or did not run at its time. `job_partial`: a part of it
 * failed. `stale`: the mirror is older than it may be. `deletions_refused`: too many rows would go at once.
 * `batch_unknown`: the outcome of a row is unknown. `worker_file`: the worker cannot write its own file. `test`: none.
 */
export type ProblemKind =
  | 'job_failed'
  | 'job_partial'
  | 'stale'
  | 'deletions_refused'
  | 'batch_unknown'
  | 'worker_file'
  | 'test';

/** Something that is wrong. Holds nothing of any person and nothing secret: it is sent to others. */
export interface Problem {
  /** The same as long as it is the same one: `job_failed:sync`. */
  readonly problem: string;
  readonly kind: ProblemKind;
  /** One line for a person: what is wrong, and the reason. */
  readonly text: string;
  /** What to do next, a command in backquotes in it; null where nothing is to be done. */
  readonly next: string | null;
  readonly job: string | null;
  readonly run: string | null;
  readonly outcome: string | null;
  readonly exitCode: number | null;
}

/** A problem that is open and was sent. */
export interface Alert extends Problem {
  readonly since: Timestamp;
  /** When it was sent last. */
  readonly sentAt: Timestamp;
}

export type Channel = 'webhook' | 'command';

/** One thing to be delivered by one channel. */
export interface Message {
  /** The receiver sees it: two deliveries of the same message have the same. */
  readonly id: string;
  readonly channel: Channel;
  /** JSON text. */
  readonly payload: string;
  readonly at: Timestamp;
  /** Tries that failed. */
  readonly attempts: number;
  /** Not to be tried before. */
  readonly notBefore: Timestamp;
}

export interface AlertBook {
  readonly alerts: readonly Alert[];
  /** Undelivered ones, the oldest first. */
  readonly messages: readonly Message[];
}

/** One of several workers. `gone`: it has not been heard of for longer than a lease lasts. */
export interface FleetMember {
  readonly worker: string;
  readonly host: string;
  readonly pid: number;
  readonly since: Timestamp;
  readonly seen_at: Timestamp;
  readonly state: 'works' | 'waits' | 'gone';
  /** Of its machine, compared with what is published. */
  readonly mirror: MirrorState;
}
