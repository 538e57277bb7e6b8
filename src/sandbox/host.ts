/** The host that the API runs on, and what stands in front of it: pages that it cannot make, a cache, compression. */
import zlib from 'node:zlib';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Operation } from '../model/operations.ts';
import { failAfter } from './effects.ts';
import { fromJson, type JsonRecord, toJson } from './serialise.ts';
import type { Answer, SandboxState } from './state.ts';

interface Kept {
  readonly at: number;
  readonly answer: Answer;
}

const compressors = {
  gzip: zlib.gzipSync,
  br: zlib.brotliCompressSync,
  deflate: zlib.deflateSync,
  deflate_raw: zlib.deflateRawSync,
  zstd: zlib.zstdCompressSync,
} as const;

/** The records of an answer, a list or one. */
function recordsIn({ body }: Answer): JsonRecord[] {
  const parsed = fromJson(body.toString());
  const inner = parsed['data'] ?? parsed['user'] ?? parsed;
  const isList = Array.isArray(inner) || !('id' in (inner as JsonRecord));
  return isList ? Object.values(inner as JsonRecord[]) : [inner as JsonRecord];
}

/** Whether the host fails to make the answer: too many records, too many bytes, a record that it cannot serialise. */
function breaks({ behaviour }: SandboxState, { resource, method, paginated }: Operation, answer: Answer): boolean {
  const { page_breaks_over: most, page_breaks_bytes: mostBytes, poisoned } = behaviour;
  if (method !== 'GET' || answer.status !== 200) return false;
  if (mostBytes > 0 && Buffer.byteLength(answer.body) > mostBytes) return true;
  if (most === 0 && poisoned === '') return false;
  const records = recordsIn(answer);
  const bad = new Set(poisoned.split(',').map((each) => each.trim()));
  return (
    (paginated && most > 0 && records.length > most) || records.some(({ id }) => bad.has(`${resource}:${String(id)}`))
  );
}

/** Sends what operations answer, as far as the host can make it, and as it comes through what stands in front. */
export class Host {
  readonly #kept = new Map<string, Kept>();

  /** Gives the answer of the cache where there is one; true where that was sent. */
  sendKept(state: SandboxState, request: FastifyRequest, reply: FastifyReply): boolean {
    const { cache_seconds: seconds, cache_obeys: obeys } = state.behaviour;
    const kept = this.#kept.get(request.url);
    if (seconds === 0 || kept === undefined || request.method !== 'GET') return false;
    if (obeys && /no-cache/.test(request.headers['cache-control'] ?? '')) return false;
    const age = Math.floor((state.clock.now() - kept.at) / 1_000);
    if (age > seconds) return false;
    reply.headers({ age: String(age), date: new Date(kept.at).toUTCString() });
    send(state, reply, kept.answer);
    return true;
  }

  send(state: SandboxState, operation: Operation, request: FastifyRequest, reply: FastifyReply, answer: Answer): void {
    const { page_breaks_how: how, cache_seconds: seconds } = state.behaviour;
    if (breaks(state, operation, answer)) {
      if (how === 'says_so') return send(state, reply, { status: 200, body: toJson({ message: 'Be right back.' }) });
      return failAfter(state, reply, how, answer);
    }
    if (seconds > 0 && request.method === 'GET') this.#kept.set(request.url, { at: state.clock.now(), answer });
    return send(state, reply, answer);
  }
}

function send({ behaviour }: SandboxState, reply: FastifyReply, answer: Answer): void {
  const { compression, byte_order_mark: marked } = behaviour;
  reply.code(answer.status).header('content-type', 'application/json');
  const body = marked ? Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), Buffer.from(answer.body)]) : answer.body;
  if (compression === 'none') {
    void reply.send(body);
    return;
  }
  reply.header('content-encoding', compression.replace('_raw', ''));
  void reply.send(compressors[compression](body));
}
