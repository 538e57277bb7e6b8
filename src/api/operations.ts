/**
 * The client of the Administration API: its fourteen operations as typed functions. Reads are retried. A write is sent once and
 * never again, whatever comes back: its error says what is certain. Sections "Requests" and "Writing" of docs/architecture.md;
 * docs/api.md lists the operations.
 */
import { UsageError } from '../model/errors.ts';
import type { Log } from '../model/log.ts';
import { markOf } from '../model/secret.ts';
import type { Money } from '../model/money.ts';
import {
  type BalanceChangeType,
  type NotificationType,
  operationOf,
  type OperationName,
  pathOf,
} from '../model/operations.ts';
import { recordKey, type RecordKey } from '../model/records.ts';
import type { ResourceName, UserRelation } from '../model/resources.ts';
import { secondMs } from '../model/time.ts';
import { bodyOf, exactNumber, problemsIn, recordIn, UnreadableResponse } from './body.ts';
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
import { type ListOptions, listPath, type Page, pageOf } from './lists.ts';
import { walkPages } from './narrow.ts';
import { type GateOptions, openGate, type RateLimit, realSleep, type Sleep } from './rate.ts';
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
    Pick<GateOptions, 'concurrency' | 'requestsPerSecond' | 'budget' | 'clock'> {
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

export interface NewUser {
  readonly first_name: string;
  readonly last_name: string;
  readonly username: string;
  readonly email: string;
  /** If it is empty, the server makes one and emails it to the user. */
  readonly password?: string;
  readonly language?: string;
  readonly address?: Readonly<
    Partial<Record<'company_name' | 'street' | 'street2' | 'city' | 'region' | 'country' | 'zip_code', string>>
  >;
  readonly welcome_email?: boolean;
  readonly mark_email_verified?: boolean;
}

/** Only the given fields change. */
export type UserChanges = Readonly<
  Partial<Record<'first_name' | 'last_name' | 'username' | 'password' | 'language', string>>
>;

export interface BalanceChange {
  readonly type: BalanceChangeType;
  /** Sent digit for digit: `12.50` as 12.50. */
  readonly amount: Money;
  /** The user can see it. */
  readonly description?: string;
}

export interface EmailMessage {
  readonly subject: string;
  /** HTML is supported. */
  readonly content: string;
}

export interface Notification {
  readonly type: NotificationType;
  /** An SVG, or an icon of an icon font. */
  readonly icon: string;
  readonly message: string;
  readonly url?: string;
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
  createUser(user: NewUser, signal?: AbortSignal): Promise<Response>;
  updateUser(user: number, changes: UserChanges, signal?: AbortSignal): Promise<Response>;
  deleteUser(user: number, options?: { readonly force?: boolean }, signal?: AbortSignal): Promise<Response>;
  updateBalance(user: number, change: BalanceChange, signal?: AbortSignal): Promise<Response>;
  sendEmail(user: number, email: EmailMessage, signal?: AbortSignal): Promise<Response>;
  sendNotification(user: number, notification: Notification, signal?: AbortSignal): Promise<Response>;
  /**
   * Makes one of the writes above with exactly this body (JSON text), so that what is sent is what the journal holds.
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
  /** The server's rate limit; undefined until a response shows it. */
  rateLimit(): RateLimit | undefined;
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

/** Returns the id. Throws a UsageError if it is none: lists may show ids that can be read, but not written to. */
function checkedId<Id extends RecordKey>(user: Id, use: 'read' | 'written'): Id {
  const isWhole = typeof user === 'bigint' || Number.isSafeInteger(user);
  if (isWhole && (use === 'read' || user > 0)) return user;
  throw new UsageError(`${user} is not a user id`, { advice: 'An id is a whole number above 0.' });
}

/** Opens the client; nothing is sent before the first call. Throws a UsageError for an invalid address or key. */
export function openClient(options: ClientOptions): Client {
  checkServer(options);
  const { clock, elapsed = () => clock.now(), log, random = Math.random, sleep = realSleep } = options;
  const { attempts, deadlineMs = defaultRetryLimits.deadlineMs } = options;
  const limits: RetryLimits = { ...defaultRetryLimits, attempts, deadlineMs };
  const maxBodyBytes =
    options.maxBodyBytes ?? Math.min(largestBodyBytes, Math.floor(largestBodiesBytes / options.concurrency));
  const http = openHttp({
    baseUrl: options.baseUrl,
    key: options.key,
    userAgent: options.userAgent,
    timeoutMs: options.timeoutMs,
    maxBodyBytes,
    connections: options.concurrency,
    ...(options.network !== undefined && { network: options.network }),
  });
  const gate = openGate({
    concurrency: options.concurrency,
    requestsPerSecond: options.requestsPerSecond,
    budget: options.budget,
    maxWaitMs: Math.max(limits.deadlineMs, secondMs),
    clock,
    elapsed,
    sleep,
  });
  const counters: Counters = { requests: 0, retries: 0, byStatus: {} };
  const context = { http, gate, clock, elapsed, sleep, log, counters, endpointsRead: new Set<string>() };

  const reading = (signal: AbortSignal | undefined, { mayRetry, ...patience }: Patience = {}) => ({
    limits: { ...limits, ...patience },
    random,
    signal,
    mayRetry,
  });
  const listAs: Client['listAs'] = async (resource, requested, parse, signal, patience) =>
    read(context, listPath(resource, requested), parse, reading(signal, patience));
  const list: Client['list'] = async (resource, requested = {}, signal, patience) =>
    listAs(resource, requested, (response) => pageOf(response, requested.page ?? 1, resource), signal, patience);

  const get = (
    name: OperationName,
    user: RecordKey | undefined,
    signal?: AbortSignal,
    query = '',
    patience?: Patience,
  ): Promise<Response> => {
    const path = pathOf(operationOf(name), user === undefined ? undefined : checkedId(user, 'read'));
    return read(context, `${path}${query}`, checkedResponse, reading(signal, patience));
  };

  const sendExactly: Client['sendExactly'] = async (name, user, body, signal, mayBegin) => {
    const operation = operationOf(name);
    const path = pathOf(operation, user === undefined ? undefined : checkedId(user, 'written'));
    return write(context, { method: operation.method, path, body, mayBegin }, signal);
  };
  const send = (name: OperationName, user: number | undefined, body: object, signal?: AbortSignal): Promise<Response> =>
    sendExactly(name, user, JSON.stringify(body), signal);

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
    auth: async (signal, patience) => get('users.auth', undefined, signal, '', patience),
    getUser: async (user, relations = [], signal, patience) => {
      const query = relations.map((each) => `${each}=1`).join('&');
      return get('users.get', user, signal, query === '' ? '' : `?${query}`, patience);
    },
    orders: async (user, signal) => get('users.orders', user, signal),
    payments: async (user, signal) => get('users.payments', user, signal),
    createUser: async (user, signal) => send('users.create', undefined, user, signal),
    updateUser: async (user, changes, signal) => send('users.update', user, changes, signal),
    deleteUser: async (user, { force } = {}, signal) => {
      try {
        return await send('users.delete', user, force === undefined ? {} : { force }, signal);
      } catch (error) {
        throw await deletionErrorOf(error, () => get('users.get', user, signal));
      }
    },
    updateBalance: async (user, { type, amount, description }, signal) =>
      send('users.update-balance', user, { type, amount: exactNumber(amount), description }, signal),
    sendEmail: async (user, email, signal) => send('users.send-email', user, email, signal),
    sendNotification: async (user, notification, signal) => send('users.send-notification', user, notification, signal),
    sendExactly,
    counters,
    rateLimit: () => gate.limit(),
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

const readBack = 'It may have been done. Read the user back before you send it again.';
/** Besides 5xx, statuses after which a write may have been made: the server gave up waiting, or met a conflict. */
const conflict = 409;
const doubtful = new Set([408, conflict, 425]);
/** Redirects that a server sends instead of acting. A 302 or 303 may be sent after the write was made. */
const movedStatuses = new Set([301, 307, 308]);

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
      throw new WriteOutcomeUnknown(`${name.request} was sent and its response was lost: ${error.message}`, {
        cause: error,
        advice: readBack,
      });
    }
    throw new Unreachable(`${name.request}: ${error.message}; nothing was sent`, {
      cause: error,
      advice: adviceFor(error),
    });
  }
  return checkedOutcome(response, request, name, context.clock.now());
}

