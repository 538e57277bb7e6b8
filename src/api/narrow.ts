/**
 * Reads pages that a host cannot make, because they have too many records for its memory or time limit, or a record that
 * makes every page fail: as smaller pages, down to the single record. Also walks forward over every page of a list, for
 * output that does not need the certainty of a mirror. Section "Requests" of docs/architecture.md.
 */
import { afterPart, IncompleteError } from '../model/errors.ts';
import type { Log } from '../model/log.ts';
import type { ResourceName } from '../model/resources.ts';
import { counted } from '../model/text.ts';
import { isPageFailure, ServerFailed } from './errors.ts';
import type { ListPage, Page, Unreadable } from './lists.ts';
import type { Patience } from './retry.ts';

/** How to read pages of a list, whatever becomes of their records. */
export interface PageReading<P extends ListPage> {
  /** Requests one page of the list, in pages of that size. */
  readonly requestOne: (page: number, size: number, patience?: Patience) => Promise<P>;
  readonly count: (page: P) => number;
  /** Returns the page with the records of the parts, in their order, instead of its own. */
  readonly join: (page: P, parts: readonly P[]) => P;
}

/** Requests one page of a list in pages of that size. */
export type RequestPage = PageReading<Page>['requestOne'];

/** Reads pages as their records. */
export function readingRecords(requestOne: RequestPage): PageReading<Page> {
  return {
    requestOne,
    count: ({ records }) => records.length,
    join: (page, parts) => ({ ...page, records: parts.flatMap(({ records }) => records) }),
  };
}

/** A page that may have been read in parts, which are in the order from the last to the first. */
export type InParts<P> = P & { readonly parts?: readonly P[] };

/** The most failed requests of one list and run, so that a list with many unreadable records stays affordable. */
const maxFailures = 200;

/** What earlier requests have shown about the pages of a list. */
export class Reach {
  /** The largest page size to request: larger ones failed while smaller ones came. */
  size = Infinity;
  /** Whether some record cannot be read, so that many retries of pages are no use. */
  lasting = false;
  failuresLeft = maxFailures;
}

const success = 200;
const once = { pageAttempts: 1 };
const twice = { pageAttempts: 2 };

/**
 * Reads the page, in parts if the host cannot make it whole. Throws what `requestOne` throws if the list itself fails, or if too
 * much of it has failed.
 */
export async function readPage<P extends ListPage>(
  reading: PageReading<P>,
  number: number,
  size: number,
  reach: Reach,
): Promise<InParts<P>> {
  const parts = new PageInParts(reading, reach, number, size);
  // Few tries where failures last, for they only cost time.
  const patience = reach.lasting ? twice : undefined;
  if (size > reach.size) {
    await parts.split(number, size, patience);
    return parts.joined();
  }
  try {
    return await reading.requestOne(number, size, patience);
  } catch (error) {
    if (!isPageFailure(error)) throw error;
    await parts.failed(number, size, error);
    return parts.joined();
  }
}

/** One page, read in pages of sizes that divide its own, so that no record of another page comes with them. */
class PageInParts<P extends ListPage> {
  readonly #reading: PageReading<P>;
  readonly #reach: Reach;
  readonly #number: number;
  readonly #size: number;
  readonly #parts: P[] = [];
  readonly #unreadable: Unreadable[] = [];
  /** The page that came last; it has the list's total. */
  #last: P | undefined;

  constructor(reading: PageReading<P>, reach: Reach, number: number, size: number) {
    this.#reading = reading;
    this.#reach = reach;
    this.#number = number;
    this.#size = size;
  }

