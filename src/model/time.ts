/** Days and instants as the API writes them. Arithmetic is in UTC; a server's own time zone is a capability. */
import { counted } from './counted.ts';

declare const brand: unique symbol;

/** ISO 8601 UTC as the API writes it, `2026-03-11T10:00:00.000000Z`: sorts as text. */
export type Timestamp = string & { readonly [brand]: 'Timestamp' };

/** A UTC day, `2026-03-11`: sorts as text. */
export type Day = string & { readonly [brand]: 'Day' };

/** Where the time comes from; tests pass their own. Milliseconds since 1970. */
export interface Clock {
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };

export const secondMs = 1_000;
export const minuteMs = 60 * secondMs;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

const firstMs = Date.parse('0000-01-01T00:00:00Z');
const lastMs = Date.parse('9999-12-31T23:59:59.999Z');

/** Of what lies outside of the years of four digits, the nearest within: servers and caches may send any number. */
function isoOf(ms: number): string {
  return new Date(Math.min(Math.max(ms, firstMs), lastMs)).toISOString();
}

/** The instant as the API writes it, microseconds included. */
export function timestampOf(ms: number): Timestamp {
  return `${isoOf(ms).slice(0, -1)}000Z` as Timestamp;
}

export function dayOf(ms: number): Day {
  return isoOf(ms).slice(0, 10) as Day;
}

/** Midnight UTC at the start of the day. */
export function startOfDay(day: Day): number {
  return Date.parse(`${day}T00:00:00Z`);
}

export function addDays(day: Day, count: number): Day {
  return dayOf(startOfDay(day) + count * dayMs);
}

/** How many days lie between the two; negative where `to` is earlier. */
export function daysBetween(from: Day, to: Day): number {
  return Math.round((startOfDay(to) - startOfDay(from)) / dayMs);
}

/** The earliest of the times; null where one of them is not known, or there is none. */
export function earliest(times: readonly (Timestamp | null)[]): Timestamp | null {
  const known = times.filter((time) => time !== null);
  return known.length < times.length ? null : (known.sort()[0] ?? null);
}

const dayPattern = /^\d{4}-\d{2}-\d{2}$/;

/** The text as a day of the calendar, or undefined where it is none (`2026-02-30`). */
export function parseDay(text: string): Day | undefined {
  if (!dayPattern.test(text)) return undefined;
  const ms = Date.parse(`${text}T00:00:00Z`);
  return Number.isNaN(ms) || dayOf(ms) !== text ? undefined : (text as Day);
}

const instantPattern = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:?\d{2})?$/;

/** The instant in ms since 1970, UTC where no offset is given; undefined where the value is no timestamp. */
export function parseInstant(value: unknown): number | undefined {
  if (typeof value !== 'string' || !instantPattern.test(value)) return undefined;
  const zoned = /(?:Z|[+-]\d{2}:?\d{2})$/.test(value) ? value : `${value}Z`;
  const ms = Date.parse(zoned.replace(' ', 'T'));
  return Number.isNaN(ms) ? undefined : ms;
}

const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: secondMs,
  m: minuteMs,
  h: hourMs,
  d: dayMs,
};

/** A duration such as `30s`, `10m`, `48h` or `400d` in ms; undefined where the text is none. */
export function parseDuration(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text.trim());
  const unit = unitMs[match?.[2] ?? ''];
  return match === null || unit === undefined ? undefined : Number(match[1]) * unit;
}

/** A point in time as an operator writes it - an instant, a day, or how long ago - in the words of errors and help. */
export const momentForms = 'a time such as 2026-03-11T10:00:00Z, a day such as 2026-03-11, or how long ago, as in 7d';

/** In ms since 1970, UTC where no offset is given. @param dayEnd a day stands for its last millisecond */
export function parseMoment(text: string, now: number, dayEnd = false): number | undefined {
  const trimmed = text.trim();
  const day = parseDay(trimmed);
  if (day !== undefined) return startOfDay(day) + (dayEnd ? dayMs - 1 : 0);
  const ago = parseDuration(trimmed);
  return ago === undefined ? parseInstant(trimmed) : Math.max(0, now - ago);
}

/** The duration as one would write it, in the largest unit that it is a whole number of: `90s`, `2m`. */
export function durationText(ms: number): string {
  const units = Object.entries(unitMs).toReversed();
  const [unit, size] = units.find(([, size]) => ms >= size && ms % size === 0) ?? ['ms', 1];
  return `${ms / size}${unit}`;
}

/** `3 hours ago`, `in 1 day`: the largest unit alone, which is what one look is for. The console's script says the same. */
export function ageText(ms: number): string {
  const units = { day: dayMs, hour: hourMs, minute: minuteMs, second: secondMs };
  for (const [unit, size] of Object.entries(units)) {
    const text = counted(Math.floor(Math.abs(ms) / size), unit);
    if (Math.abs(ms) >= size) return ms < 0 ? `in ${text}` : `${text} ago`;
  }
  return 'just now';
}
