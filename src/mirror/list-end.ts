/**
 * Where a list ends, which a wrong total does not show: by a few steps back or forth from where it should, and then by halves.
 * Section "Windows and walks" of docs/architecture.md.
 */
import { isNoPage, isPageFailure } from '../api/errors.ts';
import { entriesOn, type MirrorPage } from './page.ts';

/** @param isBehind whether it may lie behind the end: then a page that fails is not looked through for the record that it fails by */
export type ReadPageAt = (page: number, isBehind?: boolean) => Promise<MirrorPage>;

/**
 * The page with which the list ends by its total; where that does not come, the last one that does. A total may count what no page
 * shows, and some servers refuse a page behind the end, or fail on it.
 * @param readOne gives the record at a place of the list, from 1, on a page of its own
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

/** Whether one of the next two records comes by itself: not two in a row make every page fail that they are on. */
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
 * The last page that shows records, which a wrong total does not show. One request more where
 * the page is full, and about log2 of the pages where the total is wrong.
 * @param page the last one by the total
 * @param most records beyond which the list is not looked through any further
 * @param isDoubted whether the page may not be the last one though it is not full
 */
export async function lastShown(
  read: ReadPageAt,
  page: MirrorPage,
  most: number,
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
    if (shown.page * page.perPage > most) return shown;
  }
}

/** Whether a page shows what another one does: some servers give their last page for each one behind it. */
function isRepeated(page: MirrorPage, other: MirrorPage): boolean {
  const known = new Set(entriesOn(other));
  return entriesOn(page).every((id) => known.has(id));
}

/** The first of the pages that show what this one does. */
async function firstOf(read: ReadPageAt, page: MirrorPage): Promise<MirrorPage> {
  const { first } = await searchBack(read, undefined, page.page, (middle) => !isRepeated(middle, page));
  return first ?? page;
}

/** What a search for the end of a list has come to. */
interface Searched {
  /** The last page that counts. */
  readonly shown: MirrorPage | undefined;
  /** The first page that came and does not. */
  readonly first: MirrorPage | undefined;
}

function lastOf({ shown, first }: Searched, otherwise: MirrorPage): MirrorPage {
  return shown ?? first ?? otherwise;
}

/**
 * Finds the last page that counts, in about log2 of the pages.
 * @param read is told whether it reads behind a page that counts @param shown one that does @param empty one behind it that does not
 */
async function searchBack(
  read: (page: number, isBehind: boolean) => Promise<MirrorPage | undefined>,
  shown: MirrorPage | undefined,
  empty: number,
  counts = (page: MirrorPage): boolean => entriesOn(page).length > 0,
): Promise<Searched> {
  let first: MirrorPage | undefined;
  const steps = shown === undefined ? [1, 8, 512] : [];
  while ((shown?.page ?? 0) + 1 < empty) {
    // A total is a little too large, or beyond all measure: a few steps back show which, and then sizes are halved.
    const back: number | undefined = steps.shift();
    const least = Math.max(1, shown?.page ?? 0);
    const half = empty > 4 * least ? Math.floor(Math.sqrt(least * empty)) : Math.floor((least + empty) / 2);
    const at = back !== undefined && empty - back > least ? empty - back : half;
    const middle: MirrorPage | undefined = await read(at, shown !== undefined);
    // One that is not full may be short of hidden records: only an empty one behind it shows that it is the last.
    if (middle !== undefined && counts(middle)) shown = middle;
    else [empty, first] = [at, middle ?? first];
  }
  return { shown, first };
}

/** A page behind one that shows records; undefined where the list ends before it, in whatever way the server says so. */
async function readBehind(read: ReadPageAt, page: number): Promise<MirrorPage | undefined> {
  try {
    return await read(page, true);
  } catch (error) {
    if (isNoPage(error)) return undefined;
    throw error;
  }
}
