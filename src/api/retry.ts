/**
 * Sends one request through the gate, counted and logged; and reads a path, with retries until it succeeds, cannot succeed, or
 * has taken too long. Whether and when to try again is a pure decision. Writes are never retried. Section "Requests" of
 * docs/architecture.md.
 */
import type { Log } from '../model/log.ts';
import { counted } from '../model/text.ts';
import { type Clock, minuteMs, secondMs } from '../model/time.ts';
import { isHtml, UnreadableResponse } from './body.ts';
import { isNoPage, isRedirect, lostError, redirectError, refusalOf, ServerFailed, unreadableError } from './errors.ts';
import type { RequestName } from './errors.ts';
import { requestedWaitOf, serverAheadOf, whenOf } from './headers.ts';
import type { Http, HttpRequest, HttpResponse } from './http.ts';
import { ClosedForLong, type Gate, type Sleep } from './gate.ts';
import { TransportError, type TransportFault } from './transport.ts';

/** What went wrong with one try. `doubtful`: one retry tells an accident from what the server always does. */
export type Failure =
  /** `doubtful`: a refusal that probably comes from a proxy. */
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly waitMs?: number | undefined;
      readonly doubtful?: boolean;
    }
  | { readonly kind: 'transport'; readonly fault: TransportFault }
  /** A 2xx without a usable body: HTML, empty, truncated JSON, a refusal, another page. `doubtful` if it shows another list. */
  | { readonly kind: 'unreadable'; readonly doubtful?: boolean };

interface Effort {
  /** Tries made so far that count: 1 after the first. */
  readonly attempt: number;
  /** Time since the first try, ms. */
  readonly elapsedMs: number;
}

export interface RetryLimits {
  readonly attempts: number;
  /** The same for a page that the server may be unable to make, if the caller has another way; `attempts` by default. */
  readonly pageAttempts?: number;
  /** No try begins later than this after the first, ms. */
  readonly deadlineMs: number;
}

/** How long to keep trying one read, where that differs from the client's own limits. */
export type Patience = Partial<RetryLimits> & {
  /** Called before each further try; returning false ends them. */
  readonly mayRetry?: () => boolean;
};

export const defaultRetryLimits: RetryLimits = { attempts: 6, deadlineMs: 5 * minuteMs };
/** While no connection can be opened. With a last try of 8 s, an address where nothing listens is given up within 30 s. */
const unreachableMs = 20 * secondMs;
/** The first pause is drawn from 0 to this; the bound doubles with each further one. */
const baseDelayMs = 300;
const maxDelayMs = 20 * secondMs;

type Decision =
  | { readonly again: true; readonly delayMs: number }
  /** `final`: trying again cannot help. */
  | { readonly again: false; readonly because: 'final' | 'attempts' | 'deadline' };

/** Draws a pause evenly from 0 to a bound that doubles with each try, so that clients do not come back in step. */
export function fullJitter(attempt: number, random: () => number): number {
  return random() * Math.min(maxDelayMs, baseDelayMs * 2 ** (attempt - 1));
}

function mayHelp(failure: Failure, attempt: number): boolean {
  switch (failure.kind) {
    case 'unreadable':
      return failure.doubtful !== true || attempt === 1;
    case 'status':
      if (failure.status === 403) return failure.doubtful === true && attempt === 1;
      return failure.status >= 500 || [408, 425, 429].includes(failure.status);
    case 'transport':
      return !['tls', 'too-large', 'aborted'].includes(failure.fault);
    default:
      return failure satisfies never;
  }
}

/** Whether the failure uses up a try. A 429 does not: the server did not look at the request, and waiting is enough. */
function countsAsTry(failure: Failure): boolean {
  return !(failure.kind === 'status' && failure.status === 429);
}

/** Decides whether to retry a failed read. */
export function decideRetry(failure: Failure, effort: Effort, limits: RetryLimits, random: () => number): Decision {
  const { attempt, elapsedMs } = effort;
  if (!mayHelp(failure, attempt)) return { again: false, because: 'final' };
  if (countsAsTry(failure) && attempt >= limits.attempts) return { again: false, because: 'attempts' };
  const requested = failure.kind === 'status' ? failure.waitMs : undefined;
  const delayMs = requested ?? fullJitter(Math.max(1, attempt), random);
  const isUnreachable = failure.kind === 'transport' && failure.fault === 'connect';
  const deadlineMs = isUnreachable ? Math.min(unreachableMs, limits.deadlineMs) : limits.deadlineMs;
  return elapsedMs + delayMs > deadlineMs ? { again: false, because: 'deadline' } : { again: true, delayMs };
}

/** What was sent so far, and how the server's clock compares with ours. */
export interface Counters {
  /** Requests sent; every try counts. */
  requests: number;
  /** Tries after the first. */
  retries: number;
  readonly byStatus: Record<number, number>;
  /** How far the server's clock is ahead of this machine's, by the newest response that shows it, ms. */
  serverAheadMs?: number | undefined;
}

export interface RequestContext {
  readonly http: Http;
  readonly gate: Gate;
  readonly clock: Clock;
  /** A monotonic clock, ms: if the machine's clock is set meanwhile, nobody waits longer or gives up. */
  readonly elapsed: () => number;
  readonly sleep: Sleep;
  readonly log: Log;
  readonly counters: Counters;
}

/** A longer query helps nobody. */
const longestName = 300;

/** Names the request for error messages. */
export function nameOf({ http: { address, redact } }: RequestContext, { method, path }: HttpRequest): RequestName {
  const plain = path.replaceAll('%5B', '[').replaceAll('%5D', ']').replaceAll('%3E', '>');
  return { request: redact(`${method} ${address}${plain}`).slice(0, longestName), redact };
}