  joined(): InParts<P> {
    const { join } = this.#reading;
    const last = this.#last;
    if (last === undefined) throw new Error('no part of the page was read');
    return {
      ...join(last, this.#parts.toReversed()),
      page: this.#number,
      perPage: this.#size,
      lastPage: Math.max(1, Math.ceil(last.total / this.#size)),
      parts: this.#parts.length > 0 ? this.#parts : [join(last, [])],
      // Others were deleted meanwhile.
      unreadable: this.#unreadable.filter(({ place }) => place <= last.total),
    };
  }

  /** Reads the page of that size in its parts, from the last to the first: walks go backward. Returns whether all records came. */
  async split(number: number, size: number, patience: Patience | undefined): Promise<boolean> {
    const factor = smallestFactor(size);
    let isWhole = true;
    for (let part = number * factor; part > (number - 1) * factor; part -= 1) {
      isWhole = (await this.#readPart(part, size / factor, patience)) && isWhole;
    }
    return isWhole;
  }

  async #readPart(number: number, size: number, patience: Patience | undefined): Promise<boolean> {
    const isBehind = (number - 1) * size >= (this.#last?.total ?? Infinity);
    if (size > this.#reach.size && !isBehind) return this.split(number, size, patience);
    try {
      const page = await this.#reading.requestOne(number, size, patience);
      if (page.perPage !== size) {
        const problem = `pages of ${counted(size, 'record')} were requested, and pages of ${page.perPage} came`;
        throw new ServerFailed(problem, success);
      }
      this.#last = page;
      if (this.#reading.count(page) > 0) this.#parts.push(page);
      return true;
    } catch (error) {
      if (!isPageFailure(error)) throw error;
      // Some servers fail behind the end of a list. Others may show records there, which contradict the total.
      return isBehind || this.failed(number, size, error);
    }
  }

  /** Reads a page that failed in its parts, or notes its only record as unreadable. Returns whether all records came. */
  async failed(number: number, size: number, failure: Error): Promise<boolean> {
    const reach = this.#reach;
    reach.failuresLeft -= 1;
    if (reach.failuresLeft < 0) throw failure;
    this.#last ??= await this.#findSomePage(failure);
    if ((number - 1) * size >= this.#last.total) return true;
    if (size === 1) {
      reach.lasting = true;
      this.#unreadable.push({ place: number, problem: failure.message });
      return false;
    }
    const isWhole = await this.split(number, size, twice);
    const smaller = size / smallestFactor(size);
    // A page with few records says nothing about the size that the host can make, nor does one whose neighbour comes: its failure
    // was one of a moment, of its number or of its records.
    const isMostlyFull = this.#last.total > (number - 1 / 2) * size;
    if (isWhole && isMostlyFull && smaller < reach.size) {
      const neighbour = await this.#reading.requestOne(Math.max(1, number - 1), size, twice).catch(noPage);
      if (neighbour === undefined) reach.size = Math.min(reach.size, smaller);
    }
    return isWhole;
  }

  /** Requests a single record of the list, to show that the list itself does not fail. If none comes, throws `failure`. */
  async #findSomePage(failure: Error): Promise<P> {
    const { requestOne } = this.#reading;
    // If the first record of the list cannot be read, the place behind the page shows another record or the list's end.
    const behind = this.#number * this.#size + 1;
    const page = (await requestOne(1, 1, once).catch(noPage)) ?? (await requestOne(behind, 1, once).catch(noPage));
    if (page === undefined) throw failure;
    return page;
  }
}

function noPage(error: unknown): undefined {
  if (!isPageFailure(error)) throw error;
}

/** Returns the smallest prime factor. */
function smallestFactor(size: number): number {
  for (let factor = 2; factor * factor <= size; factor += 1) if (size % factor === 0) return factor;
  return size;
}

const maxPlacesShown = 5;

/** Describes the records for a message: how many they are, their places in the list, and the server's words for the first. */
export function describeUnreadable(unreadable: readonly Unreadable[]): string {
  const inOrder = unreadable.toSorted((a, b) => a.place - b.place);
  const shown = inOrder.slice(0, maxPlacesShown).map(({ place }) => place);
  const places = `${shown.join(', ')}${inOrder.length > maxPlacesShown ? ', …' : ''}`;
  const what = counted(inOrder.length, 'record cannot be read, number', 'records cannot be read, numbers');
  return `${what} ${places} of the list: ${inOrder[0]?.problem ?? ''}`;
}

interface Walk {
  readonly resource: ResourceName;
  readonly first: number;
  readonly pageSize: number;
  readonly log: Log;
}

/**
 * Yields the pages from `first` to the last that the server has by then. Each record comes once by its `id`; one without an
 * id comes as often as the server gives it. If records are left that no page shows, throws an IncompleteError after all other
 * records; if a later page than the first fails, throws the error as one that came after part of the output.
 */
export async function* walkPages(
  requestOne: RequestPage,
  { resource, first, pageSize, log }: Walk,
): AsyncGenerator<Page> {
  const seen = new Set<unknown>();
  const reading = readingRecords(requestOne);
  const reach = new Reach();
  const unreadable: Unreadable[] = [];
  let size = pageSize;
  let total: number | undefined;
  let warned = false;
  for (let number = first; ; number += 1) {
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
    yield { ...page, records: page.records.filter(({ id }) => isNew(id, seen)) };
    if (number >= page.lastPage || (page.records.length === 0 && page.unreadable === undefined)) break;
  }
  if (unreadable.length === 0) return;
  throw new IncompleteError(describeUnreadable(unreadable), { advice: `All other ${resource} were given.` });
}

function isNew(id: unknown, seen: Set<unknown>): boolean {
  if (id === undefined || id === null) return true;
  return !seen.has(id) && seen.add(id) !== undefined;
}
