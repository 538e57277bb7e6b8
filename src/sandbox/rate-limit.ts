/** A limit on requests in fixed windows of the sandbox's clock. */
import { retryAfter } from './effects.ts';
import { Refusal } from './refusal.ts';
import type { SandboxState } from './state.ts';

export class RateLimit {
  #start = 0;
  #used = 0;

  /** Counts a request: the headers for its answer. Throws the 429 where the limit is reached. */
  take(state: SandboxState): Record<string, string> {
    const { rate_limit: limit, rate_window: window, rate_headers: shown } = state.behaviour;
    if (limit === 0) return {};
    const now = state.clock.now();
    // A clock that was set back begins a window too.
    if (now >= this.#start + window * 1_000 || now < this.#start) {
      this.#start = now;
      this.#used = 0;
    }
    this.#used += 1;
    const end = this.#start + window * 1_000;
    const headers = {
      'x-ratelimit-limit': String(limit),
      'x-ratelimit-remaining': String(Math.max(0, limit - this.#used)),
    };
    if (this.#used <= limit) return shown ? headers : {};
    const wait = retryAfter(state, Math.max(1, Math.ceil((end - now) / 1_000)));
    const reset = { 'x-ratelimit-reset': String(Math.ceil(end / 1_000)) };
    throw new Refusal(429, { message: 'Too Many Attempts.' }, shown ? { ...headers, ...reset, ...wait } : wait);
  }
}
