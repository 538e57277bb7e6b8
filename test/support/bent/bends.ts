/** The ways in which a test's server differs from the API's reference, and how each bends a request or its response. */
import zlib from 'node:zlib';
import type { FastifyReply } from 'fastify';
import type { Operation } from '../../../src/model/operations.ts';
import { isResourceName, type Resource, resourceOf } from '../../../src/model/resources.ts';
import { wordsIn } from '../../../src/model/text.ts';
import {
  badRequest,
  envelopeAround,
  fromJson,
  invalid,
  type JsonRecord,
  notFound,
  refused,
  Refusal,
  type Response,
  serverError,
  toJson,
} from '../../../src/sandbox/envelope.ts';
import { listResponse, type Query } from '../../../src/sandbox/lists.ts';
import type { SandboxState } from '../../../src/sandbox/sandbox.ts';
import type { Between, Exchange, OperationRequest } from '../../../src/sandbox/server.ts';
import { dateCondition } from './dates.ts';
import {
  comesBefore,
  failAfter,
  failBefore,
  type Fault,
  Faults,
  LateWrites,
  type ReadFault,
  readFaults,
  type WriteFault,
  writeFaults,
} from './faults.ts';
import { changesFields, requestedId, withFieldFaults, withLargeId } from './shapes.ts';

/** Lists of names are separated by commas. */
interface Quirks {
  readonly page_over: 'clamp' | 'refuse' | 'ignore';
  /** Pages of a list show nothing after this many records. */
  readonly depth: number;
  readonly depth_over: 'empty' | 'refuse' | 'error';
  readonly sorts: 'kept' | 'ignored' | 'random';
  readonly sort_ties: 'stable' | 'random';
  readonly includes_refused: string;
  readonly includes_ignored: string;
  readonly filter_errors: string;
  /** The host cannot make pages of more records, or bodies of more bytes, than this. */
  readonly page_breaks_over: number;
  readonly page_breaks_bytes: number;
  /** Records that make every response with them fail: `users:17,emails:4`. */
  readonly poisoned: string;
  readonly page_breaks_how:
    | 'error_500'
    | 'error_502'
    | 'html'
    | 'hang'
    | 'truncated'
    | 'reset_middle'
    | 'empty_body'
    | 'says_so';
  readonly cache_seconds: number;
  readonly cache_obeys: boolean;
  readonly compression: 'none' | 'gzip' | 'br' | 'deflate' | 'deflate_raw' | 'zstd';
  readonly byte_order_mark: boolean;
  readonly data_as_object: boolean;
  readonly totals_more: number;
  readonly totals_cap: number;
  readonly totals_cached: number;
  /** `counted`: totals still count a record that the control removes. */
  readonly deletes: 'gone' | 'counted';
  readonly empty_lists: string;
  /** Lists that show the records of another list: `users:emails`. */
  readonly lists_of: string;
  /** Records that lists show under the id of another: `users:17:18` shows 17 as 18. */
  readonly same_ids: string;
  readonly missing_users: boolean;
  readonly date_format: 'both' | 'iso' | 'dmy';
  readonly date_unreadable: 'refuse' | 'error' | 'ignore' | 'empty';
  readonly date_ranges: 'on' | 'ignored' | 'error';
  readonly date_end: 'midnight' | 'exclusive' | 'day';
  readonly timezone_minutes: number;
  readonly numbers_as_strings: number;
  readonly flags_as_booleans: number;
  readonly empty_objects_as_arrays: number;
  readonly unknown_fields: number;
  readonly missing_fields: number;
  readonly large_ids: boolean;
  readonly refusal_status: number;
  readonly transactions: 'shown' | 'hidden';
  readonly transactions_delay: number;
  readonly description_max: number;
  readonly negative_balance: 'allowed' | 'refused' | 'clamped';
  readonly rate_headers: boolean;
  readonly retry_after: 'seconds' | 'date' | 'none';
  readonly retry_after_seconds: number;
  /** How many times in a row the same request may fail by chance; 0: no limit. */
  readonly fault_streak: number;
  /** How many milliseconds after the reset `commit_late` writes. */
  readonly late_commit_ms: number;
}

