/**
 * Pages that a host cannot make: too many records for its memory or its time, or a record that makes every page fail.
 * Such a page is read as smaller ones, down to the single record. And a walk over every page of a list, forward, for showing and
 * saving, where a mirror's certainty is not needed. Section "Requests" of docs/architecture.md.
 */
import { counted } from '../model/text.ts';
import type { Patience } from './client.ts';
import type { ListPage, Page, Unreadable } from './envelope.ts';
import { isPageFailure, ServerFailed } from './errors.ts';
import type { Log } from '../model/log.ts';
import type { ResourceName } from '../model/resources.ts';
import { afterPart, IncompleteError } from '../model/errors.ts';

/** Places on a page from `from` on, before `to`, counted from 0. */
export interface Places {
  readonly from: number;
  readonly to: number;
}

/** How pages of a list are read, whatever is made of their records. */
export interface PageReading<P extends ListPage> {
  /** Requests one page of the list, in pages of that size; of its records those at the places alone are kept. */
  readonly requestOne: (page: number, size: number, patience?: Patience, places?: Places) => Promise<P>;
  readonly count: (page: P) => number;
  /** The page with the records of the others, in their order, in the place of its own. */
  readonly join: (page: P, parts: readonly P[]) => P;
}

/** Requests one page of a list in pages of that size. */
export type RequestPage = (page: number, size: number, patience?: Patience) => Promise<Page>;

/** Reading pages as their records. */
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

/** A page that may have been read in parts: what the parts hold, from the last to the first. */
export type InParts<P> = P & { readonly parts?: readonly P[] };

/** Failures that narrowing may cost in a list, so that one of which much cannot be read does not cost without end. */
const mostFailures = 200;

/** What is known of a list's pages from those that were requested. */
export class Reach {
  /** Records on the largest page to request. */
  size = Infinity;
  /** Records on a page that failed for its size. */
  fails = Infinity;
  /** Whether pages failed in a way that lasts, so that trying again and again is of no use. */
  lasting = false;
  failuresLeft = mostFailures;
}

const success = 200;
const once = { pageAttempts: 1 };
const twice = { pageAttempts: 2 };

/**
 * The page, in parts where the host cannot make it whole. Throws what `requestOne` throws where the list itself does not come:
 * then smaller pages are of no use either.
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

/** How many records that is. */
export function countOf(unreadable: readonly Unreadable[]): number {
  return unreadable.reduce((sum, { first, last }) => sum + last - first + 1, 0);
}

/** Which places in their list the records have, and what the server says to the first of them. */
export function wordsOf(unreadable: readonly Unreadable[]): string {
  const count = countOf(unreadable);
  const inOrder = unreadable.toSorted((a, b) => a.first - b.first);
  const places = inOrder.map(({ first, last }) => (first === last ? `${first}` : `${first} to ${last}`));
  const shown = `${places.slice(0, mostPlaces).join(', ')}${places.length > mostPlaces ? ', …' : ''}`;
  const what = counted(count, 'record cannot be read, number', 'records cannot be read, numbers');
  return `${what} ${shown} of the list: ${inOrder[0]?.problem ?? ''}`;
}

/** Places that are named in a message. */
const mostPlaces = 5;

/** Whether a page is more than half full: one with a few records says nothing of how many a page may have. */
function isMostly(records: number, size: number): boolean {
  return 2 * records > size;
}

