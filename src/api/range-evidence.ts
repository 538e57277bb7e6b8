/**
 * Concludes from responses how a server reads date ranges (pure). Every rule that a server may follow is tried on them;
 * what all fitting rules agree on is known. Section "Capabilities" of docs/architecture.md.
 */
import { addDays, type Day, dayMs, dayOf, hourMs, minuteMs, secondMs, startOfDay } from '../model/time.ts';

export type RangeEnd = 'exclusive' | 'inclusive' | 'unknown';

/** How a server may read a range: whether its last day belongs to it, and how much earlier than in UTC days begin. */
interface Rule {
  readonly end: 'exclusive' | 'inclusive';
  readonly shiftMinutes: number;
}

/** A record that was seen: its id and its creation time, ms since 1970. */
export interface Observation {
  readonly id: unknown;
  readonly at: number;
}

/** A response to a range of days. */
export interface RangeResponse {
  readonly from: Day;
  readonly to: Day;
  readonly found: readonly Observation[];
  /** Which of the range's records were found: all, those with the earliest or the latest times, or any. */
  readonly extent: 'all' | 'first' | 'last' | 'some';
}

export interface RangeRules {
  readonly end: RangeEnd;
  /** How many minutes earlier than in UTC the server's days begin: 60 if its clocks read UTC+1. */
  readonly shiftMinutes: number | 'unknown';
}

/** Time zones are at most 14 hours from UTC, in steps of a quarter of an hour. */
const largestShift = 14 * 60;
const step = 15;

const rules: readonly Rule[] = (['exclusive', 'inclusive'] as const).flatMap((end) =>
  Array.from({ length: (2 * largestShift) / step + 1 }, (_, index) => ({
    end,
    shiftMinutes: index * step - largestShift,
  })),
);

/** Returns whether the rule puts a time inside the range; undefined on the edge, where servers differ. */
function insideOf({ end, shiftMinutes }: Rule, { from, to }: RangeResponse): (at: number) => boolean | undefined {
  const start = startOfDay(from) - shiftMinutes * minuteMs;
  const stop = startOfDay(end === 'inclusive' ? addDays(to, 1) : to) - shiftMinutes * minuteMs;
  // `<= midnight` includes a record of that instant; `<= 23:59:59` leaves out those within the last second of the day.
  const edge = end === 'inclusive' ? { from: stop - secondMs, until: stop } : { from: stop, until: stop + 1 };
  return (at) => (at >= edge.from && at < edge.until ? undefined : at >= start && at < stop);
}

/** Returns the seen records that the response would hold if they were in its range, but does not. */
function missingFrom({ extent, found }: RangeResponse, seen: readonly Observation[]): Observation[] {
  if (extent === 'some') return [];
  const times = found.map(({ at }) => at);
  // An ordered page holds every record up to its last one (or down to its first).
  const above = extent === 'last' ? Math.min(...times) : Number.NEGATIVE_INFINITY;
  const below = extent === 'first' ? Math.max(...times) : Number.POSITIVE_INFINITY;
  const ids = new Set(found.map(({ id }) => id));
  return seen.filter(({ id, at }) => !ids.has(id) && at > above && at < below);
}

/** Returns a predicate: whether a rule explains all responses, with every found record inside the range and no missing one. */
function explainer(responses: readonly RangeResponse[], seen: readonly Observation[]): (rule: Rule) => boolean {
  const evidence = responses.map((response) => ({ response, missing: missingFrom(response, seen) }));
  return (rule) =>
    evidence.every(({ response, missing }) => {
      const inside = insideOf(rule, response);
      return response.found.every(({ at }) => inside(at) !== false) && missing.every(({ at }) => inside(at) !== true);
    });
}

/**
 * Returns what all rules that explain the responses agree on. If no rule explains them, because records came and went
 * meanwhile, nothing is known.
 * @param seen every record that was seen, in these responses or elsewhere
 * @param end if it is already known, only rules with this end are tried
 */
export function rulesFrom(
  responses: readonly RangeResponse[],
  seen: readonly Observation[],
  end: RangeEnd = 'unknown',
): RangeRules {
  const explains = explainer(responses, seen);
  const fitting = rules.filter((rule) => (end === 'unknown' || rule.end === end) && explains(rule));
  return {
    end: onlyOne(fitting.map(({ end }) => end)),
    shiftMinutes: onlyOne(fitting.map(({ shiftMinutes }) => shiftMinutes)),
  };
}

