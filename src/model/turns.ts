/** Turns of the event loop. A loop that only computes is deaf to signals, timers and other requests until it ends. */
import { setImmediate as nextTurn } from 'node:timers/promises';

/** A person who presses Ctrl+C, or loads a page of the console, does not notice this. */
const turnMs = 50;

/**
 * For loops, which call `take` whenever a turn `isDue`: awaiting each time would cost more than the turns. Only the time since
 * the event loop last turned counts, so whoever waited for something else needs no turn.
 */
export class Turns {
  #begun: number | undefined;

  isDue(): boolean {
    if (this.#begun !== undefined) return performance.now() - this.#begun > turnMs;
    this.#begun = performance.now();
    setImmediate(() => (this.#begun = undefined));
    return false;
  }

  /** Lets everything else have its turn. Throws the signal's reason once it is aborted. */
  async take(signal?: AbortSignal): Promise<void> {
    await nextTurn();
    signal?.throwIfAborted();
  }
}

/** Yields the items to a loop that lets everything else have its turn. Throws the signal's reason once it is aborted. */
export function* untilAborted<T>(items: Iterable<T>, signal: AbortSignal): Generator<T> {
  for (const item of items) {
    signal.throwIfAborted();
    yield item;
  }
}
