/**
 * When a job's time comes: a cron expression on the clock of a time zone, as instants. Pure, for any moment.
 *
 * A time on the clock comes once on each of its days. Where the clock is set forward over it, it comes when it would have
 * come otherwise; where the clock is set back over it, it comes the first time. An expression that names each hour means
 * every hour that passes, and follows the clock through both.
 */
import { type CronTimes, cronTimes } from '../model/cron.ts';
import type { Job } from '../model/job.ts';
import { hourMs } from '../model/time.ts';
import { clockChange, instantOf, instantsOf, wallTimeAt } from '../model/zone.ts';

export interface Occurrences {
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

/** The first occurrence after the instant; undefined where there is none in decades. */
export function nextOccurrence(occurrences: Occurrences, instant: number): number | undefined {
  return occurrences.after(instant).next().value;
}