/** Whether the known rules also explain the responses. */
export function agrees(
  { end, shiftMinutes }: RangeRules,
  responses: readonly RangeResponse[],
  seen: readonly Observation[],
) {
  const explains = explainer(responses, seen);
  return rules.some(
    (rule) =>
      (end === 'unknown' || rule.end === end) &&
      (shiftMinutes === 'unknown' || rule.shiftMinutes === shiftMinutes) &&
      explains(rule),
  );
}

function onlyOne<T>(values: readonly T[]): T | 'unknown' {
  const [first, ...others] = new Set(values);
  return first === undefined || others.length > 0 ? 'unknown' : first;
}

/**
 * What to request first. A `day` is requested by itself. A `sample` is a range of days; the best day among its records is
 * requested next. If it holds no record, which proves nothing, `otherwise` is a day that is known to hold one.
 */
export type Probe = Stretch & { readonly otherwise: Day };

type Stretch =
  | { readonly kind: 'day'; readonly day: Day }
  | { readonly kind: 'sample'; readonly from: Day; readonly to: Day };

/** What is known before the first request of a range. */
interface Known {
  readonly seen: readonly Observation[];
  readonly total: number;
  /** Whether lists come in order: then the oldest and the newest record are among those seen. */
  readonly sorted: boolean;
  readonly pageSize: number;
  /** The server's time. */
  readonly now: number;
}

/**
 * The two parts of a year in which the clocks of a zone with summer time differ. In the months between, they are changed.
 */
const seasons = [
  { months: ['11', '12', '01', '02'], middle: '01-01' },
  { months: ['05', '06', '07', '08'], middle: '07-01' },
] as const;
type Season = (typeof seasons)[number];

/** Records may still be added to days later than this long ago. */
const settledMs = 3 * dayMs;
/** With this many days, some have records close to midnight. With fewer, a sample of other days is worth a request. */
const enoughDays = 40;
/** Longest sample, days. */
const longestSample = 45;

function isIn(season: Season, day: Day): boolean {
  return season.months.some((month) => month === day.slice(5, 7));
}

/** Returns which days to request, for one season or both; empty if no creation time was seen. */
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
    const stretch = sample ?? (day === undefined ? undefined : ({ kind: 'day', day } as const));
    return stretch === undefined ? [] : [{ ...stretch, otherwise: day ?? anyDay }];
  });
  return probes.length > 0 ? probes : [{ kind: 'day', day: anyDay, otherwise: anyDay }];
}

/** Returns days that hold about a page of records, around the middle of the season, in the latest year that covers them. */
function sampleIn(season: Season, known: Known, density: number, oldest: number, newest: number): Stretch | undefined {
  const most = Math.floor((0.8 * known.pageSize) / density);
  const length = Math.max(1, Math.min(longestSample, most));
  const last = Math.min(newest, known.now - settledMs);
  for (let year = Number(dayOf(last).slice(0, 4)) + 1; year >= Number(dayOf(oldest).slice(0, 4)); year -= 1) {
    const middle = `${String(year).padStart(4, '0')}-${season.middle}` as Day;
    const from = addDays(middle, -Math.floor(length / 2));
    const to = addDays(from, length);
    const inside = startOfDay(from) > oldest + dayMs && startOfDay(to) < last - dayMs;
    // If a page holds no more than a day or two, there are records close to any midnight.
    if (inside) return length < 3 ? { kind: 'day', day: from } : { kind: 'sample', from, to };
  }
  return undefined;
}

/** Returns the best day of a sample with records: if possible, one with records before and after both of its midnights. */
export function bestDayOf(sample: readonly Observation[], otherwise: Day): Day {
  const times = sample.map(({ at }) => at).sort((a, b) => a - b);
  const days = [...new Set(times.map(dayOf))];
  return bestOf(days.slice(1, -1), times) ?? days[0] ?? otherwise;
}

/** Returns the day with records closest to its midnights on both sides; days with records in all telling hours come first. */
function bestOf(days: readonly Day[], times: readonly number[]): Day | undefined {
  const costs = days.map((day) => ({ day, cost: gapsAround(times, day) + dayMs * missingTimes(times, day) }));
  return costs.sort((a, b) => a.cost - b.cost)[0]?.day;
}

/**
 * Hours in which a record proves most. One around noon is on the same day in every zone up to eleven hours from UTC, so the
 * day does not come back empty. An early one is not on the next day in any zone, so a day that comes back empty by itself
 * proves an exclusive end.
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

/** Returns the length of time without records around the day's midnights, ms: the shorter, the better they can be located. */
function gapsAround(times: readonly number[], day: Day): number {
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
