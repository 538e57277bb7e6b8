/**
 * The gate that every request passes: so many at once as the server bears, and no faster than it allows. Concurrency
 * grows by one for every few good responses and is halved on 429, 503 and timeouts. Time is passed in. Section "Requests"
 * of docs/architecture.md.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { type Clock, hourMs, secondMs, unlessAborted } from '../model/time.ts';
import { type HttpHeaders, rateHeadersOf, requestedWaitOf } from './http.ts';

/** Waits; rejects with the signal's reason where it is aborted. */
export type Sleep = (ms: number, signal?: AbortSignal) => Promise<void>;

/** Waits in real time; rejects with the signal's reason. */
export const realSleep: Sleep = async (ms, signal) => {
  try {
    await wait(ms, undefined, signal === undefined ? {} : { signal });
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  }
};

/** One limit for several machines, wherever it is kept. */
export interface SharedBudget {
  /** ms until the next request may go, whose place it is. */
  next(): Promise<number>;
  /** The server refused a request: no machine sends one within so many ms. */
  refused(waitMs: number): void;
}

export interface GateOptions {
  /** Requests under way at once, at most. */
  readonly concurrency: number;
  /** A limit of our own besides the server's. */
  readonly requestsPerSecond?: number | undefined;
  /** What all machines with this key keep to together. */
  readonly budget?: SharedBudget | undefined;
  /** Longest time for which the gate may be closed before waiting is given up, ms. */
  readonly maxWaitMs: number;
  readonly clock: Clock;
  /** Time that passes, ms, by no clock that is set. */
  readonly elapsed: () => number;
  readonly sleep: Sleep;
}

/** How a request ended, as far as the gate cares. */
export type Outcome =
  | { readonly kind: 'response'; readonly status: number; readonly headers: HttpHeaders }
  | { readonly kind: 'timeout' }
  | { readonly kind: 'failed' };

/** The right to send one request; given back with how it ended. */
export interface Pass {
  leave(outcome: Outcome): void;
}

/** The server wants a wait that is longer than the bound. */
export class ClosedForLong extends Error {
  override readonly name = 'ClosedForLong';
  readonly waitMs: number;

  constructor(waitMs: number) {
    super('the rate limit leaves nothing for a long time');
    this.waitMs = waitMs;
  }
}

export interface RateLimit {
  readonly limit: number;
}

const firstConcurrency = 2;
/** Good responses for one more at once: slow enough that a limit nobody announced is not overrun by many. */
const responsesAStep = 8;
/** First and longest pause after a refusal that names none; doubled with each that follows soon. */
const firstPauseMs = 250;
const longestPauseMs = 30 * secondMs;
/** A refusal comes soon after another one where fewer requests than this were taken between them. */
const soon = 16;
/** A refusal without a wait still means "not now". */
const leastWaitMs = 50;
/** Requests that are late by less than this are not held back once more: timers are late by about a millisecond. */
const latenessMs = 5;

/**
 * When the next request may be sent. Requests that are left, as announced (`X-RateLimit-Remaining`) or as counted between
 * two refusals, go side by side. Beyond them one goes at a time, so that a window costs one refusal, which says how long to
 * wait.
 */
class Pace {
  readonly #spacingMs: number;
  #nextEvenly = Number.NEGATIVE_INFINITY;
  /** Nothing goes out before. */
  #closedUntil = Number.NEGATIVE_INFINITY;
  /** When the last refusal came; requests sent until then belong to it. */
  #refusedAt = Number.NEGATIVE_INFINITY;
  /** Refused, and none was taken since: one request at a time finds out. */
  #isProbing = false;
  #pauseMs = 0;
  /** Taken since the last refusal, and between the last two. */
  #taken = 0;
  /** Responses of 503 in a row. */
  #unavailable = 0;
  /** What the server announces for a window. */
  announced: number | undefined;
  /** Requests left in the server's window, less what was sent since that was said; undefined while nothing is known. */
  #left: number | undefined;
  /** When the request went out whose response said so. */
  #leftAsOf = Number.NEGATIVE_INFINITY;
  /** When the server's window ends, where it says so. */
  #windowEnd: number | undefined;

