/**
 * One request, one response, and what its headers say: undici underneath, keep-alive and a pool, bounded in time and size.
 * Redirects are responses like any other and never followed; the key goes into the Authorization header and nowhere else.
 * Section "Requests" of docs/architecture.md.
 */
import { hash } from 'node:crypto';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { Dispatcher } from 'undici';
import { type Network, openDispatcher } from './network.ts';
import { bodyScrubber, type BodyScrubber, codeOf, type Redact, redactorOf, scrubbedHeaders } from './redact.ts';
import { type Circumstances, tooLarge, TransportError, transportErrorOf, wasTimeout } from './transport-error.ts';
import type { HttpMethod } from '../model/operations.ts';
import { releaseBytes } from '../model/memory.ts';
import { secondMs } from '../model/time.ts';

interface Address {
  readonly origin: string;
  /** The address's own path, without a slash at its end. */
  readonly prefix: string;
  /** Both, for messages. */
  readonly text: string;
}

function addressOf(baseUrl: string): Address {
  const { origin, pathname } = new URL(baseUrl);
  const prefix = pathname.replace(/\/+$/, '');
  return { origin, prefix, text: `${origin}${prefix}` };
}

/**
 * A body as it arrives. Each piece is copied at once into one buffer, so that the pieces, which come from the socket in
 * their dozens, are garbage before the next page is there: kept until the end, they outlive the collector's young
 * generation and triple the memory of a long sync.
 */
class BodyBuffer {
  #bytes: Buffer;
  #length = 0;

  /** @param expected bytes that the response announces; 0 where it does not */
  constructor(expected: number) {
    this.#bytes = Buffer.allocUnsafeSlow(expected);
  }

  get length(): number {
    return this.#length;
  }

  append(piece: Buffer): void {
    const needed = this.#length + piece.length;
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2));
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    piece.copy(this.#bytes, this.#length);
    this.#length = needed;
  }

  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }
}

type Decode = (bytes: Buffer, options: { readonly maxOutputLength: number }) => Promise<Buffer>;

const inflate: Decode = promisify(zlib.inflate);
const inflateRaw: Decode = promisify(zlib.inflateRaw);
/** In the first byte of a zlib stream; some servers send the bare stream under the same name. */
const deflateMethod = 8;

const decoders: Readonly<Record<string, Decode>> = {
  gzip: promisify(zlib.gunzip),
  'x-gzip': promisify(zlib.gunzip),
  br: promisify(zlib.brotliDecompress),
  zstd: promisify(zlib.zstdDecompress),
  deflate: (bytes, options) => ((bytes[0] ?? 0) % 16 === deflateMethod ? inflate : inflateRaw)(bytes, options),
  identity: (bytes) => Promise.resolve(bytes),
};

// It leaves a byte order mark out.
const utf8 = new TextDecoder();

/** The body without its encoding, of `most` bytes at the most. Rejects with whatever `decodingErrorOf` takes. */
async function decodedBody(body: Buffer, headers: HttpHeaders, most: number): Promise<Buffer> {
  const codings = headerText(headers, 'content-encoding')?.toLowerCase().split(',') ?? [];
  let plain = body;
  // Undone one after the other, the last that was applied first. Nothing may be wrapped around nothing: a 204.
  for (const coding of body.length === 0 ? [] : codings.reverse()) {
    const decode = decoders[coding.trim()];
    if (decode === undefined) throw new Error(`the response is encoded as ${coding.trim().slice(0, 20)}`);
    plain = await decode(plain, { maxOutputLength: most });
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
      return (text ??= scrub(utf8.decode(content), method, rest.status));
    },
    cleanBytes: () => (isClean(content) ? content : undefined),
    discard: () => {
      text ??= '';
      releaseBytes(content);
    },
  };
}

function decodingErrorOf(error: unknown, most: number, circumstances: Circumstances): TransportError {
  if (codeOf(error) === 'ERR_BUFFER_TOO_LARGE') return tooLarge(most, circumstances);
  return transportErrorOf(error, circumstances, 'protocol');
}

export interface HttpOptions {
  /** May hold a path, which is put before every path requested. */
  readonly baseUrl: string;
  readonly key: string;
  readonly userAgent: string;
  /** Longest time for the whole exchange, from the call to the last byte, ms. */
  readonly timeoutMs: number;
  /** Largest body that is read, bytes. */
  readonly maxBodyBytes: number;
  readonly connections: number;
  /** Left out: no proxy, and the usual certificates. */
  readonly network?: Network;
}

export interface HttpRequest {
  readonly method: HttpMethod;
  /** With its query, beginning with `/`. */
  readonly path: string;
  /** JSON text. */
  readonly body?: string;
  /** Called once the connection stands, just before the first byte: where it says no, nothing is sent. */
  readonly mayBegin?: (() => boolean) | undefined;
}

export type HttpHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

export interface HttpResponse {
  readonly status: number;
  /** Names in lower case; the key is in none of them. */
  readonly headers: HttpHeaders;
  /** Without the key and passwords, should the server have sent them. Made when it is first read. */
  readonly body: string;
  /** SHA-1 of the body as it came, in base64: a page that came before is known by it without being read. */
  readonly digest: string;
  /** The body in UTF-8, where it may be read just as it came; else undefined. The memory is the caller's. */
  readonly cleanBytes: () => Buffer | undefined;
  /** Gives the memory of what came back; of the body, what was read stays. */
  readonly discard: () => void;
  /** How long the body was on its way here. */
  readonly bytes: number;
  /** From the call to the last byte. */
  readonly milliseconds: number;
}

