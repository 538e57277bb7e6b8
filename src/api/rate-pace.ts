/**
 * When the next request may be sent so as to stay under the server's rate limit. Time is passed in; nothing waits here.
 * Section "Requests" of docs/architecture.md.
 *
 * A limit is L requests in any W ms, held by our own log of what was sent. That is right under fixed windows, sliding
 * ones and token buckets alike, and lets a short job go at full speed. L is announced (`X-RateLimit-Limit`) or counted
 * when the first refusal comes; W is never announced, and follows from when a refusal says that it ends.
 */
import { hourMs, minuteMs, secondMs } from '../model/time.ts';
import { rateHeadersOf, waitAskedOf } from './answer-headers.ts';
import type { HttpHeaders } from './http.ts';
import { Allowance } from './rate-allowance.ts';
import { SendLog } from './send-log.ts';

export interface RateLimit {
  /** As announced, else as counted. */
  readonly limit: number;
  /** Undefined until a refusal has told it. */
  readonly windowSeconds?: number;
}

/** Windows that people choose. A wait is given in whole seconds, so the exact one must be guessed among these. */
const usualWindowsMs = [
  ...[1, 2, 5, 10, 15, 20, 30].map((each) => each * secondMs),
  ...[1, 2, 5, 10, 15, 30].map((each) => each * minuteMs),
  hourMs,
  24 * hourMs,
];

/** Part by which a window is always kept longer than it is. */
const slack = 0.01;
/** Part added after each refusal of an announced limit that was kept, and the most that is ever added. */
const strainStep = 0.02;
const largestStrain = 0.08;
/** A limit explains a refusal when at least this part of it was taken in the window. */
const enough = 0.7;
/** First pause before a refusal that names no wait is tested by a single request; doubles. */
const firstProbeMs = 250;
const longestProbeMs = 30 * secondMs;
/** A refusal that asks for no wait at all still means "not now". */
const leastWaitMs = 50;
/** Requests that are late by less than this are not held back once more: timers are late by about a millisecond. */
const latenessMs = 5;

export class Pace {
  readonly #sent = new SendLog();
  readonly #accepted = new SendLog();
  readonly #allowance = new Allowance();
  readonly #spacingMs: number;
  #nextEvenly = Number.NEGATIVE_INFINITY;
  #windowMs: number | undefined;
  #strain = 0;
  /** Mean time to an answer, and how far from it answers come. */
  #meanMs: number | undefined;
  #jitterMs = 0;
  /** Nothing goes out before. */
  #closedUntil = Number.NEGATIVE_INFINITY;
  /** When the last refusal came; requests sent until then belong to it. */
  #refusedAt = Number.NEGATIVE_INFINITY;
  /** The limit was hit and nobody said until when: one request at a time finds out. */
  #probing = false;
  #probeMs = firstProbeMs;
  /** Answers of 503 in a row. */
  #unavailable = 0;
  /** The last refusal named no wait. */
  #blind = false;
  /** Requests left in the server's window, by its last word less what was sent since. */
  #left: number | undefined;
  #remaining: number | undefined;
  /** When the request went out whose answer said so. */
  #remainingAsOf = Number.NEGATIVE_INFINITY;
  #windowStart: number | undefined;
  #windowEnd: number | undefined;

  /** @param requestsPerSecond a limit of the operator's own, held evenly */
  constructor(requestsPerSecond?: number) {
    this.#spacingMs = requestsPerSecond === undefined ? 0 : secondMs / requestsPerSecond;
  }

