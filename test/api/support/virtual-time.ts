/** Time that passes only when everybody waits: a clock and a sleep for code that takes both. */
import type { Sleep } from '../../../src/api/gate.ts';
import type { Clock } from '../../../src/model/time.ts';

interface Timer {
  readonly at: number;
  readonly wake: () => void;
}

export interface VirtualTime {
  readonly clock: Clock;
  readonly sleep: Sleep;
  /**
   * Runs until the work is done, jumping from one timer to the next.
   * @param settled waits for everything that can happen without time passing; by default a turn of the event loop
   */
  run<T>(work: Promise<T>, settled?: () => Promise<void>): Promise<T>;
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Starts at the given time, ms since 1970. */
export function virtualTime(start = Date.UTC(2026, 2, 11, 10)): VirtualTime {
  let now = start;
  let timers: Timer[] = [];
  return {
    clock: { now: () => now },
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        const timer = { at: now + ms, wake: resolve };
        timers.push(timer);
        signal?.addEventListener('abort', () => {
          timers = timers.filter((each) => each !== timer);
          reject(signal.reason as Error);
        });
      }),
    run: async (work, settled = turn) => {
      const state = { done: false };
      const finish = () => {
        state.done = true;
      };
      work.then(finish, finish);
      while (!state.done) {
        await settled();
        if (state.done) break;
        const next = timers.reduce<Timer | undefined>((a, b) => (a === undefined || b.at < a.at ? b : a), undefined);
        if (next === undefined) continue;
        timers = timers.filter((each) => each !== next);
        now = Math.max(now, next.at);
        next.wake();
      }
      return work;
    },
  };
}
