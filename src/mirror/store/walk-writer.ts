/** Writes the pages of one window's walks, and remembers them for the next one. */
import type { DayRange } from '../../model/era.ts';
import { version } from '../../model/program.ts';
import type { RecordKey } from '../../model/records.ts';
import type { RememberedPage, Window } from '../../store/mirror-types.ts';
import { createdAtOn, entriesOn, idsOn, type KnownPage, type MirrorPage, noRows } from '../page.ts';
import type { MirrorStore } from './mirror-store.ts';

interface PageRequest {
  readonly page: number;
  readonly paginate: number;
  readonly range: DayRange | null;
}

/** Equal for equal requests. The program's version is part of it, since another version may make other rows of the same bytes. */
function keyOf({ page, paginate, range }: PageRequest): string {
  return [range?.from ?? '', range?.to ?? '', paginate, page, version()].join(' ');
}

/** What pages that came again have shown together. */
interface SamePages {
  readonly pages: number;
  readonly received: number;
  readonly owned: number;
}

const noPages: SamePages = { pages: 0, received: 0, owned: 0 };

/** The pages of a window: those of its last walk, and those of the walk under way. */
class PageMemory {
  readonly #known: ReadonlyMap<string, RememberedPage>;
  readonly #comparesRows: boolean;
  readonly #pages = new Map<string, RememberedPage>();
  /** Ids on pages of this walk that had changed: their rows may no longer be as a known page left them. */
  readonly #changed = new Set<RecordKey>();
  #same: SamePages = noPages;
  #readTwice = false;
  /** Records requested per page. */
  #paginate: number | undefined;

  /** @param comparesRows whether pages are compared row by row even if they are known */
  constructor(known: readonly RememberedPage[], comparesRows: boolean) {
    this.#known = new Map(known.map((page) => [page.key, page]));
    this.#comparesRows = comparesRows;
  }

  /** The page that the last walk met at this place; null if there is none, or if its rows must be compared. */
  knownAt(request: PageRequest): KnownPage | null {
    return this.#comparesRows ? null : (this.#untouched(request) ?? null);
  }

  /** The page of the last walk, if this one has the same bytes. */
  sameAs(request: PageRequest, { hash, parts }: MirrorPage): RememberedPage | undefined {
    const known = this.#untouched(request);
    return parts === undefined && known?.hash === hash ? known : undefined;
  }

  #untouched(request: PageRequest): RememberedPage | undefined {
    const known = this.#known.get(keyOf(request));
    return known === undefined || this.#isTouched(known) ? undefined : known;
  }

  #isTouched({ ids }: RememberedPage): boolean {
    return this.#changed.size > 0 && ids.some((id) => this.#changed.has(id));
  }

  /** Marks the page as recalled if it has the same bytes as in the last walk and need not be compared. */
  recognise(request: PageRequest, page: MirrorPage): MirrorPage {
    const known = this.#comparesRows ? undefined : this.sameAs(request, page);
    return known === undefined ? page : { ...page, recalled: known };
  }

  /**
   * Notes a page of this walk.
   * @param owned how many of its records are the window's
   * @param rowsSum the checksum of its rows, if known
   */
  note(request: PageRequest, page: MirrorPage, owned: number, rowsSum: number | null): void {
    const key = keyOf(request);
    this.#readTwice ||= this.#pages.has(key) || (this.#paginate ?? request.paginate) !== request.paginate;
    this.#paginate = request.paginate;
    const { hash, total, lastPage, perPage } = page;
    const createdAt = createdAtOn(page).at(-1);
    const lastCreatedAt = typeof createdAt === 'string' ? createdAt : null;
    const ids = idsOn(page);
    if (rowsSum === null && this.#known.size > 0) for (const id of ids) this.#changed.add(id);
    this.#pages.set(key, { key, hash, total, lastPage, perPage, ids, owned, lastCreatedAt, rowsSum });
  }

  /** Notes a page that came again unchanged. Returns how many have since `takeSame`. */
  noteSame(request: PageRequest, page: MirrorPage, { ids, owned, rowsSum }: RememberedPage): number {
    this.note(request, page, owned, rowsSum);
    const { pages, received, owned: before } = this.#same;
    this.#same = { pages: pages + 1, received: received + ids.length, owned: before + owned };
    return pages + 1;
  }

  /** The pages that came again unchanged since the last call. */
  takeSame(): SamePages {
    const same = this.#same;
    this.#same = noPages;
    return same;
  }

  /** What to remember of a settled walk: nothing if a page was read twice, since its rows may come from either reading. */
  pages(): readonly RememberedPage[] | 'as they are' {
    if (this.#readTwice) return [];
    const pages = [...this.#pages.values()];
    const isKnown = ({ key, hash, rowsSum }: RememberedPage) => rowsSum !== null && this.#known.get(key)?.hash === hash;
    if (pages.length === this.#known.size && pages.every(isKnown)) return 'as they are';
    return pages.map((page) => (this.#isTouched(page) ? { ...page, rowsSum: null } : page));
  }
}

/** Unchanged pages are counted together: a commit for each would cost more than reading it. */
const samePagesPerCommit = 8;

export class WalkWriter {
  readonly #store: MirrorStore;
  readonly #run: string;
  readonly #window: Window;
  readonly #memory: PageMemory;
  #altered = false;

  constructor(store: MirrorStore, run: string, window: Window, comparesRows: boolean) {
    this.#store = store;
    this.#run = run;
    this.#window = window;
    store.beginWalk(run, window);
    const isSettled = window.state === 'settled';
    this.#altered = isSettled && !comparesRows && store.isAltered(window);
    this.#memory = new PageMemory(isSettled && !this.#altered ? store.rememberedPages(window) : [], comparesRows);
  }

  isAltered(): boolean {
    return this.#altered;
  }

  knownAt(request: PageRequest): KnownPage | null {
    return this.#memory.knownAt(request);
  }

  recognise(request: PageRequest, page: MirrorPage): MirrorPage {
    return this.#memory.recognise(request, page);
  }

  write(request: PageRequest, page: MirrorPage, seen: ReadonlySet<RecordKey>) {
    const memory = this.#memory;
    if (page.recalled !== undefined) {
      if (memory.noteSame(request, page, page.recalled) >= samePagesPerCommit) this.flush();
      return { unusable: 0, duplicateIds: [] };
    }
    const parts = page.parts ?? [page];
    let unusable = 0;
    const duplicateIds: RecordKey[] = [];
    let earlier = seen;
    for (const part of parts) {
      const [rows = noRows()] = part.rows;
      const recorded = this.#store.recordPage(this.#run, this.#window, rows, entriesOn(part).length, earlier);
      earlier = earlier.union(new Set(rows.ids));
      const same = memory.sameAs(request, part);
      const isAsRead = recorded.inserted + recorded.updated === 0;
      if (same !== undefined && !isAsRead) this.#altered = true;
      const owned = rows.ids.length + rows.unusable + rows.keptOut.length;
      memory.note(request, part, owned, isAsRead && same !== undefined ? same.rowsSum : null);
      unusable += recorded.unusable;
      duplicateIds.push(...recorded.duplicateIds);
    }
    return { unusable, duplicateIds };
  }

  flush(): void {
    const same = this.#memory.takeSame();
    if (same.pages > 0) this.#store.recordSamePages(this.#run, this.#window.resource, same);
  }

  settle(end: Pick<Window, 'serverTotal' | 'freshAsOf' | 'surplus'>): void {
    this.#store.endWalk(this.#run, this.#window, {
      state: 'settled',
      problem: null,
      ...end,
      pages: this.#memory.pages(),
    });
  }
}
