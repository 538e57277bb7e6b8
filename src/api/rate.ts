/**
 * The pace of requests: how many at once, and how fast. It finds what the server allows: between two refusals the server accepted
 * exactly what its limit allows, so that number over that time is the rate. It then grows slowly, so that a limit that was raised
 * is found, too. Time is passed in. Section "Requests" of docs/architecture.md.
 */
import { hourMs, secondMs } from '../model/time.ts';
import { type HttpHeaders, rateHeadersOf, requestedWaitOf } from './headers.ts';

/** How a request ended, as far as the pace cares. */
export type Outcome =
  | { readonly kind: 'response'; readonly status: number; readonly headers: HttpHeaders }
  | { readonly kind: 'timeout' }
  | { readonly kind: 'failed' };

/** When a request ended (`time` by the wall clock, the others by the monotonic one), and how many are still under way. */
type End = Readonly<Record<'now' | 'time' | 'sentAt' | 'underWay', number>>;

const firstConcurrency = 4;
/** Good responses needed to allow one more at once after trouble: growing slowly, few requests overrun what the server bears. */
const responsesPerStep = 8;
/** First and longest pause after a refusal that names none, and by how much it grows while nothing is accepted. */
const firstPauseMs = 250;
const longestPauseMs = 30 * secondMs;
const pauseFactor = 4;
/** Even a refusal that asks for no wait means "not now". */
const leastWaitMs = 50;
/** A request that is late by less than this keeps the even spacing: timers are late by about a millisecond. */
const latenessMs = 5;
/** By which share the rate grows with each accepted request, at first and at last: each refusal makes it more certain. */
const firstGrowth = 1 / 16;
const lastGrowth = 1 / 2_048;
/** A rate somewhat below what was measured is refused far less often. */
const safeShare = 0.96;
/** A server may name any time. After an hour, a request shows whether the refusal still holds. */
const longestClosedMs = hourMs;

/** Returns how long a refusal says to wait, an hour at most. */
function boundedWaitOf(headers: HttpHeaders, time: number): number | undefined {
  const waitMs = requestedWaitOf(headers, time);
  return waitMs === undefined ? undefined : Math.min(waitMs, longestClosedMs);
}

export class Pace {
  readonly #concurrency: number;
  /** Requests per ms: the operator's own limit, and the server's as far as it is known. */
  readonly #ownRate: number;
  #rate = Infinity;
  #growth = firstGrowth;
  #nextEvenly = -Infinity;
  #closedUntil = -Infinity;
  /** Refusals of requests that were sent before belong to this one. */
  #refusedAt = -Infinity;
  /** Since when requests are counted: the first one, then the last refusal with half of its wait, for some limits count it. */
  #since: number | undefined;
  #accepted = 0;
  #pauseMs = 0;
  /** From a refusal until a request is accepted, one goes at a time. */
  #isProbing = false;
  #unavailable = 0;
  #allowed: number;
  #halvedAt = -Infinity;
  /** Requests left in the server's window by the response whose request was sent last, minus those sent since. */
  #left = { requests: Infinity, asOf: -Infinity, until: Infinity };

  constructor(concurrency: number, requestsPerSecond = Infinity) {
    this.#concurrency = concurrency;
    this.#allowed = Math.min(firstConcurrency, concurrency);
    this.#ownRate = requestsPerSecond / secondMs;
  }

  get allowed(): number {
    return Math.floor(this.#allowed);
  }

  /** Returns how long until a request may be sent, ms; Infinity if that depends on the response to one under way. */
  delay(now: number, underWay: number): number {
    const isUsedUp = this.#left.requests <= 0 && this.#left.until > now;
    if ((this.#isProbing || isUsedUp) && underWay > 0) return Infinity;
    const windowEnd = isUsedUp && this.#left.until < Infinity ? this.#left.until : now;
    return Math.max(now, this.#nextEvenly, this.#closedUntil, windowEnd) - now;
  }

  sent(now: number): void {
    this.#since ??= now;
    this.#left.requests -= 1;
    // If the server says that it has far more left, it counts by long periods, and nothing has to be spread.
    const isAmple = this.#left.requests < Infinity && this.#left.requests > this.#rate * secondMs;
    const spacingMs = 1 / Math.min(isAmple ? Infinity : this.#rate, this.#ownRate);
    if (spacingMs > 0) this.#nextEvenly = (now - this.#nextEvenly > latenessMs ? now : this.#nextEvenly) + spacingMs;
  }

  ended(outcome: Outcome, end: End): void {
    const status = outcome.kind === 'response' ? outcome.status : undefined;
    if ((outcome.kind === 'timeout' || status === 429 || status === 503) && end.sentAt > this.#halvedAt) {
      this.#allowed = Math.max(1, this.#allowed / 2);
      this.#halvedAt = end.now;
    } else if (status !== undefined && status < 400) {
      const step = this.#halvedAt === -Infinity ? 1 : 1 / responsesPerStep;
      this.#allowed = Math.min(this.#concurrency, this.#allowed + step);
    }
    if (outcome.kind === 'response') this.#responded(outcome, end);
  }

  #responded({ status, headers }: Extract<Outcome, { kind: 'response' }>, { now, time, sentAt, underWay }: End): void {
    const { remaining, resetInMs } = rateHeadersOf(headers, time);
    const waitMs = boundedWaitOf(headers, time);
    if (status === 429) return this.#refused(now, sentAt, waitMs);
    this.#unavailable = status === 503 ? this.#unavailable + 1 : 0;
    // One 503 may be from one of several servers. After a second in a row, every request waits.
    if (this.#unavailable > 1 && waitMs !== undefined) this.#closedUntil = Math.max(this.#closedUntil, now + waitMs);
    // Responses overtake each other, so the one whose request was sent last counts. It may not count those under way.
    if (remaining !== undefined && sentAt >= this.#left.asOf) {
      const until = resetInMs === undefined ? Infinity : now + Math.min(resetInMs, longestClosedMs);
      this.#left = { requests: remaining - underWay, asOf: sentAt, until };
    }
    if (sentAt <= this.#refusedAt) return;
    this.#isProbing = false;
    this.#accepted += 1;
    this.#rate *= 1 + this.#growth;
  }

  #refused(now: number, sentAt: number, waitMs: number | undefined): void {
    if (sentAt > this.#refusedAt) {
      this.#learn(now - (this.#since ?? now));
      this.#left = { requests: Infinity, asOf: now, until: Infinity };
      this.#accepted = 0;
      this.#isProbing = true;
      this.#refusedAt = now;
    }
    this.#closedUntil = Math.max(this.#closedUntil, now + Math.max(waitMs ?? this.#pauseMs, leastWaitMs));
    this.#since = (this.#refusedAt + this.#closedUntil) / 2;
  }

  #learn(ms: number): void {
    if (this.#accepted === 0) {
      this.#pauseMs = Math.min(longestPauseMs, Math.max(firstPauseMs, this.#pauseMs * pauseFactor));
      return;
    }
    const measured = this.#accepted / Math.max(1, ms);
    // A bucket loses what does not fit into it while nobody asks, so the truth is between the two, and nearer to the lower one.
    const between = measured ** 0.8 * this.#rate ** 0.2;
    this.#rate = this.#rate === Infinity ? measured : safeShare * Math.min(this.#rate, between);
    this.#growth = Math.max(lastGrowth, this.#growth / 3);
    this.#pauseMs = Math.max(firstPauseMs, Math.min(secondMs, 1 / this.#rate));
  }
}
