/** Waiting that can be cut short: by a timer, and by looking at the clock. */
import { setTimeout as wait } from 'node:timers/promises';
import { secondMs } from '../model/time.ts';

/** Resolves after so many ms, or as soon as the signal is aborted; never rejects. */
export type Sleep = (ms: number, signal: AbortSignal) => Promise<void>;

/** `setTimeout` takes no more; a caller that waits longer looks at the time again. */
const longestMs = 2 ** 31 - 1;

export const sleepFor: Sleep = (ms, signal) =>
  wait(Math.min(Math.max(0, ms), longestMs), undefined, { signal }).catch(() => {});

/** The same, looking at the clock each second: one long timer would not notice that the machine slept, or that its clock was set forward. */
export const restFor: Sleep = async (ms, signal) => {
  const end = Date.now() + ms;
  // A clock that is set back meanwhile makes it no longer.
  for (let looks = Math.ceil(ms / secondMs) + 1; looks > 0 && Date.now() < end && !signal.aborted; looks -= 1) {
    await sleepFor(Math.min(secondMs, end - Date.now()), signal);
  }
};
