/** The four list operations: a query in, a page in its envelope out. */
import qs from 'qs';
import { defaultPageSize, isResourceName, type Resource, resourceOf } from '../model/resources.ts';
import type { Behaviour } from './behaviour.ts';
import { dateCondition } from './dates.ts';
import { envelopeAround } from './envelope.ts';
import { changesFields, withFieldFaults, withLargeId } from './field-faults.ts';
import { filterConditions } from './filters.ts';
import { badRequest, invalid } from './refusal.ts';
import { fromJson, type JsonRecord, toJson } from './serialise.ts';
import type { SqlValue } from './records.ts';
import { orderOf } from './sorting.ts';
import type { Answer, SandboxState } from './state.ts';

/** A parsed query string. */
export type Query = Readonly<Record<string, unknown>>;

function wholeNumber(value: unknown): number | undefined {
  return typeof value === 'string' && /^-?\d{1,15}$/.test(value.trim()) ? Number(value) : undefined;
}

/** Records on a page, by the request and the switches; -1 asks for all of them. */
function pageSize(state: SandboxState, query: Query, total: number): number {
  const { page_max: most, page_over: over } = state.behaviour;
  const asked = wholeNumber(query['paginate']);
  if (asked === undefined || asked === 0 || asked < -1 || over === 'ignore') return defaultPageSize;
  const wanted = asked === -1 ? Math.max(1, total) : asked;
  if (most === 0 || (wanted <= most && asked !== -1)) return wanted;
  if (over === 'clamp') return most;
  throw invalid({ paginate: [`The paginate field must not be greater than ${most}.`] });
}

/** A page that is no number from 1 is page 1. */
function pageNumber(query: Query): number {
  return Math.max(1, wholeNumber(query['page']) ?? 1);
}

function wordsOf(list: string): string[] {
  return list.split(',').map((each) => each.trim());
}

function includesOf(resource: Resource, query: Query, behaviour: Behaviour): string[] {
  const value = query['include'];
  if (value === undefined || value === '') return [];
  if (typeof value !== 'string') throw invalid({ include: ['The include must be a string.'] });
  const refused = wordsOf(behaviour.includes_refused);
  const ignored = wordsOf(behaviour.includes_ignored);
  const known = (resource.includes ?? []).filter((each) => !refused.includes(each));
  const asked = [...new Set(wordsOf(value))].filter((each) => each !== '' && !ignored.includes(each));
  const unknown = asked.filter((each) => !known.includes(each));
  if (unknown.length > 0 && behaviour.unknown_keys === 'refuse') {
    throw badRequest(
      `Requested include(s) \`${unknown.join(', ')}\` are not allowed. ` +
        (known.length > 0 ? `Allowed include(s) are \`${known.join(', ')}\`.` : 'There are no allowed includes.'),
    );
  }
  return asked.filter((each) => known.includes(each));
}

/** The related records under a name; a list's `user` is the one that an email belongs to. */
export function relationValue(state: SandboxState, resource: Resource, record: JsonRecord, name: string): unknown {
  if (resource.name === 'users' || resource.name === 'packages') {
    const value = state.related.value(resource.name, record, name);
    return name === 'balance_transactions' ? shownTransactions(state, value) : value;
  }
  return state.tables.users.get(record['user_id'] as number) ?? null;
}

/** Some servers of the family never give some records, whoever asks and however. */
function isShown(state: SandboxState, name: string): boolean {
  if (wordsOf(state.behaviour.includes_ignored).includes(name)) return false;
  return name !== 'balance_transactions' || state.behaviour.transactions === 'shown';
}

/** Transactions as they are shown: those of the last moments may not be there yet. */
function shownTransactions(state: SandboxState, value: unknown): unknown {
  const delay = state.behaviour.transactions_delay;
  if (delay === 0 || !Array.isArray(value)) return value;
  const until = state.clock.now() - delay * 1_000;
  return (value as JsonRecord[]).filter((record) => Date.parse(String(record['created_at'])) <= until);
}

/** One record as it is served: its fields with their faults, then what was asked for with it. */
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

