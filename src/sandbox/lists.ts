/** The four list operations: turns a query into a page in its envelope. */
import { isRecord } from '../model/records.ts';
import { defaultPageSize, type Field, type Resource } from '../model/resources.ts';
import { wordsIn } from '../model/text.ts';
import { minuteMs, parseDay, parseInstant, startOfDay, timestampOf } from '../model/time.ts';
import { type Condition, dateCondition } from './date-filter.ts';
import { type Response, envelopeAround, fromJson, type JsonRecord, toJson, badRequest, invalid } from './envelope.ts';
import { quoted } from './database.ts';
import { lookedUp, type SqlValue } from './records.ts';
import type { SandboxState } from './sandbox.ts';

interface Order {
  readonly sql: string;
  readonly values: readonly number[];
}

/** An order that depends on a salt, which is drawn for each request. */
const shuffled = '((id * 2654435761 + ?) % 4294967291 * 40503 % 1000003)';

function sortsIn(resource: Resource, sort: unknown): (readonly [string, string])[] {
  const isKnown = (key: string): boolean => resource.sortKeys.includes(key);
  return entriesOf('sort', sort, isKnown, resource.sortKeys).map(([key, direction]) => {
    const word = typeof direction === 'string' ? direction.toLowerCase() : '';
    if (word === 'asc' || word === 'desc' || word === 'random') return [key, word];
    throw invalid({ [`sort.${key}`]: [`The selected sort.${key} is invalid.`] });
  });
}

/** Returns the entries of an object parameter. Throws a Refusal for an unknown key. */
function entriesOf(
  name: 'sort' | 'filter',
  value: unknown,
  isKnown: (key: string) => boolean,
  allowed: readonly string[],
): [string, unknown][] {
  if (value === undefined || value === '') return [];
  if (!isRecord(value)) {
    throw invalid({ [name]: [`The ${name} must be an array.`] });
  }
  const entries: [string, unknown][] = Object.entries(value);
  const unknown = entries.map(([key]) => key).filter((key) => !isKnown(key));
  if (unknown.length > 0) {
    const verb = name === 'sort' ? 'is' : 'are';
    throw badRequest(
      `Requested ${name}(s) \`${unknown.join(', ')}\` ${verb} not allowed. Allowed ${name}(s) are \`${allowed.join(', ')}\`.`,
    );
  }
  return entries;
}

function orderOf(resource: Resource, sort: unknown, salt: () => number): Order {
  const keys = sortsIn(resource, sort);
  if (keys.length === 0) return { sql: 'id', values: [] };
  const parts: string[] = [];
  const values: number[] = [];
  for (const [key, direction] of keys) {
    if (direction === 'random') {
      parts.push(shuffled);
      values.push(salt());
    } else {
      parts.push(`${quoted(key)} ${direction === 'desc' ? 'DESC' : 'ASC'}`);
      // A unique column decides the order; later sort keys would change nothing.
      if (key === 'id' || lookedUp[resource.name].includes(key)) return { sql: parts.join(', '), values };
    }
  }
  return { sql: [...parts, 'id'].join(', '), values };
}

/** How long a user counts as online after being seen. */
const onlineMs = 5 * minuteMs;

const equals = (column: string, value: string): Condition => ({ sql: `${column} = ?`, values: [value] });

function timestampFilter(column: string, value: string): Condition {
  const day = parseDay(value);
  const ms = day === undefined ? parseInstant(value) : startOfDay(day);
  return ms === undefined ? { sql: '0', values: [] } : equals(column, timestampOf(ms));
}

function storedJson(value: string): string | undefined {
  try {
    return toJson(JSON.parse(value));
  } catch {
    return undefined;
  }
}

/** Compares a whole JSON column as JSON. An array also matches each of its elements. */
function jsonFilter(column: string, value: string): Condition {
  const contains = `SELECT 1 FROM json_each(${column}) WHERE CAST(json_each.value AS TEXT) = ?`;
  return {
    sql:
      `(${column} IN (?, ?) OR ` +
      `(json_valid(${column}) AND json_type(${column}) = 'array' AND EXISTS (${contains})))`,
    values: [value, storedJson(value) ?? value, value],
  };
}

/** Compares `data->key`, or a deeper key, as text, since a URL has no numbers. */
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

function filterCondition(resource: Resource, key: string, value: string, now: number): Condition {
  const { column, path } = pathOf(key);
  if (path.length > 0) return innerFilter(quoted(column), path, value);
  if (resource.name === 'users' && key === 'is_online') return onlineFilter(value, now);
  const field = resource.fields.find((each) => each.name === key);
  if (field === undefined) throw new Error(`the filter ${key} of ${resource.name} has no field`);
  return fieldFilter(field, value);
}