class NarrowedPage<P extends ListPage> {
  readonly #reading: PageReading<P>;
  readonly #reach: Reach;
  readonly #number: number;
  readonly #size: number;
  /** How the whole page failed; undefined where it was not requested. */
  readonly #failure: Error | undefined;
  readonly #parts: P[] = [];
  readonly #unreadable: Unreadable[] = [];
  /** The page that came last. */
  #last: P | undefined;
  /** How the last part that did not come failed. */
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
    await this.#cover(first, end, smaller);
    if (this.#failure !== undefined && isMostly(end - first, size)) await this.#learn(this.#number, size, smaller, 0);
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

  /** Requests a small page of the same list, which shows that the failure is not of the list itself. Throws it else. */
  async #findSomePage(failure: unknown): Promise<P> {
    // The first record may be one that cannot be read; behind the page is another, or the end of the list.
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

  /** Reads the places from `first` on, before `end`, counted from 0: from the last to the first, as walks need it. */
  async #cover(first: number, end: number, size: number): Promise<void> {
    let left = end;
    while (left > first) {
      const now = Math.max(1, Math.min(size, this.#reach.size));
      const number = Math.ceil(left / now);
      const from = Math.max(first, (number - 1) * now);
      await this.#piece(number, now, from, left);
      // How long the list is, an empty page past its end shows as well.
      const total = Math.max(first, this.#last?.total ?? from);
      left = total < from ? await this.#endFrom(total, from) : from;
    }
  }

  /** Where the list ends, counted from 0, from its total on: that may be out of date. @param most where it is all the same */
  async #endFrom(total: number, most: number): Promise<number> {
    const { requestOne, count } = this.#reading;
    let end = Math.min(total, most);
    let size = Math.max(1, Math.min(Math.ceil(this.#size / 2), this.#reach.size));
    while (end < most) {
      const offset = Math.floor(end / size) * size;
      try {
        const page = await requestOne(offset / size + 1, size, once);
        const shown = page.perPage === size ? offset + count(page) : 0;
        if (shown <= end) break;
        end = Math.min(shown, most);
      } catch (error) {
        if (!isPageFailure(error)) throw error;
        // Some servers fail behind the end of a list.
        if (size === 1) break;
        size = Math.ceil(size / 2);
      }
    }
    return end;
  }

  /** Whether the list ends before `from`, where nothing has shown yet how long it is: some servers fail behind its end. */
  async #isBehind(from: number, end: number, failure: unknown): Promise<boolean> {
    const { total } = await this.#findSomePage(failure);
    return total <= from && (await this.#endFrom(total, end)) <= from;
  }

  /** Reads one smaller page for the places from `from` on, before `end`. */
  async #piece(number: number, size: number, from: number, end: number): Promise<void> {
    const reach = this.#reach;
    let page: P;
    const offset = (number - 1) * size;
    try {
      const places = { from: from - offset, to: end - offset };
      page = await this.#reading.requestOne(number, size, size === 1 ? twice : once, places);
    } catch (error) {
      if (!isPageFailure(error)) throw error;
      this.#problem = error;
      if (this.#last === undefined && (await this.#isBehind(from, end, error))) return;
      reach.failuresLeft -= 1;
      if (size === 1 || reach.failuresLeft <= 0) {
        reach.lasting = true;
        this.#unreadable.push({ first: from + 1, last: end, problem: error.message });
        return;
      }
      const before = this.#unreadable.length;
      const smaller = Math.ceil(size / 2);
      await this.#cover(from, end, smaller);
      // Only of a page whose every record was requested: what made it fail may be on the rest of it.
      const isWhole = from === (number - 1) * size && end === Math.min(number * size, this.#last?.total ?? Infinity);
      if (isWhole && isMostly(end - from, size)) await this.#learn(number, size, smaller, before);
      return;
    }
    // Offsets count in what the server gives: with another size than requested, places mean nothing.
    if (page.perPage !== size) {
      const problem = `pages of ${counted(size, 'record')} were requested, and pages of ${page.perPage} came`;
      throw this.#failure ?? new ServerFailed(problem, success);
    }
    this.#last = page;
    if (this.#reading.count(page) > 0) this.#parts.push(page);
  }

  /**
   * Concludes from a page that failed and whose every record came in smaller pages that pages of its size do; unless it
   * comes now, and the host only had a bad moment.
   */
  async #learn(number: number, size: number, smaller: number, unreadableBefore: number): Promise<void> {
    const reach = this.#reach;
    if (this.#unreadable.length > unreadableBefore || reach.size <= smaller || size === 1) return;
    try {
      await this.#reading.requestOne(number, size, once);
    } catch (error) {
      if (!isPageFailure(error)) throw error;
      reach.size = smaller;
      reach.fails = size;
      reach.lasting = true;
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
 * The pages from the first to the last that the server knows of by then. Each record comes once by its `id`; one without
 * an id comes as often as it is served. What the server cannot make a page of is read as smaller ones; where records are
 * left that no page shows, it throws an IncompleteError after all others; and where the server is lost after the first
 * page, with what came by then.
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
    // Whatever was requested, offsets count in what the server gives.
    size = page.perPage;
    yield { ...page, records: page.records.filter((record) => isNew(record['id'], seen)) };
    if (number >= page.lastPage || (page.records.length === 0 && page.unreadable === undefined)) break;
    number += 1;
  }
  if (unreadable.length === 0) return;
  throw new IncompleteError(wordsOf(unreadable), { advice: `All other ${resource} were given.` });
}

function isNew(id: unknown, seen: Set<unknown>): boolean {
  if (id === undefined || id === null) return true;
  if (seen.has(id)) return false;
  seen.add(id);
  return true;
}
