/** Decides when the seed records were created: more of them recently, on working days and in the evening. */
import { UsageError } from '../model/errors.ts';
import { dayMs, hourMs, parseDay, startOfDay } from '../model/time.ts';

/** Relative number of new records in each hour of a day, from midnight UTC. */
const hourWeights = [5, 3, 2, 2, 2, 3, 5, 8, 11, 13, 14, 14, 13, 13, 14, 15, 15, 15, 16, 17, 17, 15, 11, 8];
/** Relative number of new records on each day of a week, from Sunday. */
const dayWeights = [8, 11, 12, 12, 11, 11, 9];

/** The records are spread over this many days, about three years. */
const spanDays = 1_096;

const secondTexts: string[] = [];
for (let second = 0; second < 3_600; second += 1) {
  const minutes = String(Math.floor(second / 60)).padStart(2, '0');
  secondTexts.push(`${minutes}:${String(second % 60).padStart(2, '0')}.000000Z`);
}

const hourTexts = new Map<number, string>();

/** Writes the instant as the API does, cut to its second. Cached for speed, because every record has several. */
export function stamp(ms: number): string {
  const hour = Math.floor(ms / hourMs);
  let text = hourTexts.get(hour);
  if (text === undefined) {
    if (hourTexts.size > 200_000) hourTexts.clear();
    text = new Date(hour * hourMs).toISOString().slice(0, 14);
    hourTexts.set(hour, text);
  }
  return text + (secondTexts[Math.floor((ms - hour * hourMs) / 1_000)] ?? '');
}

/** Parses the days on which nothing is created into a start and an end, ms; empty if none are given. Throws a UsageError. */
function quietDays(text: string): readonly number[] {
  if (text === '') return [];
  const days = text.split('..').map(parseDay);
  const [from, to] = days;
  if (days.length === 2 && from !== undefined && to !== undefined && from < to)
    return [startOfDay(from), startOfDay(to)];
  throw new UsageError(`the sandbox's switch quiet_days was set to "${text}", which is not two days in order`, {
    advice: 'Write it like 2025-12-20..2026-01-10; the second day is busy again.',
  });
}

/** Turns positions between 0 and 1 into moments between three years ago and now. */
export class Calendar {
  readonly #start: number;
  readonly #end: number;
  /** The share of all records that were created before each hour. */
  readonly #reached: Float64Array;
  #hour = 0;

  /** @param quiet days without a record, as in `2025-12-20..2026-01-10`; empty for none */
  constructor(now: number, quiet = '') {
    const [quietFrom = Infinity, quietTo = Infinity] = quietDays(quiet);
    this.#end = Math.floor(now / 1_000) * 1_000;
    this.#start = Math.floor((now - spanDays * dayMs) / hourMs) * hourMs;
    const hours = Math.ceil((this.#end - this.#start) / hourMs);
    this.#reached = new Float64Array(hours + 1);
    let sum = 0;
    for (let at = 0; at < hours; at += 1) {
      const from = this.#start + at * hourMs;
      // The epoch began on a Thursday.
      const day = dayWeights[(Math.floor(from / dayMs) + 4) % 7] ?? 1;
      const hour = hourWeights[Math.floor(from / hourMs) % 24] ?? 1;
      const share = Math.min(1, (this.#end - from) / hourMs);
      // Growth: four times as many records a day at the end as at the beginning.
      if (from < quietFrom || from >= quietTo) sum += day * hour * share * (1 + (3 * at) / hours);
      this.#reached[at + 1] = sum;
    }
    for (let at = 1; at <= hours; at += 1) this.#reached[at] = (this.#reached[at] ?? 0) / sum;
  }

  /** Returns the moment at the position, ms, in whole seconds. Fastest if positions rise from call to call. */
  at(position: number): number {
    if ((this.#reached[this.#hour] ?? 0) > position) this.#hour = 0;
    while ((this.#reached[this.#hour + 1] ?? 1) < position) this.#hour += 1;
    const before = this.#reached[this.#hour] ?? 0;
    const after = this.#reached[this.#hour + 1] ?? 1;
    const within = after > before ? (position - before) / (after - before) : 0;
    const from = this.#start + this.#hour * hourMs;
    const length = Math.min(hourMs, this.#end - from);
    return Math.min(this.#end, Math.floor((from + within * length) / 1_000) * 1_000);
  }
}
