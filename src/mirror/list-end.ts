/**
 * Finds where a list really ends when its total is wrong: a few steps back or forward from where it should end, then by halves.
 * Section "Windows and walks" of docs/architecture.md.
 */
import { isNoPage, isPageFailure } from '../api/errors.ts';
import { entriesOn, type MirrorPage } from './page.ts';

/** Reads a page. @param isBehind whether it may lie behind the end: then a page that fails is not searched for a bad record */
export type ReadPageAt = (page: number, isBehind?: boolean) => Promise<MirrorPage>;

/**
 * Returns the last page by the total or, if that page does not come, the last one that does. A total may count records that no
 * page shows, and some servers refuse a page behind the end, or fail on it.
 * @param readOne reads the record at a place of the list, counted from 1, on a page of its own
 */
export async function lastByTotal(
  read: ReadPageAt,
  readOne: (place: number) => Promise<MirrorPage>,
  end: number,
): Promise<MirrorPage> {
  if (end === 1) return read(end);
  let failure: Error;
  try {
    return await read(end, true);
  } catch (error) {
    if (!isNoPage(error)) throw error;
    failure = error;
  }
  const { shown } = await searchBack((at) => readBehind(read, at), undefined, end);
  if (shown !== undefined && !(await goesOnBehind(shown, readOne))) return shown;
  if (!isPageFailure(failure)) throw failure;
  return read(end);
}

/** Whether one of the next two records comes by itself. One bad record makes its page fail; two in a row are unlikely. */
async function goesOnBehind(
  { page, perPage }: MirrorPage,
  readOne: (place: number) => Promise<MirrorPage>,
): Promise<boolean> {
  for (const more of [1, 2]) {
    const next = await readBehind(readOne, page * perPage + more);
    if (next !== undefined && entriesOn(next).length > 0) return true;
  }
  return false;
}

/**
 * Returns the last page that shows records, even if the total is wrong. This takes one more request if the page is full, and
 * about log2 of the number of pages if the total is wrong.
 * @param page the last page by the total
 * @param maxRecords the search goes no further than this
 * @param isDoubted whether another page may follow even if this one is not full
 */
export async function lastShown(
  read: ReadPageAt,
  page: MirrorPage,
  maxRecords: number,
  isDoubted = false,
): Promise<MirrorPage> {
  const entries = entriesOn(page).length;
  if (entries === 0) {
    const readAt = (at: number, isBehind: boolean) => (isBehind ? readBehind(read, at) : read(at));
    return lastOf(await searchBack(readAt, undefined, page.page), page);
  }
  // A page that is not full ends its list.
  if (entries < page.perPage && !isDoubted) return page;
  let shown = page;
  for (let step = 1; ; step *= 2) {
    const next = await readBehind(read, shown.page + step);
    if (next === undefined || entriesOn(next).length === 0) {
      return lastOf(await searchBack((at) => readBehind(read, at), shown, shown.page + step), shown);
    }
    if (isRepeated(next, shown)) return firstOf(read, shown);
    shown = next;
    if (shown.page * page.perPage > maxRecords) return shown;
  }
}

/** Whether a page shows only what another one does: some servers give their last page for every page behind it. */
function isRepeated(page: MirrorPage, other: MirrorPage): boolean {
  const known = new Set(entriesOn(other));
  return entriesOn(page).every((id) => known.has(id));
}

/** Returns the first of the pages that repeat this one. */
async function firstOf(read: ReadPageAt, page: MirrorPage): Promise<MirrorPage> {
  const { first } = await searchBack(read, undefined, page.page, (middle) => !isRepeated(middle, page));
  return first ?? page;
}

/** The two pages between which a search ended. */
interface Boundary {
  /** The last page that counts. */
  readonly shown: MirrorPage | undefined;
  /** The first page that came and does not count. */
  readonly first: MirrorPage | undefined;
}

function lastOf({ shown, first }: Boundary, otherwise: MirrorPage): MirrorPage {
  return shown ?? first ?? otherwise;
}

/**
 * Finds the last page that counts, in about log2 of the number of pages.
 * @param read gets whether it reads behind a page that counts
 * @param shown a page that counts
 * @param empty a later page that does not
 */
async function searchBack(
  read: (page: number, isBehind: boolean) => Promise<MirrorPage | undefined>,
  shown: MirrorPage | undefined,
  empty: number,
  counts = (page: MirrorPage): boolean => entriesOn(page).length > 0,
): Promise<Boundary> {
  let first: MirrorPage | undefined;
  const steps = shown === undefined ? [1, 8, 512] : [];
  while ((shown?.page ?? 0) + 1 < empty) {
    // A total is either a little too large or far too large. A few steps back show which; then the size itself is halved.
    const back: number | undefined = steps.shift();
    const least = Math.max(1, shown?.page ?? 0);
    const half = empty > 4 * least ? Math.floor(Math.sqrt(least * empty)) : Math.floor((least + empty) / 2);
    const at = back !== undefined && empty - back > least ? empty - back : half;
    const middle: MirrorPage | undefined = await read(at, shown !== undefined);
    // A page that is not full may lack hidden records: only an empty page behind it shows that it is the last.
    if (middle !== undefined && counts(middle)) shown = middle;
    else [empty, first] = [at, middle ?? first];
  }
  return { shown, first };
}

/** Reads a page behind one that shows records. Returns undefined if the list ends before it, however the server says so. */
async function readBehind(read: ReadPageAt, page: number): Promise<MirrorPage | undefined> {
  try {
    return await read(page, true);
  } catch (error) {
    if (isNoPage(error)) return undefined;
    throw error;
  }
}
