/** What the worker keeps from one start to the next: how far each job's times are dealt with, and what became of them. */
import type { Timestamp } from '../../model/time.ts';
import type { LockOwner } from '../../store/lock.ts';

/** How a run ended, or why there was none. */
export type RunOutcome =
  /** It ended with 0. */
  | 'complete'
  /** It ended with 5: a part of it failed. */
  | 'partial'
  /** It ended with 7: another run of its kind held a lock. */
  | 'locked'
  /** It ended with anything else. */
  | 'failed'
  /** It took longer than its job allows. */
  | 'timed_out'
  /** A person, or the system, sent it a signal. */
  | 'interrupted'
  /** It was stopped because the worker was. */
  | 'stopped'
  /** The worker died while it ran. */
  | 'killed'
  /** It did not run: a job that it comes after was not complete. */
  | 'skipped'
  /** It did not run: the one before was still running. */
  | 'overlapped'
  /** It did not run: nobody was there at its time, and the job does not catch up. */
  | 'missed';

/** Why a run was begun. `caught_up`: its time had passed unnoticed. `by_hand`: `schedule --once`. */
export type RunCause = 'scheduled' | 'caught_up' | 'by_hand';

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
}

export interface JobRunEnd {
  readonly outcome: RunOutcome;
  readonly exitCode: number | null;
  /** What it said was wrong. */
  readonly problem: string | null;
  /** Its report under --json; null where there was none. */
  readonly report: unknown;
}

/** One run, or one that did not come to be: then it began and ended when that was noted. */
export interface JobRun extends NewJobRun {
  readonly cause: RunCause;
  readonly startedAt: Timestamp;
  /** null while it runs. */
  readonly finishedAt: Timestamp | null;
  /** null while it runs. */
  readonly outcome: RunOutcome | null;
  readonly exitCode: number | null;
  readonly problem: string | null;
  readonly report: unknown;
}

export interface JobProgress {
  /** Occurrences up to here are dealt with, ms since 1970. */
  readonly handledUntil: number;
  /** The last that ended or did not come to be, overlapped ones apart. */
  readonly latest: JobRun | undefined;
}

export interface WorkerStore {
  /** Makes this process the one scheduler of the mirror. Throws LockHeldError naming another. */
  acquireScheduler(run: string): void;
  releaseScheduler(): void;
  /** The living scheduler. */
  scheduler(): LockOwner | undefined;

  /**
   * Takes note of the jobs: of a new one, or one whose times are others now, only what comes from now on counts. What is
   * no job any more is forgotten, its runs are not.
   */
  adoptJobs(jobs: readonly { readonly name: string; readonly cron: string; readonly timezone: string }[]): void;
  progress(job: string): JobProgress | undefined;
  /** Occurrences up to then are dealt with; it may lie before what was said earlier. */
  setHandled(job: string, until: number): void;

  /** Records the run as begun and its occurrence as dealt with. Throws LockHeldError while another run of the job goes on. */
  beginRun(run: NewJobRun): void;
  /** Records its end; gives the run as it now is on record. */
  endRun(run: string, end: JobRunEnd): JobRun;
  /** Records that an occurrence came to nothing, and as dealt with. */
  recordSkip(occurrence: Omit<NewJobRun, 'cause' | 'attempt'> & { readonly occurrence: number }, end: JobRunEnd): void;
  /** Runs left running by a process that died become `killed`; gives them. */
  endLeftRuns(): JobRun[];
  /** Newest first; of one job, or of all. */
  runs(limit: number, job?: string): JobRun[];
  close(): void;
}
