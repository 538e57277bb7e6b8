/** Turns the `date` parameter of a list into a condition in SQL, by the rules of the API's reference. */
import { addDays, type Day, dayMs, dayOf, parseDay, startOfDay, timestampOf } from '../model/time.ts';
import { invalid } from './envelope.ts';

/** An SQL condition with its values; an empty one selects everything. */
export interface Condition {
  readonly sql: string;
  readonly values: readonly string[];
}

const everything: Condition = { sql: '', values: [] };

const dayMonthYear = /^(\d{1,2})-(\d{1,2})-(\d{4})$/;

function readDay(text: string): Day | undefined {
  const [, day, month = '', year = ''] = dayMonthYear.exec(text) ?? [];
  return parseDay(day === undefined ? text : `${year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}`);
}

function between(from: number, to: number, end: '<' | '<='): Condition {
  return { sql: `created_at >= ? AND created_at ${end} ?`, values: [timestampOf(from), timestampOf(to)] };
}

function preset(text: string, now: number): Condition | undefined {
  const wholeDay = (day: Day): Condition => between(startOfDay(day), startOfDay(day) + dayMs, '<');
  if (text === 'today') return wholeDay(dayOf(now));
  if (text === 'yesterday') return wholeDay(addDays(dayOf(now), -1));
  const days = /^(3|7|14|30|90)days$/.exec(text)?.[1];
  if (days === undefined) return undefined;
  return { sql: 'created_at >= ?', values: [timestampOf(now - Number(days) * dayMs)] };
}

/** Returns the condition for a `date` parameter. A range includes midnight at the start of its last day. Throws a Refusal. */
export function dateCondition(value: unknown, now: number): Condition {
  if (value === undefined || value === '') return everything;
  if (typeof value !== 'string') throw invalid({ date: ['The date must be a string.'] });
  const text = value.trim();
  const named = preset(text, now);
  if (named !== undefined) return named;
  const [first, last, ...more] = text.split(',').map((each) => readDay(each.trim()));
  if (first === undefined || last === undefined || more.length > 0) {
    throw invalid({ date: [`The date "${text}" does not match the format.`] });
  }
  return between(startOfDay(first), startOfDay(last), '<=');
}
