/** When the seed records were created: more of them lately, on working days and in the evening. */
import { UsageError } from '../model/errors.ts';
import { addDays, type Day, dayMs, dayOf, hourMs, minuteMs, parseDay, startOfDay, timestampOf } from '../model/time.ts';
import type { Behaviour } from './behaviour.ts';
import { invalid, serverError } from './envelope.ts';

export class SandboxClock {
  #offset = 0;
  #frozen: number | null = null;
  readonly #source: () => number;

  constructor(source: () => number = Date.now) {
    this.#source = source;
  }

  /** Milliseconds since 1970. */
  now(): number {
    return this.#frozen ?? this.#source() + this.#offset;
  }

  /** Sets the time; it runs on from there unless `frozen`. */
  set(ms: number, frozen: boolean): void {
    this.#offset = ms - this.#source();
    this.#frozen = frozen ? ms : null;
  }

  advance(ms: number): void {
    if (this.#frozen === null) this.#offset += ms;
    else this.#frozen += ms;
  }

  frozen(): boolean {
    return this.#frozen !== null;
  }
}

/** A condition in SQL with its values; an empty condition selects everything. */
export interface Condition {
  readonly sql: string;
  readonly values: readonly string[];
}

const everything: Condition = { sql: '', values: [] };
const nothing: Condition = { sql: '0', values: [] };

const dayMonthYear = /^(\d{1,2})-(\d{1,2})-(\d{4})$/;

function readDay(text: string, format: Behaviour['date_format']): Day | undefined {
  const match = dayMonthYear.exec(text);
  if (match !== null) {
    if (format === 'iso') return undefined;
    const [, day = '', month = '', year = ''] = match;
    return parseDay(`${year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`);
  }
  return format === 'dmy' ? undefined : parseDay(text);
}

function unreadable(rule: Behaviour['date_unreadable'], text: string): Condition {
  switch (rule) {
    case 'refuse':
      throw invalid({ date: [`The date "${text}" does not match the format.`] });
    case 'error':
      throw serverError(`Could not parse '${text}': Failed to parse time string`);
    case 'ignore':
      return everything;
    case 'empty':
      return nothing;
  }
}

function between(from: number, to: number, end: '<' | '<='): Condition {
  return { sql: `created_at >= ? AND created_at ${end} ?`, values: [timestampOf(from), timestampOf(to)] };
}

function range(first: Day, last: Day, behaviour: Behaviour): Condition {
  const shift = behaviour.timezone_minutes * minuteMs;
  const from = startOfDay(first) - shift;
  const midnight = startOfDay(last) - shift;
  switch (behaviour.date_end) {
    case 'midnight':
      return between(from, midnight, '<=');
    case 'exclusive':
      return between(from, midnight, '<');
    case 'day':
      return between(from, midnight + dayMs, '<');
  }
}

function preset(text: string, behaviour: Behaviour, now: number): Condition | undefined {
  const shift = behaviour.timezone_minutes * minuteMs;
  const today = dayOf(now + shift);
  const wholeDay = (day: Day): Condition => between(startOfDay(day) - shift, startOfDay(day) - shift + dayMs, '<');
  if (text === 'today') return wholeDay(today);
  if (text === 'yesterday') return wholeDay(addDays(today, -1));
  const days = /^(3|7|14|30|90)days$/.exec(text)?.[1];
  if (days === undefined) return undefined;
  return { sql: 'created_at >= ?', values: [timestampOf(now - Number(days) * dayMs)] };
}

/** The condition for a `date` parameter. Throws Refusal as the switches say. */
export function dateCondition(value: unknown, behaviour: Behaviour, now: number): Condition {
  if (value === undefined || value === '') return everything;
  if (typeof value !== 'string') throw invalid({ date: ['The date must be a string.'] });
  const text = value.trim();
  const named = preset(text, behaviour, now);
  if (named !== undefined) return named;
  const days = text.split(',').map((each) => each.trim());
  if (days.length === 2) {
    if (behaviour.date_ranges === 'ignored') return everything;
    if (behaviour.date_ranges === 'error') throw serverError('SQLSTATE[42000]: Syntax error or access violation');
  }
  const [first, last, ...more] = days.map((each) => readDay(each, behaviour.date_format));
  if (first === undefined || last === undefined || more.length > 0) return unreadable(behaviour.date_unreadable, text);
  return range(first, last, behaviour);
}

/** How busy each hour of a day is, from midnight UTC on. */
const hourWeights = [5, 3, 2, 2, 2, 3, 5, 8, 11, 13, 14, 14, 13, 13, 14, 15, 15, 15, 16, 17, 17, 15, 11, 8];
/** How busy each day of a week is, from Sunday on. */
const dayWeights = [8, 11, 12, 12, 11, 11, 9];

/** Days over which the records are spread: about three years. */
const spanDays = 1_096;

const secondTexts: string[] = [];
for (let second = 0; second < 3_600; second += 1) {
  const minutes = String(Math.floor(second / 60)).padStart(2, '0');
  secondTexts.push(`${minutes}:${String(second % 60).padStart(2, '0')}.000000Z`);
}

const hourTexts = new Map<number, string>();

/** The instant as the API writes it, cut to its second; quick, because every record has several. */
export function stamp(ms: number): string {
  const hour = Math.floor(ms / hourMs);
  let text = hourTexts.get(hour);
  if (text === undefined) {
    if (hourTexts.size > 200_000) hourTexts.clear();
    text = new Date(hour * hourMs).toISOString().slice(0, 14);
    hourTexts.set(hour, text);
  }
  return text + (secondTexts[Math.floor((ms - hour * hourMs) / 1_000)] ?? '');
}

/** From when to when nothing is created, ms; nothing where no days are given. Throws a UsageError. */
function quietDays(text: string): readonly number[] {
  if (text === '') return [];
  const days = text.split('..').map(parseDay);
  const [from, to] = days;
  if (days.length === 2 && from !== undefined && to !== undefined && from < to)
    return [startOfDay(from), startOfDay(to)];
  throw new UsageError(`the sandbox's switch quiet_days was set to "${text}", which is not two days in order`, {
    advice: 'Write it like 2025-12-20..2026-01-10; the second day is busy again.',
  });
}

/** Turns positions between 0 and 1, in rising order, into moments between three years ago and now. */
export class Calendar {
  readonly #start: number;
  readonly #end: number;
  readonly #reached: Float64Array;
  #hour = 0;

