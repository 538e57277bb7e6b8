/** Pages as a walk reads them: kept with the window's progress, and known again where they are as in the walk before. */
import { takes } from '../model/era.ts';
import { version } from '../model/program.ts';
import { secondMs } from '../model/time.ts';
import type { RecordKey } from '../model/records.ts';
import type { RememberedPage, Window } from '../store/mirror-types.ts';
import { createdAtOn, entriesOn, idsOn, type KnownPage, type MirrorPage, noRows } from './page.ts';
import { type PageRequest, requestedRange } from './source.ts';
import type { WalkPorts } from './walk.ts';
import type { VisitPorts } from './window-visitor.ts';

/** Where a page stands: two requests of one key are the same. Another version may make other rows of the same bytes. */
function keyOf({ page, paginate, range }: PageRequest): string {
  return [range?.from ?? '', range?.to ?? '', paginate, page, version()].join(' ');
}

interface SamePages {
  readonly pages: number;
  readonly received: number;
  readonly owned: number;
}

const noPages: SamePages = { pages: 0, received: 0, owned: 0 };

export class PageMemory {
  readonly #known: ReadonlyMap<string, RememberedPage>;
  readonly #comparing: boolean;
  readonly #pages = new Map<string, RememberedPage>();
  /** Ids on pages of this walk that were not the known ones, where any are known: their rows may no longer be as such a page left them. */
  readonly #brought = new Set<RecordKey>();
  #same: SamePages = noPages;
  #readTwice = false;
  /** Records requested on a page. */
  #paginate: number | undefined;

  /** @param comparing whether pages are compared row by row all the same */
  constructor(known: readonly RememberedPage[], comparing: boolean) {
    this.#known = new Map(known.map((page) => [page.key, page]));
    this.#comparing = comparing;
  }

  /** The page that the last walk met at this place, where it need not be compared. */
  knownAt(request: PageRequest): KnownPage | null {
    return this.#comparing ? null : (this.#untouched(request) ?? null);
  }

  /** The page of the last walk that this one is, byte for byte. */
  sameAs(request: PageRequest, { hash, parts }: MirrorPage): RememberedPage | undefined {
    const known = this.#untouched(request);
    return parts === undefined && known?.hash === hash ? known : undefined;
  }

  #untouched(request: PageRequest): RememberedPage | undefined {
    const known = this.#known.get(keyOf(request));
    return known === undefined || this.#isTouched(known) ? undefined : known;
  }

  #isTouched({ ids }: RememberedPage): boolean {
    return this.#brought.size > 0 && ids.some((id) => this.#brought.has(id));
  }

  /** The page that came, as the known one where it is that and need not be compared. */
  recognise(request: PageRequest, page: MirrorPage): MirrorPage {
    const known = this.#comparing ? undefined : this.sameAs(request, page);
    return known === undefined ? page : { ...page, recalled: known };
  }

  /** Notes a page of this walk; `owned` of its records are the window's. @param rowsSum where it is known */
  note(request: PageRequest, page: MirrorPage, owned: number, rowsSum: number | null): void {
    const key = keyOf(request);
    this.#readTwice ||= this.#pages.has(key) || (this.#paginate ?? request.paginate) !== request.paginate;
    this.#paginate = request.paginate;
    const { hash, total, lastPage, perPage } = page;
    const createdAt = createdAtOn(page).at(-1);
    const lastCreatedAt = typeof createdAt === 'string' ? createdAt : null;
    const ids = idsOn(page);
    if (rowsSum === null && this.#known.size > 0) for (const id of ids) this.#brought.add(id);
    this.#pages.set(key, { key, hash, total, lastPage, perPage, ids, owned, lastCreatedAt, rowsSum });
  }

  /** Notes a page that came again just as it was; gives how many have since `takeSame`. */
  noteSame(request: PageRequest, page: MirrorPage, { ids, owned, rowsSum }: RememberedPage): number {
    this.note(request, page, owned, rowsSum);
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
  pages(): readonly RememberedPage[] | 'as they are' {
    if (this.#readTwice) return [];
    const pages = [...this.#pages.values()];
    const isKnown = ({ key, hash, rowsSum }: RememberedPage) => rowsSum !== null && this.#known.get(key)?.hash === hash;
    if (pages.length === this.#known.size && pages.every(isKnown)) return 'as they are';
    return pages.map((page) => (this.#isTouched(page) ? { ...page, rowsSum: null } : page));
  }
}

/** Pages that came again are counted together: a commit for each would cost more than reading it did. */
const samePagesAtOnce = 8;

export class WindowPages {
  readonly #ports: VisitPorts;
  readonly #signal: AbortSignal;
  #reportedStale = false;
  /** The days of windows that were reported. */
  readonly #altered = new Set<string>();
  /** Records beyond which pages were seen to fail. */
  #readable = Infinity;

  constructor(ports: VisitPorts, signal: AbortSignal) {
    this.#ports = ports;
    this.#signal = signal;
  }

  walkPorts(window: Window, paginate: number, memory: PageMemory): WalkPorts {
    const { source, store, run, resource, capabilities, clock, progress, surplus, allowance, most } = this.#ports;
    const range = requestedRange(window, capabilities);
    const request = (page: number): PageRequest => ({ page, paginate, range });
    return {
      clock,
      pageSize: paginate,
      expected: window.serverTotal,
      surplus: surplus.sureOf(window, most),
      past: surplus.pastEndOf(window),
      isOrdered: capabilities.sorts === 'kept',
      show: (records) => allowance.show(resource, window, records),
      read: async (number, isBehind = false) => {
        const requested = request(number);
        const known = memory.knownAt(requested);
        const wanted = { known, rowsOf: [takes.bind(null, window)], keptOut: store.keptOut(resource), isBehind };
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
        const received = entriesOn(page).length;
        const recorded = store.recordPage(run, window, rows, received, seen);
        const same = memory.sameAs(request(page.page), page);
        const isAsRead = recorded.inserted + recorded.updated === 0;
        if (same !== undefined && !isAsRead) this.reportAltered(window);
        const owned = rows.ids.length + rows.unusable + rows.keptOut.length;
        memory.note(request(page.page), page, owned, isAsRead && same !== undefined ? same.rowsSum : null);
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

  /** What is remembered of the window's pages, for as long as its rows are as they were read. */
  memoryOf(window: Window): PageMemory {
    const { store, comparing } = this.#ports;
    if (window.state !== 'settled') return new PageMemory([], comparing);
    if (comparing || !store.isAltered(window)) return new PageMemory(store.rememberedPages(window), comparing);
    this.reportAltered(window);
    return new PageMemory([], comparing);
  }

  /** Puts on record, once, that rows were changed outside of a sync. */
  reportAltered({ from, to }: Window): void {
    const { store, run, resource, progress } = this.#ports;
    const days = `${from}..${to}`;
    if (this.#altered.has(days)) return;
    this.#altered.add(days);
    const detail = `rows of ${days} are not as they were read; they are compared with the server`;
    progress({ kind: 'notice', resource, text: detail });
    store.recordEvent(run, { resource, kind: 'rows_altered', subject: `${days} ${run}`, detail });
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
