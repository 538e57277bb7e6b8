/** Decides what the worker must do now (pure). src/worker/worker.ts does it, records it, and calls `decide` again. */
import { crc32 } from 'node:zlib';
import { clockChange, type CronTimes, cronTimes, instantOf, instantsOf, type Job, wallTimeAt } from '../model/job.ts';
import { dayMs, hourMs, minuteMs, parseInstant } from '../model/time.ts';
import type { JobProgress, JobRun } from './store/port.ts';

export interface ScheduledJob {
  readonly job: Job;
  readonly occurrences: Occurrences;
}

export interface JobState extends JobProgress {
  readonly isRunning: boolean;
}

interface DueJob {
  readonly job: Job;
  /** The scheduled time, without jitter; ms since 1970. */
  readonly occurrence: number;
  /** How many earlier occurrences this one stands for, at most 1,000. Nobody has reported them yet. */
  readonly skippedBefore: number;
}

export type Decision =
  | (DueJob & { readonly kind: 'run'; readonly late: boolean; readonly attempt: number })
  | (DueJob & { readonly kind: 'skip'; readonly outcome: 'skipped' | 'overlapped' | 'missed'; readonly why: string })
  /** The last handled occurrence lies so far in the future that the clock must have been wrong. */
  | { readonly kind: 'forget'; readonly job: Job; readonly until: number };

/** A run that begins more than this after its time is late: the machine slept, or the worker was down. */
const onTimeMs = 5 * minuteMs;

/** If the clock is set back by more than this, it was wrong before, and what was handled under it does not count. */
const longestSetBackMs = dayMs;

const maxCounted = 1_000;

/** Returns what to do now, in order. @param jobs in any order; each `after` names one of them @param states one for each job */
export function decide(
  jobs: readonly ScheduledJob[],
  states: ReadonlyMap<string, JobState>,
  now: number,
): readonly Decision[] {
  const known = new Map(states);
  const decisions: Decision[] = [];
  for (const scheduled of inOrder(jobs)) {
    const { name } = scheduled.job;
    const state = known.get(name);
    if (state === undefined) continue;
    const decision = decideOne(scheduled, state, { jobs, known, now });
    if (decision === undefined) continue;
    decisions.push(decision);
    // Jobs that depend on this one wait until the decision is on record.
    if (decision.kind !== 'forget') known.set(name, { ...state, isRunning: true });
  }
  return decisions;
}

interface Inputs {
  readonly jobs: readonly ScheduledJob[];
  readonly known: ReadonlyMap<string, JobState>;
  readonly now: number;
}

function decideOne({ job, occurrences }: ScheduledJob, state: JobState, inputs: Inputs): Decision | undefined {
  const { now } = inputs;
  if (state.handledUntil > now + longestSetBackMs) return { kind: 'forget', job, until: now };
  const due = dueOccurrence(job, occurrences, state.handledUntil, now);
  if (due === undefined) return state.isRunning ? undefined : retryInterrupted(job, state);
  if (state.isRunning) {
    return { kind: 'skip', job, ...due, outcome: 'overlapped', why: 'the run before is still going on' };
  }
  const dependencies = job.after.map((name) => dependencyOf(name, due.occurrence, inputs));
  if (dependencies.some(({ isDone }) => !isDone)) return undefined;
  const failed = dependencies.find(({ run }) => run?.outcome !== 'complete');
  if (job.requireComplete && failed !== undefined) {
    return { kind: 'skip', job, ...due, outcome: 'skipped', why: incompleteText(failed) };
  }
  const late = now - expectedAt(job, due.occurrence, dependencies) > onTimeMs;
  if (late && !job.catchUp) {
    return { kind: 'skip', job, ...due, outcome: 'missed', why: 'no worker was running at its time' };
  }
  return { kind: 'run', job, ...due, late, attempt: 1 };
}

/** Returns the last occurrence whose time, including jitter, has come. */
function dueOccurrence(
  job: Job,
  { upTo }: Occurrences,
  handledUntil: number,
  now: number,
): { readonly occurrence: number; readonly skippedBefore: number } | undefined {
  let occurrence: number | undefined;
  let skippedBefore = 0;
  for (const each of upTo(now)) {
    if (each <= handledUntil || skippedBefore >= maxCounted) break;
    if (occurrence !== undefined) skippedBefore += 1;
    else if (each + jitterOf(job, each) <= now) occurrence = each;
  }
  return occurrence === undefined ? undefined : { occurrence, skippedBefore };
}

