/**
 * What responses to date ranges prove (pure): every rule that a server may follow is tried on them, and what all remaining
 * rules agree on is known. Section "Capabilities" of docs/architecture.md.
 */
import { addDays, type Day, dayMs, dayOf, hourMs, minuteMs, secondMs, startOfDay } from '../model/time.ts';

export type RangeEnd = 'exclusive' | 'inclusive' | 'unknown';

/** How a server reads a range: up to midnight before its last day or after it, days beginning so much before UTC's. */
interface Rule {
  readonly end: 'exclusive' | 'inclusive';
  readonly shiftMinutes: number;
}

/** A record that was seen: its identity and when it was created, ms since 1970. */
export interface Observation {
  readonly id: unknown;
  readonly at: number;
}

/** A response to a range of days. */
export interface RangeResponse {
  readonly from: Day;
  readonly to: Day;
  readonly found: readonly Observation[];
  /** `all`: nothing else is in the range; `first`, `last`: those with the least or greatest times; `some` of them. */
  readonly extent: 'all' | 'first' | 'last' | 'some';
}

export interface RangeRules {
  readonly end: RangeEnd;
  /** Minutes by which the server's days begin before UTC's: 60 where its clocks read UTC+1. */
  readonly shiftMinutes: number | 'unknown';
}

/** Clocks on earth are at most 14 hours from UTC, in steps of a quarter of an hour. */
const largestShift = 14 * 60;
const step = 15;

const rules: readonly Rule[] = (['exclusive', 'inclusive'] as const).flatMap((end) =>
  Array.from({ length: (2 * largestShift) / step + 1 }, (_, index) => ({
    end,
    shiftMinutes: index * step - largestShift,
  })),
);

/** Where a time lies by the rule; undefined on the edge, where servers differ. */
function insideOf({ end, shiftMinutes }: Rule, { from, to }: RangeResponse): (at: number) => boolean | undefined {
  const start = startOfDay(from) - shiftMinutes * minuteMs;
  const stop = startOfDay(end === 'inclusive' ? addDays(to, 1) : to) - shiftMinutes * minuteMs;
  // `<= midnight` takes the record of that instant, `<= 23:59:59` leaves out those of the day's last second.
  const edge = end === 'inclusive' ? { from: stop - secondMs, until: stop } : { from: stop, until: stop + 1 };
  return (at) => (at >= edge.from && at < edge.until ? undefined : at >= start && at < stop);
}

/** The seen records that the response does not hold, and would if they were in its range. */
function missingFrom({ extent, found }: RangeResponse, seen: readonly Observation[]): Observation[] {
  if (extent === 'some') return [];
  const times = found.map(({ at }) => at);
  // A page in order holds all up to its last record, or down to its first.
  const above = extent === 'last' ? Math.min(...times) : Number.NEGATIVE_INFINITY;
  const below = extent === 'first' ? Math.max(...times) : Number.POSITIVE_INFINITY;
  const ids = new Set(found.map(({ id }) => id));
  return seen.filter(({ id, at }) => !ids.has(id) && at > above && at < below);
}

/** Whether a rule explains all responses: what was found is in the range, and what is missing is not. */
function explainer(responses: readonly RangeResponse[], seen: readonly Observation[]): (rule: Rule) => boolean {
  const evidence = responses.map((response) => ({ response, missing: missingFrom(response, seen) }));
  return (rule) =>
    evidence.every(({ response, missing }) => {
      const inside = insideOf(rule, response);
      return response.found.every(({ at }) => inside(at) !== false) && missing.every(({ at }) => inside(at) !== true);
    });
}

/**
 * The rules that explain the responses, given every record seen in any of them or elsewhere. Where no rule does, because
 * records came and went meanwhile, nothing is known.
 * @param end where it is known already, only rules with this end are tried
 */
export function rulesFrom(
  responses: readonly RangeResponse[],
  seen: readonly Observation[],
  end: RangeEnd = 'unknown',
): RangeRules {
  const explains = explainer(responses, seen);
  const left = rules.filter((rule) => (end === 'unknown' || rule.end === end) && explains(rule));
  return {
    end: onlyOne(left.map(({ end }) => end)),
    shiftMinutes: onlyOne(left.map(({ shiftMinutes }) => shiftMinutes)),
  };
}

/** Whether known rules explain the responses, too. */
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
 * What to request first. A `day` is requested by itself; a `sample` is a range of days, of whose records the best
 * day is then chosen. Nothing may have been created in it: that proves nothing, and the day `otherwise` holds records.
 */
export type Probe =
  | { readonly kind: 'day'; readonly day: Day }
  | { readonly kind: 'sample'; readonly from: Day; readonly to: Day; readonly otherwise: Day };

/** What is known before the first range is requested. */
interface Known {
  readonly seen: readonly Observation[];
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

/** Which days to request, for one season or for both; empty where no creation time was seen. */
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

/** The best day of a sample: one whose midnights both lie among its records. */
export function bestDayOf(sample: readonly Observation[], from: Day): Day {
  const times = sample.map(({ at }) => at).sort((a, b) => a - b);
  const whole = [...new Set(times.map(dayOf))].slice(1, -1);
  return bestOf(whole, times) ?? from;
}

/** The day whose midnights have records closest on both sides, among those with records at the times below. */
function bestOf(days: readonly Day[], times: readonly number[]): Day | undefined {
  const costs = days.map((day) => ({ day, cost: bareness(times, day) + dayMs * missingTimes(times, day) }));
  return costs.sort((a, b) => a.cost - b.cost)[0]?.day;
}

/**
 * Hours of a day between which a record shows much. One around noon is on the same day wherever clocks are at most
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