  /** @param requestsPerSecond a limit of the operator's own, held evenly */
  constructor(requestsPerSecond?: number) {
    this.#spacingMs = requestsPerSecond === undefined ? 0 : secondMs / requestsPerSecond;
  }

  /** ms until a request may go; Infinity where that depends on the response to one under way. */
  delay(now: number, underWay: number): number {
    if (this.#windowEnd !== undefined && this.#windowEnd <= now) {
      this.#windowEnd = undefined;
      this.#left = undefined;
    }
    const isUsedUp = this.#left !== undefined && this.#left <= 0;
    if ((this.#isProbing || isUsedUp) && underWay > 0) return Number.POSITIVE_INFINITY;
    const windowEnd = isUsedUp && this.#windowEnd !== undefined ? this.#windowEnd : now;
    return Math.max(now, this.#nextEvenly, this.#closedUntil, windowEnd) - now;
  }

  /** A request goes out. */
  sent(now: number): void {
    if (this.#spacingMs > 0) {
      this.#nextEvenly = (now - this.#nextEvenly > latenessMs ? now : this.#nextEvenly) + this.#spacingMs;
    }
    if (this.#left !== undefined) this.#left -= 1;
  }

  /**
   * A response came.
   * @param time by the clock, which headers go by
   * @param sentAt when its request went out
   * @param underWay requests still without a response
   */
  responded(
    now: number,
    time: number,
    sentAt: number,
    underWay: number,
    { status, headers }: { readonly status: number; readonly headers: HttpHeaders },
  ): void {
    const { limit, remaining, resetInMs } = rateHeadersOf(headers, time);
    const waitMs = keptWaitOf(headers, time);
    if (limit !== undefined) this.announced = limit;
    if (status === 429) return this.#refused(now, sentAt, waitMs);
    this.#unavailable = status === 503 ? this.#unavailable + 1 : 0;
    // One server of several may be down; when nobody else is there either, everybody waits.
    if (this.#unavailable > 1 && waitMs !== undefined) this.#closedUntil = Math.max(this.#closedUntil, now + waitMs);
    this.#taken += 1;
    if (sentAt > this.#refusedAt) this.#isProbing = false;
    if (resetInMs !== undefined) this.#windowEnd = now + Math.min(resetInMs, longestKeptMs);
    // Responses overtake each other; the response to the request sent last counts. Those under way may not be in it.
    if (remaining !== undefined && sentAt >= this.#leftAsOf) {
      this.#left = remaining - underWay;
      this.#leftAsOf = sentAt;
    }
  }

  #refused(now: number, sentAt: number, waitMs: number | undefined): void {
    if (sentAt > this.#refusedAt) {
      this.#pauseMs = this.#taken < soon ? Math.min(longestPauseMs, Math.max(firstPauseMs, this.#pauseMs * 2)) : 0;
      // Counted where it is not announced. A count too small costs little: beyond it requests go on one at a time.
      this.#left = this.announced === undefined ? this.#taken : undefined;
      this.#taken = 0;
      this.#windowEnd = undefined;
      this.#isProbing = true;
      this.#refusedAt = now;
    }
    const wait = Math.max(waitMs ?? (this.#pauseMs || firstPauseMs), this.#pauseMs, leastWaitMs);
    this.#closedUntil = Math.max(this.#closedUntil, now + wait);
  }
}

/**
 * How long the gate, and with it every machine that shares the limit, is closed after a refusal at the most. A server may name
 * any time; after this one, a request shows whether it still holds.
 */
const longestKeptMs = hourMs;

function keptWaitOf(headers: HttpHeaders, now: number): number | undefined {
  const waitMs = requestedWaitOf(headers, now);
  return waitMs === undefined ? undefined : Math.min(waitMs, longestKeptMs);
}

export type Gate = ReturnType<typeof openGate>;

/** Opens the gate; it holds no timer while nobody waits. */
export function openGate(options: GateOptions) {
  const { clock, elapsed, sleep, budget } = options;
  const pace = new Pace(options.requestsPerSecond);
  const queue: PromiseWithResolvers<Pass>[] = [];
  let allowed = Math.min(firstConcurrency, options.concurrency);
  let underWay = 0;
  /** Requests sent until then were overtaken by the last halving, and do not halve again. */
  let halvedAt = Number.NEGATIVE_INFINITY;
  let alarm: { readonly at: number; readonly off: AbortController } | undefined;

  function disarm(): void {
    alarm?.off.abort();
    alarm = undefined;
  }

  function arm(at: number, wait: number): void {
    if (alarm !== undefined && alarm.at <= at) return;
    disarm();
    const off = new AbortController();
    const mine = { at, off };
    alarm = mine;
    void ring(mine, wait);
  }

  async function ring(mine: NonNullable<typeof alarm>, ms: number): Promise<void> {
    try {
      await sleep(Math.max(1, Math.ceil(ms)), mine.off.signal);
    } catch {
      // Disarmed: another alarm is set, or nobody waits any more.
      return;
    }
    if (alarm === mine) alarm = undefined;
    pump();
  }

  /** Lets in whoever may go, and sets the alarm for the next. */
  function pump(): void {
    while (queue.length > 0 && underWay < Math.floor(allowed)) {
      const now = elapsed();
      const wait = pace.delay(now, underWay);
      // The response to a request under way will pump again.
      if (wait === Number.POSITIVE_INFINITY) return;
      if (wait > options.maxWaitMs) {
        for (const waiter of queue.splice(0)) waiter.reject(new ClosedForLong(wait));
      } else if (wait > 0) {
        return arm(now + wait, wait);
      } else {
        queue.shift()?.resolve(admission(now));
      }
    }
    if (queue.length === 0) disarm();
  }

  function admission(sentAt: number): Pass {
    underWay += 1;
    pace.sent(sentAt);
    let left = false;
    return {
      leave: (outcome) => {
        if (left) return;
        left = true;
        underWay -= 1;
        adapt(outcome, sentAt);
        if (outcome.kind === 'response') {
          const { status, headers } = outcome;
          const time = clock.now();
          pace.responded(elapsed(), time, sentAt, underWay, outcome);
          const waitMs = status === 429 ? keptWaitOf(headers, time) : undefined;
          if (waitMs !== undefined) budget?.refused(waitMs);
        }
        pump();
      },
    };
  }

  function adapt(outcome: Outcome, sentAt: number): void {
    const overloaded =
      outcome.kind === 'timeout' || (outcome.kind === 'response' && [429, 503].includes(outcome.status));
    if (overloaded && sentAt > halvedAt) {
      allowed = Math.max(1, allowed / 2);
      halvedAt = elapsed();
    } else if (outcome.kind === 'response' && outcome.status < 400) {
      allowed = Math.min(options.concurrency, allowed + 1 / responsesAStep);
    }
  }

  /** Waits for a place among the requests of all machines. */
  async function wait(shared: SharedBudget, signal: AbortSignal | undefined): Promise<void> {
    const ms = await unlessAborted(shared.next(), signal);
    if (ms > options.maxWaitMs) throw new ClosedForLong(ms);
    if (ms > 0) await sleep(Math.ceil(ms), signal);
  }

  return {
    /** Resolves when a request may be sent. Rejects with the signal's reason, or with ClosedForLong. */
    enter: async (signal?: AbortSignal) => {
      if (budget !== undefined) await wait(budget, signal);
      signal?.throwIfAborted();
      const waiter = Promise.withResolvers<Pass>();
      queue.push(waiter);
      pump();
      try {
        return await unlessAborted(waiter.promise, signal);
      } catch (error) {
        if (queue.includes(waiter)) queue.splice(queue.indexOf(waiter), 1);
        // Let in at that very moment, it keeps no place.
        waiter.promise.then((pass) => pass.leave({ kind: 'failed' })).catch(() => {});
        pump();
        throw error;
      }
    },
    /** The server's limit where it announces one. */
    limit: () => (pace.announced === undefined ? undefined : { limit: pace.announced }),
    /** Requests allowed at once at present. */
    allowed: () => Math.floor(allowed),
    close: disarm,
  };
}
