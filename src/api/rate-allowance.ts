/** How many requests a window takes: announced by the server, or counted, and then corrected up and down. */

/** Part of an announced limit that is left alone: the key has other users too. */
const reserved = 0.02;
/** Windows after a refusal until a little more is tried; doubles each time that it is refused. */
const firstPatience = 10;
/** The same in requests, so that trying costs a small limit no more than a large one. */
const leastPatience = 400;
const longestPatience = 160;
/** The same while growing goes well. */
const growingPatience = 3;

export class Allowance {
  /** `X-RateLimit-Limit`. */
  announced: number | undefined;
  /** What we allow ourselves in a window; undefined while nothing is known. */
  requests: number | undefined;
  #usesUntilGrowth = Number.POSITIVE_INFINITY;
  #step = 0;
  /** What held before the last growth. */
  #before: number | undefined;
  #patience = firstPatience;

  /** A little less than what is announced. */
  announce(limit: number): void {
    this.announced = limit;
    this.requests = Math.max(1, limit - Math.floor(limit * reserved));
  }

  /** So many were taken in the window in which the first was refused. */
  count(accepted: number): void {
    if (this.announced !== undefined) return;
    this.requests = Math.max(1, accepted);
    this.#before = undefined;
    this.#rest();
  }

  /** A request went out. A counted limit may have been counted too low: now and then a little more is tried. */
  used(): void {
    this.#usesUntilGrowth -= 1;
    if (this.#usesUntilGrowth > 0 || this.announced !== undefined || this.requests === undefined) return;
    this.#before = this.requests;
    this.#step = this.#step === 0 ? Math.max(1, Math.round(this.requests * 0.02)) : this.#step * 2;
    this.requests += this.#step;
    this.#usesUntilGrowth = growingPatience * this.requests;
  }

  /** Refused although the limit was kept. False where the limit is the server's own and cannot be what is wrong. */
  shrink(): boolean {
    if (this.announced !== undefined || this.requests === undefined) return false;
    if (this.#before === undefined) {
      this.requests = Math.max(1, Math.floor(this.requests * 0.95));
    } else {
      this.requests = this.#before;
      this.#patience = Math.min(longestPatience, this.#patience * 2);
    }
    this.#before = undefined;
    this.#rest();
    return true;
  }

  #rest(): void {
    this.#step = 0;
    this.#usesUntilGrowth = Math.max(leastPatience, this.#patience * (this.requests ?? 1));
  }
}
