/** The mirror's records in the order in which the server is expected to list them, to be looked up by id (pure). */

import type { RecordKey } from '../model/records.ts';
import type { RankedRows } from '../store/mirror-types.ts';

/** Half-open, in ranks. */
export interface RankRange {
  readonly from: number;
  readonly to: number;
}

/**
 * Ranks by id and ids by rank, in typed arrays: 28 bytes a record, so that a list of millions can be searched in bounded
 * memory. Which of the records of one moment comes first can be put right while the server's order shows.
 */
export class LocalOrder {
  readonly size: number;
  readonly #sorted: Float64Array;
  /** Where the record of a rank stands among the sorted ids. */
  readonly #places: Uint32Array;
  /** The rank of the id at a place. */
  readonly #ranks: Uint32Array;
  readonly #moments: ArrayLike<number>;

  constructor({ ids, moments }: RankedRows) {
    this.size = ids.length;
    this.#moments = moments;
    this.#sorted = Float64Array.from(ids).sort();
    this.#places = new Uint32Array(this.size);
    this.#ranks = new Uint32Array(this.size);
    for (let rank = 0; rank < this.size; rank += 1) this.#put(rank, this.#placeOf(ids[rank] ?? 0));
  }

  /** The rank of the record; undefined where the mirror has none of that id. */
  rankOf(id: RecordKey): number | undefined {
    // What a double cannot tell apart is in no order that is known.
    if (typeof id === 'bigint') return undefined;
    const place = this.#placeOf(id);
    return this.#sorted[place] === id ? this.#ranks[place] : undefined;
  }

  idAt(rank: number): number {
    return this.#sorted[this.#places[rank] ?? 0] ?? 0;
  }

  momentAt(rank: number): number {
    return this.#moments[rank] ?? 0;
  }

  /** The ranks of one moment around a rank, as far as they lie in the range. */
  tiesOf(rank: number, range: RankRange): RankRange {
    const moment = this.momentAt(rank);
    let from = rank;
    while (from > range.from && this.momentAt(from - 1) === moment) from -= 1;
    let to = rank + 1;
    while (to < range.to && this.momentAt(to) === moment) to += 1;
    return { from, to };
  }

  /** Ranks the records of one moment with the chosen ones at one end of them; gives the ranks of the chosen. */
  gather(ties: RankRange, chosen: ReadonlySet<RecordKey>, end: 'first' | 'last'): RankRange {
    const places = this.#places.slice(ties.from, ties.to);
    const isChosen = (place: number) => chosen.has(this.#sorted[place] ?? 0);
    const among = [...places].filter(isChosen);
    const others = [...places].filter((place) => !isChosen(place));
    const ordered = end === 'first' ? [...among, ...others] : [...others, ...among];
    for (const [index, place] of ordered.entries()) this.#put(ties.from + index, place);
    const from = end === 'first' ? ties.from : ties.to - among.length;
    return { from, to: from + among.length };
  }

  #put(rank: number, place: number): void {
    this.#places[rank] = place;
    this.#ranks[place] = rank;
  }

  /** Where the id stands among the sorted ones, or would. */
  #placeOf(id: number): number {
    let low = 0;
    let high = this.size;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#sorted[middle] ?? 0) < id) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
