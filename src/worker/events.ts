/** What the worker reports while it works, for logs, alerts and measures; and its state at any time. */
import type { OperatorError } from '../model/errors.ts';
import type { Job } from '../model/job.ts';
import type { JobRun, NewJobRun } from './store/store-types.ts';

export type WorkerEvent =
  | { readonly kind: 'started'; readonly jobs: readonly Job[] }
  /** `skippedBefore`: so many earlier times of the job were skipped; this run catches up on all of them. */
  | { readonly kind: 'run_started'; readonly run: NewJobRun; readonly skippedBefore: number }
  /** With outcome, exit code and report; also of runs that a worker left running when it died. */
  | { readonly kind: 'run_ended'; readonly run: JobRun }
  /** A time of the job came and nothing was run; so did `skippedBefore` earlier ones. */
  | {
      readonly kind: 'not_run';
      readonly job: string;
      readonly occurrence: number;
      readonly outcome: 'skipped' | 'overlapped' | 'missed';
      readonly why: string;
      readonly skippedBefore: number;
    }
  /** The clock was set back by more than a day: what the job has done until now says nothing about the days to come. */
  | { readonly kind: 'clock_set_back'; readonly job: string }
  | { readonly kind: 'reloaded'; readonly jobs: readonly Job[] }
  /** The worker's own file cannot be written. Nothing is begun that cannot be recorded; it goes on trying. */
  | { readonly kind: 'trouble'; readonly error: OperatorError }
  | { readonly kind: 'stopping'; readonly running: readonly string[] }
  | { readonly kind: 'stopped' };

export interface JobView {
  readonly job: Job;
  /** When it begins next, jitter included, ms since 1970; null where it never does. */
  readonly nextAt: number | null;
  /** null where it does not run now. */
  readonly running: { readonly run: NewJobRun; readonly startedAt: number } | null;
  /** The last that ended or did not come to be, overlapped ones apart; undefined where there was none. */
  readonly latest: JobRun | undefined;
}

export interface WorkerView {
  readonly startedAt: number;
  readonly isStopping: boolean;
  readonly jobs: readonly JobView[];
}
