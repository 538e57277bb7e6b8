/**
 * The client of the Administration API: reads as functions, and every write as one. Reads are retried. A write is sent once and
 * never again, whatever comes back: its error says what is certain. Sections "Requests" and "Writing" of docs/architecture.md;
 * docs/api.md lists the operations.
 */
import { UsageError } from '../model/errors.ts';
import type { Log } from '../model/log.ts';
import { markOf } from '../model/secret.ts';
import { operationOf, type OperationName, pathOf } from '../model/operations.ts';
import { recordKey, type RecordKey } from '../model/records.ts';
import type { ResourceName, UserRelation } from '../model/resources.ts';
import { secondMs } from '../model/time.ts';
import { bodyOf, isHtml, type Page, pageOf, parsedOrText, recordIn, UnreadableResponse } from './body.ts';
import {
  adviceFor,
  isRedirect,
  redirectError,
  RefusedInput,
  refusalOf,
  type RequestName,
  type Response,
  responseOf,
  Unreachable,
  wordsOf,
  WriteOutcomeUnknown,
} from './errors.ts';
import { requestedWaitOf, retryAfterOf } from './headers.ts';
import { type HttpOptions, type HttpRequest, type HttpResponse, openHttp } from './http.ts';
import { type ListOptions, listPath } from './lists.ts';
import { walkPages } from './narrow.ts';
import { type GateOptions, Gate, realSleep, type Sleep } from './gate.ts';
import {
  type Counters,
  defaultRetryLimits,
  nameOf,
  type Patience,
  read,
  type RequestContext,
  type RetryLimits,
  transmit,
} from './retry.ts';
import { TransportError } from './transport.ts';

/** `baseUrl` is the address in front of `/api/v1`; it may have a path of its own. */
export interface ClientOptions
  extends
    Omit<HttpOptions, 'maxBodyBytes' | 'connections'>,
    Pick<GateOptions, 'concurrency' | 'requestsPerSecond' | 'clock'> {
  /** A monotonic clock, ms; `clock` by default. */
  readonly elapsed?: () => number;
  /** The most tries of a read. */
  readonly attempts: number;
  /** No try of a read begins later than this after its first, ms. 5 minutes by default. */
  readonly deadlineMs?: number | undefined;
  /** Records on a page if `pages` is called without `paginate`. */
  readonly pageSize: number;
  readonly log: Log;
  /** Returns a number from 0 to 1, for the pauses between tries. `Math.random` by default. */
  readonly random?: (() => number) | undefined;
  /** Waits in real time by default. */
  readonly sleep?: Sleep | undefined;
  /** Largest body to read, bytes. By default 16 MiB, or less if `concurrency` such bodies would exceed 128 MiB. */
  readonly maxBodyBytes?: number | undefined;
}

/**
 * Reads throw KeyRefused, NotFound, RefusedInput, ServerFailed, Unreachable or NotTheApi. Lists also throw PageTooLarge,
 * and a UsageError for an option that the resource does not have. `write` says what writes throw. All throw the signal's
 * reason if it is aborted before anything that matters was sent.
 */
export interface Client {
  list<R extends ResourceName>(
    resource: R,
    options?: ListOptions<R>,
    signal?: AbortSignal,
    patience?: Patience,
  ): Promise<Page>;
  /** One page of a list, parsed by `parse`. If that throws an UnreadableResponse, the page is requested again. */
  listAs<R extends ResourceName, T>(
    resource: R,
    options: ListOptions<R>,
    parse: (response: HttpResponse) => T,
    signal?: AbortSignal,
    patience?: Patience,
  ): Promise<T>;
  /**
   * Every page of a list, forward, each record once by its `id`. Records that come or go meanwhile can shift others past
   * the reader; if the total changes, it logs a warning.
   */
  pages<R extends ResourceName>(resource: R, options?: ListOptions<R>, signal?: AbortSignal): AsyncGenerator<Page>;
  /** The user who owns the key. */
  auth(signal?: AbortSignal, patience?: Patience): Promise<Response>;
  getUser(
    user: RecordKey,
    relations?: readonly UserRelation[],
    signal?: AbortSignal,
    patience?: Patience,
  ): Promise<Response>;
  orders(user: RecordKey, signal?: AbortSignal): Promise<Response>;
  payments(user: RecordKey, signal?: AbortSignal): Promise<Response>;
  /**
   * Sends a write once, with exactly this body (JSON text), so that what is sent is what the journal holds.
   * @param mayBegin called just before the first byte; if it returns false, nothing is sent and Unreachable is thrown
   */
  sendExactly(
    operation: OperationName,
    user: number | undefined,
    body: string,
    signal?: AbortSignal,
    mayBegin?: () => boolean,
  ): Promise<Response>;
  readonly counters: Readonly<Counters>;
  /** Largest body to read. */
  readonly maxBodyBytes: number;
  /** The base address, for messages. */
  readonly address: string;
  /** Identifies the key without revealing anything of it. */
  readonly keyMark: string;
  /** Removes the key from a text that a server sent. */
  redact(text: string): string;
  /** Closes every connection at once. */
  close(): Promise<void>;
}

