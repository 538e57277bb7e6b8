/** Times in ascending order, the oldest forgotten: what was sent lately, to be counted back from now. */

/** Enough for the windows of any limit that is worth counting; one of more requests than this is not felt. */
const most = 20_000;

export class SendLog {
  #times: number[] = [];

  /** Most times come in order; one that does not is put in its place. */
  add(time: number): void {
    const times = this.#times;
    if (times.length >= 2 * most) this.#times = times.slice(-most);
    const at = this.#firstFrom(time, true);
    if (at === this.#times.length) this.#times.push(time);
    else this.#times.splice(at, 0, time);
  }

  /** Forgets one entry of that time. */
  remove(time: number): void {
    const at = this.#firstFrom(time, false);
    if (this.#times[at] === time) this.#times.splice(at, 1);
  }

  /** How many lie at or after the time. */
  since(time: number): number {
    return this.#times.length - this.#firstFrom(time, false);
  }

  /** The `count`-th time from the end: 1 is the last. Undefined where there are fewer. */
  fromEnd(count: number): number | undefined {
    return this.#times[this.#times.length - count];
  }

  /** Index of the first time that is not before `time`, or, where `past` is set, of the first one after it. */
  #firstFrom(time: number, past: boolean): number {
    let low = 0;
    let high = this.#times.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const each = this.#times[middle] ?? Number.POSITIVE_INFINITY;
      if (each < time || (past && each === time)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
