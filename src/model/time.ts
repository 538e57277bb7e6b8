/** Days and instants as the API writes them. Arithmetic is in UTC; a server's own time zone is a capability. */
import { setTimeout as wait } from 'node:timers/promises';
import { counted } from './text.ts';

declare const brand: unique symbol;

/** ISO 8601 UTC as the API writes it, `2026-03-11T10:00:00.000000Z`: sorts as text. */
export type Timestamp = string & { readonly [brand]: 'Timestamp' };

/** A UTC day, `2026-03-11`: sorts as text. */
export type Day = string & { readonly [brand]: 'Day' };

/** The source of time, in ms since 1970; tests pass their own. */
export interface Clock {
  now(): number;
}

export const systemClock: Clock = { now: () => Date.now() };

/**
 * Returns a clock that counts only the time that passes by the other one, so it never runs backward if that is set back.
 * It also goes on from a later time that its caller has learnt of.
 */
export function steadyClock(clock: Clock): { now(atLeast?: number): number } {
  let read = clock.now();
  let steady = read;
  return {
    now: (atLeast = steady) => {
      const now = clock.now();
      steady = Math.max(now, atLeast, steady + Math.max(0, now - read));
      read = now;
      return steady;
    },
  };
}

export const secondMs = 1_000;
export const minuteMs = 60 * secondMs;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;

const firstMs = Date.parse('0000-01-01T00:00:00Z');
const lastMs = Date.parse('9999-12-31T23:59:59.999Z');

/** Clamped to years of four digits: servers and caches may send any number. */
function isoOf(ms: number): string {
  return new Date(Math.min(Math.max(ms, firstMs), lastMs)).toISOString();
}

/** Returns the instant as the API writes it, with microseconds. */
export function timestampOf(ms: number): Timestamp {
  return `${isoOf(ms).slice(0, -1)}000Z` as Timestamp;
}

/** `2026-03-11 10:20 UTC`. */
export function minuteOf(at: Timestamp): string {
  return `${at.slice(0, 16).replace('T', ' ')} UTC`;
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

/** Returns the number of days between the two; negative if `to` is earlier. */
export function daysBetween(from: Day, to: Day): number {
  return Math.round((startOfDay(to) - startOfDay(from)) / dayMs);
}

/** Returns the earliest of the times; null if one of them is unknown, or there are none. */
export function earliest(times: readonly (Timestamp | null)[]): Timestamp | null {
  const known = times.filter((time) => time !== null);
  return known.length < times.length ? null : (known.sort()[0] ?? null);
}

const dayPattern = /^\d{4}-\d{2}-\d{2}$/;

/** Parses a day of the calendar; undefined if the text is none (`2026-02-30`). */
export function parseDay(text: string): Day | undefined {
  if (!dayPattern.test(text)) return undefined;
  const ms = Date.parse(`${text}T00:00:00Z`);
  return Number.isNaN(ms) || dayOf(ms) !== text ? undefined : (text as Day);
}

const instantPattern = /^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:?\d{2})?$/;

const offsetPattern = /(?:Z|[+-]\d{2}:?\d{2})$/;

/** Returns the instant in ms since 1970; undefined if the value is no timestamp. Without an offset it is UTC. */
export function parseInstant(value: unknown): number | undefined {
  if (typeof value !== 'string' || !instantPattern.test(value)) return undefined;
  const zoned = offsetPattern.test(value) ? value : `${value}Z`;
  const ms = Date.parse(zoned.replace(' ', 'T'));
  return Number.isNaN(ms) ? undefined : ms;
}

/** Returns the time this many ms later; earlier if negative. */
export function later(at: Timestamp, ms: number): Timestamp {
  return timestampOf((parseInstant(at) ?? 0) + ms);
}

/** Returns whether the two are one instant, however they are written. */
export function isSameTime(a: unknown, b: unknown): boolean {
  return a === b || (parseInstant(a) !== undefined && parseInstant(a) === parseInstant(b));
}

/** Returns the instant of the day and time as written, ignoring the offset. */
export function parseWritten(value: unknown): number | undefined {
  return parseInstant(typeof value === 'string' ? value.replace(offsetPattern, '') : value);
}

const unitMs: Readonly<Record<string, number>> = {
  ms: 1,
  s: secondMs,
  m: minuteMs,
  h: hourMs,
  d: dayMs,
};

/** Parses a duration such as `30s`, `10m`, `48h` or `400d` into ms; undefined if the text is none. */
export function parseDuration(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text.trim());
  const unit = unitMs[match?.[2] ?? ''];
  return match === null || unit === undefined ? undefined : Number(match[1]) * unit;
}

/** How an operator may write a point in time, in the words of errors and help. */
export const momentForms =
  'a time such as 2026-03-11T10:00:00Z or 2026-03-11 10:00, a day such as 2026-03-11, or how long ago, as in 7d';

/**
 * Returns ms since 1970. Without an offset it is UTC.
 * @param dayEnd a day stands for its last millisecond
 */
export function parseMoment(text: string, now: number, dayEnd = false): number | undefined {
  const trimmed = text.trim();
  const day = parseDay(trimmed);
  if (day !== undefined) return startOfDay(day) + (dayEnd ? dayMs - 1 : 0);
  const ago = parseDuration(trimmed);
  // A minute is its first second.
  const instant = trimmed.replace(/^(\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2})(?=$|Z|[+-])/, '$1:00');
  return ago === undefined ? parseInstant(instant) : Math.max(0, now - ago);
}