  /** The limit as far as it is known. */
  limit(): RateLimit | undefined {
    const limit = this.#allowance.announced ?? this.#allowance.requests;
    if (limit === undefined) return undefined;
    return { limit, ...(this.#windowMs === undefined ? {} : { windowSeconds: this.#windowMs / secondMs }) };
  }

  /** ms until a request may go; Infinity where that depends on the answer to one under way. */
  delay(now: number, underWay: number): number {
    if (this.#probing && underWay > 0) return Number.POSITIVE_INFINITY;
    const even = this.#nextEvenly - now;
    const closed = this.#closedUntil - now;
    return Math.max(0, even, closed, this.#delayOfLog(now), this.#delayOfWindow(now, underWay));
  }

  #delayOfLog(now: number): number {
    const { requests } = this.#allowance;
    if (requests === undefined || this.#windowMs === undefined) return 0;
    const oldest = this.#sent.fromEnd(requests);
    return oldest === undefined ? 0 : oldest + this.#keptWindow(this.#windowMs) - now;
  }

  #delayOfWindow(now: number, underWay: number): number {
    if (this.#left === undefined || this.#left > 0) return 0;
    if (this.#windowEnd !== undefined && this.#windowEnd <= now) this.#left = undefined;
    else if (underWay > 0) return Number.POSITIVE_INFINITY;
    else if (this.#windowEnd !== undefined) return this.#windowEnd - now;
    else {
      // Used up, and nobody said until when: one request goes out to learn it.
      this.#left = undefined;
      this.#probing = true;
    }
    return 0;
  }

  /** A request goes out. */
  sent(now: number): void {
    this.#sent.add(now);
    if (this.#spacingMs > 0) {
      this.#nextEvenly = (now - this.#nextEvenly > latenessMs ? now : this.#nextEvenly) + this.#spacingMs;
    }
    if (this.#left !== undefined) this.#left -= 1;
    this.#windowStart ??= now;
    if (this.#windowMs !== undefined) this.#allowance.used();
  }

  /**
   * An answer came.
   * @param sentAt when its request went out
   * @param underWay requests still without an answer
   */
  answered(now: number, sentAt: number, underWay: number, status: number, headers: HttpHeaders): void {
    const { limit, remaining, resetInMs } = rateHeadersOf(headers, now);
    const waitMs = waitAskedOf(headers, now);
    if (limit !== undefined) this.#allowance.announce(limit);
    if (status === 429) return this.#refused(now, sentAt, waitMs);
    this.#time(now - sentAt);
    this.#unavailable = status === 503 ? this.#unavailable + 1 : 0;
    // One server of several may be down; when nobody else is there either, everybody waits.
    if (this.#unavailable > 1 && waitMs !== undefined) this.#closedUntil = Math.max(this.#closedUntil, now + waitMs);
    if (this.#probing && sentAt > this.#refusedAt) this.#probeSucceeded(sentAt);
    this.#accepted.add(sentAt);
    if (resetInMs !== undefined) this.#windowEnd = now + resetInMs;
    // Answers overtake each other; the word on the request sent last counts.
    if (remaining !== undefined && sentAt >= this.#remainingAsOf) this.#told(now, sentAt, underWay, remaining);
  }

  #told(now: number, sentAt: number, underWay: number, remaining: number): void {
    // More is left than before, and not just because requests overtook each other: a window began with this one.
    if (this.#remaining !== undefined && remaining > this.#remaining + underWay) this.#begin(sentAt);
    this.#remaining = remaining;
    this.#remainingAsOf = sentAt;
    // Of the requests under way, those that went out later are not counted in it, and some that went out before may not
    // be either: they matter only while our own log does not keep the limit.
    this.#left = remaining - (this.#windowMs === undefined ? underWay : this.#sent.since(sentAt) - 1);
    if (this.#windowEnd !== undefined || this.#windowMs === undefined || this.#windowStart === undefined) return;
    const end = this.#windowStart + this.#keptWindow(this.#windowMs);
    if (end > now) this.#windowEnd = end;
  }

  /** The server's window begins at that time, or, undefined, with the next request. */
  #begin(at: number | undefined): void {
    this.#windowStart = at;
    this.#windowEnd = undefined;
    this.#left = undefined;
  }

  #refused(now: number, sentAt: number, waitMs: number | undefined): void {
    this.#sent.remove(sentAt);
    const wait = waitMs === undefined ? undefined : Math.max(waitMs, leastWaitMs);
    if (sentAt <= this.#refusedAt || (wait !== undefined && this.#hasLeft())) {
      if (wait !== undefined) this.#closedUntil = Math.max(this.#closedUntil, now + wait);
      return;
    }
    this.#refusedAt = now;
    this.#remaining = 0;
    this.#remainingAsOf = sentAt;
    if (wait === undefined) {
      this.#probeMs = this.#probing ? Math.min(longestProbeMs, this.#probeMs * 2) : this.#firstProbe(now);
      this.#probing = true;
      this.#blind = true;
      this.#closedUntil = now + this.#probeMs;
      return;
    }
    this.#learn(sentAt, now, Math.max(0, wait - secondMs), wait + secondMs);
    this.#calm();
    this.#closedUntil = now + wait;
    this.#begin(undefined);
  }

  /** Whether much of the announced limit was left: then it is not why a request was refused. */
  #hasLeft(): boolean {
    const { announced } = this.#allowance;
    return announced !== undefined && this.#left !== undefined && this.#left > announced * (1 - enough);
  }

  /** When to test a refusal that names no wait: when our own log has room again, as far as a window is known. */
  #firstProbe(now: number): number {
    if (this.#windowMs === undefined) return firstProbeMs;
    const oldest = this.#sent.fromEnd(this.#sent.since(now - this.#windowMs)) ?? now;
    return Math.max(firstProbeMs, oldest + this.#keptWindow(this.#windowMs) - now);
  }

  #probeSucceeded(sentAt: number): void {
    // Refused until then, taken now: the window ended in between.
    if (this.#blind) this.#learn(this.#refusedAt, this.#refusedAt, 0, sentAt - this.#refusedAt);
    this.#calm();
    this.#begin(sentAt);
  }

  #calm(): void {
    this.#probing = false;
    this.#probeMs = firstProbeMs;
    this.#blind = false;
  }

  /**
   * A request sent at `sentAt` was refused by `now` for the limit, in a window that ends between `least` and `most` ms
   * later.
   */
  #learn(sentAt: number, now: number, least: number, most: number): void {
    const { announced, requests = 0 } = this.#allowance;
    const filled = (windowMs: number, limit: number) =>
      this.#accepted.since(now - this.#keptWindow(windowMs)) >= Math.floor(limit * enough);
    if (this.#windowMs !== undefined && this.#windowMs > least && filled(this.#windowMs, requests)) {
      // What is known explains it: this means "a little less", not "something else".
      if (!this.#allowance.shrink()) this.#strain = Math.min(largestStrain, this.#strain + strainStep);
      return;
    }
    const start = this.#windowStart ?? now;
    // The window began after its first request was sent, and the refusal was made before it came. A window taken for
    // too short is refused again, and corrected; one taken for too long would never show.
    const before = Math.max(0, sentAt - start - (this.#meanMs ?? 0));
    const past = now - start;
    const possible = usualWindowsMs.filter((each) => each > least && filled(each, announced ?? 0));
    const unseen = this.#windowMs !== undefined && this.#accepted.since(start) > 3 * requests;
    // Where windows went by unseen, the shortest that may be.
    const seen = unseen ? undefined : possible.find((each) => each > before + least && each <= past + most);
    this.#windowMs = seen ?? possible[0] ?? past + most;
    this.#allowance.count(this.#accepted.since(Math.max(now - this.#windowMs, seen === undefined ? 0 : start)));
  }

  /** The window as we keep it: longer, by what requests may be late on their way and in time on the next. */
  #keptWindow(windowMs: number): number {
    return windowMs * (1 + slack + this.#strain) + Math.min(2 * this.#jitterMs, windowMs * largestStrain);
  }

  /** Follows how much the time to an answer varies. */
  #time(ms: number): void {
    const mean = this.#meanMs ?? ms;
    this.#meanMs = mean + (ms - mean) / 8;
    this.#jitterMs += (Math.abs(ms - mean) - this.#jitterMs) / 8;
  }
}
