/** Turns the `date` parameter of a list into a condition in SQL, by the rules that the switches set. */
import {
  addDays,
  type Day,
  dayMs,
  dayOf,
  minuteMs,
  parseDay,
  startOfDay,
  timestampOf,
} from '../../../src/model/time.ts';
import type { Condition } from '../../../src/sandbox/date-filter.ts';
import { invalid, serverError } from '../../../src/sandbox/envelope.ts';
import type { Bends } from './bends.ts';

const everything: Condition = { sql: '', values: [] };
const nothing: Condition = { sql: '0', values: [] };

const dayMonthYear = /^(\d{1,2})-(\d{1,2})-(\d{4})$/;

function readDay(text: string, format: Bends['date_format']): Day | undefined {
  const match = dayMonthYear.exec(text);
  if (match !== null) {
    if (format === 'iso') return undefined;
    const [, day = '', month = '', year = ''] = match;
    return parseDay(`${year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`);
  }
  return format === 'dmy' ? undefined : parseDay(text);
}

/** What a server does with a day that it cannot read. */
function unreadable(rule: Bends['date_unreadable'], text: string): Condition {
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

function range(first: Day, last: Day, behaviour: Bends): Condition {
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

function preset(text: string, behaviour: Bends, now: number): Condition | undefined {
  const shift = behaviour.timezone_minutes * minuteMs;
  const today = dayOf(now + shift);
  const wholeDay = (day: Day): Condition => between(startOfDay(day) - shift, startOfDay(day) - shift + dayMs, '<');
  if (text === 'today') return wholeDay(today);
  if (text === 'yesterday') return wholeDay(addDays(today, -1));
  const days = /^(3|7|14|30|90)days$/.exec(text)?.[1];
  if (days === undefined) return undefined;
  return { sql: 'created_at >= ?', values: [timestampOf(now - Number(days) * dayMs)] };
}

/** Returns the condition for a `date` parameter. Throws a Refusal if the switches say so. */
export function dateCondition(value: unknown, behaviour: Bends, now: number): Condition {
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
