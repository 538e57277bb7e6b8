/**
 * Finds the few records that a long window has lost, in far fewer requests than reading it. Section "Deletions" of
 * docs/architecture.md.
 */
import type { Capabilities } from '../api/capabilities.ts';
import { type DayRange, everything } from '../model/era.ts';
import type { RecordKey } from '../model/records.ts';
import type { ResourceName } from '../model/resources.ts';
import { counted } from '../model/text.ts';
import type { RankedRows, Window } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import { idsOn, type MirrorPage } from './page.ts';
import { possibleDays } from './source.ts';

export interface SearchPorts {
  readonly store: Pick<MirrorStore, 'rankedRows' | 'liveCount' | 'accountedCount' | 'unseenIds'>;
  readonly read: (page: number) => Promise<MirrorPage>;
  readonly pageSize: number;
}

/** The window's rows that the search did not find; `undecided` if only a walk can show what it has lost. */
type Searched =
  | { readonly kind: 'found'; readonly lost: readonly RecordKey[] }
  | { readonly kind: 'undecided'; readonly problem: string };

/** Windows with no more pages are walked: that shows more. */
const fewPages = 4;
/** A search may cost at most this share of the pages, since a walk also brings the rows up to date. */
const worthwhileShare = 0.5;
/** Pages requested side by side. */
const pagesAtOnce = 8;

/** Whether to search a window in which the server counts fewer records than before. */
export function isWorthSearching(window: Window, total: number, capabilities: Capabilities): boolean {
  const lost = (window.serverTotal ?? 0) - total;
  const pages = Math.ceil(total / capabilities.pageSize);
  if (capabilities.sorts !== 'kept' || window.state !== 'settled' || lost <= 0 || pages <= fewPages) return false;
  return expectedProbes(lost, pages) <= pages * worthwhileShare;
}

/**
 * Searches the window for lost records.
 * @param range the requested days; null for all
 * @param total what the server counts in them
 */
export async function findDeletions(
  ports: SearchPorts,
  window: Window,
  range: DayRange | null,
  total: number,
): Promise<Searched> {
  const { store } = ports;
  const { resource } = window;
  const reach = range === null ? everything : possibleDays(range);
  if (store.accountedCount(resource, reach) !== store.liveCount(resource, reach)) {
    return undecided('it has records that are kept out of the mirror');
  }
  const found = await search(ports, window, reach, total);
  if (found.kind === 'contradiction') return undecided(found.problem);
  const missing = new Set<RecordKey>(found.ids);
  const lost = store.unseenIds(window, new Set()).filter((id) => missing.has(id));
  return { kind: 'found', lost };
}

/**
 * Finds the windows that lack records by the places of a few records; undefined if counting each window is necessary, or cheaper.
 */
export async function findLosses(
  ports: SearchPorts,
  resource: ResourceName,
  windows: readonly Window[],
  total: number,
  capabilities: Capabilities,
): Promise<Window[] | undefined> {
  const { store, pageSize } = ports;
  const live = store.liveCount(resource);
  const known = { pagesRead: 0, freshAsOf: null, problem: null };
  const whole: Window = { resource, ...everything, ...known, state: 'settled', serverTotal: live };
  if (!isWorthSearching(whole, total, capabilities)) return undefined;
  if (windows.length <= expectedProbes(live - total, Math.ceil(total / pageSize))) return undefined;
  const searched = await findDeletions(ports, whole, null, total);
  if (searched.kind !== 'found') return undefined;
  const lost = new Set(searched.lost);
  return windows.filter((window) => store.unseenIds(window, new Set()).some((id) => lost.has(id)));
}

function undecided(problem: string): Searched {
  return { kind: 'undecided', problem };
}

