/** Two ways to wait that a signal can cut short: with a timer, and by looking at the clock. */
import { setTimeout as wait } from 'node:timers/promises';
import { schedule, type ScheduledTask } from 'node-cron';

/** Resolves after `ms`, or as soon as the signal is aborted. Never rejects. */
export type Sleep = (ms: number, signal: AbortSignal) => Promise<void>;

/** The longest delay that `setTimeout` accepts. A caller that must wait longer looks at the time and sleeps again. */
const longestMs = 2 ** 31 - 1;

export const sleepFor: Sleep = (ms, signal) =>
  wait(Math.min(Math.max(0, ms), longestMs), undefined, { signal }).catch(() => {});

/** The same with node-cron, which looks at the clock each second. A timer would not notice that the machine slept. */
export const sleepByClock: Sleep = async (ms, signal) => {
  if (signal.aborted) return;
  const { promise: rested, resolve: done } = Promise.withResolvers<void>();
  const end = Date.now() + ms;
  // Counts the seconds too: if the clock is set back meanwhile, the wait does not become longer.
  let left = Math.ceil(ms / 1_000) + 1;
  const stop = onSeconds(() => {
    left -= 1;
    if (left <= 0 || Date.now() >= end) done();
  });
  const onAbort = (): void => done();
  signal.addEventListener('abort', onAbort, { once: true });
  await rested;
  signal.removeEventListener('abort', onAbort);
  stop();
};

const ticks = new Set<() => void>();
let seconds: ScheduledTask | undefined;

/** Calls `tick` each second until the returned function is called. All callers share one timer: a process may hold a hundred workers. */
function onSeconds(tick: () => void): () => void {
  const tickAll = () => [...ticks].forEach((each) => each());
  ticks.add(tick);
  seconds ??= schedule('* * * * * *', tickAll, { timezone: 'UTC', suppressMissedWarning: true });
  return () => {
    ticks.delete(tick);
    if (ticks.size > 0) return;
    void seconds?.destroy();
    seconds = undefined;
  };
}
