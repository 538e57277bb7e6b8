/**
 * Decides what the worker must do now (pure). One rule: a job whose last due time has no run is run once. src/worker/worker.ts does
 * it, records it, and calls `decide` again.
 */
import { crc32 } from 'node:zlib';
import { type Job, lastTime, timesAfter } from '../model/job.ts';
import { dayMs, minuteMs, parseInstant } from '../model/time.ts';
import type { JobProgress, JobRun } from './store/port.ts';

export interface JobState extends JobProgress {
  readonly isRunning: boolean;
}

interface DueJob {
  readonly job: Job;
  /** The scheduled time, without jitter; ms since 1970. It stands for all earlier ones that nothing ran at. */
  readonly occurrence: number;
}

export type Decision =
  | (DueJob & { readonly kind: 'run'; readonly late: boolean; readonly attempt: 1 | 2 })
  | (DueJob & { readonly kind: 'skip'; readonly outcome: 'skipped' | 'overlapped' | 'missed'; readonly why: string })
  /** The last handled occurrence lies so far in the future that the clock must have been wrong. */
  | { readonly kind: 'forget'; readonly job: Job; readonly until: number };

/** A run that begins more than this after its time is late: the machine slept, or the worker was down. */
const onTimeMs = 5 * minuteMs;

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
  const { now } = inputs;
  const { handledUntil, isRunning } = state;
  if (handledUntil > now + longestSetBackMs) return { kind: 'forget', job, until: now };
  const occurrence = dueOccurrence(job, handledUntil, now);
  if (occurrence === undefined) {
    const again = occurrenceAgain(job, state);
    return again === undefined ? undefined : { kind: 'run', job, occurrence: again, late: true, attempt: 2 };
  }
  const due = { job, occurrence };
  if (isRunning) return { kind: 'skip', ...due, outcome: 'overlapped', why: 'the run before is still going on' };
  const dependencies = job.after.map((name) => dependencyOf(name, occurrence, inputs));
  if (dependencies.some(({ isDone }) => !isDone)) return undefined;
  const failed = dependencies.find(({ run }) => run?.outcome !== 'complete');
  if (job.requireComplete && failed !== undefined) {
    return { kind: 'skip', ...due, outcome: 'skipped', why: incompleteText(failed) };
  }
  const late = now - expectedAt(due, dependencies) > onTimeMs;
  if (late && !job.catchUp) {
    return { kind: 'skip', ...due, outcome: 'missed', why: 'no worker was running at its time' };
  }
  return { kind: 'run', ...due, late, attempt: 1 };
}

/** Returns the last occurrence whose time, including jitter, has come; undefined if all are handled. */
function dueOccurrence(job: Job, handledUntil: number, now: number): number | undefined {
  let last = lastTime(job, now, handledUntil);
  while (last !== undefined && last + jitterOf(job, last) > now) last = lastTime(job, last - 1, handledUntil);
  return last;
}

/**
 * Returns the occurrence of the last run if that ended only because the worker did. It is run once more: one that crashes the
 * machine must not do so for ever.
 */
function occurrenceAgain(job: Job, { latest, isRunning }: JobState): number | undefined {
  if (isRunning || !job.catchUp || latest?.attempt !== 1) return undefined;
  return latest.outcome === 'stopped' || latest.outcome === 'killed' ? (latest.occurrence ?? undefined) : undefined;
}

const timeOf = (time: string | null): number => parseInstant(time) ?? 0;

/** A job of `after`, as the job that names it sees it. */
interface Dependency {
  readonly name: string;
  /** Whether its occurrence has ended or was skipped. */
  readonly isDone: boolean;
  /** How that ended; undefined if the job has not run since. */
  readonly run: JobRun | undefined;
}

/** Looks at the last occurrence of the job at or before `occurrence`: usually the one of the same night. */
function dependencyOf(name: string, occurrence: number, { jobs, states }: Inputs): Dependency {
  const [other, state] = [jobs.find((job) => job.name === name), states.get(name)];
  if (other === undefined || state === undefined) return { name, isDone: true, run: undefined };
  const at = lastTime(other, occurrence) ?? -Infinity;
  const { latest, handledUntil, isRunning } = state;
  const isSince = latest !== undefined && timeOf(latest.finishedAt) >= at;
  const isDone = !isRunning && handledUntil >= at && occurrenceAgain(other, state) === undefined;
  return { name, isDone, run: isSince ? latest : undefined };
}

/** When the job should have begun: at its time, or when those that it waited for ended, unless they were late themselves. */
function expectedAt({ job, occurrence }: DueJob, dependencies: readonly Dependency[]): number {
  const ends = dependencies.flatMap(({ run }) =>
    run === undefined || run.cause === 'caught_up' ? [] : [timeOf(run.finishedAt)],
  );
  return Math.max(occurrence + jitterOf(job, occurrence), ...ends);
}

function incompleteText({ name, run }: Dependency): string {
  if (run === undefined) return `${name} has not run since its last time`;
  return `${name} was not complete: ${run.outcome}${run.problem === null ? '' : `, ${run.problem}`}`;
}

/** Returns the next time of the job after `now`, including jitter; undefined if there is none. */
export function nextTime(job: Job, handledUntil: number, now: number): number | undefined {
  let next: number | undefined;
  for (const each of timesAfter(job, Math.max(handledUntil, now - job.jitterMs))) {
    // A later occurrence may have the shorter delay.
    if (next !== undefined && each >= next) break;
    const time = each + jitterOf(job, each);
    if (time > now && (next === undefined || time < next)) next = time;
  }
  return next;
}

/** The delay of one occurrence in ms, from 0 up to the job's jitter: pseudo-random, and the same at every call. */
export function jitterOf(
  { name, jitterMs, profile = '' }: Pick<Job, 'name' | 'jitterMs' | 'profile'>,
  occurrence: number,
): number {
  const fraction = crc32(`${profile}${name} ${occurrence}`) / 2 ** 32;
  return Math.floor(fraction * jitterMs);
}