function isKnown(resource: Resource, key: string): boolean {
  const { column, path } = pathOf(key);
  if (path.length === 0) return resource.filterKeys.includes(key);
  return resource.jsonColumns.includes(column) && path.every((each) => each !== '');
}

function filterConditions(resource: Resource, filter: unknown, now: number): Condition[] {
  const known = entriesOf('filter', filter, (key) => isKnown(resource, key), resource.filterKeys);
  return known.map(([key, value]) => {
    if (typeof value !== 'string') throw invalid({ [`filter.${key}`]: [`The filter.${key} must be a string.`] });
    return filterCondition(resource, key, value, now);
  });
}

export type Query = Readonly<Record<string, unknown>>;

function wholeNumber(value: unknown): number | undefined {
  return typeof value === 'string' && /^-?\d{1,15}$/.test(value.trim()) ? Number(value) : undefined;
}

/** Returns the page size by the request and the switch. A requested size of -1 means all records. */
function pageSize({ behaviour }: SandboxState, query: Query, total: number): number {
  const requested = wholeNumber(query['paginate']);
  if (requested === undefined || requested === 0 || requested < -1) return defaultPageSize;
  const size = requested === -1 ? Math.max(1, total) : requested;
  return behaviour.page_max === 0 ? size : Math.min(size, behaviour.page_max);
}

function pageNumber(query: Query): number {
  return Math.max(1, wholeNumber(query['page']) ?? 1);
}

function includesOf(resource: Resource, query: Query): string[] {
  const value = query['include'];
  if (value === undefined || value === '') return [];
  if (typeof value !== 'string') throw invalid({ include: ['The include must be a string.'] });
  const known = resource.includes ?? [];
  const requested = [...new Set(wordsIn(value))];
  const unknown = requested.filter((each) => !known.includes(each));
  if (unknown.length > 0) {
    throw badRequest(
      `Requested include(s) \`${unknown.join(', ')}\` are not allowed. ` +
        (known.length > 0 ? `Allowed include(s) are \`${known.join(', ')}\`.` : 'There are no allowed includes.'),
    );
  }
  return requested;
}

/** Returns the related records under a name. The only relation of emails is the `user` to whom they belong. */
function relationValue(state: SandboxState, resource: Resource, record: JsonRecord, name: string): unknown {
  if (resource.name === 'users' || resource.name === 'packages') {
    return state.related.value(resource.name, record, name);
  }
  return state.tables.users.get(record['user_id'] as number) ?? null;
}

/** Returns one record as it is served: its fields, then the requested relations. */
export function servedRecord(
  state: SandboxState,
  resource: Resource,
  body: string,
  relations: readonly string[],
): string {
  if (relations.length === 0) return body;
  const record = fromJson(body);
  const parts = relations.map((name) => `${toJson(name)}:${toJson(relationValue(state, resource, record, name))}`);
  return `${body.slice(0, -1)},${parts.join(',')}}`;
}

/**
 * Handles a list request. Throws a Refusal if the query breaks a rule.
 * @param dates the condition for the parameter `date`, if it is not the usual one
 */
export function listResponse(state: SandboxState, resource: Resource, query: Query, dates?: Condition): Response {
  const table = state.tables[resource.name];
  const now = state.clock.now();
  const relations = includesOf(resource, query);
  const conditions = [
    ...filterConditions(resource, query['filter'], now),
    dates ?? dateCondition(query['date'], now),
  ].filter((each) => each.sql !== '');
  const order = orderOf(resource, query['sort'], () => state.chance.word());
  const where = conditions.map((each) => each.sql).join(' AND ');
  const values = conditions.flatMap((each) => each.values);
  for (const key of Object.keys(query['filter'] ?? {})) table.indexFor(key);
  const total = table.count(where, values);
  const perPage = pageSize(state, query, total);
  const page = pageNumber(query);
  const tail = `${where === '' ? '' : `WHERE ${where} `}ORDER BY ${order.sql} LIMIT ? OFFSET ?`;
  const offset = Math.min(Number.MAX_SAFE_INTEGER, (page - 1) * perPage);
  const records = recordsOf(state, resource, relations, tail, [...values, ...order.values, perPage, offset]);
  const facts = { path: `${state.url}${resource.path}`, page, perPage, total, count: records.count };
  const { head, tail: end } = envelopeAround(facts);
  return { status: 200, body: Buffer.concat([Buffer.from(head), records.bodies, Buffer.from(end)]) };
}

/** Reads the records of a page as they are served, joined by commas. */
function recordsOf(
  state: SandboxState,
  resource: Resource,
  relations: readonly string[],
  tail: string,
  values: readonly SqlValue[],
): { bodies: Buffer; count: number } {
  const table = state.tables[resource.name];
  if (relations.length === 0) return table.joined(tail, values);
  const texts = table.bodies(tail, values).map((body) => servedRecord(state, resource, body, relations));
  return { bodies: Buffer.from(texts.join(',')), count: texts.length };
}
