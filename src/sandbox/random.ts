/** Random numbers from a seed: the same seed gives the same run, so that every failure can be reproduced. */

/** Hashes two integers into 32 bits, to give every record a random stream of its own without storing one. */
export function mix(a: number, b: number): number {
  let h = Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b + 0x7f4a7c15, 0xc2b2ae35);
  h = Math.imul(h ^ (h >>> 16), 0x7feb352d);
  h = Math.imul(h ^ (h >>> 15), 0x846ca68b);
  return (h ^ (h >>> 16)) >>> 0;
}

/** Hashes a text into 32 bits (FNV-1a), to keep the streams of different purposes apart. */
export function textHash(text: string): number {
  let h = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) h = Math.imul(h ^ text.charCodeAt(at), 0x01000193);
  return h >>> 0;
}

/** One stream of random numbers: mulberry32, whose state is a single word, so starting a stream costs nothing. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** Restarts from another seed, without allocating an object for each of millions of records. */
  restart(seed: number): void {
    this.#state = seed | 0;
  }

  /** Returns an unsigned 32-bit integer. */
  word(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return (t ^ (t >>> 14)) >>> 0;
  }

  /** Returns a number in [0, 1). */
  fraction(): number {
    return this.word() / 4_294_967_296;
  }

  /** Returns an integer in [0, end). */
  below(end: number): number {
    return Math.floor(this.fraction() * end);
  }

  chance(probability: number): boolean {
    return probability > 0 && this.fraction() < probability;
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)] as T;
  }
}
