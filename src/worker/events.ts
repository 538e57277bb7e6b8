/** What the worker tells of itself while it works, for logs, alerts and measures; and what it can be asked at any time. */
import type { OperatorError } from '../model/errors.ts';
import type { Job } from '../model/job.ts';
import type { JobRun, NewJobRun } from './store/store-types.ts';

export type WorkerEvent =
  | { readonly kind: 'started'; readonly jobs: readonly Job[] }
  /** `passedOver`: so many earlier times of the job came to nothing; this run makes up for all of them. */
  | { readonly kind: 'run_started'; readonly run: NewJobRun; readonly passedOver: number }
  /** With outcome, exit code and report; also of runs that a worker left running when it died. */
  | { readonly kind: 'run_ended'; readonly run: JobRun }
  /** A time of the job came and nothing was run; so did `passedOver` earlier ones. */
  | {
      readonly kind: 'passed_over';
      readonly job: string;
      readonly occurrence: number;
      readonly outcome: 'skipped' | 'overlapped' | 'missed';
      readonly why: string;
      readonly passedOver: number;
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
