/** Turns of the event loop. A loop that only computes is deaf to signals, timers and other requests until it ends. */
import { setImmediate } from 'node:timers/promises';

/** A person who presses Ctrl+C, or loads a page of the console, does not notice this. */
const turnMs = 50;

/** For one loop, which calls `take` whenever a turn `isDue`: awaiting each time would cost more than the turns. */
export class Turns {
  #takenAt = performance.now();

  isDue(): boolean {
    return performance.now() - this.#takenAt > turnMs;
  }

  /** Lets everything else have its turn. Throws the signal's reason once it is aborted. */
  async take(signal?: AbortSignal): Promise<void> {
    await setImmediate();
    this.#takenAt = performance.now();
    signal?.throwIfAborted();
  }
}

/** Yields the items, with turns between them. Throws the signal's reason once it is aborted. */
export async function* inTurns<T>(items: Iterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  const turns = new Turns();
  for (const item of items) {
    if (turns.isDue()) await turns.take(signal);
    yield item;
  }
}
