/**
 * Decides what the worker must do now (pure). One rule: a job whose last due time has no run is run once. src/worker/worker.ts does
 * it, records it, and calls `decide` again.
 */
import { type Job, nextTime } from '../model/job.ts';
import { dayMs, parseInstant } from '../model/time.ts';
import type { JobProgress, JobRun } from './store/port.ts';

export interface JobState extends JobProgress {
  readonly isRunning: boolean;
}

interface DueJob {
  readonly job: Job;
  /** The first time that nothing ran at, ms since 1970. It stands for all later ones up to now. */
  readonly occurrence: number;
}

export type Decision =
  | (DueJob & { readonly kind: 'run'; readonly attempt: 1 | 2 })
  | (DueJob & { readonly kind: 'skip'; readonly outcome: 'skipped' | 'overlapped'; readonly why: string })
  /** The last handled time lies so far in the future that the clock must have been wrong. */
  | { readonly kind: 'forget'; readonly job: Job };

/** If the clock is set back by more than this, it was wrong before, and what was handled under it does not count. */
const longestSetBackMs = dayMs;

/** Returns what to do now. @param jobs each `after` names one of them @param states one for each job */
export function decide(jobs: readonly Job[], states: ReadonlyMap<string, JobState>, now: number): readonly Decision[] {
  return jobs.flatMap((job) => {
    const state = states.get(job.name);
    return state === undefined ? [] : (decideOne(job, state, { jobs, states, now }) ?? []);
  });
}

interface Inputs {
  readonly jobs: readonly Job[];
  readonly states: ReadonlyMap<string, JobState>;
  readonly now: number;
}

function decideOne(job: Job, state: JobState, inputs: Inputs): Decision | undefined {
  const { handledUntil, isRunning } = state;
  if (handledUntil > inputs.now + longestSetBackMs) return { kind: 'forget', job };
  const occurrence = dueIn(job, handledUntil, inputs.now);
  if (occurrence === undefined) {
    const again = occurrenceAgain(state);
    return again === undefined ? undefined : { kind: 'run', job, occurrence: again, attempt: 2 };
  }
  const due = { job, occurrence };
  if (isRunning) return { kind: 'skip', ...due, outcome: 'overlapped', why: 'the run before is still going on' };
  const dependencies = job.after.map((name) => dependencyOf(name, occurrence, inputs));
  if (dependencies.some(({ isDone }) => !isDone)) return undefined;
  const failed = dependencies.find(({ run }) => run?.outcome !== 'complete');
  if (job.requireComplete && failed !== undefined) {
    return { kind: 'skip', ...due, outcome: 'skipped', why: incompleteText(failed) };
  }
  return { kind: 'run', ...due, attempt: 1 };
}

/** Returns the first time of the job after `since` and up to `until`; undefined if there is none. */
function dueIn(job: Job, since: number, until: number): number | undefined {
  const time = nextTime(job, since);
  return time === undefined || time > until ? undefined : time;
}

/**
 * Returns the occurrence of the last run if that ended only because the worker did. It is run once more: one that crashes the
 * machine must not do so for ever.
 */
function occurrenceAgain({ latest, isRunning }: JobState): number | undefined {
  if (isRunning || latest?.attempt !== 1) return undefined;
  return latest.outcome === 'stopped' || latest.outcome === 'killed' ? (latest.occurrence ?? undefined) : undefined;
}

/** A job of `after`, as the job that names it sees it. */
interface Dependency {
  readonly name: string;
  /** Whether its times up to the occurrence have run or were skipped. */
  readonly isDone: boolean;
  /** How the last of these ended; undefined if nothing ran since. */
  readonly run: JobRun | undefined;
}

function dependencyOf(name: string, occurrence: number, { jobs, states }: Inputs): Dependency {
  const [other, state] = [jobs.find((job) => job.name === name), states.get(name)];
  if (other === undefined || state === undefined) return { name, isDone: true, run: undefined };
  const { latest, handledUntil, isRunning } = state;
  const isOpen = dueIn(other, handledUntil, occurrence) !== undefined || occurrenceAgain(state) !== undefined;
  const isSince = latest !== undefined && dueIn(other, parseInstant(latest.finishedAt) ?? 0, occurrence) === undefined;
  return { name, isDone: !isRunning && !isOpen, run: isSince ? latest : undefined };
}

function incompleteText({ name, run }: Dependency): string {
  if (run === undefined) return `${name} has not run since its last time`;
  return `${name} was not complete: ${run.outcome}${run.problem === null ? '' : `, ${run.problem}`}`;
}
