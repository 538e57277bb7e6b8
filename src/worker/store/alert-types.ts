/** What the worker keeps of its alerts from one start to the next: which are open, and what is still to be delivered. */
import type { Timestamp } from '../../model/time.ts';

/**
 * `job_failed`: a job ended otherwise than complete or partial, or did not run at its time. `job_partial`: a part of it
 * failed. `stale`: the mirror is older than it may be. `deletions_refused`: too many rows would go at once.
 * `batch_unknown`: nobody knows the outcome of a row. `worker_file`: the worker cannot write its own file. `test`: none.
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
  /** The run that showed it. */
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

export interface AlertStore {
  load(): AlertBook;
  /** Puts the book in the place of what is on record, in one durable step. Throws a FileError. */
  save(book: AlertBook): void;
  close(): void;
}
