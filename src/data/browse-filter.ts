/** The conditions of a filter form, as SQL. */
import { UsageError } from '../model/errors.ts';
import type { Cell, Relation } from './reading-types.ts';
import { quoteName, quoteText } from '../store/schema.ts';
import { declaredTypes, sqlTypeIn } from './column-type.ts';

/** The comparisons and their labels, in the order of the form. */
export const operators = {
  is: 'is',
  'is-not': 'is not',
  contains: 'contains',
  begins: 'begins with',
  more: 'is more than',
  'at-least': 'is at least',
  less: 'is less than',
  'at-most': 'is at most',
  empty: 'is empty',
  filled: 'is not empty',
} as const;
export type Operator = keyof typeof operators;

export interface Filter {
  readonly column: string;
  readonly operator: Operator;
  readonly value: string;
}

/** The longest value of a filter, in characters. */
export const longestValue = 1_000;

export function literal(value: Cell): string {
  if (value === null || value instanceof Uint8Array) return 'NULL';
  if (typeof value !== 'string') return String(value);
  if (value.includes('\0')) throw new UsageError('a value holds a NUL character, which no filter can find');
  return quoteText(value);
}

const signs = { is: '=', more: '>', 'at-least': '>=', less: '<', 'at-most': '<=' } as const;

/** Whether an index can serve the comparison. */
export function isRange(operator: Operator): boolean {
  return operator === 'begins' || operator in signs;
}

/** Throws a UsageError for a value that does not fit its column. */
export function conditionsOf(relation: Relation, filters: readonly Filter[]): string[] {
  const types = declaredTypes(
    filters.map(({ column }) => ({ name: column, table: null, origin: null })),
    [relation],
    { relation: relation.name },
  );
  return filters.map((filter, at) =>
    conditionSql(
      types[at] === 'time' ? timeFilter(filter) : filter,
      sqlTypeIn([relation], relation.name, filter.column)?.toUpperCase() ?? '',
    ),
  );
}

const partOfTime = /^\d{4}(?:-\d\d(?:-\d\d(?:T\d\d(?::\d\d(?::\d\d(?:\.\d{1,6})?)?)?)?)?)?$/;

/**
 * Times are compared as texts, so a day (or any other beginning of a time) must stand for all times that begin with it. Throws a
 * UsageError for an order comparison with a text that is no time: its result would be arbitrary.
 */
function timeFilter(filter: Filter): Filter {
  const { column, operator, value } = filter;
  const text = value.trim().replace(' ', 'T').replace(/Z$/, '');
  if (!(operator in signs)) return filter;
  if (partOfTime.test(text)) {
    if (operator === 'is') return { column, operator: 'begins', value: text };
    return { column, operator, value: operator === 'more' || operator === 'at-most' ? `${text}\u{10FFFF}` : text };
  }
  // A column of times may hold other text, which can be searched for.
  if (operator === 'is') return filter;
  throw new UsageError(`${column} holds times, and "${value}" is not a time`, {
    advice: 'Write a day as in 2026-03-11, or a time (UTC) as in 2026-03-11 14:30.',
  });
}

/** Returns the condition as SQL, with the value quoted, so that it cannot be anything but a value. */
function conditionSql({ column, operator, value }: Filter, type: string): string {
  const name = quoteName(column);
  if (value.length > longestValue) {
    throw new UsageError(`the value for ${column} is longer than ${longestValue} characters`);
  }
  switch (operator) {
    case 'empty':
      return `(${name} IS NULL OR ${name} = '')`;
    case 'filled':
      return `(${name} IS NOT NULL AND ${name} <> '')`;
    case 'contains':
      return `${name} LIKE ${literal(`%${value.replaceAll(/[\\%_]/g, '\\$&')}%`)} ESCAPE '\\'`;
    case 'begins':
      // As a range, which an index can serve.
      return `(${name} >= ${literal(value)} AND ${name} < ${literal(`${value}\u{10FFFF}`)})`;
    case 'is-not':
      return type === '' ? `CAST(${name} AS TEXT) IS NOT ${literal(value)}` : `${name} IS NOT ${typed()}`;
    case 'is':
      return type === '' ? `CAST(${name} AS TEXT) = ${literal(value)}` : `${name} = ${typed()}`;
    case 'more':
    case 'at-least':
    case 'less':
    case 'at-most': {
      const sign = signs[operator];
      if (type !== '') return `${name} ${sign} ${typed()}`;
      return decimal.test(value.trim())
        ? `(typeof(${name}) <> 'text' AND ${name} ${sign} ${Number(value)})`
        : `(typeof(${name}) = 'text' AND ${name} ${sign} ${literal(value)})`;
    }
  }

  function typed(): string {
    const text = value.trim();
    if (type.startsWith('INTEGER') && !whole.test(text)) {
      throw new UsageError(`${column} holds whole numbers, and "${value}" is not one`);
    }
    if (type.startsWith('REAL') && !decimal.test(text)) {
      throw new UsageError(`${column} holds numbers, and "${value}" is not one`, { advice: 'Write it as in 12.50.' });
    }
    if (type.startsWith('INTEGER')) return String(BigInt(text));
    return type.startsWith('REAL') ? String(Number(text)) : literal(value);
  }
}

const whole = /^-?\d{1,18}$/;
const decimal = /^-?\d{1,15}(?:\.\d{1,15})?$/;
