/**
 * What a walk knows of the window's pages from the walk before: a response whose bytes are the same is neither parsed nor
 * written. Section "Windows and walks" of docs/architecture.md.
 */
import type { RememberedPage } from '../store/mirror-types.ts';
import { createdAtOn, idsOn, type KnownPage, type MirrorPage } from './page.ts';
import type { PageRequest } from './source.ts';

/** Where a page stands: two requests of one key ask for the same. */
function keyOf({ page, paginate, range }: PageRequest): string {
  return [range?.from ?? '', range?.to ?? '', paginate, page].join(' ');
}

/** What pages that came again just as they were add to the run's counts. */
interface SamePages {
  readonly pages: number;
  readonly received: number;
  /** Records on them that are the window's. */
  readonly owned: number;
}

const noPages: SamePages = { pages: 0, received: 0, owned: 0 };

export class PageMemory {
  readonly #known: ReadonlyMap<string, RememberedPage>;
  readonly #pages = new Map<string, RememberedPage>();
  #same: SamePages = noPages;
  #readTwice = false;
  /** Records asked for on a page. */
  #paginate: number | undefined;

  constructor(known: readonly RememberedPage[]) {
    this.#known = new Map(known.map((page) => [page.key, page]));
  }

  /** What is known of the page that the last walk met at this place, but for what is on it. */
  knownAt(request: PageRequest): KnownPage | null {
    const known = this.#known.get(keyOf(request));
    if (known === undefined) return null;
    const { hash, total, lastPage, perPage } = known;
    return { hash, total, lastPage, perPage };
  }

  /** The page that came, as the known one where it is that. */
  recognise(request: PageRequest, page: MirrorPage): MirrorPage {
    const known = this.#known.get(keyOf(request));
    return known !== undefined && known.hash === page.hash && page.parts === undefined
      ? { ...page, recalled: known }
      : page;
  }

  /** Notes a page of this walk; `owned` of its records are the window's. */
  note(request: PageRequest, page: MirrorPage, owned: number): void {
    const key = keyOf(request);
    this.#readTwice ||= this.#pages.has(key) || (this.#paginate ?? request.paginate) !== request.paginate;
    this.#paginate = request.paginate;
    const { hash, total, lastPage, perPage } = page;
    const createdAt = createdAtOn(page).at(-1);
    const lastCreatedAt = typeof createdAt === 'string' ? createdAt : null;
    this.#pages.set(key, { key, hash, total, lastPage, perPage, ids: idsOn(page), owned, lastCreatedAt });
  }

  /** Notes a page that came again just as it was; gives how many have since `takeSame`. */
  noteSame(request: PageRequest, page: MirrorPage, { ids, owned }: RememberedPage): number {
    this.note(request, page, owned);
    const { pages, received, owned: before } = this.#same;
    this.#same = { pages: pages + 1, received: received + ids.length, owned: before + owned };
    return pages + 1;
  }

  /** The pages that came again since this was asked last. */
  takeSame(): SamePages {
    const same = this.#same;
    this.#same = noPages;
    return same;
  }

  /** What to remember of a settled walk: nothing where a page was read twice, since rows then came from either reading. */
  pages(): readonly RememberedPage[] {
    return this.#readTwice ? [] : [...this.#pages.values()];
  }
}
