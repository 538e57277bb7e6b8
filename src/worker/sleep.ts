/** Waiting that can be cut short: by a timer, and by looking at the clock. */
import { schedule, type ScheduledTask } from 'node-cron';

/** Resolves after so many ms, or as soon as the signal is aborted; never rejects. */
export type Sleep = (ms: number, signal: AbortSignal) => Promise<void>;

/** `setTimeout` takes no more; a caller that waits longer looks at the time again. */
const longestMs = 2 ** 31 - 1;

/** Waits so many ms, or until the signal is aborted. */
export const sleepFor: Sleep = (ms, signal) =>
  until(signal, (done) => {
    const timer = setTimeout(done, Math.min(Math.max(0, ms), longestMs));
    return () => clearTimeout(timer);
  });

/**
 * The same, to the full second: node-cron looks at the clock with each second that it shows. A timer would not notice that the
 * machine slept, or that its clock was set forward.
 */
export const restFor: Sleep = (ms, signal) =>
  until(signal, (done) => {
    const end = Date.now() + ms;
    // A clock that is set back meanwhile makes it no longer.
    let left = Math.ceil(ms / 1_000) + 1;
    const tick = (): void => {
      left -= 1;
      if (left <= 0 || Date.now() >= end) done();
    };
    return onSeconds(tick);
  });

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

function until(signal: AbortSignal, start: (done: () => void) => () => void): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const done = (): void => {
      stop();
      signal.removeEventListener('abort', done);
      resolve();
    };
    const stop = start(done);
    signal.addEventListener('abort', done, { once: true });
  });
}