/** Returns the duration in the largest unit that it is a whole number of: `90s`, `2m`. */
export function durationText(ms: number): string {
  const units = Object.entries(unitMs).toReversed();
  const [unit, size] = units.find(([, size]) => ms >= size && ms % size === 0) ?? ['ms', 1];
  return `${ms / size}${unit}`;
}

/** `3 hours ago`, `in 1 day`: only the largest unit. The console's script writes the same. */
export function ageText(ms: number): string {
  const units = { day: dayMs, hour: hourMs, minute: minuteMs, second: secondMs };
  for (const [unit, size] of Object.entries(units)) {
    const text = counted(Math.floor(Math.abs(ms) / size), unit);
    if (Math.abs(ms) >= size) return ms < 0 ? `in ${text}` : `${text} ago`;
  }
  return 'just now';
}

/** Returns the length in the largest unit that gives at least two: `20 min`. */
export function roughLength(ms: number): string {
  if (ms >= 2 * dayMs) return `${Math.round(ms / dayMs)} days`;
  if (ms >= 2 * hourMs) return `${Math.round(ms / hourMs)} h`;
  if (ms >= 2 * minuteMs) return `${Math.round(ms / minuteMs)} min`;
  return `${Math.round(ms / secondMs)} s`;
}

/** `20 min ahead of`: how one clock compares with another; null if they differ by a minute at most. */
export function clockDifference(aheadMs: number): string | null {
  if (Math.abs(aheadMs) <= minuteMs) return null;
  return `${roughLength(Math.abs(aheadMs))} ${aheadMs > 0 ? 'ahead of' : 'behind'}`;
}

const form = 'dddd-dd-ddTdd:dd:dd.ddddddZ';
const marks = Array.from(form).flatMap((mark, at) => (mark === 'd' ? [] : [{ at, code: mark.charCodeAt(0) }]));

function digits(text: string, at: number, count: number): number {
  let value = 0;
  for (let index = at; index < at + count; index += 1) {
    const digit = text.charCodeAt(index) - 48;
    if (digit < 0 || digit > 9) return Number.NaN;
    value = value * 10 + digit;
  }
  return value;
}

const monthLengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

function daysIn(year: number, month: number): number {
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return month === 2 && isLeap ? 29 : (monthLengths[month - 1] ?? 0);
}

/** Returns seconds since 1970; NaN if the text is no such time. Many times faster than `Date.parse`. */
export function wholeSeconds(text: string): number {
  if (text.length !== form.length) return Number.NaN;
  for (const { at, code } of marks) if (text.charCodeAt(at) !== code) return Number.NaN;
  const year = digits(text, 0, 4);
  const month = digits(text, 5, 2);
  const day = digits(text, 8, 2);
  const hour = digits(text, 11, 2);
  const minute = digits(text, 14, 2);
  const second = digits(text, 17, 2);
  // Date.UTC takes years below 100 for those of the last century.
  const isTime = year >= 100 && hour < 24 && minute < 60 && second < 60 && microseconds(text) >= 0;
  if (!isTime || !(day >= 1 && day <= daysIn(year, month))) return Number.NaN;
  return Date.UTC(year, month - 1, day, hour, minute, second) / 1000;
}

/** Returns the microseconds after the whole seconds. */
export function microseconds(text: string): number {
  return digits(text, 20, 6);
}

function withMicroseconds(seconds: number, text: string): bigint {
  const rest = microseconds(text);
  // Up to the year 2255 a number holds them exactly, which is faster.
  return Math.abs(seconds) < 9e9 ? BigInt(seconds * 1e6 + rest) : BigInt(seconds) * 1_000_000n + BigInt(rest);
}

/** The same for every way to write an instant exactly: other fractions, a blank, an offset. Undefined for other text. */
export function instantMicroseconds(text: string): bigint | undefined {
  const whole = wholeSeconds(text);
  if (!Number.isNaN(whole)) return withMicroseconds(whole, text);
  const [, day, time, fraction = '', zone = 'Z'] =
    /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(Z|[+-]\d\d:\d\d)?$/.exec(text) ?? [];
  if (day === undefined || time === undefined) return undefined;
  const seconds = wholeSeconds(`${day}T${time}.000000Z`);
  const shifted = Date.parse(`${day}T${time}${zone}`);
  if (Number.isNaN(seconds) || Number.isNaN(shifted)) return undefined;
  return BigInt(shifted) * 1_000n + BigInt(fraction.padEnd(6, '0'));
}

/** Rejects with the signal's reason as soon as the signal is aborted, whatever the work does. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(signal.reason as Error);
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** Resolves after `ms`, or as soon as the signal is aborted. Never rejects. */
export type Sleep = (ms: number, signal: AbortSignal) => Promise<void>;

/** The longest delay that `setTimeout` accepts. A caller that must wait longer looks at the time and sleeps again. */
const longestMs = 2 ** 31 - 1;

export const sleepFor: Sleep = (ms, signal) =>
  wait(Math.min(Math.max(0, ms), longestMs), undefined, { signal }).catch(() => {});
