/**
 * The gate that every request passes: so many at once as the server bears, and no faster than it allows. Concurrency
 * grows by one for every few good answers and is halved on 429, 503 and timeouts. Section "Requests" of
 * docs/architecture.md.
 */
import type { Clock } from '../model/time.ts';
import type { HttpHeaders } from './http.ts';
import { Pace, type RateLimit } from './rate-pace.ts';

/** Waits; rejects with the signal's reason where it is aborted. */
export type Sleep = (ms: number, signal?: AbortSignal) => Promise<void>;

export interface GateOptions {
  /** Requests under way at once, at most. */
  readonly concurrency: number;
  readonly requestsPerSecond?: number | undefined;
  /** Longest time for which the gate may be closed before waiting is given up, ms. */
  readonly maxWaitMs: number;
  readonly clock: Clock;
  readonly sleep: Sleep;
}

/** How a request ended, as far as the gate cares. */
export type Outcome =
  | { readonly kind: 'answer'; readonly status: number; readonly headers: HttpHeaders }
  | { readonly kind: 'timeout' }
  | { readonly kind: 'failed' };

/** The right to send one request; given back with how it ended. */
export interface Pass {
  leave(outcome: Outcome): void;
}

/** The server asks to wait for longer than anybody is willing to. */
export class ClosedForLong extends Error {
  override readonly name = 'ClosedForLong';
  readonly waitMs: number;

  constructor(waitMs: number) {
    super('the rate limit leaves nothing for a long time');
    this.waitMs = waitMs;
  }
}

export interface Gate {
  /** Resolves when a request may be sent. Rejects with the signal's reason, or with ClosedForLong. */
  enter(signal?: AbortSignal): Promise<Pass>;
  /** The server's limit as far as it is known. */
  limit(): RateLimit | undefined;
  /** Requests allowed at once at present. */
  allowed(): number;
  close(): void;
}

interface Waiter {
  readonly admit: (pass: Pass) => void;
  readonly refuse: (error: unknown) => void;
}

const firstConcurrency = 2;
/** Good answers for one more at once: slow enough that a limit nobody announced is not overrun by many. */
const answersAStep = 8;

/** Opens the gate; it holds no timer while nobody waits. */
export function openGate(options: GateOptions): Gate {
  const { clock, sleep } = options;
  const pace = new Pace(options.requestsPerSecond);
  const queue: Waiter[] = [];
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
      const now = clock.now();
      const wait = pace.delay(now, underWay);
      // An answer to a request under way will pump again.
      if (wait === Number.POSITIVE_INFINITY) return;
      if (wait > options.maxWaitMs) {
        for (const waiter of queue.splice(0)) waiter.refuse(new ClosedForLong(wait));
      } else if (wait > 0) {
        return arm(now + wait, wait);
      } else {
        queue.shift()?.admit(admission(now));
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
        if (outcome.kind === 'answer') {
          pace.answered(clock.now(), sentAt, underWay, outcome.status, outcome.headers);
        }
        pump();
      },
    };
  }

  function adapt(outcome: Outcome, sentAt: number): void {
    const overloaded = outcome.kind === 'timeout' || (outcome.kind === 'answer' && [429, 503].includes(outcome.status));
    if (overloaded && sentAt > halvedAt) {
      allowed = Math.max(1, allowed / 2);
      halvedAt = clock.now();
    } else if (outcome.kind === 'answer' && outcome.status < 400) {
      allowed = Math.min(options.concurrency, allowed + 1 / answersAStep);
    }
  }

  return {
    enter: (signal) => {
      if (signal?.aborted) return Promise.reject(signal.reason as Error);
      return new Promise((resolve, reject) => {
        const onAbort = () => {
          queue.splice(queue.indexOf(waiter), 1);
          reject(signal?.reason as Error);
          pump();
        };
        const waiter: Waiter = {
          admit: (pass) => {
            signal?.removeEventListener('abort', onAbort);
            resolve(pass);
          },
          refuse: (error) => {
            signal?.removeEventListener('abort', onAbort);
            reject(error);
          },
        };
        signal?.addEventListener('abort', onAbort, { once: true });
        queue.push(waiter);
        pump();
      });
    },
    limit: () => pace.limit(),
    allowed: () => Math.floor(allowed),
    close: disarm,
  };
}