async function search(ports: SearchPorts, window: Window, reach: DayRange, total: number): Promise<RankFindings> {
  const { read, pageSize, store } = ports;
  const rows = store.rankedRows(window.resource, reach);
  if (!Array.from(rows.ids).every(Number.isSafeInteger)) {
    return { kind: 'contradiction', problem: 'it has ids that are too large to be put in order' };
  }
  const steps = searchMissing(rows, { total, pageSize });
  // If more is missing than the counts show, a search can cost more than reading everything.
  let left = Math.ceil(total / pageSize);
  let step = steps.next();
  while (step.done !== true) {
    left -= step.value.length;
    if (left < 0) return { kind: 'contradiction', problem: 'it takes more requests than reading it' };
    const found: (readonly RecordKey[])[] = [];
    for (let at = 0; at < step.value.length; at += pagesAtOnce) {
      const pages = await Promise.all(step.value.slice(at, at + pagesAtOnce).map(read));
      if (pages.some((page) => page.total !== total || page.perPage !== pageSize)) {
        return { kind: 'contradiction', problem: 'records came or went meanwhile' };
      }
      found.push(...pages.map(idsOn));
    }
    step = steps.next(found);
  }
  return step.value;
}

/** Estimates how many pages the search requests: the first, the last, and a halving for each missing record. */
function expectedProbes(missing: number, pages: number): number {
  return 2 + missing * Math.log2(Math.max(2, pages / missing));
}

/** A half-open range of ranks. */
interface RankRange {
  readonly from: number;
  readonly to: number;
}

/** Ranks by id and ids by rank, in 28 bytes per record. Records of one moment are put in the order that the server shows. */
class LocalOrder {
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

