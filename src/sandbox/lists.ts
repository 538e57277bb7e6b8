/** The four list operations: turns a query into a page in its envelope. */
import { isRecord } from '../model/records.ts';
import { defaultPageSize, type Field, isResourceName, type Resource, resourceOf } from '../model/resources.ts';
import { wordsIn } from '../model/text.ts';
import { minuteMs, parseDay, parseInstant, startOfDay, timestampOf } from '../model/time.ts';
import type { Behaviour } from './behaviour.ts';
import { type Condition, dateCondition } from './date-filter.ts';
import {
  type Response,
  envelopeAround,
  fromJson,
  type JsonRecord,
  toJson,
  badRequest,
  invalid,
  serverError,
} from './envelope.ts';
import { changesFields, requestedId, withFieldFaults, withLargeId } from './record-shape.ts';
import { quoted } from './database.ts';
import { lookedUp, type SqlValue } from './records.ts';
import type { SandboxState } from './sandbox.ts';

interface Order {
  readonly sql: string;
  readonly values: readonly number[];
}

/** An order that depends on a salt, which is drawn for each request. */
const shuffled = '((id * 2654435761 + ?) % 4294967291 * 40503 % 1000003)';

function sortsIn(resource: Resource, sort: unknown, behaviour: Behaviour): (readonly [string, string])[] {
  const isKnown = (key: string): boolean => resource.sortKeys.includes(key);
  return entriesOf('sort', sort, isKnown, resource.sortKeys, behaviour).map(([key, direction]) => {
    const word = typeof direction === 'string' ? direction.toLowerCase() : '';
    if (word === 'asc' || word === 'desc' || word === 'random') return [key, word];
    throw invalid({ [`sort.${key}`]: [`The selected sort.${key} is invalid.`] });
  });
}

/** Returns the entries of an object parameter with known keys. Unknown keys are refused or ignored, by the switch. */
function entriesOf(
  name: 'sort' | 'filter',
  value: unknown,
  isKnown: (key: string) => boolean,
  allowed: readonly string[],
  behaviour: Behaviour,
): [string, unknown][] {
  if (value === undefined || value === '') return [];
  if (!isRecord(value)) {
    throw invalid({ [name]: [`The ${name} must be an array.`] });
  }
  const entries: [string, unknown][] = Object.entries(value);
  const unknown = entries.map(([key]) => key).filter((key) => !isKnown(key));
  if (unknown.length > 0 && behaviour.unknown_keys === 'refuse') {
    const verb = name === 'sort' ? 'is' : 'are';
    throw badRequest(
      `Requested ${name}(s) \`${unknown.join(', ')}\` ${verb} not allowed. Allowed ${name}(s) are \`${allowed.join(', ')}\`.`,
    );
  }
  return entries.filter(([key]) => !unknown.includes(key));
}

