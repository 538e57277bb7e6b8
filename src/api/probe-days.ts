/** Which days to ask a server about, so that few answers prove much (pure). */
import { addDays, type Day, dayMs, dayOf, daysBetween, hourMs, startOfDay } from '../model/time.ts';
import type { Sighting } from './range-evidence.ts';

/** Months in which clocks stand the same all over a hemisphere; in between they are changed. */
const seasonOfMonth = [
  'turn',
  'turn',
  undefined,
  undefined,
  'half',
  'half',
  'half',
  'half',
  undefined,
  undefined,
  'turn',
  'turn',
];

/** `turn` and `half` of the year: the two in which a zone with summer time has different clocks. */
export function seasonOf(day: Day): string | undefined {
  return seasonOfMonth[Number(day.slice(5, 7)) - 1];
}

/** Records may still be added to days later than this long ago. */
const settledMs = 3 * dayMs;

/** How much of a day's two midnights lies bare of records: the less, the more exactly an answer shows where they are. */
function bareness(times: readonly number[], day: Day): number {
  const midnights = [startOfDay(day), startOfDay(addDays(day, 1))];
  const after = midnights.map((midnight) => (times[firstFrom(times, midnight)] ?? Number.POSITIVE_INFINITY) - midnight);
  const before = midnights.map(
    (midnight) => midnight - (times[firstFrom(times, midnight) - 1] ?? Number.NEGATIVE_INFINITY),
  );
  return Math.min(dayMs, ...after) + Math.min(dayMs, ...before);
}

function firstFrom(times: readonly number[], time: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((times[middle] ?? 0) < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** In the middle of the day: it is the same day wherever clocks are at most eleven hours from UTC. */
function isMidday(time: number): boolean {
  const hours = (time - startOfDay(dayOf(time))) / hourMs;
  return hours >= 11 && hours < 13;
}

/**
 * The days to ask about: the most telling one, and, where there is one, another of the other season, in which the
 * server's clocks may stand differently. Empty where nothing was seen.
 * @param seen records whose creation times are known
 * @param dense whether days are so full that any day between the oldest and the newest holds records all over
 */
export function probeDays(seen: readonly Sighting[], now: number, dense: boolean): Day[] {
  const times = seen.map(({ at }) => at).sort((a, b) => a - b);
  const [oldest] = times;
  const newest = times.at(-1);
  if (oldest === undefined || newest === undefined) return [];
  const settled = times.filter((time) => time < now - settledMs);
  const candidates = dense
    ? daysInside(dayOf(oldest), dayOf(Math.min(newest, now - settledMs)))
    : [...new Set((settled.length > 0 ? settled : times).map(dayOf))];
  const middays = new Set(times.filter(isMidday).map(dayOf));
  // A day without a record at its middle is asked about only where there is no other.
  const cost = (day: Day) => bareness(times, day) + (middays.has(day) ? 0 : dayMs);
  const ranked = dense ? candidates : candidates.sort((a, b) => cost(a) - cost(b) || (a < b ? -1 : 1));
  const first = ranked.find((day) => seasonOf(day) !== undefined) ?? ranked[0] ?? dayOf(oldest);
  const other = ranked.find((day) => seasonOf(day) !== undefined && seasonOf(day) !== seasonOf(first));
  return other === undefined || seasonOf(first) === undefined ? [first] : [first, other];
}

/** Days well inside the history, from its middle outwards. */
function daysInside(oldest: Day, newest: Day): Day[] {
  const width = daysBetween(oldest, newest);
  const middle = Math.floor(width / 2);
  const days = Array.from({ length: Math.max(0, width - 1) }, (_, index) => index + 1);
  return days.sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle)).map((count) => addDays(oldest, count));
}
