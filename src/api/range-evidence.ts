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
export interface Sighting {
  readonly id: unknown;
  readonly at: number;
}

/** An answer to a range of days. */
export interface RangeAnswer {
  readonly from: Day;
  readonly to: Day;
  readonly found: readonly Sighting[];
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

/** Whether the record is in the range by the rule; undefined on the edge, where servers differ. */
function isInside({ end, shiftMinutes }: Rule, { from, to }: RangeAnswer, at: number): boolean | undefined {
  const start = startOfDay(from) - shiftMinutes * minuteMs;
  const stop = startOfDay(end === 'inclusive' ? addDays(to, 1) : to) - shiftMinutes * minuteMs;
  // `<= midnight` takes the record of that instant, `<=  23:59:59` leaves out those of the day's last second.
  if (end === 'exclusive' && at === stop) return undefined;
  if (end === 'inclusive' && at >= stop - secondMs && at < stop) return undefined;
  return at >= start && at < stop;
}

/** Whether a record not found proves that it is outside: only where the answer would have held it. */
function wouldBeFound({ extent, found }: RangeAnswer, at: number): boolean {
  switch (extent) {
    case 'all':
      return true;
    case 'first':
      return found.some((each) => each.at > at);
    case 'last':
      return found.some((each) => each.at < at);
    case 'some':
      return false;
    default:
      return extent satisfies never;
  }
}

function explains(rule: Rule, answer: RangeAnswer, seen: readonly Sighting[]): boolean {
  if (answer.found.some(({ at }) => isInside(rule, answer, at) === false)) return false;
  const found = new Set(answer.found.map(({ id }) => id));
  return seen.every(({ id, at }) => found.has(id) || isInside(rule, answer, at) !== true || !wouldBeFound(answer, at));
}

/**
 * The rules that explain the answers, given every record seen in any of them or elsewhere. Where no rule does, because
 * records came and went meanwhile, nothing is known.
 * @param end where it is known already, only rules with this end are tried
 */
export function rulesFrom(
  answers: readonly RangeAnswer[],
  seen: readonly Sighting[],
  end: RangeEnd = 'unknown',
): RangeRules {
  const left = rules.filter(
    (rule) => (end === 'unknown' || rule.end === end) && answers.every((answer) => explains(rule, answer, seen)),
  );
  return {
    end: onlyOne(left.map(({ end }) => end)),
    shiftMinutes: onlyOne(left.map(({ shiftMinutes }) => shiftMinutes)),
  };
}

/** Whether known rules explain the answers, too. */
export function agrees({ end, shiftMinutes }: RangeRules, answers: readonly RangeAnswer[], seen: readonly Sighting[]) {
  return rules.some(
    (rule) =>
      (end === 'unknown' || rule.end === end) &&
      (shiftMinutes === 'unknown' || rule.shiftMinutes === shiftMinutes) &&
      answers.every((answer) => explains(rule, answer, seen)),
  );
}

function onlyOne<T>(values: readonly T[]): T | 'unknown' {
  const [first, ...others] = new Set(values);
  return first === undefined || others.length > 0 ? 'unknown' : first;
}
