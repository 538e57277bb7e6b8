/**
 * Sends one request through a pool of undici, bounded in time and size, and reads the headers of its response. Redirects are
 * responses like any other and never followed. The key goes into the Authorization header and nowhere else. Section
 * "Requests" of docs/architecture.md.
 */
import { hash } from 'node:crypto';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { Dispatcher } from 'undici';
import { bodyScrubber, type BodyScrubber, type Redact, redactorOf, scrubbedHeaders } from './redact.ts';
import {
  codeOf,
  type ErrorContext,
  type Network,
  openDispatcher,
  timeoutError,
  tooLargeError,
  TransportError,
  transportErrorOf,
} from './transport.ts';
import type { HttpMethod } from '../model/operations.ts';
import { releaseBytes } from '../model/memory.ts';
import { withoutEndSlashes } from '../model/text.ts';
import { secondMs } from '../model/time.ts';

/** Returns the origin and the path of the base address, without a slash at its end, and both together for messages. */
function addressOf(baseUrl: string) {
  const { origin, pathname } = new URL(baseUrl);
  const prefix = withoutEndSlashes(pathname);
  return { origin, prefix, text: `${origin}${prefix}` };
}

/**
 * A body as it arrives. Each chunk is copied into one buffer at once, so that the dozens of chunks from the socket are garbage
 * before the next page arrives. If they were kept until the end, they would outlive the young generation of the garbage
 * collector and triple the memory of a long sync.
 */
class BodyBuffer {
  #bytes: Buffer;
  #length = 0;

  /** @param expected bytes that the response announces; 0 if it does not */
  constructor(expected: number) {
    this.#bytes = Buffer.allocUnsafeSlow(expected);
  }

  get length(): number {
    return this.#length;
  }

  append(chunk: Buffer): void {
    const needed = this.#length + chunk.length;
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2));
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    chunk.copy(this.#bytes, this.#length);
    this.#length = needed;
  }

  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }
}

type Decode = (bytes: Buffer, options: { readonly maxOutputLength: number }) => Promise<Buffer>;

const inflate: Decode = promisify(zlib.inflate);
const inflateRaw: Decode = promisify(zlib.inflateRaw);
/** The method in the first byte of a zlib stream. Some servers send the raw deflate stream under the same name. */
const deflateMethod = 8;

const decoders: Readonly<Record<string, Decode>> = {
  gzip: promisify(zlib.gunzip),
  'x-gzip': promisify(zlib.gunzip),
  br: promisify(zlib.brotliDecompress),
  zstd: promisify(zlib.zstdDecompress),
  identity: (bytes) => Promise.resolve(bytes),
  deflate: (bytes, options) => ((bytes[0] ?? 0) % 16 === deflateMethod ? inflate : inflateRaw)(bytes, options),
};

// Also removes a byte order mark.
const utf8 = new TextDecoder();