/** Hides the values of filters in a path, except numbers: they may be the email or the name of a person. */
function loggablePath(path: string): string {
  return path.replaceAll(/((?:filter|search)[^=&]{0,100})=(?!-?\d{1,19}(?:&|$))[^&]*/gi, '$1=…');
}

/**
 * Sends the request once, when the gate lets it pass. Throws a TransportError if no whole response came, a ServerFailed if the
 * rate limit is used up for long, and the signal's reason if it was aborted before anything was sent.
 */
export async function transmit(
  context: RequestContext,
  request: HttpRequest,
  signal?: AbortSignal,
  attempt = 1,
): Promise<HttpResponse> {
  const { counters, log, http } = context;
  const pass = await context.gate.enter(signal).catch((error: unknown) => {
    if (!(error instanceof ClosedForLong)) throw error;
    const { waitMs } = error;
    const wait = `${nameOf(context, request).request}: the limit of requests is used up for ${Math.ceil(waitMs / secondMs)} s`;
    throw new ServerFailed(wait, 429, { waitMs, advice: 'Try again after that; what was done so far is kept.' });
  });
  const fields = { method: request.method, path: http.redact(loggablePath(request.path)), attempt };
  counters.requests += 1;
  try {
    const response = await http.send(request, signal);
    const { status, headers, milliseconds, bytes } = response;
    counters.byStatus[status] = (counters.byStatus[status] ?? 0) + 1;
    pass.leave({ kind: 'response', status, headers });
    counters.serverAheadMs = serverAheadOf(whenOf(response), context.clock.now()) ?? counters.serverAheadMs;
    log.debug({ ...fields, status, ms: Math.round(milliseconds), bytes }, 'response');
    return response;
  } catch (error) {
    const fault = error instanceof TransportError ? error.fault : undefined;
    pass.leave({ kind: fault === 'timeout' ? 'timeout' : 'failed' });
    if (error instanceof TransportError) log.debug({ ...fields, fault }, error.message);
    throw error;
  }
}

interface Reading {
  readonly limits: RetryLimits;
  readonly random: () => number;
  readonly signal: AbortSignal | undefined;
  /** Returns whether one more try may be sent. */
  readonly mayRetry: (() => boolean) | undefined;
}

/** After this long without progress, the log says why. */
const longSilenceMs = 30 * secondMs;

/**
 * Reads the path with retries. `parse` turns a 2xx into the value, or throws an UnreadableResponse. Throws KeyRefused,
 * NotFound, RefusedInput, ServerFailed, Unreachable, NotTheApi, PageTooLarge or ForeignRecords, and the signal's reason.
 */
export async function read<T>(
  context: RequestContext,
  path: string,
  parse: (response: HttpResponse) => T,
  { limits, random, signal, mayRetry }: Reading,
): Promise<T> {
  const startedAt = context.elapsed();
  let attempt = 0;
  let hasWarned = false;
  for (let tries = 1; ; tries += 1) {
    const result = await tryOnce(context, path, parse, signal, tries);
    if ('value' in result) return result.value;
    if (countsAsTry(result.failure)) attempt += 1;
    const elapsedMs = context.elapsed() - startedAt;
    // If the server says when to come back, or does not listen, this is not the page's fault, and no other page comes sooner.
    const attempts = isNoPage(result.error('')) ? (limits.pageAttempts ?? limits.attempts) : limits.attempts;
    const decision = decideRetry(result.failure, { attempt, elapsedMs }, { ...limits, attempts }, random);
    if (!decision.again || mayRetry?.() === false)
      throw result.error(tries === 1 ? '' : `, tried ${tries} times in ${seconds(elapsedMs)}`);
    context.counters.retries += 1;
    if (!hasWarned && elapsedMs + decision.delayMs >= longSilenceMs) {
      hasWarned = true;
      const { message } = result.error(`, tried ${counted(tries, 'time')}`);
      context.log.warn({}, `${message}; trying again for up to ${seconds(limits.deadlineMs)}`);
    }
    await context.sleep(decision.delayMs, signal);
  }
}

function seconds(ms: number): string {
  return ms < 10 * secondMs ? `${(ms / secondMs).toFixed(1)} s` : `${Math.round(ms / secondMs)} s`;
}

type TryResult<T> =
  | { readonly value: T }
  /** `error` makes the error to throw if this was the last try; `tries` says how often and for how long was tried. */
  | { readonly failure: Failure; readonly error: (tries: string) => Error };

async function tryOnce<T>(
  context: RequestContext,
  path: string,
  parse: (response: HttpResponse) => T,
  signal: AbortSignal | undefined,
  attempt: number,
): Promise<TryResult<T>> {
  const request = { method: 'GET', path } as const;
  const name = nameOf(context, request);
  let response: HttpResponse;
  try {
    response = await transmit(context, request, signal, attempt);
  } catch (error) {
    if (!(error instanceof TransportError)) throw error;
    if (error.fault === 'aborted') throw signal?.reason ?? error;
    return { failure: { kind: 'transport', fault: error.fault }, error: (tries) => lostError(error, name, tries) };
  }
  const { status } = response;
  if (isRedirect(status)) throw redirectError(response, name);
  if (status < 200 || status > 299) {
    const waitMs = requestedWaitOf(response.headers, context.clock.now());
    const doubtful = status === 403 && isHtml(response);
    const failure = { kind: 'status', status, waitMs, doubtful } as const;
    return { failure, error: (tries) => refusalOf(response, name, tries, waitMs) };
  }
  try {
    return { value: await parse(response) };
  } catch (error) {
    if (!(error instanceof UnreadableResponse)) throw error;
    const failure = { kind: 'unreadable', doubtful: error.kind === 'foreign' } as const;
    return { failure, error: (tries) => unreadableError(error, response, name, tries) };
  }
}
