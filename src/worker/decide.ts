/** Decides what the worker must do now (pure). src/worker/worker.ts does it, records it, and calls `decide` again. */
import { crc32 } from 'node:zlib';
import {
  clockChange,
  type CronTimes,
  cronTimes,
  instantOf,
  instantsOf,
  type Job,
  type JobKind,
  wallTimeAt,
} from '../model/job.ts';
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
  /** When the first of these was due, including jitter. */
  readonly since: number;
}

export type Decision =
  /** `again`: a run of this occurrence is already on record. */
  | (DueJob & { readonly kind: 'run'; readonly late: boolean; readonly attempt: number; readonly again: boolean })
  | (DueJob & { readonly kind: 'skip'; readonly outcome: 'skipped' | 'overlapped' | 'missed'; readonly why: string })
  /** The last handled occurrence lies so far in the future that the clock must have been wrong. */
  | { readonly kind: 'forget'; readonly job: Job; readonly until: number };

/** A run that begins more than this after its time is late: the machine slept, or the worker was down. */
const onTimeMs = 5 * minuteMs;

/** If the clock is set back by more than this, it was wrong before, and what was handled under it does not count. */
const longestSetBackMs = dayMs;

const maxCounted = 1_000;

/** How long a job may find its lock held, by a run that is not of this worker, before that is a problem. */
const patienceMs = hourMs;

/** The longest pause before such a job is tried again. */
const longestPauseMs = 10 * minuteMs;

/**
 * The lock that a run of this kind takes, or it ends as `locked`. `verify` is not among them: it takes the lock of the mirror for a
 * moment at its end, and does without if that is held.
 */
const locks: Readonly<Partial<Record<JobKind, string>>> = { sync: 'mirror', publish: 'publication' };

function shareLock(one: Job, other: Job): boolean {
  return locks[one.run] !== undefined && locks[one.run] === locks[other.run];
}

/** Returns what to do now, in order. @param jobs in any order; each `after` names one of them @param states one for each job */
export function decide(
  jobs: readonly ScheduledJob[],
  states: ReadonlyMap<string, JobState>,
  now: number,
): readonly Decision[] {
  const known = new Map(states);
  const running = jobs.flatMap(({ job }) => (states.get(job.name)?.isRunning === true ? [job] : []));
  const decisions: Decision[] = [];
  for (const scheduled of inOrder(jobs)) {
    const { name } = scheduled.job;
    const state = known.get(name);
    if (state === undefined) continue;
    const decision = decideOne(scheduled, state, { jobs, known, running, now });
    if (decision === undefined) continue;
    decisions.push(decision);
    // Jobs that depend on this one wait until the decision is on record.
    if (decision.kind !== 'forget') known.set(name, { ...state, isRunning: true });
  }
  const place = new Map(jobs.map(({ job }, index) => [job, index]));
  const isBefore = (one: DueJob, other: DueJob): boolean =>
    one.since === other.since ? (place.get(one.job) ?? 0) < (place.get(other.job) ?? 0) : one.since < other.since;
  // Of those that take one lock, only the first begins. The others are still due when it has ended.
  const isNext = (one: Decision): boolean =>
    one.kind !== 'run' ||
    !decisions.some((other) => other.kind === 'run' && shareLock(one.job, other.job) && isBefore(other, one));
  return decisions.filter(isNext);
}

interface Inputs {
  readonly jobs: readonly ScheduledJob[];
  readonly known: ReadonlyMap<string, JobState>;
  /** The jobs that run, and have their locks. */
  readonly running: readonly Job[];
  readonly now: number;
}

function decideOne({ job, occurrences }: ScheduledJob, state: JobState, inputs: Inputs): Decision | undefined {
  const { now, running } = inputs;
  const isLocked = running.some((other) => shareLock(job, other));
  if (state.handledUntil > now + longestSetBackMs) return { kind: 'forget', job, until: now };
  const due = dueOccurrence(job, occurrences, state.handledUntil, now);
  if (due === undefined) return state.isRunning || isLocked ? undefined : retry(job, state, now);
  if (state.isRunning) {
    return { kind: 'skip', job, ...due, outcome: 'overlapped', why: 'the run before is still going on' };
  }
  const dependencies = job.after.map((name) => dependencyOf(name, due.occurrence, inputs));
  if (dependencies.some(({ isDone }) => !isDone)) return undefined;
  const failed = dependencies.find(({ run }) => run?.outcome !== 'complete');
  if (job.requireComplete && failed !== undefined) {
    return { kind: 'skip', job, ...due, outcome: 'skipped', why: incompleteText(failed) };
  }
  if (isLocked) return undefined;
  const late = now - expectedAt(job, due.occurrence, inputs) > onTimeMs;
  if (late && !job.catchUp) {
    return { kind: 'skip', job, ...due, outcome: 'missed', why: 'no worker was running at its time' };
  }
  return { kind: 'run', job, ...due, late, attempt: 1, again: false };
}