/** Decompresses the body to at most `maxBytes`. Rejects with an error for `decodingErrorOf`. */
async function decodedBody(body: Buffer, headers: HttpHeaders, maxBytes: number): Promise<Buffer> {
  const codings = headerText(headers, 'content-encoding')?.toLowerCase().split(',') ?? [];
  let plain = body;
  // The encoding that was applied last is undone first. An empty body, as of a 204, is not encoded, whatever the header says.
  for (const coding of body.length === 0 ? [] : codings.reverse()) {
    const decode = decoders[coding.trim()];
    // `utf-8`, `none`, `application/json` and the like, from servers that mistake the header. No compressed body begins like JSON or HTML.
    if (decode === undefined && /^\s*[[{<]/.test(utf8.decode(plain.subarray(0, 64)))) continue;
    if (decode === undefined) throw new Error(`the response is encoded as ${coding.trim().slice(0, 20)}`);
    plain = await decode(plain, { maxOutputLength: maxBytes });
  }
  if (plain !== body) releaseBytes(body);
  return plain;
}

type Received = Pick<HttpResponse, 'status' | 'headers' | 'bytes' | 'milliseconds'> & { readonly content: Buffer };

function responseOf(
  { content, headers, ...rest }: Received,
  redact: Redact,
  { scrub, isClean }: BodyScrubber,
  method: HttpMethod,
): HttpResponse {
  const digest = hash('sha1', content, 'base64');
  let text: string | undefined;
  return {
    ...rest,
    headers: scrubbedHeaders(headers, redact),
    digest,
    get body() {
      return (text ??= scrub(utf8.decode(content), method));
    },
    cleanBytes: () => (isClean(content) ? content : undefined),
    discard: () => {
      text ??= '';
      releaseBytes(content);
    },
  };
}

function decodingErrorOf(error: unknown, maxBytes: number, context: ErrorContext): TransportError {
  if (codeOf(error) === 'ERR_BUFFER_TOO_LARGE') return tooLargeError(maxBytes, context);
  return transportErrorOf(error, context, 'protocol');
}

export interface HttpOptions {
  /** May have a path, which is put before every requested path. */
  readonly baseUrl: string;
  readonly key: string;
  readonly userAgent: string;
  /** Longest time for the whole exchange, from the call to the last byte, ms. */
  readonly timeoutMs: number;
  /** Largest body to read, bytes. */
  readonly maxBodyBytes: number;
  readonly connections: number;
  /** By default no proxy, and the usual certificates. */
  readonly network?: Network;
}

export interface HttpRequest {
  readonly method: HttpMethod;
  /** Begins with `/` and includes the query. */
  readonly path: string;
  /** JSON text. */
  readonly body?: string;
  /** Called once the connection is open, just before the first byte; if it returns false, nothing is sent. */
  readonly mayBegin?: (() => boolean) | undefined;
}

export type HttpHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

export interface HttpResponse {
  readonly status: number;
  /** Names in lower case; the key is removed. */
  readonly headers: HttpHeaders;
  /** The text, without the key and passwords if the server sent any. Decoded when it is first read. */
  readonly body: string;
  /** SHA-1 of the body as it came, in base64, by which a page that came before is recognised without being read. */
  readonly digest: string;
  /** Returns the body in UTF-8 if it can be read just as it came, else undefined. The memory is the caller's. */
  readonly cleanBytes: () => Buffer | undefined;
  /** Releases the memory of the bytes; `body` stays if it was read before. */
  readonly discard: () => void;
  /** Size of the body on the wire. */
  readonly bytes: number;
  /** From the call to the last byte. */
  readonly milliseconds: number;
}

export interface Http {
  /**
   * Sends the request once. Throws a TransportError if no whole response came. If the signal is aborted before anything was
   * sent, throws its reason; if it is aborted later, a TransportError with the fault `aborted`.
   */
  send(request: HttpRequest, signal?: AbortSignal): Promise<HttpResponse>;
  /** The base address, for messages. */
  readonly address: string;
  readonly redact: Redact;
  close(): Promise<void>;
}

/** A connection that is not open by then will not open; the rest of the time is better spent on another try. */
const longestConnectMs = 8 * secondMs;

/** Opens the pool; nothing is sent before the first request. */
export function openHttp(options: HttpOptions): Http {
  const { origin, prefix, text: address } = addressOf(options.baseUrl);
  const redact = redactorOf(options.key);
  const scrubber = bodyScrubber(options.key);
  const shared = {
    connections: options.connections,
    connectTimeoutMs: Math.min(options.timeoutMs, longestConnectMs),
    headersTimeout: options.timeoutMs,
    bodyTimeout: options.timeoutMs,
    allowH2: false,
  };
  const open = (pipelining: number) => openDispatcher(origin, options.network ?? {}, { ...shared, pipelining });
  const reads = open(1);
  // A write gets a new connection: on one that was kept alive it could cross with the server closing it, and its outcome
  // would be unknown for no reason.
  let writes: Dispatcher | undefined;
  const headers = {
    authorization: `Bearer ${options.key}`,
    accept: 'application/json',
    'content-type': 'application/json',
    // A cache in front of the server may return responses that are older than they seem.
    'cache-control': 'no-cache',
    'user-agent': options.userAgent,
  };
  return {
    address,
    redact,
    send: async (request, signal) => {
      const pool = request.method === 'GET' ? reads : (writes ??= open(0));
      const path = `${prefix}${request.path}`;
      const message = { origin, method: request.method, path, headers, body: request.body ?? null };
      const { mayBegin = () => true } = request;
      const received = await exchange(pool, message, { ...options, mayBegin }, redact, signal);
      return responseOf(received, redact, scrubber, request.method);
    },
    close: async () => {
      await Promise.all([reads.destroy(), writes?.destroy()]);
    },
  };
}

/** Runs one exchange with a handler of undici's: only that learns whether sending had begun. */
function exchange(
  pool: Dispatcher,
  message: Dispatcher.DispatchOptions,
  limits: Pick<HttpOptions, 'timeoutMs' | 'maxBodyBytes'> & { readonly mayBegin: () => boolean },
  redact: Redact,
  signal: AbortSignal | undefined,
): Promise<Received> {
  if (signal?.aborted) return Promise.reject(signal.reason as Error);
  return new Promise((resolve, reject) => {
    const started = performance.now();
    let controller: Dispatcher.DispatchController | undefined;
    let settled = false;
    let status = 0;
    let headers: HttpHeaders = {};
    let body = new BodyBuffer(0);

    const settle = () => {
      settled = true;
      clearTimeout(timer);
      signal?.removeEventListener('abort', onAbort);
    };
    const fail = (error: unknown) => {
      if (settled) return;
      settle();
      reject(error);
      controller?.abort(new Error('given up'));
    };
    const context = () => ({ sent: controller !== undefined, redact });
    const onAbort = () =>
      fail(controller === undefined ? signal?.reason : transportErrorOf(signal?.reason, context(), 'aborted'));
    const timer = setTimeout(() => fail(timeoutError(limits.timeoutMs, context())), limits.timeoutMs);
    signal?.addEventListener('abort', onAbort, { once: true });

    pool.dispatch(message, {
      onRequestStart: (begun) => {
        if (!settled && !limits.mayBegin()) fail(new TransportError('it would have gone out too late', 'late', false));
        if (settled) begun.abort(new Error('given up'));
        else controller = begun;
      },
      onResponseStart: (_, statusCode, received) => {
        status = statusCode;
        headers = received;
        const announced = Number(received['content-length'] ?? 0);
        if (announced > limits.maxBodyBytes) fail(tooLargeError(limits.maxBodyBytes, context()));
        else if (Number.isSafeInteger(announced)) body = new BodyBuffer(announced);
      },
      onResponseData: (_, chunk) => {
        if (body.length + chunk.length > limits.maxBodyBytes) fail(tooLargeError(limits.maxBodyBytes, context()));
        else body.append(chunk);
      },
      onResponseEnd: () => {
        if (settled) return;
        settle();
        const bytes = body.length;
        const milliseconds = performance.now() - started;
        const deliver = (content: Buffer) => resolve({ status, headers, content, bytes, milliseconds });
        const refuse = (error: unknown) => reject(decodingErrorOf(error, limits.maxBodyBytes, context()));
        decodedBody(body.bytes(), headers, limits.maxBodyBytes).then(deliver, refuse);
      },
      onResponseError: (_, error) => fail(transportErrorOf(error, context())),
    });
  });
}

/** Returns the text of the header, the first one if it was sent several times. */
function headerText(headers: HttpHeaders, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value.trim() : value?.[0]?.trim();
}

function numberOf(headers: HttpHeaders, name: string): number | undefined {
  const text = headerText(headers, name);
  return text !== undefined && /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : undefined;
}

/** The oldest form of an HTTP date, `Sun Nov  6 08:49:37 1994`, which is in UTC. */
const asctime = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}$/;

/** Parses an HTTP date. The patterns are needed because `Date.parse` makes a date of almost anything. */
function instantOf(text = ''): number | undefined {
  const date = asctime.test(text) ? `${text} GMT` : text;
  const ms = date !== text || /^[A-Z][a-z]+, .* GMT$/.test(text) ? Date.parse(date) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms;
}

/** Returns the `Date` header in ms since 1970; it has whole seconds only. */
export function serverTimeOf(headers: HttpHeaders): number | undefined {
  return instantOf(headerText(headers, 'date'));
}

/** Returns the `Age` header in ms: how long a cache has held the response. Undefined if there is none. */
export function ageOf(headers: HttpHeaders): number | undefined {
  const seconds = numberOf(headers, 'age');
  return seconds === undefined ? undefined : seconds * secondMs;
}

/**
 * Returns how long `Retry-After` says to wait from `now`, ms. The header has seconds, a date, or what some servers write: seconds
 * since 1970. A time is compared with the server's own clock if the response has it. Undefined if there is no such header,
 * or none that makes sense.
 */
export function retryAfterOf(headers: HttpHeaders, now: number): number | undefined {
  const wait = waitIn(headers, 'retry-after', now);
  if (wait !== undefined) return wait;
  const at = instantOf(headerText(headers, 'retry-after'));
  return at === undefined ? undefined : Math.max(0, at - (serverTimeOf(headers) ?? now));
}

/** A smaller number means seconds from now; any other is a time since 1970. */
const smallestEpochSeconds = 1_000_000_000;
const smallestEpochMs = 1_000_000_000_000;

function waitIn(headers: HttpHeaders, name: string, now: number): number | undefined {
  const value = numberOf(headers, name);
  if (value === undefined) return undefined;
  if (value < smallestEpochSeconds) return value * secondMs;
  const at = value < smallestEpochMs ? value * secondMs : value;
  return Math.max(0, at - (serverTimeOf(headers) ?? now));
}

/** Reads `X-RateLimit-Limit`, `-Remaining` and `-Reset`. */
export function rateHeadersOf(headers: HttpHeaders, now: number) {
  const limit = numberOf(headers, 'x-ratelimit-limit');
  const remaining = numberOf(headers, 'x-ratelimit-remaining');
  const resetInMs = waitIn(headers, 'x-ratelimit-reset', now);
  return {
    ...(limit === undefined ? {} : { limit }),
    ...(remaining === undefined ? {} : { remaining }),
    ...(resetInMs === undefined ? {} : { resetInMs }),
  };
}

/** Returns how long a refusal says to wait, ms: until `Retry-After`, else until the end of the rate limit's window. */
export function requestedWaitOf(headers: HttpHeaders, now: number): number | undefined {
  return retryAfterOf(headers, now) ?? waitIn(headers, 'x-ratelimit-reset', now);
}

/** Returns the target of a redirect as the server wrote it. */
export function locationOf(headers: HttpHeaders): string | undefined {
  return headerText(headers, 'location');
}

export function contentTypeOf(headers: HttpHeaders): string {
  return headerText(headers, 'content-type')?.toLowerCase() ?? '';
}
