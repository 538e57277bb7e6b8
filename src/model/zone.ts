/** Clocks on the wall: what a clock of some time zone shows at an instant, and when it shows a given time. */
import { dayMs, hourMs, secondMs } from './time.ts';

/** A time as a clock shows it, as if the clock were one of UTC: ms since 1970. */
export type WallTime = number;

const formats = new Map<string, Intl.DateTimeFormat>();

function formatOf(zone: string): Intl.DateTimeFormat {
  let format = formats.get(zone);
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-US', {
      timeZone: zone,
      hourCycle: 'h23',
      era: 'short',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    formats.set(zone, format);
  }
  return format;
}

/** Whether the name is that of a time zone: `Europe/Berlin`, `UTC`. */
export function isTimeZone(name: string): boolean {
  try {
    formatOf(name);
    return true;
  } catch {
    return false;
  }
}

export function ownTimeZone(): string {
  return new Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** Every time zone's name, for those who misspelt one. */
export function timeZoneNames(): readonly string[] {
  return ['UTC', ...Intl.supportedValuesOf('timeZone')];
}

/** What a clock in the zone shows at the instant, in whole seconds. */
export function wallTimeAt(instant: number, zone: string): WallTime {
  return wholeSeconds(instant) + offsetAt(instant, zone);
}

const wholeSeconds = (instant: number): number => Math.floor(instant / secondMs) * secondMs;

/** No zone is further than 14 hours from UTC, and none has changed its clocks twice within the time that this leaves. */
const apart = dayMs + 2 * hourMs;

function offsetAt(instant: number, zone: string): number {
  const day = Math.floor(instant / dayMs) * dayMs;
  const before = offsetAtMidnight(day, zone);
  return before === offsetAtMidnight(day + dayMs, zone) ? before : formattedOffsetAt(instant, zone);
}

/** By zone and midnight of UTC: a worker looks at the same few days all the time, and formatting one takes 10 µs. */
const offsets = new Map<string, number>();

function offsetAtMidnight(midnight: number, zone: string): number {
  const key = `${zone} ${midnight}`;
  let offset = offsets.get(key);
  if (offset === undefined) {
    if (offsets.size > 10_000) offsets.clear();
    offset = formattedOffsetAt(midnight, zone);
    offsets.set(key, offset);
  }
  return offset;
}

function formattedOffsetAt(instant: number, zone: string): number {
  const parts: Record<string, number> = {};
  for (const { type, value } of formatOf(zone).formatToParts(instant)) parts[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
  return Date.UTC(year, month - 1, day, hour, minute, second) - wholeSeconds(instant);
}

/**
 * The instants at which a clock in the zone shows that time, in order: one; two, where the clock is set back over it;
 * none, where it is set forward over it.
 */
export function instantsOf(wall: WallTime, zone: string): number[] {
  const offsets = new Set([offsetAt(wall - apart, zone), offsetAt(wall + apart, zone)]);
  const instants = [...offsets].map((offset) => wall - offset);
  return instants.filter((instant) => wallTimeAt(instant, zone) === wall).sort((a, b) => a - b);
}

/**
 * The one instant that stands for that time of the clock: the first of two; and where the clock is set forward over it,
 * the instant at which it would have come had the clock been left alone, so 02:30 is then what the clock calls 03:30.
 */
export function instantOf(wall: WallTime, zone: string): number {
  const [first] = instantsOf(wall, zone);
  return first ?? wall - offsetAt(wall - apart, zone);
}

/** By how much the zone's clocks are set within five hours of that instant, ms. */
export function clockChange(instant: number, zone: string): number {
  return Math.abs(offsetAt(instant - 5 * hourMs, zone) - offsetAt(instant + 5 * hourMs, zone));
}

/** `2026-03-29 02:15:00 +01:00`: the instant as a clock in the zone shows it, with its distance from UTC. */
export function wallText(instant: number, zone: string): string {
  const minutes = Math.round(offsetAt(instant, zone) / 60_000);
  const two = (value: number) => String(Math.floor(value)).padStart(2, '0');
  const distance = Math.abs(minutes);
  const shown = new Date(wallTimeAt(instant, zone)).toISOString().slice(0, 19).replace('T', ' ');
  return `${shown} ${minutes < 0 ? '-' : '+'}${two(distance / 60)}:${two(distance % 60)}`;
}
