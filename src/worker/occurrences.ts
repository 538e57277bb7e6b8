/**
 * When a job's time comes: a cron expression on the clock of a time zone, as instants. Pure, for any moment.
 *
 * A time on the clock comes once on each of its days. Where the clock is set forward over it, it comes when it would have
 * come otherwise; where the clock is set back over it, it comes the first time. An expression that names each hour means
 * every hour that passes, and follows the clock through both.
 */
import { type CronPattern, parseCron } from '../model/cron.ts';
import type { Job } from '../model/job.ts';
import { dayMs } from '../model/time.ts';
import { instantOf, instantsOf, steadyOffset, wallTimeAt } from '../model/zone.ts';

export interface Occurrences {
  /** Those after the instant, in order. */
  readonly after: (instant: number) => Generator<number, undefined>;
  /** Those at or before the instant, the last one first. */
  readonly upTo: (instant: number) => Generator<number, undefined>;
}

/** A 29th of February that must be a Monday comes once in 28 years, or 40 around a century. */
const longestSearch = 41 * 366;

/** Days of one job that are kept: a weekly one looks at nine to find the next. */
const mostDays = 16;

/** The occurrences of the job; the cron expression must be valid. */
export function occurrencesOf({ cron, timezone }: Pick<Job, 'cron' | 'timezone'>): Occurrences {
  const pattern = parseCron(cron);
  const dayAt = (instant: number) => Math.floor(wallTimeAt(instant, timezone) / dayMs) * dayMs;
  // The worker asks for the same few days again and again.
  const days = new Map<number, readonly number[]>();
  function instants(midnight: number): readonly number[] {
    const known = days.get(midnight);
    if (known !== undefined) return known;
    const found = pattern.matchesDay(midnight) ? instantsOn(midnight, pattern, timezone) : [];
    if (days.size >= mostDays) days.clear();
    days.set(midnight, found);
    return found;
  }

  return {
    *after(instant) {
      let last = instant;
      // A day earlier: what the clock was set forward over comes on the day before, where a whole day was left out.
      let midnight = dayAt(instant) - dayMs;
      for (let idle = 0; idle < longestSearch; idle += 1, midnight += dayMs) {
        for (const next of instants(midnight)) {
          if (next <= last) continue;
          last = next;
          idle = 0;
          yield next;
        }
      }
      return undefined;
    },
    *upTo(instant) {
      let last = instant + 1;
      let midnight = dayAt(instant) + dayMs;
      for (let idle = 0; idle < longestSearch; idle += 1, midnight -= dayMs) {
        for (const next of instants(midnight).toReversed()) {
          if (next >= last) continue;
          last = next;
          idle = 0;
          yield next;
        }
      }
      return undefined;
    },
  };
}

function instantsOn(midnight: number, { times, everyHour }: CronPattern, timezone: string): number[] {
  const walls = times.map((time) => midnight + time);
  const offset = steadyOffset(midnight, timezone);
  if (offset !== undefined) return walls.map((wall) => wall - offset);
  const all = everyHour
    ? walls.flatMap((wall) => instantsOf(wall, timezone))
    : walls.map((wall) => instantOf(wall, timezone));
  // A time that the clock was set forward over may come together with one that it was not.
  return [...new Set(all)].sort((a, b) => a - b);
}

/** The first occurrence after the instant; undefined where there is none in 40 years. */
export function nextOccurrence(occurrences: Occurrences, instant: number): number | undefined {
  return occurrences.after(instant).next().value;
}

/** The last occurrence at or before the instant. */
export function lastOccurrence(occurrences: Occurrences, instant: number): number | undefined {
  return occurrences.upTo(instant).next().value;
}
