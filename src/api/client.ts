/**
 * The client of the Administration API: its fourteen operations as typed functions. Reads are retried, writes are not.
 * Section "Requests" of docs/architecture.md; docs/api.md lists the operations.
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
import type { RecordKey } from '../model/records.ts';
import type { ResourceName, UserRelation } from '../model/resources.ts';
import { secondMs } from '../model/time.ts';
import { bodyOf, type Page, pageOf } from './envelope.ts';
import { type Response, responseOf } from './errors.ts';
import { exactNumber } from './exact-json.ts';
import { type HttpOptions, type HttpResponse, openHttp } from './http.ts';
import { type ListOptions, listPath } from './list-query.ts';
import { walkPages } from './narrow.ts';
import { type GateOptions, openGate, realSleep, type Sleep } from './gate.ts';
import type { RateLimit } from './rate.ts';
import { type Counters, read } from './request.ts';
import { defaultRetryLimits, type RetryLimits } from './retry.ts';
import { deletionErrorOf, write } from './write.ts';

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

/** How long to keep trying one read, where that differs from the client's own limits. */
export type Patience = Partial<Pick<RetryLimits, 'attempts' | 'pageAttempts' | 'deadlineMs'>> & {
  /** Called before each further try; returning false ends them. */
  readonly mayRetry?: () => boolean;
};

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
