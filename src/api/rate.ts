/**
 * The gate that every request passes. It limits how many requests run at once and how fast they follow each other.
 * Concurrency grows by one for every few good responses and is halved after a 429, a 503 or a timeout. Time is passed in.
 * Section "Requests" of docs/architecture.md.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { type Clock, hourMs, secondMs, unlessAborted } from '../model/time.ts';
import { type HttpHeaders, rateHeadersOf, requestedWaitOf } from './http.ts';

/** Waits; rejects with the signal's reason if it is aborted. */
export type Sleep = (ms: number, signal?: AbortSignal) => Promise<void>;

/** Waits in real time; rejects with the signal's reason. */
export const realSleep: Sleep = async (ms, signal) => {
  try {
    await wait(ms, undefined, signal === undefined ? {} : { signal });
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  }
};

/** One limit for several machines. */
export interface SharedBudget {
  /** Reserves a place for the next request. Resolves with how long to wait for it, ms. */
  next(): Promise<number>;
  /** Called when the server refused a request: no machine may send one for so many ms. */
  refused(waitMs: number): void;
}

export interface GateOptions {
  /** The most requests under way at once. */
  readonly concurrency: number;
  /** A limit of our own besides the server's. */
  readonly requestsPerSecond?: number | undefined;
  /** The limit that all machines with this key share. */
  readonly budget?: SharedBudget | undefined;
  /** If the gate is closed for longer than this, `enter` rejects instead of waiting, ms. */
  readonly maxWaitMs: number;
  readonly clock: Clock;
  /** A monotonic clock, ms. */
  readonly elapsed: () => number;
  readonly sleep: Sleep;
}

/** How a request ended, as far as the gate cares. */
export type Outcome =
  | { readonly kind: 'response'; readonly status: number; readonly headers: HttpHeaders }
  | { readonly kind: 'timeout' }
  | { readonly kind: 'failed' };

/** The right to send one request. The holder reports how the request ended. */
export interface Pass {
  leave(outcome: Outcome): void;
}

/** The gate stays closed for longer than `maxWaitMs`. */
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
/** Good responses needed to allow one more at once: growing slowly, few requests overrun a limit that nobody announced. */
const responsesPerStep = 8;
/** First and longest pause after a refusal that names none. The pause doubles with each refusal that follows soon. */
const firstPauseMs = 250;
const longestPauseMs = 30 * secondMs;
/** A refusal follows another one soon if the server accepted fewer requests than this between them. */
const soon = 16;
/** Shortest wait after a refusal: even one that asks for no wait means "not now". */
const leastWaitMs = 50;
/** A request that is late by less than this keeps the even spacing: timers are late by about a millisecond. */
const latenessMs = 5;

/**
 * Decides when the next request may be sent. As many requests go side by side as are left, as announced
 * (`X-RateLimit-Remaining`) or as counted between two refusals. Beyond them one goes at a time, so that a window of the limit
 * costs one refusal, which says how long to wait.
 */
class Pace {
  readonly #spacingMs: number;
  #nextEvenly = Number.NEGATIVE_INFINITY;
  /** Nothing is sent before this. */
  #closedUntil = Number.NEGATIVE_INFINITY;
  /** When the last refusal came; refusals of requests that were sent before belong to it. */
  #refusedAt = Number.NEGATIVE_INFINITY;
  /** True from a refusal until a request is accepted: meanwhile one request goes at a time. */
  #isProbing = false;
  #pauseMs = 0;
  /** Requests accepted since the last refusal. */
  #accepted = 0;
  /** Number of 503 responses in a row. */
  #unavailable = 0;
  /** The server's limit for a window, as announced. */
  announced: number | undefined;
  /** Requests left in the server's window, minus those sent since the response that told; undefined if not known. */
  #left: number | undefined;
  /** When the request was sent whose response told. */
  #leftAsOf = Number.NEGATIVE_INFINITY;
  /** When the server's window ends, if it says so. */
  #windowEnd: number | undefined;

  /** @param requestsPerSecond a limit of the operator's own, spread evenly */
  constructor(requestsPerSecond?: number) {
    this.#spacingMs = requestsPerSecond === undefined ? 0 : secondMs / requestsPerSecond;
  }

  /** Returns how long until a request may be sent, ms; Infinity if that depends on the response to one under way. */
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