const largestBodyBytes = 16 * 1_048_576;
/** For all bodies that are being received at the same time. */
const largestBodiesBytes = 128 * 1_048_576;

function checkServer({ baseUrl, key }: ClientOptions): void {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol) || url.username !== '') {
    throw new UsageError('the base address is not an http or https address', {
      advice: 'Give it as in https://panel.example.com, without a user, a query or /api/v1.',
    });
  }
  if (!/^[\x21-\x7e]+$/.test(key)) {
    throw new UsageError('the key is empty, or holds spaces, line breaks or other characters that no key can have', {
      advice: 'Copy the key again.',
    });
  }
}

/** Returns the operation's path. Throws a UsageError for an id that is none: lists may show ids that can be read, but not written to. */
function pathFor(name: OperationName, user: RecordKey | undefined): string {
  const operation = operationOf(name);
  const isId = typeof user === 'bigint' || user === undefined || Number.isSafeInteger(user);
  if (isId && (user === undefined || operation.method === 'GET' || user > 0)) return pathOf(operation, user);
  throw new UsageError(`${user} is not a user id`, { advice: 'An id is a whole number above 0.' });
}

/** Opens the client; nothing is sent before the first call. Throws a UsageError for an invalid address or key. */
export function openClient(options: ClientOptions): Client {
  checkServer(options);
  const { clock, elapsed = () => clock.now(), log, random = Math.random, sleep = realSleep, concurrency } = options;
  const { attempts, deadlineMs = defaultRetryLimits.deadlineMs } = options;
  const limits: RetryLimits = { attempts, deadlineMs };
  const { maxBodyBytes = Math.min(largestBodyBytes, Math.floor(largestBodiesBytes / concurrency)) } = options;
  const http = openHttp({ ...options, maxBodyBytes, connections: concurrency });
  const gate = new Gate({ ...options, maxWaitMs: Math.max(deadlineMs, secondMs), elapsed, sleep });
  const counters: Counters = { requests: 0, retries: 0, byStatus: {} };
  const context = { http, gate, clock, elapsed, sleep, log, counters };

  const readPath = <T>(
    path: string,
    parse: (response: HttpResponse) => T,
    signal: AbortSignal | undefined,
    { mayRetry, ...patience }: Patience = {},
  ): Promise<T> => read(context, path, parse, { limits: { ...limits, ...patience }, random, signal, mayRetry });
  const get = (path: string, signal?: AbortSignal, patience?: Patience): Promise<Response> =>
    readPath(path, checkedResponse, signal, patience);

  const listAs: Client['listAs'] = async (resource, requested, parse, signal, patience) =>
    readPath(listPath(resource, requested), parse, signal, patience);
  const list: Client['list'] = async (resource, requested = {}, signal, patience) =>
    listAs(resource, requested, (response) => pageOf(response, requested.page ?? 1, resource), signal, patience);

  const sendExactly: Client['sendExactly'] = async (name, user, body, signal, mayBegin) => {
    const request = { method: operationOf(name).method, path: pathFor(name, user), body, mayBegin };
    return write(context, request, signal);
  };
  return {
    list,
    listAs,
    pages: (resource, requested = {}, signal) =>
      walkPages((page, paginate, patience) => list(resource, { ...requested, page, paginate }, signal, patience), {
        resource,
        first: requested.page ?? 1,
        pageSize: requested.paginate ?? options.pageSize,
        log,
      }),
    auth: async (signal, patience) => get(pathFor('users.auth', undefined), signal, patience),
    getUser: async (user, relations = [], signal, patience) => {
      const query = relations.map((each) => `${each}=1`).join('&');
      return get(`${pathFor('users.get', user)}${query === '' ? '' : `?${query}`}`, signal, patience);
    },
    orders: async (user, signal) => get(pathFor('users.orders', user), signal),
    payments: async (user, signal) => get(pathFor('users.payments', user), signal),
    sendExactly,
    counters,
    maxBodyBytes,
    address: http.address,
    keyMark: markOf(options.key),
    redact: http.redact,
    close: async () => {
      gate.close();
      await http.close();
    },
  };
}