/** Returns the last occurrence whose time, including jitter, has come. */
function dueOccurrence(
  job: Job,
  { upTo }: Occurrences,
  handledUntil: number,
  now: number,
): Omit<DueJob, 'job'> | undefined {
  let occurrence: number | undefined;
  let skippedBefore = 0;
  let since = now;
  for (const each of upTo(now)) {
    if (each <= handledUntil || skippedBefore >= maxCounted) break;
    const time = each + jitterOf(job, each);
    if (occurrence !== undefined) skippedBefore += 1;
    else if (time <= now) occurrence = each;
    since = time;
  }
  return occurrence === undefined ? undefined : { occurrence, skippedBefore, since };
}

/** Begins the last run again, if its time has come. */
function retry(job: Job, state: JobState, now: number): Decision | undefined {
  const { latest } = state;
  const at = retryTime(job, state, now);
  if (at === undefined || at > now || latest === undefined || latest.occurrence === null) return undefined;
  const { occurrence } = latest;
  // Finding the lock held does not count: if the worker dies during the next attempt, there is one more.
  const attempt = state.lockedSince === undefined ? 2 : latest.attempt;
  const since = occurrence + jitterOf(job, occurrence);
  return { kind: 'run', job, occurrence, skippedBefore: 0, since, late: true, attempt, again: true };
}

/**
 * Returns when the last run of the job is begun again, unless its next time comes first; undefined if never. A run that ended only
 * because the worker did is run once more, at once. One that found its lock held is run again and again, after longer and longer
 * pauses.
 */
function retryTime(job: Job, { latest, lockedSince }: JobProgress, now: number): number | undefined {
  if (latest === undefined || latest.occurrence === null) return undefined;
  if (latest.outcome === 'stopped' || latest.outcome === 'killed') {
    return job.catchUp && latest.attempt === 1 ? now : undefined;
  }
  if (lockedSince === undefined) return undefined;
  if (!job.catchUp && now - latest.occurrence - jitterOf(job, latest.occurrence) > onTimeMs) return undefined;
  const ended = timeOf(latest.finishedAt);
  // If the clock was set back, nobody knows how long it has waited.
  return ended > now ? now : ended + Math.min(Math.max(ended - lockedSince, minuteMs), longestPauseMs);
}

/** Whether the last run of the job only found its lock held, and that is no problem yet. */
export function awaitsLock(job: Job, state: JobState, now: number): boolean {
  const { lockedSince, isRunning } = state;
  if (lockedSince === undefined) return false;
  return isRunning || (now - lockedSince < patienceMs && retryTime(job, state, now) !== undefined);
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
function dependencyOf(name: string, occurrence: number, { jobs, known, now }: Inputs): Dependency {
  const state = known.get(name);
  const other = jobs.find(({ job }) => job.name === name);
  const at = other?.occurrences.upTo(occurrence).next().value;
  if (state === undefined || other === undefined || at === undefined) return { name, isDone: true, run: undefined };
  const { latest } = state;
  const since = latest !== undefined && timeOf(latest.finishedAt) >= at;
  const isDone = !state.isRunning && state.handledUntil >= at && retryTime(other.job, state, now) === undefined;
  return { name, isDone, run: since ? latest : undefined };
}

/** When the job should have begun. If it waited for runs that began in time, or right after each other, it was not late. */
function expectedAt(job: Job, occurrence: number, inputs: Inputs): number {
  let expected = occurrence + jitterOf(job, occurrence);
  for (const { startedAt, finishedAt } of waitedFor(job, inputs)) {
    if (timeOf(startedAt) <= expected + onTimeMs) expected = Math.max(expected, timeOf(finishedAt));
  }
  return expected;
}

/** Returns the last runs of the jobs that this one may have waited for, directly or not, the earliest first. */
function waitedFor(job: Job, { jobs, known }: Inputs): JobRun[] {
  const found = new Set([job]);
  // What is added here is looked at, too.
  for (const each of found) {
    for (const { job: other } of jobs) {
      if (each.after.includes(other.name) || shareLock(each, other)) found.add(other);
    }
  }
  found.delete(job);
  const runs = Array.from(found, ({ name }) => known.get(name)?.latest).filter((run) => run !== undefined);
  return runs.sort((one, other) => timeOf(one.startedAt) - timeOf(other.startedAt));
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

/** Returns when the job begins next: at its next time, or when its last run is begun again; undefined if never. */
export function nextStart(scheduled: ScheduledJob, progress: JobProgress | undefined, now: number): number | undefined {
  const next = nextTime(scheduled, progress?.handledUntil ?? now, now);
  const again = progress === undefined ? undefined : retryTime(scheduled.job, progress, now);
  if (again === undefined || again <= now) return next;
  return Math.min(again, next ?? again);
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
