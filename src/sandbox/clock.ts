/** The sandbox's own time, which a test can set, stop and move on. */

export class SandboxClock {
  #offset = 0;
  #frozen: number | null = null;
  readonly #source: () => number;

  constructor(source: () => number = Date.now) {
    this.#source = source;
  }

  /** Milliseconds since 1970. */
  now(): number {
    return this.#frozen ?? this.#source() + this.#offset;
  }

  /** Sets the time; it runs on from there unless `frozen`. */
  set(ms: number, frozen: boolean): void {
    this.#offset = ms - this.#source();
    this.#frozen = frozen ? ms : null;
  }

  advance(ms: number): void {
    if (this.#frozen === null) this.#offset += ms;
    else this.#frozen += ms;
  }

  frozen(): boolean {
    return this.#frozen !== null;
  }
}