export type Bends = Quirks & { readonly [F in ReadFault as `read_${F}`]: number } & {
  readonly [F in WriteFault as `write_${F}`]: number;
};

const quirks: Quirks = {
  page_over: 'clamp',
  depth: 0,
  depth_over: 'empty',
  sorts: 'kept',
  sort_ties: 'stable',
  includes_refused: '',
  includes_ignored: '',
  filter_errors: '',
  page_breaks_over: 0,
  page_breaks_bytes: 0,
  poisoned: '',
  page_breaks_how: 'error_500',
  cache_seconds: 0,
  cache_obeys: true,
  compression: 'none',
  byte_order_mark: false,
  data_as_object: false,
  totals_more: 0,
  totals_cap: 0,
  totals_cached: 0,
  deletes: 'gone',
  empty_lists: '',
  lists_of: '',
  same_ids: '',
  missing_users: false,
  date_format: 'both',
  date_unreadable: 'refuse',
  date_ranges: 'on',
  date_end: 'midnight',
  timezone_minutes: 0,
  numbers_as_strings: 0,
  flags_as_booleans: 0,
  empty_objects_as_arrays: 0,
  unknown_fields: 0,
  missing_fields: 0,
  large_ids: false,
  refusal_status: 422,
  transactions: 'shown',
  transactions_delay: 0,
  description_max: 0,
  negative_balance: 'allowed',
  rate_headers: true,
  retry_after: 'seconds',
  retry_after_seconds: 1,
  fault_streak: 0,
  late_commit_ms: 50,
};

const chances = Object.fromEntries([
  ...Object.keys(readFaults).map((name) => [`read_${name}`, 0]),
  ...Object.keys(writeFaults).map((name) => [`write_${name}`, 0]),
]) as Omit<Bends, keyof Quirks>;

/** Nothing is bent. */
export const straight = { ...quirks, ...chances } as Bends;

interface CachedResponse {
  /** When the server made it, ms since 1970. */
  readonly at: number;
  readonly response: Response;
}

const compressors = {
  gzip: zlib.gzipSync,
  br: zlib.brotliCompressSync,
  deflate: zlib.deflateSync,
  deflate_raw: zlib.deflateRawSync,
  zstd: zlib.zstdCompressSync,
} as const;

const wholeNumber = (value: unknown): number | undefined =>
  typeof value === 'string' && /^-?\d{1,15}$/.test(value.trim()) ? Number(value) : undefined;

/** Bends what goes to and comes from one sandbox. */
export class Bending {
  bends: Bends = straight;
  readonly late = new LateWrites();
  readonly faults = new Faults();
  /** Records that totals count, although they were removed. */
  readonly hidden: { readonly resource: string; readonly record: JsonRecord }[] = [];
  readonly #cache = new Map<string, CachedResponse>();
  readonly #totals = new Map<string, { readonly total: number; readonly until: number }>();

  readonly between: Between = (exchange, state) => {
    const { operation, request, reply } = exchange;
    const cached = this.#fromCache(state, exchange);
    if (cached !== undefined) return this.#encoded(reply, cached);
    const fault = this.faults.next(state.chance, operation.method, request.url, this.bends);
    if (fault !== null && comesBefore(fault)) {
      failBefore(this.bends, reply, fault);
      return undefined;
    }
    let response: Response | undefined;
    try {
      response = fault === null ? this.#bent(exchange, state) : this.#faulty(exchange, state, fault);
    } catch (error) {
      throw error instanceof Refusal ? this.#bentRefusal(error, state) : error;
    }
    if (!this.bends.rate_headers) {
      for (const name of ['x-ratelimit-limit', 'x-ratelimit-remaining']) reply.removeHeader(name);
    }
    if (response === undefined) return undefined;
    if (fault === null) return this.#sent(exchange, state, response);
    failAfter(this.bends, reply, fault, response);
    return undefined;
  };

