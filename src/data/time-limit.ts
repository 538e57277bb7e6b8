/** A bound on the time that something is waited for. */

/** The longest that a timer can wait, in ms. */
const longestMs = 2 ** 31 - 1;

/** Counts only the time spent in `during`; calls `end` once there is none left. */
export class TimeLimit {
  #leftMs: number;
  readonly #end: () => void;
  #isUp = false;

  constructor(ms: number, end: () => void) {
    this.#leftMs = ms;
    this.#end = end;
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  async during<T>(wait: () => Promise<T>): Promise<T> {
    const began = performance.now();
    const timer = setTimeout(
      () => {
        this.#isUp = true;
        this.#end();
      },
      Math.min(this.#leftMs, longestMs),
    );
    try {
      return await wait();
    } finally {
      clearTimeout(timer);
      this.#leftMs = Math.max(0, this.#leftMs - (performance.now() - began));
    }
  }
}
