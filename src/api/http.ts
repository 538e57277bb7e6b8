/**
 * Sends one request through a pool of undici, bounded in time and size, and gives its response without secrets, or one error for
 * sockets, TLS, HTTP parsing and time limits. Redirects are responses like any other and never followed. The key goes into the
 * Authorization header and nowhere else. Section "Requests" of docs/architecture.md.
 */
import { isUtf8 } from 'node:buffer';
import { hash } from 'node:crypto';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import type { Dispatcher } from 'undici';
import type { HttpMethod } from '../model/operations.ts';
import { formsOf, hiderOf, passwordsIn, withoutPasswords } from '../model/secret.ts';
import { withoutEndSlashes } from '../model/text.ts';
import { secondMs } from '../model/time.ts';
import { headerText, type HttpHeaders } from './headers.ts';
import {
  codeOf,
  type Network,
  openDispatcher,
  TransportError,
  type TransportFault,
  transportErrorOf,
} from './transport.ts';

export interface HttpOptions {
  /** May have a path, which is put before every requested path. */
  readonly baseUrl: string;
  readonly key: string;
  readonly userAgent: string;
  /** Longest time for the whole exchange, from the call to the last byte, ms. */
  readonly timeoutMs: number;
  /** Largest body to read, bytes, also when decompressed. */
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

export interface HttpResponse {
  readonly status: number;
  /** Names in lower case; secrets are removed. */
  readonly headers: HttpHeaders;
  /** The text, without secrets. Decoded when it is first read. */
  readonly body: string;
  /** SHA-1 of the body as it came, in base64, by which a page that came before is recognised without being read. */
  readonly digest: string;
  /** Returns the body in UTF-8 if it can be read just as it came, else undefined. */
  readonly cleanBytes: () => Buffer | undefined;
  /** Size of the body on the wire. */
  readonly bytes: number;
  /** From the call to the last byte. */
  readonly milliseconds: number;
}

export type Redact = (text: string) => string;

export interface Http {
  /**
   * Sends the request once. Throws a TransportError if no whole response came. If the signal is aborted before anything was
   * sent, throws its reason; if it is aborted later, a TransportError with the fault `aborted`.
   */
  send(request: HttpRequest, signal?: AbortSignal): Promise<HttpResponse>;
  /** The base address, for messages. */
  readonly address: string;
  /** Replaces the key, in each of its forms, and the values of password fields by `****`. */
  readonly redact: Redact;
  close(): Promise<void>;
}

/** A connection that is not open by then will not open; the rest of the time is better spent on another try. */
const longestConnectMs = 8 * secondMs;

/** Opens the pool; nothing is sent before the first request. */
export function openHttp(options: HttpOptions): Http {
  const { origin, pathname } = new URL(options.baseUrl);
  const prefix = withoutEndSlashes(pathname);
  const scrubber = new Scrubber(options.key);
  const { redact } = scrubber;
  const shared = {
    connections: options.connections,
    connectTimeoutMs: Math.min(options.timeoutMs, longestConnectMs),
    // The time of the whole exchange is bounded instead.
    headersTimeout: 0,
    bodyTimeout: 0,
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
    address: `${origin}${prefix}`,
    redact,
    send: async (request, signal) => {
      const { method, body = null, mayBegin = () => true } = request;
      const passwords = body === null ? [] : passwordsIn(JSON.parse(body));
      const pool = method === 'GET' ? reads : (writes ??= open(0));
      const message = { origin, method, path: `${prefix}${request.path}`, headers, body };
      const received = await exchange(pool, message, { ...options, mayBegin, redact }, signal);
      return method === 'GET' ? scrubber.read(received) : scrubber.written(received, passwords);
    },
    close: async () => {
      await Promise.all([reads.destroy(), writes?.destroy()]);
    },
  };
}

type Received = Pick<HttpResponse, 'status' | 'headers' | 'bytes' | 'milliseconds'> & { readonly content: Buffer };

/** A shorter key is not looked for in bodies: it may be an ordinary word of a record. */
const shortestKeyInBodies = 12;
/** Parts of the names of password fields. Most pages have none of them, and need no closer look. */
const passwordMarks = ['pass', 'Pass', 'PASS', 'pwd', 'Pwd', 'PWD'];
/** The first byte of a byte order mark. */
const markByte = 0xef;

/** Removes the key and passwords from what came, so that no later code can pass them on. All else stays, byte for byte. */
class Scrubber {
  readonly redact: Redact;
  readonly #scrub: Redact;
  readonly #forms: readonly Buffer[];
  readonly #marks = passwordMarks.map((mark) => Buffer.from(mark));

  constructor(key: string) {
    const hide = hiderOf([key]);
    const isLong = key.length >= shortestKeyInBodies;
    this.redact = (text) => withoutPasswords(hide(text));
    this.#scrub = isLong ? this.redact : withoutPasswords;
    this.#forms = isLong ? formsOf(key).map((form) => Buffer.from(form)) : [];
  }

