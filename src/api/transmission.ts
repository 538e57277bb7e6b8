/** What reading and writing share: one request through the gate, counted and logged, with no judgement of the response. */
import { setTimeout as wait } from 'node:timers/promises';
import type { Log } from '../model/log.ts';
import { type Clock, secondMs } from '../model/time.ts';
import { serverAheadOf, whenOf } from './envelope.ts';
import { ServerFailed } from './errors.ts';
import type { Http, HttpRequest, HttpResponse } from './http.ts';
import { ClosedForLong, type Gate, type Pass, type Sleep } from './rate.ts';
import { TransportError } from './transport-error.ts';

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

/** Waits in real time; rejects with the signal's reason. */
export const realSleep: Sleep = async (ms, signal) => {
  try {
    await wait(ms, undefined, signal === undefined ? {} : { signal });
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  }
};

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
export function placeOf(path: string): string {
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
