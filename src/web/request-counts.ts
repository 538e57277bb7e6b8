/** How many requests came from an address lately. Counts by the monotonic clock: a limit must end even if the clock is set back. */

/** Addresses that are remembered. The one whose count began first is forgotten first. */
const maxAddresses = 5_000;

/** The store of @fastify/rate-limit, whose own goes by the time of day. */
export class RequestCounts {
  readonly #counts = new Map<string, { current: number; readonly until: number }>();

  incr(
    address: string,
    done: (error: Error | null, result?: { readonly current: number; readonly ttl: number }) => void,
    windowMs: number,
  ): void {
    const now = performance.now();
    let count = this.#counts.get(address);
    if (count === undefined || count.until <= now) {
      this.#counts.delete(address);
      count = { current: 0, until: now + windowMs };
      this.#counts.set(address, count);
      const [oldest = address] = this.#counts.keys();
      if (this.#counts.size > maxAddresses) this.#counts.delete(oldest);
    }
    count.current += 1;
    done(null, { current: count.current, ttl: count.until - now });
  }

  /** The counts of one route with a limit of its own. */
  child(): RequestCounts {
    return new RequestCounts();
  }
}