/** Returns the response as it came. Throws an UnreadableResponse if its body cannot be read. */
function checkedResponse(response: HttpResponse): Response {
  bodyOf(response);
  return responseOf(response);
}

/**
 * Besides 5xx, statuses after which a write may have been made: the server gave up waiting, or met a conflict. After the conflict of a
 * deletion, the record that is in its way is still there.
 */
function isDoubtful({ method }: HttpRequest, status: number): boolean {
  return [408, 425].includes(status) || (status === 409 && method !== 'DELETE');
}
/** Redirects that a server sends instead of acting. A 302 or 303 may be sent after the write was made. */
const movedStatuses = [301, 307, 308];

/**
 * Sends the write once and returns the response as it came if the server reports success. Throws KeyRefused, NotFound or
 * RefusedInput if the server refused; ServerFailed if it did nothing and asks to try later; Unreachable if nothing was
 * sent; WriteOutcomeUnknown if the response was lost or does not say what happened; and the signal's reason if it was
 * aborted before sending.
 */
async function write(context: RequestContext, request: HttpRequest, signal?: AbortSignal): Promise<Response> {
  const name = nameOf(context, request);
  let response: HttpResponse;
  try {
    response = await transmit(context, request, signal);
  } catch (error) {
    if (!(error instanceof TransportError)) throw error;
    if (error.sent) {
      const text = `${name.request} was sent and its response was lost: ${error.message}`;
      throw new WriteOutcomeUnknown(text, { cause: error });
    }
    const text = `${name.request}: ${error.message}; nothing was sent`;
    throw new Unreachable(text, { cause: error, advice: adviceFor(error) });
  }
  const { status } = response;
  if (status >= 200 && status <= 299) return checkedSuccess(response, request, name);
  if (movedStatuses.includes(status)) throw redirectError(response, name);
  const now = context.clock.now();
  // Only Retry-After counts for a 503: a server may send X-RateLimit-Reset with every response.
  const isPutOff = status === 503 && retryAfterOf(response.headers, now) !== undefined && isFromTheApi(response);
  if (status === 429 || isPutOff)
    throw refusalOf(response, name, '; nothing was done', requestedWaitOf(response.headers, now));
  if (isRedirect(status) || status >= 500 || isDoubtful(request, status)) {
    const text = `${name.request} returned ${status}${wordsOf(response, name.redact)}`;
    throw new WriteOutcomeUnknown(text, { response: responseOf(response) });
  }
  throw refusalOf(response, name);
}

/** Whether the body is the API's JSON. A web page is from a proxy, which may ask to come back while the server still works. */
function isFromTheApi(response: HttpResponse): boolean {
  return !isHtml(response) && typeof parsedOrText(response.body) === 'object';
}

/** Returns the user in the response if it is not the one that was written to: then something has mixed up two requests. */
function otherUserIn(body: unknown, { path }: HttpRequest): RecordKey | undefined {
  const user = /\/users\/(\d+)/.exec(path)?.[1];
  const record = recordIn(body);
  if (user === undefined || record === undefined || !('username' in record)) return undefined;
  const id = recordKey(record);
  return String(id) === user ? undefined : id;
}

function checkedSuccess(response: HttpResponse, request: HttpRequest, name: RequestName): Response {
  const given = responseOf(response);
  if (response.status === 204 && response.body === '') return given;
  try {
    const other = otherUserIn(bodyOf(response), request);
    if (other === undefined) return given;
    throw new UnreadableResponse(`the response is about user ${other}`);
  } catch (error) {
    if (!(error instanceof UnreadableResponse)) throw error;
    if (error.kind !== 'refused') {
      const text = `${name.request} returned ${response.status}, but ${error.message}`;
      throw new WriteOutcomeUnknown(text, { response: given });
    }
    const problems = error.problems.map(name.redact);
    const words = problems.length === 0 ? '' : `: ${problems.join('; ')}`;
    throw new RefusedInput(`${name.request} was refused${words}`, response.status, problems, { response: given });
  }
}
