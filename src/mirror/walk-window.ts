/**
 * Walks one window and writes its pages, and remembers them for the next walk. Section "The page's memory" of docs/architecture.md.
 */
import { type DayRange, takes } from '../model/era.ts';
import type { RecordKey } from '../model/records.ts';
import { secondMs } from '../model/time.ts';
import type { RememberedPage, Window } from '../store/mirror-types.ts';
import type { Walk } from './judge.ts';
import { createdAtOn, entriesOn, idsOn, type MirrorPage } from './page.ts';
import { readWindow } from './read.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import type { VisitPorts } from './sync-window.ts';
import { requestedRange } from './windows.ts';

interface Bounds {
  /** The window's total when it was last counted. */
  readonly expected: number;
  readonly maxRecords: number;
}

/** Walks the window and writes its pages. Throws a TooLarge if it has more than so many records. */
export async function walkWindow(
  ports: VisitPorts,
  window: Window,
  writer: WalkWriter,
  { expected, maxRecords }: Bounds,
) {
  const { clock, allowance, resource, source, store, profile, progress, signal } = ports;
  const range = requestedRange(window, profile);
  const isMeant = takes.bind(null, window);
  const read = async (page: number, paginate: number, isBehind: boolean): Promise<MirrorPage> => {
    const request = { page, paginate, range };
    const known = writer.knownAt(request);
    const wanted = { known, isMeant, keptOut: store.keptOut(resource), isBehind, hashesRecords: writer.hashesRecords };
    const shown = await source.page(resource, request, profile, signal, wanted);
    allowance.setPageSize(resource, source.readablePage(resource));
    return writer.recognise(request, shown);
  };
  const take = async (page: MirrorPage, paginate: number, walk: Walk): Promise<void> => {
    writer.write({ page: page.page, paginate, range }, page);
    walk.add(page, clock.now());
    allowance.noteSeen(resource, window, walk.ids.size);
    progress({ kind: 'page', resource, records: entriesOn(page).length });
  };
  const { pageSize } = profile;
  const known = { surplus: window.surplus, freshAsOf: window.freshAsOf };
  try {
    const end = await readWindow({ pageSize, expected, known, now: () => clock.now(), read, take }, maxRecords);
    // Ages are rounded up.
    if (end.walk.maxAgeMs > secondMs) noteAge(ports, end.walk.maxAgeMs - secondMs);
    return end;
  } finally {
    // What was read until a page failed is kept.
    writer.flush();
  }
}

function noteAge({ store, run, resource, source }: VisitPorts, ageMs: number): void {
  const detail = `a cache in front of the server gave a page that was ${ageMs / secondMs} s old, against the request`;
  store.recordEvent(run, { resource, kind: 'stale_page', subject: source.address, detail });
}

/** What identifies a page of a window. */
interface PagePlace {
  readonly page: number;
  readonly paginate: number;
  readonly range: DayRange | null;
}

/** Equal for equal requests. */
function keyOf({ page, paginate, range }: PagePlace): string {
  return [range?.from ?? '', range?.to ?? '', paginate, page].join(' ');
}

/** Pages are written together: a commit for each costs more than reading it, and in ascending order they are appended. */
const pagesPerCommit = 8;
/** But large pages one by one: as many windows as there are requests at once hold some. */
const bytesPerCommit = 4 * 1_048_576;

export class WalkWriter {
  readonly #store: MirrorStore;
  readonly #run: string;
  readonly #window: Window;
  /** The pages of the window's last walk, by their places; none if their rows must be compared. */
  readonly #known: ReadonlyMap<string, RememberedPage>;
  readonly #pages = new Map<string, RememberedPage>();
  /** Ids on pages of this walk that had changed: their rows may no longer be as a known page left them. */
  readonly #changed = new Set<RecordKey>();
  /** Whether another program has changed rows of the window since the last walk. */
  readonly isTouched: boolean;
  /** Whether pages are remembered with a hash of each record. The first walk does without, since that would make it slower. */
  readonly hashesRecords: boolean;
  #held: MirrorPage[] = [];
  #heldBytes = 0;
  /** Pages that came again unchanged, to be counted. */
  #same: RememberedPage[] = [];
  #readTwice = false;
  #paginate: number | undefined;

  readonly #compares: VisitPorts['comparesRows'];