  /** @param quiet days without a record, as `2025-12-20..2026-01-10`; none where it is empty */
  constructor(now: number, quiet = '') {
    const [quietFrom = Infinity, quietTo = Infinity] = quietDays(quiet);
    this.#end = Math.floor(now / 1_000) * 1_000;
    this.#start = Math.floor((now - spanDays * dayMs) / hourMs) * hourMs;
    const hours = Math.ceil((this.#end - this.#start) / hourMs);
    this.#reached = new Float64Array(hours + 1);
    let sum = 0;
    for (let at = 0; at < hours; at += 1) {
      const from = this.#start + at * hourMs;
      // The epoch began on a Thursday.
      const day = dayWeights[(Math.floor(from / dayMs) + 4) % 7] ?? 1;
      const hour = hourWeights[Math.floor(from / hourMs) % 24] ?? 1;
      const share = Math.min(1, (this.#end - from) / hourMs);
      // Four times as many a day at the end as at the beginning.
      if (from < quietFrom || from >= quietTo) sum += day * hour * share * (1 + (3 * at) / hours);
      this.#reached[at + 1] = sum;
    }
    for (let at = 1; at <= hours; at += 1) this.#reached[at] = (this.#reached[at] ?? 0) / sum;
  }

  /** The first moment that a record can have. */
  start(): number {
    return this.#start;
  }

  /** The moment at that position, in ms, a whole second. Fastest where positions rise from call to call. */
  at(position: number): number {
    if ((this.#reached[this.#hour] ?? 0) > position) this.#hour = 0;
    while ((this.#reached[this.#hour + 1] ?? 1) < position) this.#hour += 1;
    const before = this.#reached[this.#hour] ?? 0;
    const after = this.#reached[this.#hour + 1] ?? 1;
    const within = after > before ? (position - before) / (after - before) : 0;
    const from = this.#start + this.#hour * hourMs;
    const length = Math.min(hourMs, this.#end - from);
    return Math.min(this.#end, Math.floor((from + within * length) / 1_000) * 1_000);
  }
}