/**
 * Returns the error for a failed deletion. After a conflict the server has decided, so if `readUser` still finds the user, the
 * deletion was refused. Any other error is returned as it is.
 */
async function deletionErrorOf(error: unknown, readUser: () => Promise<Response>): Promise<unknown> {
  if (!(error instanceof WriteOutcomeUnknown) || error.response?.status !== conflict) return error;
  try {
    // A response from a cache may be older than the deletion.
    const { ageMs = 0 } = await readUser();
    if (ageMs > 0) return error;
  } catch {
    return error;
  }
  return new RefusedInput(`${error.message}; the user is still there`, conflict, problemsIn(error.response.body), {
    response: error.response,
    advice: "The words are the server's own. Orders and punishments forbid a deletion that is not forced.",
  });
}

/** Returns the response to a write if it succeeded; throws the error of any other outcome. */
function checkedOutcome(response: HttpResponse, request: HttpRequest, name: RequestName, now: number): Response {
  const { status } = response;
  if (status >= 200 && status <= 299) return checkedSuccess(response, request, name);
  if (movedStatuses.has(status)) throw redirectError(response, name);
  const waitMs = requestedWaitOf(response.headers, now);
  // Only Retry-After counts for a 503: a server may send X-RateLimit-Reset with every response.
  const isPutOff = status === 503 && retryAfterOf(response.headers, now) !== undefined && isFromTheApi(response);
  if (status === 429 || isPutOff) throw refusalOf(response, name, '; nothing was done', waitMs);
  if (isRedirect(status) || status >= 500 || doubtful.has(status)) {
    const words = wordsOf(response, name.redact);
    throw new WriteOutcomeUnknown(`${name.request} returned ${status}${words}`, {
      response: responseOf(response),
      advice: readBack,
    });
  }
  throw refusalOf(response, name);
}

/** Whether the body is the API's JSON. A web page is from a proxy, which may ask to come back while the server still works. */
function isFromTheApi(response: HttpResponse): boolean {
  try {
    bodyOf(response);
    return true;
  } catch (error) {
    if (!(error instanceof UnreadableResponse)) throw error;
    return error.kind === 'refused';
  }
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
  if (response.status === 204 && response.body === '') return responseOf(response);
  try {
    const other = otherUserIn(bodyOf(response), request);
    if (other !== undefined) throw new UnreadableResponse(`the response is about user ${other}`);
  } catch (error) {
    if (!(error instanceof UnreadableResponse)) throw error;
    const options = { response: responseOf(response) };
    if (error.kind === 'refused') {
      const problems = error.problems.map(name.redact);
      const words = problems.length === 0 ? '' : `: ${problems.join('; ')}`;
      throw new RefusedInput(`${name.request} was refused${words}`, response.status, problems, {
        ...options,
        advice: "The words are the server's own. Correct what was sent.",
      });
    }
    throw new WriteOutcomeUnknown(`${name.request} returned ${response.status}, but ${error.message}`, {
      ...options,
      advice: readBack,
    });
  }
  return responseOf(response);
}
