/** Which days to ask a server about, so that few answers prove much (pure). */
import { addDays, type Day, dayMs, dayOf, hourMs, startOfDay } from '../model/time.ts';
import type { Observation } from './range-evidence.ts';

/**
 * What to ask first. A `day` is asked about by itself; a `sample` is a range of days, of whose records the most telling
 * day is then chosen. Nothing may have been created in it: that proves nothing, and the day `otherwise` holds records.
 */
export type Probe =
  | { readonly kind: 'day'; readonly day: Day }
  | { readonly kind: 'sample'; readonly from: Day; readonly to: Day; readonly otherwise: Day };

/** What is known before the first range is requested. */
interface Known {
  /** Records whose creation times were seen. */
  readonly seen: readonly Observation[];
  /** Records that the server has. */
  readonly total: number;
  /** Whether lists come in order, so that the oldest and the newest record are among those seen. */
  readonly sorted: boolean;
  readonly pageSize: number;
  /** The server's time. */
  readonly now: number;
}

/**
 * The two parts of a year in which a zone with summer time has different clocks; in the months between, the clocks are
 * changed.
 */
const seasons = [
  { months: ['11', '12', '01', '02'], middle: '01-01' },
  { months: ['05', '06', '07', '08'], middle: '07-01' },
] as const;
type Season = (typeof seasons)[number];

/** Records may still be added to days later than this long ago. */
const settledMs = 3 * dayMs;
/** So many days with records show midnights from close by; with fewer, a sample of other days is worth a request. */
const enoughDays = 40;
/** Half a season at most. */
const longestSample = 45;

function isIn(season: Season, day: Day): boolean {
  return season.months.some((month) => month === day.slice(5, 7));
}

/** What to ask about, for one season or for both; empty where no creation time was seen. */
export function planProbes(known: Known): Probe[] {
  const times = known.seen.map(({ at }) => at).sort((a, b) => a - b);
  const [oldest] = times;
  const newest = times.at(-1);
  if (oldest === undefined || newest === undefined) return [];
  const settled = times.filter((time) => time < known.now - settledMs);
  const days = [...new Set((settled.length > 0 ? settled : times).map(dayOf))];
  const density = known.total / Math.max(1, (newest - oldest) / dayMs);
  const anyDay = bestOf(days, times) ?? dayOf(oldest);
  const probes = seasons.flatMap((season) => {
    const own = days.filter((day) => isIn(season, day));
    const sample =
      known.sorted && own.length < enoughDays ? sampleIn(season, known, density, oldest, newest) : undefined;
    const day = bestOf(own, times);
    const whole = day === undefined ? undefined : ({ kind: 'day', day } as const);
    const probe = sample?.kind === 'sample' ? { ...sample, otherwise: day ?? anyDay } : (sample ?? whole);
    return probe === undefined ? [] : [probe];
  });
  if (probes.length > 0) return probes;
  return [{ kind: 'day', day: anyDay }];
}

type Stretch = Extract<Probe, { kind: 'day' }> | Omit<Extract<Probe, { kind: 'sample' }>, 'otherwise'>;

/** About a page of records around the middle of the season, in the latest year that has it whole. */
function sampleIn(season: Season, known: Known, density: number, oldest: number, newest: number): Stretch | undefined {
  const most = Math.floor((0.8 * known.pageSize) / density);
  const length = Math.max(1, Math.min(longestSample, most));
  const last = Math.min(newest, known.now - settledMs);
  for (let year = Number(dayOf(last).slice(0, 4)) + 1; year >= Number(dayOf(oldest).slice(0, 4)); year -= 1) {
    const middle = `${String(year).padStart(4, '0')}-${season.middle}` as Day;
    const from = addDays(middle, -Math.floor(length / 2));
    const to = addDays(from, length);
    const inside = startOfDay(from) > oldest + dayMs && startOfDay(to) < last - dayMs;
    // Where a page holds no more than a day or two, any midnight has records close by.
    if (inside) return length < 3 ? { kind: 'day', day: from } : { kind: 'sample', from, to };
  }
  return undefined;
}

/** The most telling day of a sample: one whose midnights both lie among its records. */
export function bestDayOf(sample: readonly Observation[], from: Day): Day {
  const times = sample.map(({ at }) => at).sort((a, b) => a - b);
  const whole = [...new Set(times.map(dayOf))].slice(1, -1);
  return bestOf(whole, times) ?? from;
}

/** The day whose midnights have records closest on both sides, among those with records at telling times. */
function bestOf(days: readonly Day[], times: readonly number[]): Day | undefined {
  const costs = days.map((day) => ({ day, cost: bareness(times, day) + dayMs * missingTimes(times, day) }));
  return costs.sort((a, b) => a.cost - b.cost)[0]?.day;
}

/**
 * Hours of a day between which a record tells much. One around noon is on the same day wherever clocks are at most
 * eleven hours from UTC, so that the day is not found empty; an early one is not on the next day anywhere, so that a
 * day that is found empty by itself proves an exclusive end.
 */
const tellingHours = [
  [11, 13],
  [0, 10],
] as const;

function missingTimes(times: readonly number[], day: Day): number {
  const start = startOfDay(day);
  return tellingHours.filter(([from, to]) => {
    const first = times[firstFrom(times, start + from * hourMs)];
    return first === undefined || first >= start + to * hourMs;
  }).length;
}

/** How much around the day's two midnights lies bare of records: the less, the more exactly a response shows them. */
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