function otherParameters(state: SandboxState, query: Query): string {
  if (state.behaviour.page_urls === 'bare') return '';
  const { page: _, ...others } = query;
  const written = qs.stringify(others);
  return written === '' ? '' : `${written}&`;
}

/** What a list says that it counts, which the switches may keep from being what it shows. */
function totalOf(state: SandboxState, resource: Resource, where: string, values: readonly SqlValue[]): number {
  const { totals_more: more, totals_cap: cap, totals_cached: cached } = state.behaviour;
  const table = state.tables[resource.name];
  const key = [resource.name, where, ...values].join('\u0000');
  const now = state.clock.now();
  const known = state.totals.get(key);
  if (cached > 0 && known !== undefined && now < known.until) return known.total;
  const counted = table.count(where, values) + table.countHidden(where, values) + more;
  const total = cap === 0 ? counted : Math.min(cap, counted);
  if (cached > 0) state.totals.set(key, { total, until: now + cached * 1_000 });
  return total;
}

/** The resource whose records the list shows, which `lists_of` may make another one. */
function shownIn(asked: Resource, { lists_of: lists }: Behaviour): Resource {
  const [, other = ''] =
    wordsOf(lists)
      .map((each) => each.split(':'))
      .find(([name]) => name === asked.name) ?? [];
  return isResourceName(other) ? resourceOf(other) : asked;
}

/** The record's text under the id that `same_ids` gives it. */
function underSameId(text: string, { name }: Resource, { same_ids: same }: Behaviour): string {
  if (same === '') return text;
  const pairs = wordsOf(same).map((each) => each.split(':'));
  return text.replace(/"id":(\d+)/, (whole, id: string) => {
    const [, , other] = pairs.find(([of, shown]) => of === name && shown === id) ?? [];
    return other === undefined ? whole : `"id":${other}`;
  });
}

/** Answers a list request. Throws Refusal where the query breaks a rule. */
export function answerList(state: SandboxState, asked: Resource, query: Query): Answer {
  const resource = shownIn(asked, state.behaviour);
  // What another list is asked for by, this one may not know.
  const lenient = resource === asked ? {} : ({ unknown_keys: 'ignore' } as const);
  const table = state.tables[resource.name];
  const behaviour = { ...state.behaviour, ...lenient };
  if (wordsOf(behaviour.empty_lists).includes(resource.name)) return emptyList(state, resource, query);
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
  const tail = `${where === '' ? '' : `WHERE ${where} `}ORDER BY ${order.sql} LIMIT ? OFFSET ?`;
  const bound = [...values, ...order.values, perPage, Math.min(Number.MAX_SAFE_INTEGER, (page - 1) * perPage)];
  const asObject = behaviour.data_as_object;
  const plain = relations.length === 0 && !changesFields(behaviour) && !asObject && behaviour.same_ids === '';
  const records = plain
    ? table.joined(tail, bound)
    : joinRecords(
        table.bodies(tail, bound).map((body, index) => {
          const text = underSameId(servedRecord(state, resource, body, relations), resource, behaviour);
          return asObject ? `"${index}":${text}` : text;
        }),
      );
  const path = `${state.url}${asked.path}`;
  const facts = { path, query: otherParameters(state, query), page, perPage, total, count: records.count, asObject };
  const { head, tail: end } = envelopeAround(facts);
  return { status: 200, body: Buffer.concat([Buffer.from(head), records.bodies, Buffer.from(end)]) };
}

function joinRecords(texts: readonly string[]): { bodies: Buffer; count: number } {
  return { bodies: Buffer.from(texts.join(',')), count: texts.length };
}

/** The list of nothing, for the fault that says so. */
export function emptyList(state: SandboxState, resource: Resource, query: Query): Answer {
  const asked = wholeNumber(query['paginate']);
  const perPage = asked !== undefined && asked > 0 ? asked : defaultPageSize;
  const facts = {
    path: `${state.url}${resource.path}`,
    query: '',
    page: pageNumber(query),
    perPage,
    total: 0,
    count: 0,
  };
  const { head, tail } = envelopeAround(facts);
  return { status: 200, body: head + tail };
}
