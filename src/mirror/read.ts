/**
 * Reads the pages of one window backward, from the last one to the first: a deletion moves records towards the front, onto
 * pages that are still to come. A walk forward would miss them. Section "Reading a window" of docs/architecture.md.
 */
import { isNoPage } from '../api/errors.ts';
import { IncompleteError } from '../model/errors.ts';
import { counted } from '../model/text.ts';
import { judge, type Known, type Verdict, Walk } from './judge.ts';
import { entriesOn, type MirrorPage } from './page.ts';
import { pagesOf } from './windows.ts';

/** How often a window is walked before it is left for another run. */
const maxWalks = 3;
/** A server whose pages leave records out leaves out others in pages of another size. */
const nextSize = (size: number): number => Math.max(1, Math.ceil(size * 0.7));

/** One window, to be read for a sync or a comparison. */
interface WindowReading {
  readonly pageSize: number;
  /** The window's total when it was last counted. */
  readonly expected: number;
  readonly known: Omit<Known, 'before'>;
  readonly now: () => number;
  /** Reads a page of that size. @param isBehind whether it lies behind the end: then it comes whole, or fails */
  readonly read: (page: number, size: number, isBehind: boolean) => Promise<MirrorPage>;
  /** Stores or compares the page, and adds it to the walk. */
  readonly take: (page: MirrorPage, size: number, walk: Walk) => Promise<void>;
}

/** The window has more records than it may. */
export class TooLarge extends Error {
  override readonly name = 'TooLarge';
  readonly total: number;

  constructor(total: number) {
    super(`the window has ${total} records`);
    this.total = total;
  }
}

/**
 * Walks the window until a walk shows it whole, or no other would. Returns the last walk with its verdict.
 * Throws a TooLarge if the window has more than so many records.
 */
export async function readWindow(
  { pageSize, expected, known, now, read, take }: WindowReading,
  maxRecords = Infinity,
): Promise<{ readonly walk: Walk; readonly verdict: Verdict }> {
  let size = pageSize;
  let before: Walk | undefined;
  for (let walked = 1; ; walked += 1) {
    const paginate = size;
    const readPage: ReadPage = (page, isBehind = false) => read(page, paginate, isBehind);
    const walk = new Walk(now());
    const end = await readEnd(readPage, before?.total ?? expected, paginate, maxRecords);
    for await (const page of readBack(readPage, end)) await take(page, paginate, walk);
    const verdict = judge(walk, { ...known, before });
    if (walked === maxWalks || verdict.kind === 'complete' || verdict.isFinal) return { walk, verdict };
    before = walk;
    size = nextSize(size);
  }
}

/** Reads a page. @param isBehind whether it lies behind the end: then it comes whole, or fails */
type ReadPage = (page: number, isBehind?: boolean) => Promise<MirrorPage>;

/** How often to look for the end of a list that changes meanwhile. */
const maxSearches = 3;

/**
 * Reads the last page. It does not read page 1 to find the end: if a record of page 1 were deleted before the last page is
 * read, another record would move onto page 1 unseen, and one added meanwhile would make up for it in the total.
 * @param expected the window's total when it was last counted
 * @param maxRecords with more records, throws a TooLarge
 */
export async function readEnd(
  read: ReadPage,
  expected: number,
  pageSize: number,
  maxRecords: number,
): Promise<MirrorPage> {
  let end = pagesOf(expected, pageSize);
  for (let search = 0; search < maxSearches; search += 1) {
    const page = await read(end);
    if (page.total > maxRecords) throw new TooLarge(page.total);
    if (page.lastPage === end) return page;
    end = page.lastPage;
  }
  throw new IncompleteError('its last page was another one each time it was read');
}

/** So many pages behind the last record may be counted by a total that includes hidden records. */
const maxEmptyPages = 10;

/**
 * Yields the last page, then those before it down to the first and, if records came meanwhile, those at the end once more.
 * Throws an IncompleteError if the list contradicts its own total.
 */
export async function* readBack(read: ReadPage, last: MirrorPage): AsyncGenerator<MirrorPage> {
  const end = last.page;
  const isFull = entriesOn(last).length >= last.perPage;
  if (isFull) await checkBehind(read, last);
  yield last;
  let { total, lastPage } = last;
  let isSteady = true;
  let empty = Number(entriesOn(last).length === 0 && total > 0);
  // One page after another: only this order makes deletions harmless.
  for (let number = end - 1; number >= 1; number -= 1) {
    const page = await read(number);
    yield page;
    isSteady &&= page.total === total;
    ({ total, lastPage } = page);
    if (empty > 0) empty = entriesOn(page).length === 0 ? empty + 1 : 0;
    if (empty > maxEmptyPages) {
      throw new IncompleteError(`its total counts ${counted(total, 'record')}, and its last ${empty} pages show none`);
    }
  }
  if (isSteady) return;
  for (let number = end; number <= lastPage; number += 1) yield await read(number);
}

/** Throws if the list goes on behind the page that its total calls the last. */
async function checkBehind(read: ReadPage, last: MirrorPage): Promise<void> {
  let behind: MirrorPage;
  try {
    behind = await read(last.page + 1, true);
  } catch (error) {
    // However a server says that there is no such page.
    if (isNoPage(error)) return;
    throw error;
  }
  if (behind.total !== last.total) return;
  const shown = new Set(entriesOn(last));
  if (entriesOn(behind).every((id) => shown.has(id))) return;
  throw new IncompleteError(`its total counts ${counted(last.total, 'record')}, and its pages show more`);
}
