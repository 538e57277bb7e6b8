/**
 * One request, through the gate, counted and logged, with no judgement of the response; and a read of it, tried until it succeeds,
 * cannot succeed, or has taken too long.
 */
import type { Log } from '../model/log.ts';
import { counted } from '../model/text.ts';
import { type Clock, secondMs } from '../model/time.ts';
import { isHtml, serverAheadOf, UnreadableResponse, whenOf } from './envelope.ts';
import { ForeignRecords, isNoPage, PageTooLarge, ServerFailed, Unreachable } from './errors.ts';
import { type Http, type HttpRequest, type HttpResponse, requestedWaitOf } from './http.ts';
import { ClosedForLong, type Gate, type Pass, type Sleep } from './rate.ts';
import { isRedirect, redirectError, refusalOf, type RequestName, responseOf, webPageError } from './response-errors.ts';
import { counts, decideRetry, type Failure, type RetryLimits } from './retry.ts';
import { adviceFor, TransportError } from './transport-error.ts';

/** What was sent so far, and what the responses say of the time. */
export interface Counters {
  /** Requests sent, every try counted. */
  requests: number;
  /** Tries after the first. */
  retries: number;
  readonly byStatus: Record<number, number>;
  /** By how much the server's clock is ahead of this machine's, by the newest response that says so, ms. */
  serverAheadMs?: number | undefined;
}

export interface Line {
  readonly http: Http;
  readonly gate: Gate;
  readonly clock: Clock;
  /** Time that passes, ms: a clock that is set meanwhile makes nobody wait longer, nor give up. */
  readonly elapsed: () => number;
  readonly sleep: Sleep;
  readonly log: Log;
  readonly counters: Counters;
  /** Paths that were read, without queries and ids. */
  readonly given: Set<string>;
}

export interface Message extends HttpRequest {
  /** Which try this is; 1 where it is left out. */
  readonly attempt?: number;
}

/** A query longer than this helps nobody. */
const longestName = 300;

/** The request as an error or a log line names it. */
export function nameOf(line: Line, message: Message): string {
  const path = message.path.replaceAll('%5B', '[').replaceAll('%5D', ']').replaceAll('%3E', '>');
  return line.http.redact(`${message.method} ${line.http.address}${path}`).slice(0, longestName);
}

/**
 * The path as a log keeps it: what a list is filtered by may be the email or the name of a person, so of filters only
 * numbers are logged.
 */
function veiledPath(path: string): string {
  return path.replaceAll(/((?:filter|search)[^=&]*)=(?!-?\d{1,19}(?:&|$))[^&]*/gi, '$1=…');
}

/** The path without its query and ids: what a key is allowed to read, or not. */
function placeOf(path: string): string {
  return path.replace(/\?.*$/s, '').replaceAll(/\/\d+/g, '/*');
}

async function pass(line: Line, message: Message, signal: AbortSignal | undefined): Promise<Pass> {
  try {
    return await line.gate.enter(signal);
  } catch (error) {
    if (!(error instanceof ClosedForLong)) throw error;
    const seconds = Math.ceil(error.waitMs / secondMs);
    throw new ServerFailed(`${nameOf(line, message)}: the limit of requests is used up for ${seconds} s`, 429, {
      waitMs: error.waitMs,
      advice: 'Try again after that; what was done so far is kept.',
    });
  }
}

/**
 * Sends the message once, when the gate lets it pass. Throws a TransportError where no whole response came, a ServerFailed
 * where the rate limit leaves nothing for long, and the signal's reason where it was aborted before anything was sent.
 */
export async function transmit(line: Line, message: Message, signal?: AbortSignal): Promise<HttpResponse> {
  const { counters, log } = line;
  const admitted = await pass(line, message, signal);
  const { method, path, attempt = 1 } = message;
  const fields = { method, path: line.http.redact(veiledPath(path)), attempt };
  counters.requests += 1;
  try {
    const response = await line.http.send(message, signal);
    counters.byStatus[response.status] = (counters.byStatus[response.status] ?? 0) + 1;
    admitted.leave({ kind: 'response', status: response.status, headers: response.headers });
    counters.serverAheadMs = serverAheadOf(whenOf(response), line.clock.now()) ?? counters.serverAheadMs;
    const { status, milliseconds, bytes } = response;
    log.debug({ ...fields, status, ms: Math.round(milliseconds), bytes }, 'response');
    return response;
  } catch (error) {
    const timedOut = error instanceof TransportError && error.fault === 'timeout';
    admitted.leave({ kind: timedOut ? 'timeout' : 'failed' });
    if (error instanceof TransportError) log.debug({ ...fields, fault: error.fault }, error.message);
    throw error;
  }
}

interface Reading {
  readonly limits: RetryLimits;
  readonly random: () => number;
  readonly signal?: AbortSignal | undefined;
  /** Whether one more try may be sent. */
  readonly mayRetry?: (() => boolean) | undefined;
}

type Tried<T> =
  | { readonly value: T }
  /** `error` makes what is thrown when this was the last try, given how often and how long was tried. */
  | { readonly failure: Failure; readonly error: (tries: string) => Error };

