/**
 * Reads the pages of one window backward, from the last one to the first: a deletion moves records towards the front, onto
 * pages that are still to come. A walk forward would miss them. Section "Reading a window" of docs/architecture.md.
 */
import { isNoPage } from '../api/errors.ts';
import { IncompleteError } from '../model/errors.ts';
import { counted } from '../model/text.ts';
import { entriesOn, type MirrorPage } from './page.ts';
import { pagesOf } from './windows.ts';

/** Reads a page. @param isBehind whether it lies behind the end: then it comes whole, or fails */
type ReadPage = (page: number, isBehind?: boolean) => Promise<MirrorPage>;

/** Where a window's list ends by its total, or that it is too large to be read whole. */
export type End =
  | { readonly kind: 'page'; readonly page: MirrorPage }
  | { readonly kind: 'large'; readonly total: number };

/** How often to look for the end of a list that changes meanwhile. */
const maxSearches = 3;

/**
 * Reads the last page. It does not read page 1 to find the end: if a record of page 1 were deleted before the last page is
 * read, another record would move onto page 1 unseen, and one added meanwhile would make up for it in the total.
 * @param expected the window's total when it was last counted
 * @param maxRecords above this the window is too large
 */
export async function readEnd(read: ReadPage, expected: number, pageSize: number, maxRecords: number): Promise<End> {
  let end = pagesOf(expected, pageSize);
  for (let search = 0; search < maxSearches; search += 1) {
    const page = await read(end);
    if (page.total > maxRecords) return { kind: 'large', total: page.total };
    if (page.lastPage === end) return { kind: 'page', page };
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
