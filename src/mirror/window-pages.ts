/** Pages as a walk reads them: kept with the window's progress, and known again where they are as in the walk before. */
import { takes } from '../model/era.ts';
import { secondMs } from '../model/time.ts';
import type { RememberedPage, Window } from '../store/mirror-types.ts';
import { createdAtOn, entriesOn, idsOn, type KnownPage, type MirrorPage, noRows } from './page.ts';
import { type PageRequest, requestedRange } from './source.ts';
import type { WalkPorts } from './walk.ts';
import type { VisitPorts } from './window-visitor.ts';

/** Where a page stands: two requests of one key are the same. */
function keyOf({ page, paginate, range }: PageRequest): string {
  return [range?.from ?? '', range?.to ?? '', paginate, page].join(' ');
}

interface SamePages {
  readonly pages: number;
  readonly received: number;
  readonly owned: number;
}

const noPages: SamePages = { pages: 0, received: 0, owned: 0 };

export class PageMemory {
  readonly #known: ReadonlyMap<string, RememberedPage>;
  readonly #pages = new Map<string, RememberedPage>();
  #same: SamePages = noPages;
  #readTwice = false;
  /** Records requested on a page. */
  #paginate: number | undefined;

  constructor(known: readonly RememberedPage[]) {
    this.#known = new Map(known.map((page) => [page.key, page]));
  }

  /** The page that the last walk met at this place. */
  knownAt(request: PageRequest): KnownPage | null {
    return this.#known.get(keyOf(request)) ?? null;
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
    const rowsSum = page.recalled?.rowsSum ?? null;
    this.#pages.set(key, { key, hash, total, lastPage, perPage, ids: idsOn(page), owned, lastCreatedAt, rowsSum });
  }

  /** Notes a page that came again just as it was; gives how many have since `takeSame`. */
  noteSame(request: PageRequest, page: MirrorPage, { ids, owned }: RememberedPage): number {
    this.note(request, page, owned);
    const { pages, received, owned: before } = this.#same;
    this.#same = { pages: pages + 1, received: received + ids.length, owned: before + owned };
    return pages + 1;
  }

  /** The pages that came again since the last call. */
  takeSame(): SamePages {
    const same = this.#same;
    this.#same = noPages;
    return same;
  }

  /** What to remember of a settled walk: nothing where a page was read twice, since rows then came from either reading. */
  pages(): readonly RememberedPage[] {
    if (this.#readTwice) return [];
    const pages = [...this.#pages.values()];
    // A page that brought rows may have changed those that stand on another as well.
    const brought = new Set(pages.filter(({ rowsSum }) => rowsSum === null).flatMap(({ ids }) => ids));
    return pages.map((page) => (page.ids.some((id) => brought.has(id)) ? { ...page, rowsSum: null } : page));
  }
}

/** Pages that came again are counted together: a commit for each would cost more than reading it did. */
const samePagesAtOnce = 8;

export class WindowPages {
  readonly #ports: VisitPorts;
  readonly #signal: AbortSignal;
  #reportedStale = false;
  /** Records beyond which pages were seen to fail. */
  #readable = Infinity;

  constructor(ports: VisitPorts, signal: AbortSignal) {
    this.#ports = ports;
    this.#signal = signal;
  }

  walkPorts(window: Window, paginate: number, memory: PageMemory): WalkPorts {
    const { source, store, run, resource, capabilities, clock, progress, surplus, allowance } = this.#ports;
    const range = requestedRange(window, capabilities);
    const request = (page: number): PageRequest => ({ page, paginate, range });
    return {
      clock,
      pageSize: paginate,
      expected: window.serverTotal,
      surplus: surplus.of(window),
      past: surplus.pastEndOf(window),
      isOrdered: capabilities.sorts === 'kept',
      show: (records) => allowance.show(resource, window, records),
      read: async (number) => {
        const requested = request(number);
        const known = memory.knownAt(requested);
        const wanted = { known, rowsOf: [takes.bind(null, window)], keptOut: store.keptOut(resource) };
        const read = await source.page(resource, requested, capabilities, this.#signal, wanted);
        this.#reportStale(read);
        this.#allowSmaller();
        return memory.recognise(requested, read);
      },
      record: (page, seen) => {
        const { recalled } = page;
        if (recalled !== undefined) {
          if (memory.noteSame(request(page.page), page, recalled) >= samePagesAtOnce) this.countSame(memory);
          progress({ kind: 'page', resource, records: recalled.ids.length });
          return { unusable: 0, twins: [] };
        }
        const [rows = noRows()] = page.rows;
        memory.note(request(page.page), page, rows.ids.length + rows.unusable + rows.keptOut.length);
        const received = entriesOn(page).length;
        const recorded = store.recordPage(run, window, rows, received, seen);
        progress({ kind: 'page', resource, records: received });
        return recorded;
      },
    };
  }

  countSame(memory: PageMemory): void {
    const { store, run, resource } = this.#ports;
    const same = memory.takeSame();
    if (same.pages > 0) store.recordSamePages(run, resource, same);
  }

  /** Puts on record, once, that a cache in front of the server responds in its place. */
  #reportStale(page: MirrorPage): void {
    const ageMs = Math.max(...(page.parts ?? [page]).map((part) => part.ageMs ?? 0));
    if (ageMs === 0 || this.#reportedStale) return;
    this.#reportedStale = true;
    const { store, run, resource, source } = this.#ports;
    const detail = `a cache in front of the server gave a page that was ${ageMs / secondMs} s old, against the request`;
    store.recordEvent(run, { resource, kind: 'stale_page', subject: source.contact.address, detail });
  }

  /** More requests, where the server was seen to make smaller pages only. */
  #allowSmaller(): void {
    const { allowance, resource, source } = this.#ports;
    const size = source.readablePage(resource);
    if (size < this.#readable) allowance.allowSmaller(resource, size);
    this.#readable = size;
  }
}
