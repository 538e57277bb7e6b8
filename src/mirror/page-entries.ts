/** Which records are on a page, however it was read: as records, as rows in the making, or as one that was known. */
import type { Page } from '../api/envelope.ts';
import { recordId } from '../model/records.ts';
import type { RememberedPage } from '../store/ports/mirror-store.ts';

/** A page that came again just as it was; its records are those that the mirror holds. */
export interface RecalledPage extends Page {
  readonly recalled: RememberedPage;
}

export function isRecalled(page: Page): page is RecalledPage {
  return 'recalled' in page;
}

/** The id of each record, null where it has none of use; of a known page only those of use. */
export function entriesOn(page: Page): readonly (number | null)[] {
  if (isRecalled(page)) return page.recalled.ids;
  return page.digest?.content?.ids ?? page.records.map((record) => recordId(record) ?? null);
}

/** The ids on the page; records without a usable one are left out. */
export function idsOn(page: Page): readonly number[] {
  return entriesOn(page).filter((id) => id !== null);
}

/** When each record was created, in the order of `entriesOn`; of a known page the last one alone. */
export function createdAtOn(page: Page): readonly unknown[] {
  if (isRecalled(page)) return [page.recalled.lastCreatedAt];
  return page.digest?.content?.createdAt ?? page.records.map((record) => record['created_at']);
}
