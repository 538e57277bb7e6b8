/** `filter[key]=value` as a condition: the records whose key equals the value. */
import { type Field, type Resource } from '../model/resources.ts';
import { minuteMs, parseDay, parseInstant, startOfDay, timestampOf } from '../model/time.ts';
import type { Behaviour } from './behaviour.ts';
import type { Condition } from './dates.ts';
import { askedId } from './field-faults.ts';
import { badRequest, invalid, serverError } from './refusal.ts';
import { quoted } from './schema.ts';
import { toJson } from './serialise.ts';

/** A user counts as online for so long after being seen. */
const onlineMs = 5 * minuteMs;

const equals = (column: string, value: string): Condition => ({ sql: `${column} = ?`, values: [value] });

function timestampFilter(column: string, value: string): Condition {
  const day = parseDay(value);
  const ms = day === undefined ? parseInstant(value) : startOfDay(day);
  return ms === undefined ? { sql: '0', values: [] } : equals(column, timestampOf(ms));
}

/** JSON text as it would be stored, or undefined where it is none. */
function storedJson(value: string): string | undefined {
  try {
    return toJson(JSON.parse(value));
  } catch {
    return undefined;
  }
}

/** Whole JSON columns are compared as JSON; a list is also found by what it contains. */
function jsonFilter(column: string, value: string): Condition {
  const contains = `SELECT 1 FROM json_each(${column}) WHERE CAST(json_each.value AS TEXT) = ?`;
  return {
    sql:
      `(${column} IN (?, ?) OR ` +
      `(json_valid(${column}) AND json_type(${column}) = 'array' AND EXISTS (${contains})))`,
    values: [value, storedJson(value) ?? value, value],
  };
}

/** `data->key` and deeper, compared as text: a URL knows no numbers. */
function innerFilter(column: string, path: readonly string[], value: string): Condition {
  const json = `$.${path.map((each) => JSON.stringify(each)).join('.')}`;
  const read = `json_extract(${column}, ?)`;
  return {
    sql:
      `(CAST(${read} AS TEXT) = ? AND json_type(${column}, ?) NOT IN ('true', 'false') OR ` +
      `json_type(${column}, ?) = iif(? IN ('1', 'true'), 'true', iif(? IN ('0', 'false'), 'false', '-')))`,
    values: [json, value, json, json, value, value],
  };
}

function fieldFilter(field: Field, value: string): Condition {
  const column = quoted(field.name);
  if (value === '') return { sql: `(${column} IS NULL OR ${column} = '')`, values: [] };
  switch (field.type) {
    case 'integer':
    case 'flag':
    case 'number':
    case 'string':
      return equals(column, value);
    case 'timestamp':
      return timestampFilter(column, value);
    case 'any':
    case 'object':
    case 'strings':
      return jsonFilter(column, value);
  }
}

function onlineFilter(value: string, now: number): Condition {
  const since = timestampOf(now - onlineMs);
  if (value === '1' || value === 'true') return { sql: 'last_seen_at >= ?', values: [since] };
  return { sql: "coalesce(last_seen_at, '') < ?", values: [since] };
}

/** Splits `data->cpu` into the column and the keys inside it. */
function pathOf(key: string): { column: string; path: readonly string[] } {
  const [column = '', ...path] = key.split('->');
  return { column, path };
}

function filterCondition(resource: Resource, key: string, value: string, behaviour: Behaviour, now: number): Condition {
  const { column, path } = pathOf(key);
  if (path.length > 0) return innerFilter(quoted(column), path, value);
  if (resource.name === 'users' && key === 'is_online') return onlineFilter(value, now);
  const field = resource.fields.find((each) => each.name === key);
  if (field === undefined) throw new Error(`the filter ${key} of ${resource.name} has no field`);
  const inverted = key === 'is_subscribed' && behaviour.subscribed_filter === 'inverted';
  if (key === 'id') return fieldFilter(field, askedId(value, behaviour));
  const asked = inverted && (value === '0' || value === '1') ? String(1 - Number(value)) : value;
  return fieldFilter(field, asked);
}

function isKnown(resource: Resource, key: string): boolean {
  const { column, path } = pathOf(key);
  if (path.length === 0) return resource.filterKeys.includes(key);
  return resource.jsonColumns.includes(column) && path.every((each) => each !== '');
}

/** The conditions for `filter`. An unknown key is refused with 400, as the query builders of this family do. */
export function filterConditions(resource: Resource, filter: unknown, behaviour: Behaviour, now: number): Condition[] {
  if (filter === undefined || filter === '') return [];
  if (typeof filter !== 'object' || filter === null || Array.isArray(filter)) {
    throw invalid({ filter: ['The filter must be an array.'] });
  }
  const entries = Object.entries(filter);
  const failing = behaviour.filter_errors.split(',').map((each) => each.trim());
  const unknown = entries.map(([key]) => key).filter((key) => !isKnown(resource, key));
  if (unknown.length > 0 && behaviour.unknown_keys === 'refuse') {
    throw badRequest(
      `Requested filter(s) \`${unknown.join(', ')}\` are not allowed. ` +
        `Allowed filter(s) are \`${resource.filterKeys.join(', ')}\`.`,
    );
  }
  const conditions: Condition[] = [];
  for (const [key, value] of entries) {
    if (unknown.includes(key)) continue;
    if (failing.includes(key)) throw serverError(`SQLSTATE[42S22]: Column not found: 1054 Unknown column '${key}'`);
    if (typeof value !== 'string') throw invalid({ [`filter.${key}`]: [`The filter.${key} must be a string.`] });
    conditions.push(filterCondition(resource, key, value, behaviour, now));
  }
  return conditions;
}
