/**
 * The host and the cache in front of the operations: they limit and count the requests, and send what operations return, as
 * weak ones would.
 */
import zlib from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Operation, OperationName } from '../model/operations.ts';
import { wordsIn } from '../model/text.ts';
import { fromJson, type JsonRecord, Refusal, type Response, toJson } from './envelope.ts';
import { failAfter, type Fault, retryAfter } from './faults.ts';
import type { SandboxState } from './sandbox.ts';

export class RateLimit {
  #start = 0;
  #used = 0;

  /** Counts a request and returns the headers for its response. Throws the 429 if the limit is reached. */
  take(state: SandboxState): Record<string, string> {
    const { rate_limit: limit, rate_window: window, rate_headers: shown } = state.behaviour;
    if (limit === 0) return {};
    const now = state.clock.now();
    // A new window also begins if the clock was set back.
    if (now >= this.#start + window * 1_000 || now < this.#start) {
      this.#start = now;
      this.#used = 0;
    }
    this.#used += 1;
    const end = this.#start + window * 1_000;
    const headers = {
      'x-ratelimit-limit': String(limit),
      'x-ratelimit-remaining': String(Math.max(0, limit - this.#used)),
    };
    if (this.#used <= limit) return shown ? headers : {};
    const wait = retryAfter(state, Math.max(1, Math.ceil((end - now) / 1_000)));
    const reset = { 'x-ratelimit-reset': String(Math.ceil(end / 1_000)) };
    throw new Refusal(429, { message: 'Too Many Attempts.' }, shown ? { ...headers, ...reset, ...wait } : wait);
  }
}

export interface LoggedRequest {
  /** By the sandbox's clock, ms since 1970. */
  readonly at: number;
  readonly method: string;
  readonly url: string;
  /** Null if no operation has that address. */
  readonly operation: OperationName | null;
  readonly accept: string | null;
  readonly contentType: string | null;
  /** Null until the response is sent; it stays null if the connection was reset or left hanging. */
  status: number | null;
  fault: Fault | null;
}

const maxRecent = 10_000;

function addOne(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

export class RequestLog {
  #total = 0;
  #open = 0;
  #mostAtOnce = 0;
  #recent: LoggedRequest[] = [];
  readonly #byOperation = new Map<string, number>();
  readonly #byStatus = new Map<string, number>();
  readonly #faults = new Map<string, number>();

  begin(request: Omit<LoggedRequest, 'status' | 'fault'>): LoggedRequest {
    const entry: LoggedRequest = { ...request, status: null, fault: null };
    this.#total += 1;
    this.#open += 1;
    this.#mostAtOnce = Math.max(this.#mostAtOnce, this.#open);
    addOne(this.#byOperation, request.operation ?? 'none');
    this.#recent.push(entry);
    if (this.#recent.length > 2 * maxRecent) this.#recent = this.#recent.slice(-maxRecent);
    return entry;
  }

  failed(entry: LoggedRequest, fault: Fault): void {
    entry.fault = fault;
    addOne(this.#faults, fault);
  }

  responded(entry: LoggedRequest, status: number): void {
    entry.status = status;
    addOne(this.#byStatus, String(status));
  }

  /** Notes that a request has ended, with or without a response. */
  end(): void {
    this.#open -= 1;
  }

  counts() {
    return {
      total: this.#total,
      byOperation: Object.fromEntries(this.#byOperation),
      byStatus: Object.fromEntries(this.#byStatus),
      faults: Object.fromEntries(this.#faults),
      /** The most requests that were under way at the same time. */
      mostAtOnce: this.#mostAtOnce,
      /** The last requests, oldest first. */
      recent: this.#recent.slice(-maxRecent),
    };
  }

  clear(): void {
    this.#total = 0;
    this.#mostAtOnce = this.#open;
    this.#recent = [];
    for (const counts of [this.#byOperation, this.#byStatus, this.#faults]) counts.clear();
  }
}

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

function recordsIn({ body }: Response): JsonRecord[] {
  const parsed = fromJson(body.toString());
  const inner = parsed['data'] ?? parsed['user'] ?? parsed;
  const isList = Array.isArray(inner) || !('id' in (inner as JsonRecord));
  return isList ? Object.values(inner as JsonRecord[]) : [inner as JsonRecord];
}

/** Whether the host fails to make the response: too many records, too many bytes, or a record that it cannot serialise. */
function breaks({ behaviour }: SandboxState, { resource, method, paginated }: Operation, response: Response): boolean {
  const { page_breaks_over: maxRecords, page_breaks_bytes: maxBytes, poisoned } = behaviour;
  if (method !== 'GET' || response.status !== 200) return false;
  if (maxBytes > 0 && Buffer.byteLength(response.body) > maxBytes) return true;
  if (maxRecords === 0 && poisoned === '') return false;
  const records = recordsIn(response);
  if (paginated && maxRecords > 0 && records.length > maxRecords) return true;
  const bad = new Set(wordsIn(poisoned));
  return records.some(({ id }) => bad.has(`${resource}:${String(id)}`));
}

export class Host {
  readonly #cache = new Map<string, CachedResponse>();

  /** Sends the response from the cache and returns true if there is a fresh one that the request accepts. */
  sendFromCache(state: SandboxState, request: FastifyRequest, reply: FastifyReply): boolean {
    const { cache_seconds: seconds, cache_obeys: obeys } = state.behaviour;
    const cached = this.#cache.get(request.url);
    if (seconds === 0 || cached === undefined || request.method !== 'GET') return false;
    if (obeys && /no-cache/.test(request.headers['cache-control'] ?? '')) return false;
    const age = Math.floor((state.clock.now() - cached.at) / 1_000);
    if (age > seconds) return false;
    reply.headers({ age: String(age), date: new Date(cached.at).toUTCString() });
    send(state, reply, cached.response);
    return true;
  }

  /** Sends the response of an operation, or the failure of a host that cannot make it. */
  send(
    state: SandboxState,
    operation: Operation,
    request: FastifyRequest,
    reply: FastifyReply,
    response: Response,
  ): void {
    const { page_breaks_how: how, cache_seconds: seconds } = state.behaviour;
    if (breaks(state, operation, response)) {
      if (how === 'says_so') return send(state, reply, { status: 200, body: toJson({ message: 'Be right back.' }) });
      return failAfter(state, reply, how, response);
    }
    if (seconds > 0 && request.method === 'GET') this.#cache.set(request.url, { at: state.clock.now(), response });
    return send(state, reply, response);
  }
}

function send({ behaviour }: SandboxState, reply: FastifyReply, response: Response): void {
  const { compression, byte_order_mark: marked } = behaviour;
  reply.code(response.status).header('content-type', 'application/json');
  const body = marked ? Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(response.body)]) : response.body;
  if (compression === 'none') {
    void reply.send(body);
    return;
  }
  reply.header('content-encoding', compression.replace('_raw', ''));
  void reply.send(compressors[compression](body));
}