/** A run that ended only because the worker did is run once more. */
function retryInterrupted(job: Job, { latest }: JobState): Decision | undefined {
  if (latest === undefined || latest.occurrence === null || latest.attempt > 1 || !job.catchUp) return undefined;
  if (latest.outcome !== 'stopped' && latest.outcome !== 'killed') return undefined;
  return { kind: 'run', job, occurrence: latest.occurrence, skippedBefore: 0, late: true, attempt: 2 };
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
function dependencyOf(name: string, occurrence: number, { jobs, known }: Inputs): Dependency {
  const state = known.get(name);
  const other = jobs.find(({ job }) => job.name === name);
  const at = other?.occurrences.upTo(occurrence).next().value;
  if (state === undefined || at === undefined) return { name, isDone: true, run: undefined };
  const { latest } = state;
  const since = latest !== undefined && timeOf(latest.finishedAt) >= at;
  return { name, isDone: !state.isRunning && state.handledUntil >= at, run: since ? latest : undefined };
}

/** When the job should have begun. If it waited for a dependency that began in time, it was not late. */
function expectedAt(job: Job, occurrence: number, dependencies: readonly Dependency[]): number {
  const time = occurrence + jitterOf(job, occurrence);
  const ends = dependencies.flatMap(({ run }) =>
    run === undefined || timeOf(run.startedAt) > time + onTimeMs ? [] : [timeOf(run.finishedAt)],
  );
  return Math.max(time, ...ends);
}

function incompleteText({ name, run }: Dependency): string {
  if (run === undefined) return `${name} has not run since its last time`;
  return `${name} was not complete: ${run.outcome}${run.problem === null ? '' : `, ${run.problem}`}`;
}

/** Sorts the jobs so that each one follows its dependencies. */
function inOrder(jobs: readonly ScheduledJob[]): readonly ScheduledJob[] {
  const ordered = new Set<ScheduledJob>();
  function place(scheduled: ScheduledJob): void {
    for (const name of scheduled.job.after) {
      const other = jobs.find(({ job }) => job.name === name);
      if (other !== undefined) place(other);
    }
    ordered.add(scheduled);
  }
  for (const each of jobs) place(each);
  return [...ordered];
}

/** Returns the next time of the job, including jitter; undefined if there is none. */
export function nextTime({ job, occurrences }: ScheduledJob, handledUntil: number, now: number): number | undefined {
  let next: number | undefined;
  for (const each of occurrences.after(Math.max(handledUntil, now - job.jitterMs))) {
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

/**
 * The occurrences of a job: a cron expression on the clock of a time zone, as instants.
 *
 * A time on the clock comes once on each of its days. If the clock is set forward over it, it comes when it would have come
 * without the change. If the clock is set back over it, it comes the first time. An expression that names every hour means
 * every hour that passes, through both changes.
 */
interface Occurrences {
  /** Occurrences after the instant, in order. */
  readonly after: (instant: number) => Generator<number, undefined>;
  /** Occurrences at or before the instant, the last one first. */
  readonly upTo: (instant: number) => Generator<number, undefined>;
}

/** Returns the occurrences of the job, whose cron expression must be valid. */
export function occurrencesOf({ cron, timezone }: Pick<Job, 'cron' | 'timezone'>): Occurrences {
  const times = cronTimes(cron);
  return {
    *after(instant) {
      let last = instant;
      // Times that the clock was set forward over come later than the clock says.
      const start = wallTimeAt(instant, timezone) - clockChange(instant, timezone);
      for (const next of instantsFrom(times, start, timezone, false)) {
        if (next <= last) continue;
        last = next;
        yield next;
      }
      return undefined;
    },
    *upTo(instant) {
      let last = instant + 1;
      const start = wallTimeAt(instant, timezone) + clockChange(instant, timezone) + 1;
      for (const next of instantsFrom(times, start, timezone, true)) {
        if (next >= last) continue;
        last = next;
        yield next;
      }
      return undefined;
    },
  };
}

/** The day is cut into stretches of this length. Every change of clocks in the inputs lies within one of them. */
const stretchMs = 4 * hourMs;

/** Yields the instants of the times, in order. Around a change of clocks, wall times and instants are ordered differently: sorts them there. */
function* instantsFrom({ from, everyHour }: CronTimes, start: number, timezone: string, back: boolean) {
  const inOrder = (instants: readonly number[]) => [...instants].sort((a, b) => (back ? b - a : a - b));
  let stretch = NaN;
  let isChanging = false;
  let held: number[] = [];
  for (const wall of from(start, back)) {
    const current = Math.floor(wall / stretchMs);
    if (current !== stretch) {
      yield* inOrder(held);
      held = [];
      stretch = current;
      isChanging = clockChange(instantOf(stretch * stretchMs, timezone), timezone) > 0;
    }
    if (!isChanging) yield instantOf(wall, timezone);
    else held.push(...(everyHour ? instantsOf(wall, timezone) : [instantOf(wall, timezone)]));
  }
  yield* inOrder(held);
}
