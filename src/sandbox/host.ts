/** What stands in front of the operations: it limits and counts the requests. */
import type { OperationName } from '../model/operations.ts';
import { Refusal } from './envelope.ts';
import type { SandboxState } from './sandbox.ts';

export class RateLimit {
  #start = 0;
  #used = 0;

  /** Counts a request and returns the headers for its response. Throws the 429 if the limit is reached. */
  take(state: SandboxState): Record<string, string> {
    const { rate_limit: limit, rate_window: window } = state.behaviour;
    if (limit === 0) return {};
    const now = state.clock.now();
    // A new window also begins if the clock was set back.
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
    if (this.#used <= limit) return headers;
    throw new Refusal(
      429,
      { message: 'Too Many Attempts.' },
      {
        ...headers,
        'x-ratelimit-reset': String(Math.ceil(end / 1_000)),
        'retry-after': String(Math.max(1, Math.ceil((end - now) / 1_000))),
      },
    );
  }
}

export interface LoggedRequest {
  /** By the sandbox's clock, ms since 1970. */
  readonly at: number;
  readonly method: string;
  readonly url: string;
  /** Null if no operation has that address. */
  readonly operation: OperationName | null;
  readonly accept: string | null;
  readonly contentType: string | null;
  /** Null until the response is sent; it stays null if the connection was reset or left hanging. */
  status: number | null;
}

const maxRecent = 10_000;

function tally(words: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
  return counts;
}

export class RequestLog {
  #total = 0;
  #open = 0;
  #mostAtOnce = 0;
  #recent: LoggedRequest[] = [];

  begin(request: Omit<LoggedRequest, 'status'>): LoggedRequest {
    const entry: LoggedRequest = { ...request, status: null };
    this.#total += 1;
    this.#open += 1;
    this.#mostAtOnce = Math.max(this.#mostAtOnce, this.#open);
    this.#recent.push(entry);
    if (this.#recent.length > 2 * maxRecent) this.#recent = this.#recent.slice(-maxRecent);
    return entry;
  }

  responded(entry: LoggedRequest, status: number): void {
    entry.status = status;
  }

  /** Notes that a request has ended, with or without a response. */
  end(): void {
    this.#open -= 1;
  }

  counts() {
    const recent = this.#recent.slice(-maxRecent);
    return {
      total: this.#total,
      /** Of the last requests. */
      byOperation: tally(recent.map(({ operation }) => operation ?? 'none')),
      byStatus: tally(recent.flatMap(({ status }) => (status === null ? [] : [String(status)]))),
      /** The most requests that were under way at the same time. */
      mostAtOnce: this.#mostAtOnce,
      /** The last requests, oldest first. */
      recent,
    };
  }

  clear(): void {
    this.#total = 0;
    this.#mostAtOnce = this.#open;
    this.#recent = [];
  }
}