  constructor(store: MirrorStore, run: string, window: Window, compares: VisitPorts['comparesRows']) {
    this.#store = store;
    this.#run = run;
    this.#window = window;
    this.#compares = compares;
    this.hashesRecords = window.state === 'settled';
    const known = this.hashesRecords ? store.rememberedPages(window) : [];
    this.isTouched = store.beginWalk(run, window);
    this.#known = new Map(this.isTouched ? [] : known.map((page) => [page.key, page]));
  }

  /** The page that the last walk met at this place; null if there is none, or if its rows must be compared. */
  knownAt(place: PagePlace): RememberedPage | null {
    const known = this.#compares(place.page) ? undefined : this.#known.get(keyOf(place));
    const isOther = (id: RecordKey) => this.#changed.has(id);
    return known === undefined || (this.#changed.size > 0 && known.ids.some(isOther)) ? null : known;
  }

  /** Marks the page as recalled if it has the same bytes as in the last walk. */
  recognise(place: PagePlace, page: MirrorPage): MirrorPage {
    const known = this.knownAt(place);
    return known === null || page.parts !== undefined || page.hash !== known.hash ? page : { ...page, recalled: known };
  }

  /** Writes a page with the next ones. */
  write(place: PagePlace, page: MirrorPage): void {
    const { recalled, rows, unchanged } = page;
    if (recalled !== undefined) {
      this.#same.push(recalled);
      if (this.#same.length >= pagesPerCommit) this.#countSame();
      return this.#remember(place, page, recalled.owned);
    }
    // A page that is read again must be written after its earlier state.
    if (place.paginate !== this.#paginate || place.page >= (this.#held.at(-1)?.page ?? Infinity)) this.#writeHeld();
    this.#held.push(page);
    this.#heldBytes += (page.parts ?? [page]).reduce((sum, { rows: { json } }) => sum + json.length, 0);
    if (this.#held.length >= pagesPerCommit || this.#heldBytes >= bytesPerCommit) this.#writeHeld();
    const changed = unchanged === undefined ? idsOn(page) : rows.ids;
    if (this.#known.size > 0) for (const id of changed) this.#changed.add(id);
    const written = (page.parts ?? [page]).map((part) => part.rows);
    const owned = written.reduce((sum, each) => sum + each.ids.length + each.unusable + each.keptOut.length, 0);
    this.#remember(place, page, owned + (unchanged?.size ?? 0));
  }

  #writeHeld(): void {
    const held = this.#held.splice(0).toReversed();
    this.#heldBytes = 0;
    if (held.length === 0) return;
    const pages = held
      .flatMap((page): readonly MirrorPage[] => page.parts ?? [page])
      .map((page) => ({ rows: page.rows, received: entriesOn(page).length, unchanged: page.unchanged?.size ?? 0 }));
    this.#store.recordPages(this.#run, this.#window, pages);
  }

  /** Writes what is held. */
  flush(): void {
    this.#countSame();
    this.#writeHeld();
  }

  #countSame(): void {
    const same = this.#same.splice(0);
    if (same.length > 0) this.#store.recordSamePages(this.#run, this.#window.resource, same);
  }

  #remember(place: PagePlace, page: MirrorPage, owned: number): void {
    const key = keyOf(place);
    this.#readTwice ||= this.#pages.has(key) || (this.#paginate ?? place.paginate) !== place.paginate;
    this.#paginate = place.paginate;
    const { hash, total, lastPage, perPage, recalled, hashes } = page;
    const createdAt = createdAtOn(page).at(-1);
    const lastCreatedAt = typeof createdAt === 'string' ? createdAt : null;
    const records = recalled?.records ?? hashes ?? null;
    this.#pages.set(key, { key, hash, total, lastPage, perPage, ids: idsOn(page), owned, lastCreatedAt, records });
  }

  settle(end: Pick<Window, 'serverTotal' | 'freshAsOf' | 'surplus'>): void {
    const pages = this.#toRemember();
    this.#store.settleWindow(this.#run, this.#window, { ...end, pages });
  }

  /** What to remember of a settled walk: nothing if a page was read twice, since its rows may come from either reading. */
  #toRemember(): readonly RememberedPage[] | 'as they are' {
    if (this.#readTwice) return [];
    const pages = [...this.#pages.values()];
    const isKnown = ({ key, hash, records }: RememberedPage) => {
      const known = this.#known.get(key);
      return known?.hash === hash && known.records === records;
    };
    const isAsBefore = this.#changed.size === 0 && pages.length === this.#known.size && pages.every(isKnown);
    return isAsBefore ? 'as they are' : pages;
  }
}
