/**
 * The gate that every request passes: it lets in as many, and as fast, as the pace (rate.ts) says. Section "Requests" of
 * docs/architecture.md.
 */
import { setTimeout as wait } from 'node:timers/promises';
import { type Clock, unlessAborted } from '../model/time.ts';
import { type Outcome, Pace } from './rate.ts';

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

export interface GateOptions {
  /** The most requests under way at once. */
  readonly concurrency: number;
  /** A limit of our own besides the server's. */
  readonly requestsPerSecond?: number | undefined;
  /** If the gate is closed for longer than this, `enter` rejects instead of waiting, ms. */
  readonly maxWaitMs: number;
  readonly clock: Clock;
  /** A monotonic clock, ms. */
  readonly elapsed: () => number;
  readonly sleep: Sleep;
}

/** The right to send one request. The holder reports how the request ended. */
interface Pass {
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

/** Lets requests pass. Runs a timer only while one waits. */
export class Gate {
  readonly #options: GateOptions;
  readonly #pace: Pace;
  readonly #queue: PromiseWithResolvers<Pass>[] = [];
  #underWay = 0;
  #timer: { readonly at: number; readonly cancel: AbortController } | undefined;

  constructor(options: GateOptions) {
    this.#options = options;
    this.#pace = new Pace(options.concurrency, options.requestsPerSecond);
  }

  /** How many requests may run at once at present. */
  get allowed(): number {
    return this.#pace.allowed;
  }

  /** Resolves when a request may be sent. Rejects with the signal's reason, or with ClosedForLong. */
  async enter(signal?: AbortSignal): Promise<Pass> {
    signal?.throwIfAborted();
    const waiter = Promise.withResolvers<Pass>();
    this.#queue.push(waiter);
    this.#admit();
    try {
      return await unlessAborted(waiter.promise, signal);
    } catch (error) {
      if (this.#queue.includes(waiter)) this.#queue.splice(this.#queue.indexOf(waiter), 1);
      // If it was admitted at that very moment, it gives its pass back.
      waiter.promise.then((pass) => pass.leave({ kind: 'failed' })).catch(() => {});
      this.#admit();
      throw error;
    }
  }

  close(): void {
    this.#timer?.cancel.abort();
    this.#timer = undefined;
  }

  /** Lets in the requests that may go, and sets the timer for the next one. */
  #admit(): void {
    while (this.#queue.length > 0 && this.#underWay < this.#pace.allowed) {
      const now = this.#options.elapsed();
      const waitMs = this.#pace.delay(now, this.#underWay);
      // The response to a request under way calls this again.
      if (waitMs === Infinity) return;
      if (waitMs > this.#options.maxWaitMs) {
        for (const waiter of this.#queue.splice(0)) waiter.reject(new ClosedForLong(waitMs));
      } else if (waitMs > 0) {
        return this.#setTimer(now + waitMs, waitMs);
      } else {
        this.#queue.shift()?.resolve(this.#passAt(now));
      }
    }
    if (this.#queue.length === 0) this.close();
  }

  #setTimer(at: number, waitMs: number): void {
    if (this.#timer !== undefined && this.#timer.at <= at) return;
    this.close();
    const timer = { at, cancel: new AbortController() };
    this.#timer = timer;
    const onTime = () => {
      if (this.#timer === timer) this.#timer = undefined;
      this.#admit();
    };
    // Rejects if another timer is set, or nobody waits any more.
    this.#options.sleep(Math.max(1, Math.ceil(waitMs)), timer.cancel.signal).then(onTime, () => {});
  }

  #passAt(sentAt: number): Pass {
    this.#underWay += 1;
    this.#pace.sent(sentAt);
    let left = false;
    return {
      leave: (outcome) => {
        if (left) return;
        left = true;
        this.#underWay -= 1;
        const { clock, elapsed } = this.#options;
        const time = clock.now();
        this.#pace.ended(outcome, { now: elapsed(), time, sentAt, underWay: this.#underWay });
        this.#admit();
      },
    };
  }
}