function orderOf(resource: Resource, sort: unknown, behaviour: Behaviour, salt: () => number): Order {
  const keys = sortsIn(resource, sort, behaviour);
  if (behaviour.sorts === 'random') return { sql: `${shuffled}, id`, values: [salt()] };
  if (behaviour.sorts === 'ignored' || keys.length === 0) return { sql: 'id', values: [] };
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
  if (behaviour.sort_ties === 'random') {
    parts.push(shuffled);
    values.push(salt());
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

function filterCondition(resource: Resource, key: string, value: string, behaviour: Behaviour, now: number): Condition {
  const { column, path } = pathOf(key);
  if (path.length > 0) return innerFilter(quoted(column), path, value);
  if (resource.name === 'users' && key === 'is_online') return onlineFilter(value, now);
  const field = resource.fields.find((each) => each.name === key);
  if (field === undefined) throw new Error(`the filter ${key} of ${resource.name} has no field`);
  const inverted = key === 'is_subscribed' && behaviour.subscribed_filter === 'inverted';
  if (key === 'id') return fieldFilter(field, requestedId(value, behaviour));
  return fieldFilter(field, inverted && (value === '0' || value === '1') ? String(1 - Number(value)) : value);
}

function isKnown(resource: Resource, key: string): boolean {
  const { column, path } = pathOf(key);
  if (path.length === 0) return resource.filterKeys.includes(key);
  return resource.jsonColumns.includes(column) && path.every((each) => each !== '');
}

function filterConditions(resource: Resource, filter: unknown, behaviour: Behaviour, now: number): Condition[] {
  const failing = wordsIn(behaviour.filter_errors);
  const known = entriesOf('filter', filter, (key) => isKnown(resource, key), resource.filterKeys, behaviour);
  return known.map(([key, value]) => {
    if (failing.includes(key)) throw serverError(`SQLSTATE[42S22]: Column not found: 1054 Unknown column '${key}'`);
    if (typeof value !== 'string') throw invalid({ [`filter.${key}`]: [`The filter.${key} must be a string.`] });
    return filterCondition(resource, key, value, behaviour, now);
  });
}

export type Query = Readonly<Record<string, unknown>>;

/** Returns how many records the page may show within the depth of the list. */
function limitOf(page: number, perPage: number, { depth, depth_over: over }: Behaviour): number {
  const left = depth === 0 ? perPage : Math.min(perPage, depth - (page - 1) * perPage);
  if (left > 0 || over === 'empty') return Math.max(0, left);
  if (over === 'error') throw serverError('Result window is too large');
  throw invalid({ page: [`No page lies beyond record ${depth}.`] });
}

function wholeNumber(value: unknown): number | undefined {
  return typeof value === 'string' && /^-?\d{1,15}$/.test(value.trim()) ? Number(value) : undefined;
}

/** Returns the page size by the request and the switches. A requested size of -1 means all records. */
function pageSize(state: SandboxState, query: Query, total: number): number {
  const { page_max: max, page_over: over } = state.behaviour;
  const requested = wholeNumber(query['paginate']);
  if (requested === undefined || requested === 0 || requested < -1 || over === 'ignore') return defaultPageSize;
  const size = requested === -1 ? Math.max(1, total) : requested;
  if (max === 0 || (size <= max && requested !== -1)) return size;
  if (over === 'clamp') return max;
  throw invalid({ paginate: [`The paginate field must not be greater than ${max}.`] });
}

function pageNumber(query: Query): number {
  return Math.max(1, wholeNumber(query['page']) ?? 1);
}

function includesOf(resource: Resource, query: Query, behaviour: Behaviour): string[] {
  const value = query['include'];
  if (value === undefined || value === '') return [];
  if (typeof value !== 'string') throw invalid({ include: ['The include must be a string.'] });
  const refused = wordsIn(behaviour.includes_refused);
  const ignored = wordsIn(behaviour.includes_ignored);
  const known = (resource.includes ?? []).filter((each) => !refused.includes(each));
  const requested = [...new Set(wordsIn(value))].filter((each) => !ignored.includes(each));
  const unknown = requested.filter((each) => !known.includes(each));
  if (unknown.length > 0 && behaviour.unknown_keys === 'refuse') {
    throw badRequest(
      `Requested include(s) \`${unknown.join(', ')}\` are not allowed. ` +
        (known.length > 0 ? `Allowed include(s) are \`${known.join(', ')}\`.` : 'There are no allowed includes.'),
    );
  }
  return requested.filter((each) => known.includes(each));
}

/** Returns the related records under a name. The only relation of emails is the `user` to whom they belong. */
function relationValue(state: SandboxState, resource: Resource, record: JsonRecord, name: string): unknown {
  if (resource.name === 'users' || resource.name === 'packages') {
    const value = state.related.value(resource.name, record, name);
    return name === 'balance_transactions' ? shownTransactions(state, value) : value;
  }
  return state.tables.users.get(record['user_id'] as number) ?? null;
}

/** Some servers never give some related records, whatever the request. */
function isShown(state: SandboxState, name: string): boolean {
  if (wordsIn(state.behaviour.includes_ignored).includes(name)) return false;
  return name !== 'balance_transactions' || state.behaviour.transactions === 'shown';
}

/** Leaves out the newest transactions, which the server does not show yet. */
function shownTransactions(state: SandboxState, value: unknown): unknown {
  const delay = state.behaviour.transactions_delay;
  if (delay === 0 || !Array.isArray(value)) return value;
  const until = state.clock.now() - delay * 1_000;
  return (value as JsonRecord[]).filter((record) => Date.parse(String(record['created_at'])) <= until);
}

/** Returns one record as it is served: its fields, changed by the switches, then the requested relations. */
export function servedRecord(
  state: SandboxState,
  resource: Resource,
  body: string,
  relations: readonly string[],
): string {
  const record = fromJson(body);
  const faulty = changesFields(state.behaviour);
  const served = faulty ? toJson(withFieldFaults(resource, record, state.behaviour, state.chance)) : body;
  const text = state.behaviour.large_ids ? withLargeId(served) : served;
  const shown = relations.filter((name) => isShown(state, name));
  if (shown.length === 0) return text;
  const parts = shown.map((name) => `${toJson(name)}:${toJson(relationValue(state, resource, record, name))}`);
  return `${text.slice(0, -1)},${parts.join(',')}}`;
}

/** Returns the total that a list states. With some switches it is not the number of records that the list shows. */
function totalOf(state: SandboxState, resource: Resource, where: string, values: readonly SqlValue[]): number {
  const { totals_more: more, totals_cap: cap, totals_cached: cached } = state.behaviour;
  const table = state.tables[resource.name];
  const key = [resource.name, where, ...values].join('\u0000');
  const now = state.clock.now();
  const remembered = state.totals.get(key);
  if (cached > 0 && remembered !== undefined && now < remembered.until) return remembered.total;
  const counted = table.count(where, values) + table.countHidden(where, values) + more;
  const total = cap === 0 ? counted : Math.min(cap, counted);
  if (cached > 0) state.totals.set(key, { total, until: now + cached * 1_000 });
  return total;
}

/** Returns the resource whose records the list shows: another one if `lists_of` says so. */
function shownIn(requested: Resource, { lists_of: lists }: Behaviour): Resource {
  const [, other = ''] =
    wordsIn(lists)
      .map((each) => each.split(':'))
      .find(([name]) => name === requested.name) ?? [];
  return isResourceName(other) ? resourceOf(other) : requested;
}

/** Replaces the id in the record's text if `same_ids` gives it the id of another record. */
function withSharedId(text: string, { name }: Resource, { same_ids: same }: Behaviour): string {
  if (same === '') return text;
  const pairs = wordsIn(same).map((each) => each.split(':'));
  return text.replace(/"id":(\d+)/, (whole, id: string) => {
    const [, , other] = pairs.find(([resource, own]) => resource === name && own === id) ?? [];
    return other === undefined ? whole : `"id":${other}`;
  });
}

/** Handles a list request. Throws a Refusal if the query breaks a rule. */
export function listResponse(state: SandboxState, requested: Resource, query: Query): Response {
  const resource = shownIn(requested, state.behaviour);
  // If the list shows another resource, that may not have the keys of the query.
  const lenient = resource === requested ? {} : ({ unknown_keys: 'ignore' } as const);
  const table = state.tables[resource.name];
  const behaviour = { ...state.behaviour, ...lenient };
  if (wordsIn(behaviour.empty_lists).includes(resource.name)) return emptyList(state, resource, query);
  const now = state.clock.now();
  const relations = includesOf(resource, query, behaviour);
  const conditions = [
    ...filterConditions(resource, query['filter'], behaviour, now),
    dateCondition(query['date'], behaviour, now),
  ].filter((each) => each.sql !== '');
  const order = orderOf(resource, query['sort'], behaviour, () => state.chance.word());
  const where = conditions.map((each) => each.sql).join(' AND ');
  const values = conditions.flatMap((each) => each.values);
  for (const key of Object.keys(query['filter'] ?? {})) table.indexFor(key);
  const total = totalOf(state, resource, where, values);
  const perPage = pageSize(state, query, total);
  const page = pageNumber(query);
  const selection: Selection = {
    tail: `${where === '' ? '' : `WHERE ${where} `}ORDER BY ${order.sql} LIMIT ? OFFSET ?`,
    values: [
      ...values,
      ...order.values,
      limitOf(page, perPage, behaviour),
      Math.min(Number.MAX_SAFE_INTEGER, (page - 1) * perPage),
    ],
  };
  const records = recordsOf(state, resource, relations, selection);
  const path = `${state.url}${requested.path}`;
  const facts = { path, page, perPage, total, count: records.count, asObject: behaviour.data_as_object };
  const { head, tail } = envelopeAround(facts);
  return { status: 200, body: Buffer.concat([Buffer.from(head), records.bodies, Buffer.from(tail)]) };
}

/** The end of an SQL statement that selects a page. */
interface Selection {
  readonly tail: string;
  readonly values: readonly SqlValue[];
}

/** Reads the records of a page as they are served, joined by commas. */
function recordsOf(
  state: SandboxState,
  resource: Resource,
  relations: readonly string[],
  { tail, values }: Selection,
): { bodies: Buffer; count: number } {
  const { behaviour } = state;
  const table = state.tables[resource.name];
  const asObject = behaviour.data_as_object;
  const hidden = new Set(wordsIn(behaviour.pages_hide));
  const isChanged = changesFields(behaviour) || asObject || behaviour.same_ids !== '' || hidden.size > 0;
  if (relations.length === 0 && !isChanged) return table.joined(tail, values);
  const isHidden = (body: string) => hidden.has(`${resource.name}:${/"id":(\d+)/.exec(body)?.[1]}`);
  const texts = table
    .bodies(tail, values)
    .filter((body) => hidden.size === 0 || !isHidden(body))
    .map((body, index) => {
      const text = withSharedId(servedRecord(state, resource, body, relations), resource, behaviour);
      return asObject ? `"${index}":${text}` : text;
    });
  return { bodies: Buffer.from(texts.join(',')), count: texts.length };
}

/** Returns an empty list with a total of 0, for the fault and the switch of that name. */
export function emptyList(state: SandboxState, resource: Resource, query: Query): Response {
  const requested = wholeNumber(query['paginate']);
  const perPage = requested !== undefined && requested > 0 ? requested : defaultPageSize;
  const facts = {
    path: `${state.url}${resource.path}`,
    page: pageNumber(query),
    perPage,
    total: 0,
    count: 0,
  };
  const { head, tail } = envelopeAround(facts);
  return { status: 200, body: head + tail };
}
