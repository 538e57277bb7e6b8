/**
 * What answers to date ranges prove (pure): every rule that a server may follow is tried on them, and what all remaining
 * rules agree on is known. Section "Capabilities" of docs/architecture.md.
 */
import { addDays, type Day, minuteMs, secondMs, startOfDay } from '../model/time.ts';

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

/** Whether a rule explains all answers: what was found is in the range, and what is missing is not. */
function explainer(answers: readonly RangeResponse[], seen: readonly Observation[]): (rule: Rule) => boolean {
  const evidence = answers.map((response) => ({ response, missing: missingFrom(response, seen) }));
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
  answers: readonly RangeResponse[],
  seen: readonly Observation[],
  end: RangeEnd = 'unknown',
): RangeRules {
  const explains = explainer(answers, seen);
  const left = rules.filter((rule) => (end === 'unknown' || rule.end === end) && explains(rule));
  return {
    end: onlyOne(left.map(({ end }) => end)),
    shiftMinutes: onlyOne(left.map(({ shiftMinutes }) => shiftMinutes)),
  };
}

/** Whether known rules explain the responses, too. */
export function agrees(
  { end, shiftMinutes }: RangeRules,
  answers: readonly RangeResponse[],
  seen: readonly Observation[],
) {
  const explains = explainer(answers, seen);
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
