/**
 * Reads pages that a host cannot make, because they have too many records for its memory or time limit, or a record that
 * makes every page fail: as smaller pages, down to the single record. Also walks forward over every page of a list, for
 * output that does not need the certainty of a mirror. Section "Requests" of docs/architecture.md.
 */
import { counted } from '../model/text.ts';
import type { Patience } from './client.ts';
import type { ListPage, Page, Unreadable } from './envelope.ts';
import { isPageFailure, ServerFailed } from './errors.ts';
import type { Log } from '../model/log.ts';
import type { ResourceName } from '../model/resources.ts';
import { afterPart, IncompleteError } from '../model/errors.ts';

/** The places `[from, to)` on a page, counted from 0. */
export interface Places {
  readonly from: number;
  readonly to: number;
}

/** How to read pages of a list, whatever becomes of their records. */
export interface PageReading<P extends ListPage> {
  /** Requests one page of the list, in pages of that size. Keeps only the records at the places if they are given. */
  readonly requestOne: (page: number, size: number, patience?: Patience, places?: Places) => Promise<P>;
  readonly count: (page: P) => number;
  /** Returns the page with the records of the parts, in their order, instead of its own. */
  readonly join: (page: P, parts: readonly P[]) => P;
}

/** Requests one page of a list in pages of that size. */
export type RequestPage = (page: number, size: number, patience?: Patience) => Promise<Page>;

/** Reads pages as their records. */
export function readingRecords(requestOne: RequestPage): PageReading<Page> {
  return {
    requestOne: async (number, size, patience, places) => {
      const page = await requestOne(number, size, patience);
      return places === undefined ? page : { ...page, records: page.records.slice(places.from, places.to) };
    },
    count: ({ records }) => records.length,
    join: (page, parts) => ({ ...page, records: parts.flatMap(({ records }) => records) }),
  };
}

/** A page that may have been read in parts, which are in the order from the last to the first. */
export type InParts<P> = P & { readonly parts?: readonly P[] };

/** The most failed requests for smaller pages of one list, so that a list with many unreadable records stays affordable. */
const maxFailures = 200;

/** A server that fails at random makes many sizes look too large. After so many that were not, none is suspected any more. */
const maxSuspicions = 3;

/** How often a size must fail, and the smaller one come, in turns. Failures at random do so in one of 256 cases at most. */
const sizeTrials = 4;

/** What earlier requests have shown about the pages of a list. */
export class Reach {
  /** The largest page size to request. */
  size = Infinity;
  /** A page size that failed because of its size. */
  fails = Infinity;
  /** Whether failures of pages turned out to be permanent, so that many retries are no use. */
  lasting = false;
  failuresLeft = maxFailures;
  /** How often a size may still be suspected in vain. */
  suspicionsLeft = maxSuspicions;
}

const success = 200;
const once = { pageAttempts: 1 };
const twice = { pageAttempts: 2 };

/**
 * Reads the page, in parts if the host cannot make it whole. Throws what `requestOne` throws if smaller pages of the list
 * fail, too.
 */
export async function readPage<P extends ListPage>(
  reading: PageReading<P>,
  number: number,
  size: number,
  reach: Reach,
): Promise<InParts<P>> {
  let failure: Error | undefined;
  if (size <= reach.size) {
    try {
      return await reading.requestOne(number, size, reach.lasting ? twice : undefined);
    } catch (error) {
      if (!isPageFailure(error)) throw error;
      failure = error;
    }
  }
  return new NarrowedPage(reading, reach, number, size, failure).read();
}

/** Returns how many records cannot be read. */
export function countOf(unreadable: readonly Unreadable[]): number {
  return unreadable.reduce((sum, { first, last }) => sum + last - first + 1, 0);
}

/** Describes the records for a message: how many they are, their places in the list, and the server's words for the first. */
export function describeUnreadable(unreadable: readonly Unreadable[]): string {
  const count = countOf(unreadable);
  const inOrder = unreadable.toSorted((a, b) => a.first - b.first);
  const places = inOrder.map(({ first, last }) => (first === last ? `${first}` : `${first} to ${last}`));
  const shown = `${places.slice(0, maxPlacesShown).join(', ')}${places.length > maxPlacesShown ? ', …' : ''}`;
  const what = counted(count, 'record cannot be read, number', 'records cannot be read, numbers');
  return `${what} ${shown} of the list: ${inOrder[0]?.problem ?? ''}`;
}

const maxPlacesShown = 5;

/** Whether a page is more than half full. A page with few records says nothing about the size that the host can make. */
function isMostlyFull(records: number, size: number): boolean {
  return 2 * records > size;
}

