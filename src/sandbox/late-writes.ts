/** Writes whose requests were cut off and that are made all the same, a little later. */

export class LateWrites {
  readonly #waiting = new Map<NodeJS.Timeout, () => void>();

  add(write: () => void, ms: number): void {
    const timer = setTimeout(() => this.#run(timer), ms);
    timer.unref();
    this.#waiting.set(timer, write);
  }

  #run(timer: NodeJS.Timeout): void {
    const write = this.#waiting.get(timer);
    clearTimeout(timer);
    this.#waiting.delete(timer);
    try {
      write?.();
    } catch {
      // Nobody is left to hear that the write was refused.
    }
  }

  /** Makes them all now, without the wait; says how many there were. */
  now(): number {
    const timers = [...this.#waiting.keys()];
    for (const timer of timers) this.#run(timer);
    return timers.length;
  }

  /** Forgets them: the sandbox closes. */
  clear(): void {
    for (const timer of this.#waiting.keys()) clearTimeout(timer);
    this.#waiting.clear();
  }
}
