/**
 * The gate that every request passes: it lets in as many at once, and as fast, as the pace of the server allows. Time is passed in.
 * Section "Requests" of docs/architecture.md.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { type Clock, unlessAborted } from '../model/time.ts';
import { boundedWaitOf, type Outcome, Pace, type RateLimit } from './rate.ts';

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

export type Gate = ReturnType<typeof openGate>;

/** Opens the gate. It runs a timer only while a request waits. */
export function openGate(options: GateOptions) {
  const { clock, elapsed, sleep, budget } = options;
  const pace = new Pace(options.concurrency, options.requestsPerSecond);
  const queue: PromiseWithResolvers<Pass>[] = [];
  let underWay = 0;
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
    while (queue.length > 0 && underWay < pace.allowed) {
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
        const time = clock.now();
        pace.ended(outcome, { now: elapsed(), time, sentAt, underWay });
        const isRefused = outcome.kind === 'response' && outcome.status === 429;
        const waitMs = isRefused ? boundedWaitOf(outcome.headers, time) : undefined;
        if (waitMs !== undefined) budget?.refused(waitMs);
        admitWaiting();
      },
    };
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
    limit: (): RateLimit | undefined => (pace.announced === undefined ? undefined : { limit: pace.announced }),
    /** Returns how many requests may run at once at present. */
    allowed: () => pace.allowed,
    close: cancelTimer,
  };
}