  /** Whether the bytes hold neither the key nor a field for a password. Takes half a millisecond for a thousand records. */
  #isClean(content: Buffer): boolean {
    if (this.#forms.some((form) => content.includes(form))) return false;
    if (!this.#marks.some((mark) => content.includes(mark))) return true;
    const text = content.toString('latin1');
    return withoutPasswords(text) === text;
  }

  read({ content, headers, ...rest }: Received): HttpResponse {
    const digest = hash('sha1', content, 'base64');
    let text: string | undefined;
    let clean: boolean | undefined;
    const isClean = () => (clean ??= this.#isClean(content));
    const decoded = () => (isClean() ? utf8.decode(content) : this.#scrub(utf8.decode(content)));
    return {
      ...rest,
      headers: scrubbed(headers, this.redact),
      digest,
      get body() {
        return (text ??= decoded());
      },
      cleanBytes: () => (isUtf8(content) && content[0] !== markByte && isClean() ? content : undefined),
    };
  }

  /** A server may send back the password that it was given, anywhere in the response to a write. */
  written({ content, headers, ...rest }: Received, sent: readonly string[]): HttpResponse {
    const text = utf8.decode(content);
    const hide = hiderOf(sent);
    const body = this.#scrub(hide(text));
    const headersLeft = scrubbed(headers, (value) => this.redact(hide(value)));
    return { ...rest, headers: headersLeft, body, digest: '', cleanBytes: () => undefined };
  }
}

function scrubbed(headers: HttpHeaders, redact: Redact): HttpHeaders {
  return Object.fromEntries(
    Object.entries(headers).map(([name, value = '']) => [
      name,
      typeof value === 'string' ? redact(value) : value.map(redact),
    ]),
  );
}

/**
 * A body as it arrives. Each chunk is copied into one buffer at once, so that the dozens of chunks from the socket are garbage
 * before the next page arrives. If they were kept until the end, they would outlive the young generation of the garbage
 * collector and triple the memory of a long sync.
 */
class BodyBuffer {
  #bytes: Buffer;
  length = 0;

  /** @param expected bytes that the response announces; 0 if it does not */
  constructor(expected: number) {
    this.#bytes = Buffer.allocUnsafeSlow(expected);
  }

  append(chunk: Buffer): void {
    const needed = this.length + chunk.length;
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2));
      this.#bytes.copy(larger, 0, 0, this.length);
      this.#bytes = larger;
    }
    chunk.copy(this.#bytes, this.length);
    this.length = needed;
  }

  bytes(): Buffer {
    return this.#bytes.subarray(0, this.length);
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

/** Decompresses the body to at most `maxBytes`. */
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
  return plain;
}

interface Limits extends Pick<HttpOptions, 'timeoutMs' | 'maxBodyBytes'> {
  readonly mayBegin: () => boolean;
  readonly redact: Redact;
}

/** Runs one exchange with a handler of undici's: only that learns whether sending had begun. */
function exchange(
  pool: Dispatcher,
  message: Dispatcher.DispatchOptions,
  { timeoutMs, maxBodyBytes, mayBegin, redact }: Limits,
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
    const errorOf = (error: unknown, fault?: TransportFault) =>
      transportErrorOf(error, { sent: controller !== undefined, redact, fault });
    const onAbort = () => fail(controller === undefined ? signal?.reason : errorOf(signal?.reason, 'aborted'));
    const onTimeout = () => {
      const sent = controller !== undefined;
      const text = `${sent ? 'the response was not complete' : 'no connection was made'} after ${timeoutMs / secondMs} s`;
      fail(new TransportError(text, sent ? 'timeout' : 'connect', sent));
    };
    const timer = setTimeout(onTimeout, timeoutMs);
    signal?.addEventListener('abort', onAbort, { once: true });
    const tooLarge = new TransportError(
      `the response is larger than ${Math.floor(maxBodyBytes / 1_048_576)} MiB`,
      'too-large',
      true,
    );

    pool.dispatch(message, {
      onRequestStart: (begun) => {
        if (!settled && !mayBegin()) fail(new TransportError('it would have gone out too late', 'late', false));
        if (settled) begun.abort(new Error('given up'));
        else controller = begun;
      },
      onResponseStart: (_, statusCode, received) => {
        status = statusCode;
        headers = received;
        const announced = Number(received['content-length'] ?? 0);
        if (announced > maxBodyBytes) fail(tooLarge);
        else if (Number.isSafeInteger(announced)) body = new BodyBuffer(announced);
      },
      onResponseData: (_, chunk) => {
        if (body.length + chunk.length > maxBodyBytes) fail(tooLarge);
        else body.append(chunk);
      },
      onResponseEnd: () => {
        if (settled) return;
        settle();
        const bytes = body.length;
        const milliseconds = performance.now() - started;
        const deliver = (content: Buffer) => resolve({ status, headers, content, bytes, milliseconds });
        const refuse = (error: unknown) =>
          reject(codeOf(error) === 'ERR_BUFFER_TOO_LARGE' ? tooLarge : errorOf(error, 'protocol'));
        decodedBody(body.bytes(), headers, maxBodyBytes).then(deliver, refuse);
      },
      onResponseError: (_, error) => fail(errorOf(error)),
    });
  });
}