  /** Notes that a request is sent. */
  sent(now: number): void {
    if (this.#spacingMs > 0) {
      this.#nextEvenly = (now - this.#nextEvenly > latenessMs ? now : this.#nextEvenly) + this.#spacingMs;
    }
    if (this.#left !== undefined) this.#left -= 1;
  }

  /**
   * Notes a response.
   * @param now by the monotonic clock, as is `sentAt`
   * @param time by the wall clock, for headers
   * @param sentAt when its request was sent
   * @param underWay requests that are still without a response
   */
  responded(
    now: number,
    time: number,
    sentAt: number,
    underWay: number,
    { status, headers }: { readonly status: number; readonly headers: HttpHeaders },
  ): void {
    const { limit, remaining, resetInMs } = rateHeadersOf(headers, time);
    const waitMs = boundedWaitOf(headers, time);
    if (limit !== undefined) this.announced = limit;
    if (status === 429) return this.#refused(now, sentAt, waitMs);
    this.#unavailable = status === 503 ? this.#unavailable + 1 : 0;
    // One 503 may be from one of several servers. After a second in a row, every request waits.
    if (this.#unavailable > 1 && waitMs !== undefined) this.#closedUntil = Math.max(this.#closedUntil, now + waitMs);
    this.#accepted += 1;
    if (sentAt > this.#refusedAt) this.#isProbing = false;
    if (resetInMs !== undefined) this.#windowEnd = now + Math.min(resetInMs, longestClosedMs);
    // Responses overtake each other, so the one whose request was sent last counts. It may not count those under way.
    if (remaining !== undefined && sentAt >= this.#leftAsOf) {
      this.#left = remaining - underWay;
      this.#leftAsOf = sentAt;
    }
  }

  #refused(now: number, sentAt: number, waitMs: number | undefined): void {
    if (sentAt > this.#refusedAt) {
      this.#pauseMs = this.#accepted < soon ? Math.min(longestPauseMs, Math.max(firstPauseMs, this.#pauseMs * 2)) : 0;
      // If no limit is announced, the count serves as one. If it is too small, little is lost: beyond it, one goes at a time.
      this.#left = this.announced === undefined ? this.#accepted : undefined;
      this.#accepted = 0;
      this.#windowEnd = undefined;
      this.#isProbing = true;
      this.#refusedAt = now;
    }
    const wait = Math.max(waitMs ?? (this.#pauseMs || firstPauseMs), this.#pauseMs, leastWaitMs);
    this.#closedUntil = Math.max(this.#closedUntil, now + wait);
  }
}

/**
 * The longest time for which a refusal closes the gate, and with it every machine that shares the limit. A server may name
 * any time; after an hour, a request shows whether the refusal still holds.
 */
const longestClosedMs = hourMs;

function boundedWaitOf(headers: HttpHeaders, now: number): number | undefined {
  const waitMs = requestedWaitOf(headers, now);
  return waitMs === undefined ? undefined : Math.min(waitMs, longestClosedMs);
}

export type Gate = ReturnType<typeof openGate>;

/** Opens the gate. It runs a timer only while a request waits. */
export function openGate(options: GateOptions) {
  const { clock, elapsed, sleep, budget } = options;
  const pace = new Pace(options.requestsPerSecond);
  const queue: PromiseWithResolvers<Pass>[] = [];
  let allowed = Math.min(firstConcurrency, options.concurrency);
  let underWay = 0;
  /** When `allowed` was last halved. Requests that were sent before do not halve it again. */
  let halvedAt = Number.NEGATIVE_INFINITY;
  let timer: { readonly at: number; readonly cancel: AbortController } | undefined;

  function cancelTimer(): void {
    timer?.cancel.abort();
    timer = undefined;
  }

  function setTimer(at: number, waitMs: number): void {
    if (timer !== undefined && timer.at <= at) return;
    cancelTimer();
    timer = { at, cancel: new AbortController() };
    void admitAfter(waitMs, timer);
  }

  async function admitAfter(waitMs: number, own: NonNullable<typeof timer>): Promise<void> {
    try {
      await sleep(Math.max(1, Math.ceil(waitMs)), own.cancel.signal);
    } catch {
      // Cancelled: another timer is set, or nobody waits any more.
      return;
    }
    if (timer === own) timer = undefined;
    admitWaiting();
  }

  /** Lets in the requests that may go, and sets the timer for the next one. */
  function admitWaiting(): void {
    while (queue.length > 0 && underWay < Math.floor(allowed)) {
      const now = elapsed();
      const wait = pace.delay(now, underWay);
      // The response to a request under way calls this again.
      if (wait === Number.POSITIVE_INFINITY) return;
      if (wait > options.maxWaitMs) {
        for (const waiter of queue.splice(0)) waiter.reject(new ClosedForLong(wait));
      } else if (wait > 0) {
        return setTimer(now + wait, wait);
      } else {
        queue.shift()?.resolve(passAt(now));
      }
    }
    if (queue.length === 0) cancelTimer();
  }

  function passAt(sentAt: number): Pass {
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
          const waitMs = status === 429 ? boundedWaitOf(headers, time) : undefined;
          if (waitMs !== undefined) budget?.refused(waitMs);
        }
        admitWaiting();
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
      allowed = Math.min(options.concurrency, allowed + 1 / responsesPerStep);
    }
  }

  /** Waits for a place among the requests of all machines. */
  async function waitForPlace(shared: SharedBudget, signal: AbortSignal | undefined): Promise<void> {
    const ms = await unlessAborted(shared.next(), signal);
    if (ms > options.maxWaitMs) throw new ClosedForLong(ms);
    if (ms > 0) await sleep(Math.ceil(ms), signal);
  }

  return {
    /** Resolves when a request may be sent. Rejects with the signal's reason, or with ClosedForLong. */
    enter: async (signal?: AbortSignal) => {
      if (budget !== undefined) await waitForPlace(budget, signal);
      signal?.throwIfAborted();
      const waiter = Promise.withResolvers<Pass>();
      queue.push(waiter);
      admitWaiting();
      try {
        return await unlessAborted(waiter.promise, signal);
      } catch (error) {
        if (queue.includes(waiter)) queue.splice(queue.indexOf(waiter), 1);
        // If it was admitted at that very moment, it gives its pass back.
        waiter.promise.then((pass) => pass.leave({ kind: 'failed' })).catch(() => {});
        admitWaiting();
        throw error;
      }
    },
    /** Returns the server's limit if it announces one. */
    limit: () => (pace.announced === undefined ? undefined : { limit: pace.announced }),
    /** Returns how many requests may run at once at present. */
    allowed: () => Math.floor(allowed),
    close: cancelTimer,
  };
}
