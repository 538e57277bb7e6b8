/** What is to be done now (pure). src/worker/worker.ts does it, records it, and asks again. */
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

interface Taken {
  readonly job: Job;
  /** The time of the job that this is about. */
  readonly occurrence: number;
  /** Earlier occurrences that are skipped with it and were never reported; counted up to a thousand. */
  readonly skippedBefore: number;
}

export type Decision =
  | (Taken & { readonly kind: 'run'; readonly late: boolean; readonly attempt: number })
  | (Taken & { readonly kind: 'skip'; readonly outcome: 'skipped' | 'overlapped' | 'missed'; readonly why: string })
  /** The occurrence dealt with last lies so far ahead that the clock must have been wrong then. */
  | { readonly kind: 'forget'; readonly job: Job; readonly until: number };

/** A run that begins later than this after its time is late: the machine slept, or the worker was down. */
const onTimeMs = 5 * minuteMs;

/** A clock that is set back further was wrong before; what was dealt with under it says nothing about the days to come. */
const longestSetBackMs = dayMs;

const mostCounted = 1_000;

/** What to do now, in order. `states` knows each job. @param jobs in any order; each `after` names one of them */
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
    // Those that come after it wait until that is on record.
    if (decision.kind !== 'forget') known.set(name, { ...state, isRunning: true });
  }
  return decisions;
}

interface World {
  readonly jobs: readonly ScheduledJob[];
  readonly known: ReadonlyMap<string, JobState>;
  readonly now: number;
}

function decideOne({ job, occurrences }: ScheduledJob, state: JobState, world: World): Decision | undefined {
  const { now } = world;
  if (state.handledUntil > now + longestSetBackMs) return { kind: 'forget', job, until: now };
  const due = dueOccurrence(job, occurrences, state.handledUntil, now);
  if (due === undefined) return state.isRunning ? undefined : again(job, state);
  if (state.isRunning) {
    return { kind: 'skip', job, ...due, outcome: 'overlapped', why: 'the run before is still going on' };
  }
  const before = job.after.map((name) => precedingOf(name, due.occurrence, world));
  if (before.some(({ isDone }) => !isDone)) return undefined;
  const failed = before.find(({ run }) => run?.outcome !== 'complete');
  if (job.requireComplete && failed !== undefined) {
    return { kind: 'skip', job, ...due, outcome: 'skipped', why: incompleteWords(failed) };
  }
  const late = now - expectedAt(job, due.occurrence, before) > onTimeMs;
  if (late && !job.catchUp) {
    return { kind: 'skip', job, ...due, outcome: 'missed', why: 'no worker was running at its time' };
  }
  return { kind: 'run', job, ...due, late, attempt: 1 };
}

/** The last occurrence whose time, jitter included, has come. */
function dueOccurrence(
  job: Job,
  { upTo }: Occurrences,
  handledUntil: number,
  now: number,
): { readonly occurrence: number; readonly skippedBefore: number } | undefined {
  let occurrence: number | undefined;
  let skippedBefore = 0;
  for (const each of upTo(now)) {
    if (each <= handledUntil || skippedBefore >= mostCounted) break;
    if (occurrence !== undefined) skippedBefore += 1;
    else if (each + jitterOf(job, each) <= now) occurrence = each;
  }
  return occurrence === undefined ? undefined : { occurrence, skippedBefore };
}

/** A run that ended with the worker and not by itself is taken up once more. */
function again(job: Job, { latest }: JobState): Decision | undefined {
  if (latest === undefined || latest.occurrence === null || latest.attempt > 1 || !job.catchUp) return undefined;
  if (latest.outcome !== 'stopped' && latest.outcome !== 'killed') return undefined;
  return { kind: 'run', job, occurrence: latest.occurrence, skippedBefore: 0, late: true, attempt: 2 };
}

const timeOf = (time: string | null): number => parseInstant(time) ?? 0;

interface Preceding {
  readonly name: string;
  /** Whether nothing more will become of its occurrence. */
  readonly isDone: boolean;
  /** What became of it; undefined where it never ran since. */
  readonly run: JobRun | undefined;
}

/** The last occurrence of that job that is not later: that of the same night. */
function precedingOf(name: string, occurrence: number, { jobs, known }: World): Preceding {
  const state = known.get(name);
  const other = jobs.find(({ job }) => job.name === name);
  const at = other?.occurrences.upTo(occurrence).next().value;
  if (state === undefined || at === undefined) return { name, isDone: true, run: undefined };
  const { latest } = state;
  const since = latest !== undefined && timeOf(latest.finishedAt) >= at;
  return { name, isDone: !state.isRunning && state.handledUntil >= at, run: since ? latest : undefined };
}

/** When it should have begun; one that waited for another was not late, if the other was on its way in time. */
function expectedAt(job: Job, occurrence: number, before: readonly Preceding[]): number {
  const time = occurrence + jitterOf(job, occurrence);
  const ends = before.flatMap(({ run }) =>
    run === undefined || timeOf(run.startedAt) > time + onTimeMs ? [] : [timeOf(run.finishedAt)],
  );
  return Math.max(time, ...ends);
}

function incompleteWords({ name, run }: Preceding): string {
  if (run === undefined) return `${name} has not run since its last time`;
  return `${name} was not complete: ${run.outcome}${run.problem === null ? '' : `, ${run.problem}`}`;
}

/** Each job behind those that it comes after. */
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

/** When the job's time comes next, jitter included; undefined where it never does. */
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

/** The delay of one occurrence in ms, from 0 up to the job's jitter: drawn by lot, and always the same for the same one. */
export function jitterOf(
  { name, jitterMs, profile = '' }: Pick<Job, 'name' | 'jitterMs' | 'profile'>,
  occurrence: number,
): number {
  const lot = crc32(`${profile}${name} ${occurrence}`) / 2 ** 32;
  return Math.floor(lot * jitterMs);
}

/**
 * When a job's time comes: a cron expression on the clock of a time zone, as instants. Pure, for any moment.
 *
 * A time on the clock comes once on each of its days. Where the clock is set forward over it, it comes when it would have
 * come otherwise; where the clock is set back over it, it comes the first time. An expression that names each hour means
 * every hour that passes, and follows the clock through both.
 */
interface Occurrences {
  /** Those after the instant, in order. */
  readonly after: (instant: number) => Generator<number, undefined>;
  /** Those at or before the instant, the last one first. */
  readonly upTo: (instant: number) => Generator<number, undefined>;
}

/** The occurrences of the job; the cron expression must be valid. */
export function occurrencesOf({ cron, timezone }: Pick<Job, 'cron' | 'timezone'>): Occurrences {
  const times = cronTimes(cron);
  return {
    *after(instant) {
      let last = instant;
      // What a clock was set forward over comes later than the clock says.
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

/** What a clock is set over lies within one of these stretches of a day, wherever clocks are set. */
const stretchMs = 4 * hourMs;

/** The instants of the times, in order: around a change of clocks, times in order are not, so they are put so by stretches. */
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
