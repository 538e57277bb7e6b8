/** Which records are on a page, however it was read: as records, as rows in the making, or as one that was known. */
import type { Page } from '../api/envelope.ts';
import { owns, type DayRange } from '../model/era.ts';
import type { PageRows } from '../model/page-rows.ts';
import { recordKey, type RecordKey, type ServedRecord } from '../model/records.ts';
import type { RememberedPage } from '../store/mirror-types.ts';

/** A page that came again just as it was; its records are those that the mirror holds. */
export interface RecalledPage extends Page {
  readonly recalled: RememberedPage;
}

export function isRecalled(page: Page): page is RecalledPage {
  return 'recalled' in page;
}

/** The id of each record, null where it has none of use, or cannot be read; of a known page only those of use. */
export function entriesOn(page: Page): readonly (RecordKey | null)[] {
  if (isRecalled(page)) return page.recalled.ids;
  const shown = page.digest?.content?.ids ?? page.records.map((record) => recordKey(record) ?? null);
  return page.unreadable === undefined ? shown : [...shown, ...unreadableOn(page)];
}

function unreadableOn({ unreadable = [] }: Page): null[] {
  return unreadable.flatMap(({ first, last }) => Array.from({ length: last - first + 1 }, () => null));
}

/** The ids on the page; records without a usable one are left out. */
export function idsOn(page: Page): readonly RecordKey[] {
  return entriesOn(page).filter((id) => id !== null);
}

/** When each record was created, in the order of `entriesOn`; of a known page the last one alone. */
export function createdAtOn(page: Page): readonly unknown[] {
  if (isRecalled(page)) return [page.recalled.lastCreatedAt];
  return page.digest?.content?.createdAt ?? page.records.map((record) => record['created_at']);
}

/** What of a page that was not known is the window's: rows where they were made on the way, else the records. */
export function ownedOn(
  page: Page,
  window: DayRange,
): { readonly records: number; readonly content: PageRows | readonly ServedRecord[] } {
  const made = page.digest?.content;
  if (made) return { records: made.owned, content: made.rows };
  const content = page.records.filter((record) => owns(window, record['created_at']));
  return { records: content.length, content };
}
