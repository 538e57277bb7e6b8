/**
 * Reads pages that a host cannot make, because they have too many records for its memory or time limit, or a record that
 * makes every page fail: as smaller pages, down to the single record. Also walks forward over every page of a list, for
 * output that does not need the certainty of a mirror. Section "Requests" of docs/architecture.md.
 */
import { afterPart, IncompleteError } from '../model/errors.ts';
import type { Log } from '../model/log.ts';
import type { ResourceName } from '../model/resources.ts';
import { counted } from '../model/text.ts';
import { isPageFailure, OtherPageSize } from './errors.ts';
import type { ListPage, Page, Unreadable } from './body.ts';
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

const once = { pageAttempts: 1 };
const twice = { pageAttempts: 2 };

/**
 * Reads the page, in parts if the host cannot make it whole: in pages of sizes that divide its own, so that no record of another
 * page comes with them. Throws what `requestOne` throws if the list itself fails, or if too much of it has failed.
 */
export async function readPage<P extends ListPage>(
  { requestOne, count, join }: PageReading<P>,
  number: number,
  size: number,
  reach: Reach,
): Promise<InParts<P>> {
  // Few tries where failures last, for they only cost time.
  const usual = reach.lasting ? twice : undefined;
  const parts: P[] = [];
  const unreadable: Unreadable[] = [];
  /** The page that came last; it has the list's total. */
  let last: P | undefined;

  /** Reads the page of that size in its parts, from the last to the first: walks go backward. Returns whether all records came. */
  async function split(page: number, of: number, patience: Patience | undefined): Promise<boolean> {
    const factor = smallestFactor(of);
    let isWhole = true;
    for (let part = page * factor; part > (page - 1) * factor; part -= 1)
      isWhole = (await readPart(part, of / factor, patience)) && isWhole;
    return isWhole;
  }

  async function readPart(page: number, of: number, patience: Patience | undefined): Promise<boolean> {
    const isBehind = (page - 1) * of >= (last?.total ?? Infinity);
    if (of > reach.size && !isBehind) return split(page, of, patience);
    try {
      const part = await requestOne(page, of, patience);
      if (part.perPage !== of) throw otherSize(of, part.perPage);
      last = part;
      if (count(part) > 0) parts.push(part);
      return true;
    } catch (error) {
      if (!isPageFailure(error)) throw error;
      // Some servers fail behind the end of a list. Others may show records there, which contradict the total.
      return isBehind || failed(page, of, error);
    }
  }

  /** Reads a page that failed in its parts, or notes its only record as unreadable. Returns whether all records came. */
  async function failed(page: number, of: number, failure: Error): Promise<boolean> {
    reach.failuresLeft -= 1;
    if (reach.failuresLeft < 0) throw failure;
    // The list itself must not fail. If its first record cannot be read, the place behind the page shows another or its end.
    last ??=
      (await requestOne(1, 1, once).catch(noPage)) ?? (await requestOne(number * size + 1, 1, once).catch(noPage));
    if (last === undefined) throw failure;
    if ((page - 1) * of >= last.total) return true;
    if (of === 1) {
      reach.lasting = true;
      unreadable.push({ place: page, problem: failure.message });
      return false;
    }
    const isWhole = await split(page, of, twice);
    const smaller = of / smallestFactor(of);
    // A page with few records says nothing about the size that the host can make, nor does one whose neighbour comes: its failure
    // was one of a moment, of its number or of its records.
    const isMostlyFull = last.total > (page - 1 / 2) * of;
    if (isWhole && isMostlyFull && smaller < reach.size) {
      const neighbour = await requestOne(Math.max(1, page - 1), of, twice).catch(noPage);
      if (neighbour === undefined) reach.size = Math.min(reach.size, smaller);
    }
    return isWhole;
  }

  if (size > reach.size) {
    await split(number, size, usual);
  } else {
    try {
      return await requestOne(number, size, usual);
    } catch (error) {
      if (!isPageFailure(error)) throw error;
      await failed(number, size, error);
    }
  }
  if (last === undefined) throw new Error('no part of the page was read');
  const { total } = last;
  return {
    ...join(last, parts.toReversed()),
    page: number,
    perPage: size,
    lastPage: Math.max(1, Math.ceil(total / size)),
    parts: parts.length > 0 ? parts : [join(last, [])],
    // Others were deleted meanwhile.
    unreadable: unreadable.filter(({ place }) => place <= total),
  };
}

function otherSize(requested: number, came: number): OtherPageSize {
  const problem = `pages of ${counted(requested, 'record')} were requested, and pages of ${came} came`;
  return new OtherPageSize(problem, came);
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