/**
 * Reads the path; `parse` turns a 2xx into the value and throws an UnreadableResponse where it cannot. Throws KeyRefused,
 * NotFound, RefusedInput, ServerFailed, Unreachable, NotTheApi or PageTooLarge, and the signal's reason.
 */
export async function read<T>(
  line: Line,
  path: string,
  parse: (response: HttpResponse) => T,
  reading: Reading,
): Promise<T> {
  const { limits, random } = reading;
  const startedAt = line.elapsed();
  let attempt = 0;
  let isKnownToWait = false;
  for (let tries = 1; ; tries += 1) {
    const tried = await tryOnce(line, path, parse, reading, tries);
    if ('value' in tried) return tried.value;
    if (counts(tried.failure)) attempt += 1;
    const elapsedMs = line.elapsed() - startedAt;
    const { attempts, pageAttempts = attempts } = limits;
    // Where the server says when to come back, or does not listen, the page is not to blame, and no other one is quicker.
    const enough = isNoPage(tried.error('')) ? pageAttempts : attempts;
    const decision = decideRetry(tried.failure, { attempt, elapsedMs }, { ...limits, attempts: enough }, random);
    if (!decision.again || reading.mayRetry?.() === false)
      throw tried.error(tries === 1 ? '' : `, tried ${tries} times in ${seconds(elapsedMs)}`);
    line.counters.retries += 1;
    if (!isKnownToWait && elapsedMs + decision.delayMs >= longSilenceMs) {
      isKnownToWait = true;
      const { message } = tried.error(`, tried ${counted(tries, 'time')}`);
      line.log.warn({}, `${message}; trying again for up to ${seconds(limits.deadlineMs)}`);
    }
    await line.sleep(decision.delayMs, reading.signal);
  }
}

/** Whoever waits for longer wants to know why. */
const longSilenceMs = 30 * secondMs;

function seconds(ms: number): string {
  return ms < 10 * secondMs ? `${(ms / secondMs).toFixed(1)} s` : `${Math.round(ms / secondMs)} s`;
}

async function tryOnce<T>(
  line: Line,
  path: string,
  parse: (response: HttpResponse) => T,
  { signal }: Reading,
  attempt: number,
): Promise<Tried<T>> {
  const message = { method: 'GET', path, attempt } as const;
  const name = { request: nameOf(line, message), redact: line.http.redact };
  let response: HttpResponse;
  try {
    response = await transmit(line, message, signal);
  } catch (error) {
    if (!(error instanceof TransportError)) throw error;
    if (error.fault === 'aborted') throw signal?.reason ?? error;
    return { failure: { kind: 'transport', fault: error.fault }, error: (tries) => lostError(error, name, tries) };
  }
  const { status } = response;
  if (isRedirect(status)) throw redirectError(response, name);
  if (status < 200 || status > 299) {
    const waitMs = requestedWaitOf(response.headers, line.clock.now());
    const doubtful = status === 403 && (isHtml(response) || line.given.has(placeOf(path)));
    return {
      failure: { kind: 'status', status, waitMs, doubtful },
      error: (tries) => refusalOf(response, name, tries, waitMs),
    };
  }
  try {
    const value = await parse(response);
    line.given.add(placeOf(path));
    return { value };
  } catch (error) {
    if (!(error instanceof UnreadableResponse)) throw error;
    return {
      failure: { kind: 'unreadable', doubtful: error.foreign },
      error: (tries) => unreadableError(error, response, name, tries),
    };
  }
}

/** No whole response came. */
function lostError(error: TransportError, { request }: RequestName, tries: string): Error {
  const text = `${request}: ${error.message}${tries}`;
  if (error.fault === 'too-large') {
    return new PageTooLarge(text, {
      cause: error,
      smallerMayHelp: true,
      advice: request.includes('paginate=')
        ? 'Request smaller pages (--paginate, api.page_size).'
        : 'No record is as large as that: report it to whoever runs the server.',
    });
  }
  const smallerMayHelp = ['timeout', 'reset', 'protocol'].includes(error.fault);
  return new Unreachable(text, { cause: error, advice: adviceFor(error), smallerMayHelp });
}

function unreadableError(error: UnreadableResponse, response: HttpResponse, name: RequestName, tries: string): Error {
  if (error.html) return webPageError(name, tries);
  if (error.foreign) {
    return new ForeignRecords(`${name.request}: ${error.message}${tries}`, {
      advice: 'Nothing of it was kept. A route or a cache of the server is wrong: report it to whoever runs it.',
    });
  }
  const { refusal = [] } = error;
  const words = refusal.length === 0 ? '' : `: ${name.redact(refusal.join('; '))}`;
  return new ServerFailed(`${name.request}: ${error.message}${words}${tries}`, response.status, {
    response: responseOf(response),
    smallerMayHelp: !error.mistaken,
    isOther: error.mistaken,
    advice: 'The server has trouble, or is not the API that is expected: try again later.',
  });
}
