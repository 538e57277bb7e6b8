/**
 * The worker's jobs: commands as data, and their times: cron expressions on the clocks of time
 * zones, read by cron-parser. src/worker/decide.ts works out from both when a job runs.
 */
import { messageOf } from './errors.ts';
import { hourMs, minuteMs, secondMs } from './time.ts';
import { createRequire } from 'node:module';
import type * as CronParser from 'cron-parser';

export const jobKinds = ['sync', 'export', 'verify', 'snapshot', 'backup', 'publish'] as const;
export type JobKind = (typeof jobKinds)[number];

/** A job of the settings. Plain data. */
export interface Job {
  readonly name: string;
  readonly run: JobKind;
  readonly call: CommandCall;
  readonly cron: string;
  /** The time zone of the expression. */
  readonly timezone: string;
  /** Jobs of the same settings that must be done with the same night before this one begins. */
  readonly after: readonly string[];
  /** Whether the job is left out if one of those was not complete. */
  readonly requireComplete: boolean;
}

/** A command as data: what somebody wrote stays a value in it, and never becomes an option or another command. */
export interface CommandCall {
  /** `['bulk', 'run']` */
  readonly path: readonly string[];
  /** `['users']` */
  readonly operands: readonly string[];
  /** By the names of the flags: `{ output: 'users.csv', gzip: true, param: ['from=2026-01-01'] }`. */
  readonly options: Readonly<Record<string, true | string | readonly string[]>>;
}

/** Returns the words after `admin-mirror`, in which no value can be taken for a flag: each stands in the word of its flag. */
export function wordsOf({ path, operands, options }: CommandCall): string[] {
  const flags = Object.entries(options).flatMap(([name, value]) =>
    value === true ? [`--${name}`] : [value].flat().map((each) => `--${name}=${each}`),
  );
  return [...path, ...flags, '--', ...operands];
}

/** Returns the command as a person would type it. */
export function commandText({ path, operands, options }: CommandCall): string {
  const flags = Object.entries(options).flatMap(([name, value]) =>
    value === true ? [`--${name}`] : [value].flat().flatMap((each) => [`--${name}`, each]),
  );
  const isPlain = operands.every((each) => !each.startsWith('-'));
  const words = isPlain ? [...path, ...operands, ...flags] : [...path, ...flags, '--', ...operands];
  return ['admin-mirror', ...words].map(quoted).join(' ');
}

/** Returns the word quoted for a shell if it needs that. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

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

/** Returns whether a time zone has this name: `Europe/Berlin`, `UTC`. */
export function isTimeZone(name: string): boolean {
  try {
    formatOf(name);
    return true;
  } catch {
    return false;
  }
}

/** Returns the zone that the variable TZ names, or else that of the machine; undefined if there is no such zone. */
export function ownTimeZone(variable: string | undefined): string | undefined {
  if (variable === '') return 'UTC';
  // If Intl does not know the machine's zone, this is undefined, or Etc/Unknown, which Intl refuses.
  const { timeZone: own } = new Intl.DateTimeFormat().resolvedOptions() as { readonly timeZone?: string };
  const zone = variable?.replace(/^:/, '') ?? own ?? '';
  if (!/^[a-z]/i.test(zone) || !isTimeZone(zone)) return undefined;
  // Other programs of the machine take a name in another case as UTC.
  const { timeZone: known } = formatOf(zone).resolvedOptions();
  return zone !== known && zone.toLowerCase() === known.toLowerCase() ? undefined : zone;
}

/** Returns the names of all time zones, to suggest one for a misspelt name. */
export function timeZoneNames(): readonly string[] {
  return ['UTC', ...Intl.supportedValuesOf('timeZone')];
}

/** How far a clock in the zone is ahead of UTC at the instant, ms. */
function offsetAt(instant: number, zone: string): number {
  const parts: Record<string, number> = {};
  for (const { type, value } of formatOf(zone).formatToParts(instant)) parts[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(instant / secondMs) * secondMs;
}

/** `2026-03-29 02:15:00 +01:00`: what a clock in the zone shows at the instant, with its offset from UTC. */
export function wallText(instant: number, zone: string): string {
  const offset = offsetAt(instant, zone);
  const minutes = Math.round(offset / minuteMs);
  const two = (value: number) => String(Math.floor(value)).padStart(2, '0');
  const distance = Math.abs(minutes);
  const local = new Date(instant + offset).toISOString().slice(0, 19).replace('T', ' ');
  return `${local} ${minutes < 0 ? '-' : '+'}${two(distance / 60)}:${two(distance % 60)}`;
}

/** Loads cron-parser only if there is an expression: loading takes 15 ms, and every command reads settings. */
function parse(text: string, currentDate: Date, tz = 'UTC'): CronParser.CronExpression {
  const { CronExpressionParser } = createRequire(import.meta.url)('cron-parser') as typeof CronParser;
  return CronExpressionParser.parse(text, { tz, currentDate });
}

/** Returns why the text is no valid cron expression; undefined if it is one. */
export function cronProblem(text: string): { readonly problem: string; readonly advice: string } | undefined {
  const advice = 'Write minute, hour, day of the month, month and weekday: "15 2 * * *" is each night at 02:15.';
  const fields = text.trim().split(/\s+/);
  const isNamed = text.startsWith('@');
  if (!isNamed && fields.length !== 5 && fields.length !== 6) {
    return { problem: `it has ${fields.length} fields, not five, or six with seconds`, advice };
  }
  // In other programs, H stands for a time that the program chooses.
  if (fields.some((field) => /^H/i.test(field))) return { problem: 'H stands for no time', advice };
  try {
    const { dayOfMonth, dayOfWeek } = parse(text, new Date(0)).fields;
    if (isNamed || dayOfMonth.isWildcard || dayOfWeek.isWildcard) return undefined;
  } catch (error) {
    return { problem: messageOf(error), advice };
  }
  return {
    problem: 'it names days of the month and weekdays, which means either in some programs and both in others',
    advice:
      'For either, write two jobs. For both, number the weekday: "0 4 * * 0#1" is the first Sunday of each month.',
  };
}

type Times = Pick<Job, 'cron' | 'timezone'>;

/** Longer than twice any change of clocks, but for the day that a zone left out. */
const changeMs = 5 * hourMs;

/**
 * Yields the times of the job after the instant, in order. The cron expression must be valid.
 *
 * A time on the clock comes once on each of its days. If the clock is set forward over it, it comes when it would have come
 * without the change. If the clock is set back over it, it comes the first time. An expression that names every hour means
 * every hour that passes, through both changes.
 */
export function* timesAfter({ cron, timezone }: Times, instant: number): Generator<number, undefined> {
  // cron-parser knows this only if it has seen the clock before the change.
  const hasChanged = offsetAt(instant - changeMs, timezone) !== offsetAt(instant, timezone);
  const expression = parse(cron, new Date(hasChanged ? instant - changeMs : instant), timezone);
  for (;;) {
    let next: number;
    try {
      next = expression.next().getTime();
    } catch {
      // cron-parser found none within decades.
      return undefined;
    }
    if (next > instant) yield next;
  }
}

/** Returns the first time of the job after the instant; undefined if there is none. */
export function nextTime(times: Times, instant: number): number | undefined {
  return timesAfter(times, instant).next().value;
}