/** One page, read in smaller pages. */
class NarrowedPage<P extends ListPage> {
  readonly #reading: PageReading<P>;
  readonly #reach: Reach;
  readonly #number: number;
  readonly #size: number;
  /** How the whole page failed; undefined if it was not requested. */
  readonly #failure: Error | undefined;
  readonly #parts: P[] = [];
  readonly #unreadable: Unreadable[] = [];
  /** The smaller page that was read last. */
  #last: P | undefined;
  /** The most records that came on one of the smaller pages. */
  #most = 0;
  /** The last failure of a smaller page. */
  #problem: unknown;

  constructor(reading: PageReading<P>, reach: Reach, number: number, size: number, failure: Error | undefined) {
    this.#reading = reading;
    this.#reach = reach;
    this.#number = number;
    this.#size = size;
    this.#failure = failure;
  }

  async read(): Promise<InParts<P>> {
    const size = this.#size;
    const first = (this.#number - 1) * size;
    if (this.#failure !== undefined) await this.#findSomePage(this.#failure);
    const behind = first + size;
    const end = this.#last === undefined ? behind : await this.#endFrom(Math.max(first, this.#last.total), behind);
    const smaller = Math.max(1, Math.ceil((end - first) / 2));
    await this.#readPlaces(first, end, smaller);
    const isJudged = this.#failure !== undefined && this.#unreadable.length === 0;
    if (isJudged && isMostlyFull(end - first, size)) await this.#learnSize(this.#number, size, smaller, end - first);
    const last = this.#last ?? (await this.#findSomePage(this.#problem));
    const { join } = this.#reading;
    return {
      ...join(last, this.#parts.toReversed()),
      page: this.#number,
      perPage: size,
      lastPage: Math.max(1, Math.ceil(last.total / size)),
      parts: this.#parts.length > 0 ? this.#parts : [join(last, [])],
      unreadable: this.#unreadable
        .filter((each) => each.first <= last.total)
        .map((each) => ({ ...each, last: Math.min(each.last, last.total) })),
    };
  }

  /** Requests a single record of the list, to show that the list itself does not fail. If none comes, throws `failure`. */
  async #findSomePage(failure: unknown): Promise<P> {
    // If the first record of the list cannot be read, the place behind the page shows another record or the list's end.
    for (const number of [1, this.#number * this.#size + 1]) {
      try {
        const page = await this.#reading.requestOne(number, 1, once);
        this.#last = page;
        return page;
      } catch (error) {
        if (!isPageFailure(error)) throw error;
      }
    }
    throw failure;
  }

  /** Reads the places `[first, end)` of the list, counted from 0, from the last to the first: walks go backward. */
  async #readPlaces(first: number, end: number, size: number): Promise<void> {
    let left = end;
    while (left > first) {
      const pieceSize = Math.max(1, Math.min(size, this.#reach.size));
      const number = Math.ceil(left / pieceSize);
      const from = Math.max(first, (number - 1) * pieceSize);
      await this.#readPiece(number, pieceSize, from, left);
      // Even an empty page behind the end of the list has its total.
      const total = Math.max(first, this.#last?.total ?? from);
      left = total < from ? await this.#endFrom(total, from) : from;
    }
  }

  /**
   * Returns the place where the list ends, counted from 0. Looks from `total` on, since that may be out of date or too small.
   * @param bound no place behind it matters
   */
  async #endFrom(total: number, bound: number): Promise<number> {
    const { requestOne, count } = this.#reading;
    let end = Math.min(total, bound);
    let size = Math.max(1, Math.min(Math.ceil(this.#size / 2), this.#reach.size));
    while (end < bound) {
      const offset = Math.floor(end / size) * size;
      try {
        const page = await requestOne(offset / size + 1, size, once);
        const shown = page.perPage === size ? offset + count(page) : 0;
        if (shown <= end) break;
        end = Math.min(shown, bound);
      } catch (error) {
        if (!isPageFailure(error)) throw error;
        // Some servers fail behind the end of a list.
        if (size === 1) break;
        size = Math.ceil(size / 2);
      }
    }
    return end;
  }

  /** Whether the list ends before `from`, if nothing has shown its length yet: some servers fail behind the end of a list. */
  async #isBehind(from: number, end: number, failure: unknown): Promise<boolean> {
    const { total } = await this.#findSomePage(failure);
    return total <= from && (await this.#endFrom(total, end)) <= from;
  }

  /** Reads the places `[from, end)` with one smaller page, or with still smaller ones if it fails. */
  async #readPiece(number: number, size: number, from: number, end: number): Promise<void> {
    let page: P;
    const offset = (number - 1) * size;
    try {
      const places = { from: from - offset, to: end - offset };
      page = await this.#reading.requestOne(number, size, size === 1 ? twice : once, places);
    } catch (error) {
      if (!isPageFailure(error)) throw error;
      this.#problem = error;
      return this.#splitPiece(number, size, from, end, error);
    }
    // If the server uses another page size than requested, places mean nothing.
    if (page.perPage !== size) {
      const problem = `pages of ${counted(size, 'record')} were requested, and pages of ${page.perPage} came`;
      throw this.#failure ?? new ServerFailed(problem, success);
    }
    this.#last = page;
    const count = this.#reading.count(page);
    this.#most = Math.max(this.#most, count);
    if (count > 0) this.#parts.push(page);
  }

  /** Reads a smaller page that failed in halves. If it has one record, or too much has failed, notes it as unreadable. */
  async #splitPiece(number: number, size: number, from: number, end: number, error: Error): Promise<void> {
    const reach = this.#reach;
    if (this.#last === undefined && (await this.#isBehind(from, end, error))) return;
    reach.failuresLeft -= 1;
    if (size === 1 || reach.failuresLeft <= 0) {
      reach.lasting = true;
      this.#unreadable.push({ first: from + 1, last: end, problem: error.message });
      return;
    }
    const before = this.#unreadable.length;
    const smaller = Math.ceil(size / 2);
    await this.#readPlaces(from, end, smaller);
    // If only some of its records were requested, the record that made the page fail may be among the others.
    const isWhole = from === (number - 1) * size && end === Math.min(number * size, this.#last?.total ?? Infinity);
    const isJudged = isWhole && this.#unreadable.length === before;
    if (isJudged && isMostlyFull(end - from, size)) await this.#learnSize(number, size, smaller, end - from);
  }

  /**
   * Bounds the page size after a page failed although all its records came in smaller pages, if the size is the cause. A bad
   * moment would look the same, and so would a page number that the host refuses. So pages of both sizes are requested in turns,
   * also with another number: those of this size must fail, and those of the smaller one must come.
   */
  async #learnSize(number: number, size: number, smaller: number, records: number): Promise<void> {
    const reach = this.#reach;
    if (reach.size <= smaller || size === 1 || this.#most >= records || reach.suspicionsLeft === 0) return;
    const isNextFull = (this.#last?.total ?? 0) >= 2 * size;
    const numbers = number > 1 ? [number - 1, number] : [isNextFull ? 2 : 1, 1];
    for (let trial = 0; trial < sizeTrials; trial += 1) {
      const tried = numbers[trial % 2] ?? number;
      if ((await this.#comes(tried, size)) || !(await this.#comes(tried, smaller))) {
        reach.suspicionsLeft -= 1;
        return;
      }
    }
    reach.size = smaller;
    reach.fails = size;
    reach.lasting = true;
  }

  async #comes(number: number, size: number): Promise<boolean> {
    try {
      await this.#reading.requestOne(number, size, once);
      return true;
    } catch (error) {
      if (!isPageFailure(error)) throw error;
      return false;
    }
  }
}

interface Walk {
  readonly resource: ResourceName;
  readonly first: number;
  readonly pageSize: number;
  readonly log: Log;
}

/**
 * Yields the pages from `first` to the last that the server has by then. Each record comes once by its `id`; one without an
 * id comes as often as the server gives it. A page that the server cannot make is read in smaller ones. If records are left
 * that no page shows, throws an IncompleteError after all other records; if a later page than the first fails, throws the
 * error as one that came after part of the output.
 */
export async function* walkPages(
  requestOne: RequestPage,
  { resource, first, pageSize, log }: Walk,
): AsyncGenerator<Page> {
  const seen = new Set<unknown>();
  const reading = readingRecords(requestOne);
  let size = pageSize;
  let number = first;
  let total: number | undefined;
  let warned = false;
  const reach = new Reach();
  const unreadable: Unreadable[] = [];
  for (;;) {
    const page = await readPage(reading, number, size, reach).catch((error: unknown) => {
      throw number === first ? error : afterPart(error);
    });
    unreadable.push(...(page.unreadable ?? []));
    if (total !== undefined && page.total !== total && !warned) {
      warned = true;
      log.warn({ resource, before: total, now: page.total }, 'the number of records changed: some may be missing');
    }
    total = page.total;
    // The server may use another page size than requested; the next page follows in its size.
    size = page.perPage;
    yield { ...page, records: page.records.filter((record) => isNew(record['id'], seen)) };
    if (number >= page.lastPage || (page.records.length === 0 && page.unreadable === undefined)) break;
    number += 1;
  }
  if (unreadable.length === 0) return;
  throw new IncompleteError(describeUnreadable(unreadable), { advice: `All other ${resource} were given.` });
}

function isNew(id: unknown, seen: Set<unknown>): boolean {
  if (id === undefined || id === null) return true;
  if (seen.has(id)) return false;
  seen.add(id);
  return true;
}
