/**
 * What a walk knows of the window's pages from the walk before: an answer whose bytes are the same is neither parsed nor
 * written. Section "Windows and walks" of docs/architecture.md.
 */
import { hash } from 'node:crypto';
import type { Page } from '../api/envelope.ts';
import { recordId } from '../model/records.ts';
import type { RememberedPage } from '../store/ports/mirror-store.ts';
import type { PageRequest } from './source.ts';

/** A page that was recalled rather than read; its records are those that the mirror holds. */
export interface RecalledPage extends Page {
  readonly recalled: RememberedPage;
}

export function isRecalled(page: Page): page is RecalledPage {
  return 'recalled' in page;
}

/** The ids on the page, whether it was read or recalled; records without a usable one are left out. */
export function idsOn(page: Page): readonly number[] {
  if (isRecalled(page)) return page.recalled.ids;
  return page.records.map(recordId).filter((id) => id !== undefined);
}

/** The creation time of the last record on the page. */
export function lastCreatedAtOn(page: Page): unknown {
  return isRecalled(page) ? page.recalled.lastCreatedAt : page.records.at(-1)?.['created_at'];
}

/** Where a page stands: two requests of one key ask for the same. */
function keyOf({ page, paginate, range }: PageRequest): string {
  return [range?.from ?? '', range?.to ?? '', paginate, page].join(' ');
}

export class PageMemory {
  readonly #known: ReadonlyMap<string, RememberedPage>;
  readonly #hashes = new Map<string, string>();
  readonly #pages = new Map<string, RememberedPage>();
  #readTwice = false;

  constructor(known: readonly RememberedPage[]) {
    this.#known = new Map(known.map((page) => [page.key, page]));
  }

  /** The page that these bytes are, where the last walk met the same ones at this place. */
  recall(request: PageRequest, body: Buffer): RecalledPage | undefined {
    const key = keyOf(request);
    const digest = hash('sha1', body, 'base64');
    this.#hashes.set(key, digest);
    const recalled = this.#known.get(key);
    if (recalled?.hash !== digest) return undefined;
    const { total, lastPage, perPage } = recalled;
    return { page: request.page, perPage, lastPage, total, records: [], bytes: body, milliseconds: 0, recalled };
  }

  /** Notes a page of this walk; `owned` of its records are the window's. */
  note(request: PageRequest, page: Page, owned: number): void {
    const key = keyOf(request);
    this.#readTwice ||= this.#pages.has(key);
    const digest = this.#hashes.get(key);
    if (digest === undefined) return;
    const { total, lastPage, perPage } = page;
    const createdAt = lastCreatedAtOn(page);
    const lastCreatedAt = typeof createdAt === 'string' ? createdAt : null;
    this.#pages.set(key, { key, hash: digest, total, lastPage, perPage, ids: idsOn(page), owned, lastCreatedAt });
  }

  /** What to remember of a settled walk: nothing where a page was read twice, since rows then came from either reading. */
  pages(): readonly RememberedPage[] {
    return this.#readTwice ? [] : [...this.#pages.values()];
  }
}