  /** Returns the rank of the record; undefined if the mirror has none of that id. */
  rankOf(id: RecordKey): number | undefined {
    // Ids that a double cannot hold exactly have no known order.
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

  /** Returns the ranks around this one that share its moment, within the range. */
  tiesOf(rank: number, range: RankRange): RankRange {
    const moment = this.momentAt(rank);
    let from = rank;
    while (from > range.from && this.momentAt(from - 1) === moment) from -= 1;
    let to = rank + 1;
    while (to < range.to && this.momentAt(to) === moment) to += 1;
    return { from, to };
  }

  /** Moves the chosen records of one moment to the first or the last of its ranks. Returns the ranks of the chosen ones. */
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

/** The server's list, which must not change during the search. */
interface ServerList {
  readonly total: number;
  readonly pageSize: number;
}

export type RankFindings =
  /** All ids of the mirror that cannot be on the server, if it lists the others in the mirror's order. */
  | { readonly kind: 'missing'; readonly ids: readonly number[] }
  /** The server shows a record that the mirror does not know, or another order: only reading everything helps. */
  | { readonly kind: 'contradiction'; readonly problem: string };

/** Yields the pages to request next, receives the ids on each of them in order, and returns what was found. */
type RankSearch = Generator<readonly number[], RankFindings, readonly (readonly RecordKey[])[]>;

/** Pages that were not requested yet, both ends included, and the ranks that must hold their records. */
interface Gap extends RankRange {
  readonly firstPage: number;
  readonly lastPage: number;
}

/** How a page divides the gap in which it lies. */
interface Cut {
  readonly gaps: readonly Gap[];
  readonly missing: readonly number[];
}

/**
 * Searches the rows for those that the server's list lacks (pure). A page's first record has a rank in the mirror and a place on the
 * server; the difference is how many records before it were deleted. A stretch in which that number does not grow has lost none;
 * any other stretch is halved. The rows may reach beyond the list at either end. The first and the
 * last page are requested before any other: they fix the ends, and show a record that was added there.
 */
export function* searchMissing(rows: RankedRows, list: ServerList): RankSearch {
  const order = new LocalOrder(rows);
  const lastPage = Math.ceil(list.total / list.pageSize);
  const missing: number[] = [];
  let gaps: Gap[] = [{ firstPage: 1, lastPage, from: 0, to: order.size }];
  let pages = [...new Set([1, lastPage])].filter((page) => page > 0 && page <= lastPage);
  for (;;) {
    const responses = pages.length === 0 ? [] : yield pages;
    for (const [index, page] of pages.entries()) {
      const at = gaps.findIndex((gap) => gap.firstPage <= page && page <= gap.lastPage);
      const gap = gaps[at];
      if (gap === undefined) throw new Error(`page ${page} is in no gap`);
      const cut = cutGap(order, list, gap, page, responses[index] ?? []);
      if (typeof cut === 'string') return { kind: 'contradiction', problem: cut };
      missing.push(...cut.missing);
      gaps.splice(at, 1, ...cut.gaps);
    }
    const open: Gap[] = [];
    for (const gap of gaps) {
      const lost = gap.to - gap.from - servedIn(gap, list);
      if (lost < 0) return { kind: 'contradiction', problem: 'the server has more records than the mirror in between' };
      if (gap.firstPage > gap.lastPage) missing.push(...idsIn(order, gap));
      else if (lost > 0) open.push(gap);
    }
    if (open.length === 0) return { kind: 'missing', ids: missing };
    gaps = open;
    pages = gaps.map((gap) => Math.floor((gap.firstPage + gap.lastPage) / 2));
  }
}

function servedIn({ firstPage, lastPage }: Gap, { total, pageSize }: ServerList): number {
  return Math.max(0, Math.min(total, lastPage * pageSize) - (firstPage - 1) * pageSize);
}

function idsIn(order: LocalOrder, { from, to }: RankRange): number[] {
  return Array.from({ length: to - from }, (_, index) => order.idAt(from + index));
}

/** Cuts the gap in two at one of its pages. Returns a text if the page contradicts what the mirror knows. */
function cutGap(order: LocalOrder, list: ServerList, gap: Gap, page: number, ids: readonly RecordKey[]): Cut | string {
  const expected = servedIn({ ...gap, firstPage: page, lastPage: page }, list);
  const shown = new Set(ids);
  if (ids.length !== expected || shown.size !== expected)
    return `page ${page} shows ${counted(shown.size, 'record')}, not ${expected}`;
  const place = placeOf(order, gap, ids, shown);
  if (typeof place === 'string') return `page ${page}: ${place}`;
  return {
    gaps: [
      { firstPage: gap.firstPage, lastPage: page - 1, from: gap.from, to: place.from },
      { firstPage: page + 1, lastPage: gap.lastPage, from: place.to, to: gap.to },
    ],
    missing: idsIn(order, place).filter((id) => !shown.has(id)),
  };
}

/**
 * Returns the ranks of a page's records. Servers break ties by rules of their own. So records of the page's first or last moment
 * that it does not show are taken to be on the page before or after it.
 */
function placeOf(
  order: LocalOrder,
  gap: Gap,
  ids: readonly RecordKey[],
  shown: ReadonlySet<RecordKey>,
): RankRange | string {
  const ranks: number[] = [];
  for (const id of ids) {
    const rank = order.rankOf(id);
    if (rank === undefined) return `the mirror does not know the record ${id}`;
    const before = ranks.at(-1);
    const ordered = before === undefined || order.momentAt(before) <= order.momentAt(rank);
    if (!ordered || rank < gap.from || rank >= gap.to) return `the record ${id} is not where the mirror has it`;
    ranks.push(rank);
  }
  const first = ranks[0] ?? gap.from;
  const last = ranks.at(-1) ?? gap.from;
  if (order.momentAt(first) !== order.momentAt(last)) {
    const { from } = order.gather(order.tiesOf(first, gap), shown, 'last');
    const { to } = order.gather(order.tiesOf(last, gap), shown, 'first');
    return { from, to };
  }
  // The neighbours of a page of one moment may be of the same moment. Then the order must be the mirror's own.
  const rising = ranks.every((rank, index) => index === 0 || (ranks[index - 1] ?? rank) < rank);
  return rising ? { from: first, to: last + 1 } : `records of one moment are not in the order of the mirror`;
}