  /** Sends the response as a weak host would, or as a cache would keep it. */
  #sent({ operation, request, reply }: Exchange, state: SandboxState, response: Response): Response | undefined {
    const { page_breaks_how: how, cache_seconds: seconds } = this.bends;
    if (this.#breaks(operation, response)) {
      if (how === 'says_so') return { status: 200, body: toJson({ message: 'Be right back.' }) };
      failAfter(this.bends, reply, how, response);
      return undefined;
    }
    if (seconds > 0 && request.method === 'GET') this.#cache.set(request.url, { at: state.clock.now(), response });
    return this.#encoded(reply, response);
  }

  #fromCache(state: SandboxState, { request, reply }: Exchange): Response | undefined {
    const { cache_seconds: seconds, cache_obeys: obeys } = this.bends;
    const cached = this.#cache.get(request.url);
    if (seconds === 0 || cached === undefined || request.method !== 'GET') return undefined;
    if (obeys && /no-cache/.test(request.headers['cache-control'] ?? '')) return undefined;
    const age = Math.floor((state.clock.now() - cached.at) / 1_000);
    if (age > seconds) return undefined;
    reply.headers({ age: String(age), date: new Date(cached.at).toUTCString() });
    return cached.response;
  }

  #encoded(reply: FastifyReply, response: Response): Response {
    const { compression, byte_order_mark: marked } = this.bends;
    if (!marked && compression === 'none') return response;
    const body = marked ? Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(response.body)]) : response.body;
    if (compression === 'none') return { ...response, body };
    reply.header('content-encoding', compression.replace('_raw', ''));
    return { ...response, body: compressors[compression](body) };
  }

  /** Whether the host fails to make the response: too many records, too many bytes, or one that it cannot serialise. */
  #breaks({ resource, method, paginated }: Operation, response: Response): boolean {
    const { page_breaks_over: maxRecords, page_breaks_bytes: maxBytes, poisoned } = this.bends;
    if (method !== 'GET' || response.status !== 200) return false;
    if (maxBytes > 0 && Buffer.byteLength(response.body) > maxBytes) return true;
    if (maxRecords === 0 && poisoned === '') return false;
    const inner = fromJson(response.body.toString())['data'] as JsonRecord | JsonRecord[];
    const isList = Array.isArray(inner) || !('id' in inner);
    const records: JsonRecord[] = isList ? Object.values(inner as JsonRecord[]) : [inner];
    if (paginated && maxRecords > 0 && records.length > maxRecords) return true;
    const bad = new Set(wordsIn(poisoned));
    return records.some(({ id }) => bad.has(`${resource}:${String(id)}`));
  }

  #bentRefusal({ status, body, headers }: Refusal, state: SandboxState): Refusal {
    const {
      refusal_status: refusal,
      retry_after: form,
      retry_after_seconds: seconds,
      rate_headers: shown,
    } = this.bends;
    const { 'retry-after': given, ...rest } = headers;
    const others = shown
      ? rest
      : Object.fromEntries(Object.entries(rest).filter(([name]) => !name.startsWith('x-ratelimit')));
    const wait = status === 503 ? seconds : Number(given);
    const until = new Date(state.clock.now() + wait * 1_000).toUTCString();
    const after =
      form === 'none' || given === undefined ? {} : { 'retry-after': form === 'date' ? until : String(wait) };
    return new Refusal(body['success'] === false ? refusal : status, body, { ...others, ...after });
  }

  #faulty(exchange: Exchange, state: SandboxState, fault: Fault): Response | undefined {
    const { reply } = exchange;
    if (fault === 'commit_late') {
      this.late.add(() => void this.#bent(exchange, state), this.bends.late_commit_ms);
      failBefore(this.bends, reply, 'reset_before');
      return undefined;
    }
    if (fault === 'lost') return this.#rolledBack(exchange, state);
    const response = this.#bent(exchange, state);
    return fault === 'commit_twice' ? this.#bent(exchange, state) : response;
  }

  /** Performs a write and rolls it back. Returns its response all the same. */
  #rolledBack(exchange: Exchange, state: SandboxState): Response | undefined {
    let response: Response | undefined;
    const rolledBack = new Error('rolled back');
    try {
      state.db.transaction(() => {
        response = this.#bent(exchange, state);
        throw rolledBack;
      })();
    } catch (error) {
      if (error !== rolledBack) throw error;
    }
    return response;
  }

  /** Performs the request as a server with these bends would. */
  #bent(exchange: Exchange, state: SandboxState): Response {
    const { operation, perform } = exchange;
    if (operation.paginated) return this.#list(exchange, state);
    if (operation.name === 'users.auth') return perform();
    const given = this.#asked(exchange.given);
    if (operation.name === 'users.get' && this.bends.missing_users) throw notFound('User', given.user);
    if (operation.name === 'users.update-balance') return this.#balance(exchange, state, given);
    return this.#records(state, resourceOf(operation.resource), perform(given));
  }

  /** Returns the request with the ids that the sandbox has, and without what the server ignores. */
  #asked(given: OperationRequest): OperationRequest {
    const ignored = this.#ignoredRelations();
    const query = Object.fromEntries(Object.entries(given.query).filter(([name]) => !ignored.has(name)));
    return { ...given, query, user: requestedId(given.user, this.bends) };
  }

  #ignoredRelations(): ReadonlySet<string> {
    const { includes_ignored: ignored, transactions } = this.bends;
    return new Set([...wordsIn(ignored), ...(transactions === 'hidden' ? ['balance_transactions'] : [])]);
  }

  #balance({ perform }: Exchange, state: SandboxState, given: OperationRequest): Response {
    const { negative_balance: negative, description_max: max } = this.bends;
    const { description } = given.body;
    const text = typeof description === 'string' ? description : '';
    const id = Number(given.user);
    const response = state.db.transaction(() => {
      const done = perform(given);
      if (text !== '' && max > 0) redescribe(state, text.slice(0, max));
      const after = Number(state.tables.users.get(id)?.['balance']);
      if (after < 0 && negative === 'refused') throw refused(422, ['The balance of the user is too low.']);
      return done;
    })();
    const after = state.tables.users.get(id);
    const isClamped = negative === 'clamped' && Number(after?.['balance']) < 0;
    if (!isClamped) return this.#records(state, resourceOf('users'), response);
    state.tables.users.replace({ ...after, balance: 0 });
    const answer = fromJson(response.body.toString());
    const data = { ...(answer['data'] as JsonRecord), balance: 0 };
    return this.#records(state, resourceOf('users'), { ...response, body: toJson({ ...answer, data }) });
  }

  /** Bends the one record of a response. */
  #records(state: SandboxState, resource: Resource, response: Response): Response {
    const { large_ids: large, transactions_delay: delay } = this.bends;
    if (!changesFields(this.bends) && !large && delay === 0) return response;
    const answer = fromJson(response.body.toString());
    const { data } = answer;
    if (typeof data !== 'object' || data === null || Array.isArray(data)) return response;
    return {
      ...response,
      body: toJson({ ...answer, data: 0 }).replace(
        '"data":0',
        () => `"data":${this.#record(state, resource, data as JsonRecord)}`,
      ),
    };
  }

  #record(state: SandboxState, resource: Resource, record: JsonRecord): string {
    const { transactions_delay: delay, large_ids: large, same_ids: same } = this.bends;
    const faulty = changesFields(this.bends) ? withFieldFaults(resource, record, this.bends, state.chance) : record;
    const until = state.clock.now() - delay * 1_000;
    const listed = faulty['balance_transactions'];
    const shown =
      delay === 0 || !Array.isArray(listed)
        ? faulty
        : {
            ...faulty,
            balance_transactions: (listed as JsonRecord[]).filter(
              (each) => Date.parse(String(each['created_at'])) <= until,
            ),
          };
    const pairs = wordsIn(same).map((each) => each.split(':'));
    const [, , other] = pairs.find(([name, own]) => name === resource.name && own === String(record['id'])) ?? [];
    const text = toJson(other === undefined ? shown : { ...shown, id: Number(other) });
    return large ? withLargeId(text) : text;
  }

  #emptyList(state: SandboxState, { path }: Resource, query: Query): Response {
    const perPage = Math.max(1, wholeNumber(query['paginate']) ?? 0) || 15;
    const page = Math.max(1, wholeNumber(query['page']) ?? 1);
    const { head, tail } = envelopeAround({ path: `${state.url}${path}`, page, perPage, total: 0, count: 0 });
    return { status: 200, body: head + tail };
  }

  /** Returns the query of a list as the server understands it. Throws the Refusal of one that it does not. */
  #query(query: Query, resource: Resource, pageMax: number): Query {
    const bends = this.bends;
    const size = wholeNumber(query['paginate']);
    const isTooLarge = pageMax > 0 && size !== undefined && (size > pageMax || size === -1);
    if (isTooLarge && bends.page_over === 'refuse') {
      throw invalid({ paginate: [`The paginate field must not be greater than ${pageMax}.`] });
    }
    const filter = (query['filter'] ?? {}) as Readonly<Record<string, unknown>>;
    for (const key of Object.keys(filter)) {
      if (!wordsIn(bends.filter_errors).includes(key)) continue;
      throw serverError(`SQLSTATE[42S22]: Column not found: 1054 Unknown column '${key}'`);
    }
    const include = typeof query['include'] === 'string' ? wordsIn(query['include']) : [];
    const refusedNames = include.filter((each) => wordsIn(bends.includes_refused).includes(each));
    if (refusedNames.length > 0) {
      throw badRequest(`Requested include(s) \`${refusedNames.join(', ')}\` are not allowed.`);
    }
    const kept = include.filter((each) => !this.#ignoredRelations().has(each));
    const sort = (query['sort'] ?? {}) as Readonly<Record<string, unknown>>;
    const order = this.#order(resource, sort);
    const { paginate, ...rest } = query;
    return {
      ...rest,
      ...(bends.page_over !== 'ignore' && paginate !== undefined && { paginate }),
      ...(include.length > 0 && { include: kept.join(',') }),
      ...(Object.keys(order).length > 0 || query['sort'] !== undefined ? { sort: order } : {}),
      ...(typeof filter['id'] === 'string' && { filter: { ...filter, id: requestedId(filter['id'], bends) } }),
    };
  }

  #order({ sortKeys }: Resource, sort: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
    const { sorts, sort_ties: ties } = this.bends;
    if (sorts === 'ignored') return {};
    const atRandom = (key: string | undefined) => (key === undefined ? {} : { [key]: 'random' });
    if (sorts === 'random') return atRandom(sortKeys[0]);
    if (ties === 'stable' || Object.keys(sort).length === 0) return sort;
    return { ...sort, ...atRandom(sortKeys.find((key) => !(key in sort))) };
  }

  #list({ operation, given, perform }: Exchange, state: SandboxState): Response {
    const bends = this.bends;
    const resource = resourceOf(operation.resource);
    const query = this.#query(given.query, resource, state.behaviour.page_max);
    const dates = dateCondition(query['date'], bends, state.clock.now());
    // Performed also where something else is shown: the checks and the churn come first.
    const usual = perform({ ...given, query, dates });
    const [, other = ''] =
      wordsIn(bends.lists_of)
        .map((each) => each.split(':'))
        .find(([name]) => name === resource.name) ?? [];
    if (wordsIn(bends.empty_lists).includes(resource.name)) return this.#emptyList(state, resource, query);
    const shown = isResourceName(other) ? resourceOf(other) : resource;
    const { page, paginate } = query;
    const response = shown === resource ? usual : listResponse(state, shown, { page, paginate }, dates);
    if (!this.#changesLists()) return response;
    return this.#bentList(state, resource, shown, query, response);
  }

  #changesLists(): boolean {
    const { depth, totals_more: more, totals_cap: cap, totals_cached: cached, same_ids: same } = this.bends;
    const { data_as_object: asObject, large_ids: large, transactions_delay: delay } = this.bends;
    const isChanged = depth > 0 || more > 0 || cap > 0 || cached > 0 || this.hidden.length > 0;
    return isChanged || same !== '' || asObject || large || delay > 0 || changesFields(this.bends);
  }

  #bentList(state: SandboxState, resource: Resource, shown: Resource, query: Query, response: Response): Response {
    const bends = this.bends;
    const list = fromJson(response.body.toString()) as {
      readonly data: JsonRecord[];
      readonly current_page: number;
      readonly per_page: number;
      readonly total: number;
    };
    const { current_page: page, per_page: perPage } = list;
    const left = bends.depth === 0 ? perPage : Math.min(perPage, bends.depth - (page - 1) * perPage);
    if (left <= 0 && bends.depth_over === 'error') throw serverError('Result window is too large');
    if (left <= 0 && bends.depth_over === 'refuse')
      throw invalid({ page: [`No page lies beyond record ${bends.depth}.`] });
    const records = list.data.slice(0, Math.max(0, left)).map((record) => this.#record(state, shown, record));
    const total = this.#total(state, shown, query, list.total);
    const facts = { path: `${state.url}${resource.path}`, page, perPage, total, count: records.length };
    const { head, tail } = envelopeAround(facts);
    if (!bends.data_as_object) return { status: 200, body: `${head}${records.join(',')}${tail}` };
    const members = records.map((record, at) => `"${at}":${record}`).join(',');
    return { status: 200, body: `${head.slice(0, -1)}{${members}}${tail.slice(1)}` };
  }

  /** Returns the total that the list states; it may differ from the number of records that it shows. */
  #total(state: SandboxState, { name }: Resource, { filter, date }: Query, counted: number): number {
    const { totals_more: more, totals_cap: cap, totals_cached: cached } = this.bends;
    const key = JSON.stringify([name, filter, date]);
    const now = state.clock.now();
    const remembered = this.#totals.get(key);
    if (cached > 0 && remembered !== undefined && now < remembered.until) return remembered.total;
    const all = counted + this.#countHidden(state, name, filter, date) + more;
    const total = cap === 0 ? all : Math.min(cap, all);
    if (cached > 0) this.#totals.set(key, { total, until: now + cached * 1_000 });
    return total;
  }

  #countHidden(state: SandboxState, name: string, filter: unknown, date: unknown): number {
    const { sql, values } = dateCondition(date, this.bends, state.clock.now());
    const wanted = Object.entries((filter ?? {}) as Readonly<Record<string, string>>);
    return this.hidden.filter(({ resource, record }) => {
      const at = String(record['created_at']);
      const [from = '', to = '\uFFFF'] = values;
      const isInRange = sql !== '0' && at >= from && (sql.includes('<=') ? at <= to : at < to);
      return resource === name && isInRange && wanted.every(([key, value]) => String(record[key]) === value);
    }).length;
  }
}

/** Changes the description of the newest transaction, as it is stored; the ledger keeps the one that was sent. */
function redescribe({ db }: SandboxState, description: string): void {
  const newest = '(SELECT max(id) FROM related)';
  db.prepare(`UPDATE related SET body = json_set(body, '$.description', ?) WHERE id = ${newest}`).run(description);
}
