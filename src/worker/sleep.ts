/** Waiting that can be cut short: by a timer, and by looking at the clock. */
import { setTimeout as wait } from 'node:timers/promises';
import { schedule, type ScheduledTask } from 'node-cron';

/** Resolves after so many ms, or as soon as the signal is aborted; never rejects. */
export type Sleep = (ms: number, signal: AbortSignal) => Promise<void>;

/** `setTimeout` takes no more; a caller that waits longer looks at the time again. */
const longestMs = 2 ** 31 - 1;

export const sleepFor: Sleep = (ms, signal) =>
  wait(Math.min(Math.max(0, ms), longestMs), undefined, { signal }).catch(() => {});

/** The same, by node-cron, which looks at the clock each second: a timer would not notice that the machine slept. */
export const restFor: Sleep = async (ms, signal) => {
  if (signal.aborted) return;
  const { promise: rested, resolve: done } = Promise.withResolvers<void>();
  const end = Date.now() + ms;
  // A clock that is set back meanwhile makes it no longer.
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

/** Calls it each second until what is given back is called. One clock for all: a hundred workers rest in one process. */
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
