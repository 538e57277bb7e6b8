/** Waiting that can be cut short. */
import type { Sleep } from './run-job.ts';

/** `setTimeout` takes no more; whoever waits longer looks at the time again. */
const longestMs = 2 ** 31 - 1;

/** Waits so many ms, or until the signal is aborted. */
export const sleepFor: Sleep = (ms, signal) =>
  new Promise((resolve) => {
    if (signal.aborted) {
      resolve();
      return;
    }
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, Math.min(Math.max(0, ms), longestMs));
    signal.addEventListener('abort', done, { once: true });
  });