export interface Http {
  /**
   * Sends the request once. Throws a TransportError where no whole response came, and the signal's reason where it was
   * aborted before anything was sent; aborted later, a TransportError of the fault `aborted`.
   */
  send(request: HttpRequest, signal?: AbortSignal): Promise<HttpResponse>;
  /** The address without the key, for messages. */
  readonly address: string;
  readonly redact: Redact;
  close(): Promise<void>;
}

/** A connection that does not stand after this long will not: the rest of the time is better spent on another try. */
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
  // A write gets a connection of its own: on one kept alive it could meet the server's closing of it, and its outcome
  // would be unknown for no reason.
  let writes: Dispatcher | undefined;
  const headers = {
    authorization: `Bearer ${options.key}`,
    accept: 'application/json',
    'content-type': 'application/json',
    // Something in front may keep responses; what it kept is older than it seems.
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

/** Runs one exchange as undici's handler, which alone knows whether the request had begun to be sent. */
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
    const failWith = (error: TransportError) => fail(error);
    const context = () => ({ sent: controller !== undefined, redact });
    const onAbort = () =>
      fail(controller === undefined ? signal?.reason : transportErrorOf(signal?.reason, context(), 'aborted'));
    const timer = setTimeout(() => failWith(wasTimeout(limits.timeoutMs, context())), limits.timeoutMs);
    signal?.addEventListener('abort', onAbort, { once: true });

    pool.dispatch(message, {
      onRequestStart: (begun) => {
        if (!settled && !limits.mayBegin())
          failWith(new TransportError('it would have gone out too late', 'late', false));
        if (settled) begun.abort(new Error('given up'));
        else controller = begun;
      },
      onResponseStart: (_, statusCode, received) => {
        status = statusCode;
        headers = received;
        const announced = Number(received['content-length'] ?? 0);
        if (announced > limits.maxBodyBytes) failWith(tooLarge(limits.maxBodyBytes, context()));
        else if (Number.isSafeInteger(announced)) body = new BodyBuffer(announced);
      },
      onResponseData: (_, chunk) => {
        if (body.length + chunk.length > limits.maxBodyBytes) failWith(tooLarge(limits.maxBodyBytes, context()));
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
      onResponseError: (_, error) => failWith(transportErrorOf(error, context())),
    });
  });
}

/** The header's text, the first where there are several. */
function headerText(headers: HttpHeaders, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' ? value.trim() : value?.[0]?.trim();
}

function numberOf(headers: HttpHeaders, name: string): number | undefined {
  const text = headerText(headers, name);
  return text !== undefined && /^\d+(?:\.\d+)?$/.test(text) ? Number(text) : undefined;
}

/** An HTTP date; `Date.parse` alone would make a date of almost anything. */
function instantOf(text: string | undefined): number | undefined {
  const ms = text !== undefined && /^[A-Z][a-z]+, .* GMT$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms;
}

/** The server's clock in ms since 1970, cut to whole seconds as the `Date` header is. */
export function serverTimeOf(headers: HttpHeaders): number | undefined {
  return instantOf(headerText(headers, 'date'));
}

/** How long before it came here a cache had got the response from the server, in whole seconds, ms; undefined without one. */
export function ageOf(headers: HttpHeaders): number | undefined {
  const seconds = numberOf(headers, 'age');
  return seconds === undefined ? undefined : seconds * secondMs;
}

/**
 * How long `Retry-After` says to wait from `now`, in ms: seconds, or an HTTP date, which is read by the server's own
 * clock where it sends it. Undefined where there is no such header, or none that makes sense.
 */
export function retryAfterOf(headers: HttpHeaders, now: number): number | undefined {
  const seconds = numberOf(headers, 'retry-after');
  if (seconds !== undefined) return seconds * secondMs;
  const at = instantOf(headerText(headers, 'retry-after'));
  return at === undefined ? undefined : Math.max(0, at - (serverTimeOf(headers) ?? now));
}

interface RateHeaders {
  readonly limit?: number;
  /** Requests left in it. */
  readonly remaining?: number;
  /** How long until the window ends, ms from now. */
  readonly resetInMs?: number;
}

/** `X-RateLimit-Reset` below this is a number of seconds from now, above it a time since 1970. */
const smallestEpochSeconds = 1_000_000_000;
const smallestEpochMs = 1_000_000_000_000;

function resetOf(headers: HttpHeaders, now: number): number | undefined {
  const value = numberOf(headers, 'x-ratelimit-reset');
  if (value === undefined) return undefined;
  if (value < smallestEpochSeconds) return value * secondMs;
  const at = value < smallestEpochMs ? value * secondMs : value;
  return Math.max(0, at - (serverTimeOf(headers) ?? now));
}

/** `X-RateLimit-Limit`, `-Remaining` and `-Reset`, whichever are there. */
export function rateHeadersOf(headers: HttpHeaders, now: number): RateHeaders {
  const limit = numberOf(headers, 'x-ratelimit-limit');
  const remaining = numberOf(headers, 'x-ratelimit-remaining');
  const resetInMs = resetOf(headers, now);
  return {
    ...(limit === undefined ? {} : { limit }),
    ...(remaining === undefined ? {} : { remaining }),
    ...(resetInMs === undefined ? {} : { resetInMs }),
  };
}

/** What a refusal says to wait before the next try, ms: `Retry-After`, else the end of the rate limit's window. */
export function requestedWaitOf(headers: HttpHeaders, now: number): number | undefined {
  return retryAfterOf(headers, now) ?? resetOf(headers, now);
}

/** Where a redirect points to, as it stands. */
export function locationOf(headers: HttpHeaders): string | undefined {
  return headerText(headers, 'location');
}

export function contentTypeOf(headers: HttpHeaders): string {
  return headerText(headers, 'content-type')?.toLowerCase() ?? '';
}
