/** Sends what operations return, as a weak host and a cache in front of it would. */
import zlib from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Operation } from '../model/operations.ts';
import { wordsIn } from '../model/text.ts';
import { fromJson, type JsonRecord, type Response, toJson } from './envelope.ts';
import { failAfter } from './faults.ts';
import type { SandboxState } from './sandbox.ts';

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
