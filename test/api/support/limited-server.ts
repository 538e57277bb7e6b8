/** Servers with a rate limit, in virtual time, and how much of the limit was used and refused. */
import { Gate } from '../../../src/api/gate.ts';
import { virtualTime } from './virtual-time.ts';

export type Window = 'from the first request' | 'by the clock' | 'sliding' | 'bucket';
export type Headers = 'quota and wait' | 'wait' | 'none';

export interface LimitedServer {
  readonly limit: number;
  readonly windowMs: number;
  readonly window: Window;
  readonly headers: Headers;
  readonly latencyMs: number;
  /** What a bucket holds; `limit` by default. */
  readonly burst?: number;
}

interface Verdict {
  readonly ok: boolean;
  readonly left: number;
  readonly waitMs: number;
}

function counterOf({ limit, windowMs, window, burst = limit }: LimitedServer): (now: number) => Verdict {
  let start = Number.NEGATIVE_INFINITY;
  let used = 0;
  let log: number[] = [];
  let tokens = burst;
  let filledAt: number | undefined;
  switch (window) {
    case 'from the first request':
    case 'by the clock':
      return (now) => {
        if (now >= start + windowMs) {
          start = window === 'by the clock' ? Math.floor(now / windowMs) * windowMs : now;
          used = 0;
        }
        const ok = used < limit;
        if (ok) used += 1;
        return { ok, left: limit - used, waitMs: start + windowMs - now };
      };
    case 'sliding':
      return (now) => {
        log = log.filter((each) => each > now - windowMs);
        const ok = log.length < limit;
        if (ok) log.push(now);
        return { ok, left: limit - log.length, waitMs: (log[0] ?? now) + windowMs - now };
      };
    case 'bucket':
      return (now) => {
        tokens = Math.min(burst, tokens + ((now - (filledAt ?? now)) * limit) / windowMs);
        filledAt = now;
        const ok = tokens >= 1;
        if (ok) tokens -= 1;
        return { ok, left: Math.floor(tokens), waitMs: ((1 - tokens) * windowMs) / limit };
      };
    default:
      return window satisfies never;
  }
}

/** Sends requests through a gate, each until it is accepted, and returns the used and refused shares. */
export async function spend(server: LimitedServer, requests: number) {
  const time = virtualTime();
  const { clock, sleep } = time;
  const gate = new Gate({ concurrency: 8, maxWaitMs: 3_600_000, clock, elapsed: () => clock.now(), sleep });
  const count = counterOf(server);
  let seed = 7;
  const random = () => (seed = (seed * 16_807) % 2_147_483_647) / 2_147_483_647;
  let refused = 0;
  let accepted = 0;
  let refusedLate = 0;
  const headersOf = ({ ok, left, waitMs }: Verdict) => ({
    ...(server.headers === 'quota and wait'
      ? { 'x-ratelimit-limit': String(server.limit), 'x-ratelimit-remaining': String(left) }
      : {}),
    ...(!ok && server.headers !== 'none' ? { 'retry-after': String(Math.ceil(waitMs / 1_000)) } : {}),
  });
  async function request(): Promise<void> {
    for (;;) {
      const pass = await gate.enter();
      await sleep(server.latencyMs * (0.25 + random() / 2));
      const verdict = count(clock.now());
      await sleep(server.latencyMs * (0.25 + random() / 2));
      if (!verdict.ok) {
        refused += 1;
        if (accepted >= 50) refusedLate += 1;
      } else accepted += 1;
      pass.leave({ kind: 'response', status: verdict.ok ? 200 : 429, headers: headersOf(verdict) });
      if (verdict.ok) return;
    }
  }
  const started = clock.now();
  await time.run(Promise.all(Array.from({ length: requests }, request)));
  gate.close();
  const seconds = (clock.now() - started) / 1_000;
  // The first window is free.
  const possible = (seconds * server.limit * 1_000) / server.windowMs + server.limit;
  return {
    refusals: refused,
    refused: refused / (requests + refused),
    /** Of the requests after the first 50. */
    refusedLate: refusedLate / (requests - 50 + refusedLate),
    used: requests / possible,
    seconds,
  };
}
