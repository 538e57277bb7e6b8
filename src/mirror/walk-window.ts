/**
 * Walks one window and writes its pages, and remembers them for the next walk. Section "The page's memory" of docs/architecture.md.
 */
import { type DayRange, takes } from '../model/era.ts';
import { version } from '../model/program.ts';
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
    const wanted = { known, isMeant, keptOut: store.keptOut(resource), isBehind, hashesRecords: writer.remembers };
    const shown = await source.page(resource, request, profile, signal, wanted);
    allowance.setPageSize(resource, source.readablePage(resource));
    return writer.recognise(request, shown);
  };
  const take = async (shown: MirrorPage, paginate: number, walk: Walk): Promise<void> => {
    let page = shown;
    const place = { page: page.page, paginate, range };
    if (!writer.write(place, page)) {
      // Rows are not as they were read: from here on the window is compared row by row.
      page = await read(page.page, paginate, false);
      writer.write(place, page);
    }
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

/** Equal for equal requests. The program's version is part of it, since another version may make other rows of the same bytes. */
function keyOf({ page, paginate, range }: PagePlace): string {
  return [range?.from ?? '', range?.to ?? '', paginate, page, version()].join(' ');
}

/** Pages are written together: a commit for each costs more than reading it, and in ascending order they are appended. */
const pagesPerCommit = 8;

export class WalkWriter {
  readonly #store: MirrorStore;
  readonly #run: string;
  readonly #window: Window;
  readonly #comparesRows: boolean;
  /** The pages of the window's last walk, by their places. */
  readonly #known: ReadonlyMap<string, RememberedPage>;
  readonly #pages = new Map<string, RememberedPage>();
  /** Ids on pages of this walk that had changed: their rows may no longer be as a known page left them. */
  readonly #changed = new Set<RecordKey>();
  /** Whether the walk remembers its pages. The first one does not, since that would make it slower. */
  readonly remembers: boolean;
  #held: MirrorPage[] = [];
  /** Pages that came again unchanged, to be counted. */
  #same: RememberedPage[] = [];
  #altered = false;
  #readTwice = false;
  #paginate: number | undefined;

  /** @param comparesRows whether all rows are compared, even if their page is known */
  constructor(store: MirrorStore, run: string, window: Window, comparesRows: boolean) {
    this.#store = store;
    this.#run = run;
    this.#window = window;
    this.#comparesRows = comparesRows;
    this.remembers = window.state === 'settled';
    const known = this.remembers ? store.rememberedPages(window) : [];
    this.#known = new Map(known.map((page) => [page.key, page]));
    // A comparison has marked the window, or another program has touched a row that is on none of its pages.
    this.#altered = known.some(({ key }) => key === '');
    store.beginWalk(run, window);
  }

  /** Whether rows of the window were not as they were read. */
  isAltered(): boolean {
    return this.#altered;
  }

  /** The page that the last walk met at this place; null if there is none, or if its rows must be compared. */
  knownAt(place: PagePlace): RememberedPage | null {
    return this.#comparesRows || this.#altered ? null : (this.#untouched(place) ?? null);
  }

  #untouched(place: PagePlace): RememberedPage | undefined {
    const known = this.#known.get(keyOf(place));
    return known === undefined || this.#isTouched(known) ? undefined : known;
  }

  #isTouched({ ids }: RememberedPage): boolean {
    return this.#changed.size > 0 && ids.some((id) => this.#changed.has(id));
  }

  /** Marks the page as recalled if it has the same bytes as in the last walk. */
  recognise(place: PagePlace, page: MirrorPage): MirrorPage {
    const known = this.knownAt(place);
    return known === null || page.parts !== undefined || page.hash !== known.hash ? page : { ...page, recalled: known };
  }

  /**
   * Writes a page, at once or with the next ones. Returns false if rows of it were altered: it must be read again, and compared.
   */
  write(place: PagePlace, page: MirrorPage): boolean {
    if (page.parts === undefined && !this.remembers) {
      this.#held.push(page);
      if (this.#held.length >= pagesPerCommit) this.#writeHeld();
      return true;
    }
    this.#writeHeld();
    if (page.recalled === undefined && page.unchanged === undefined) {
      this.#writeWhole(place, page);
      return true;
    }
    const known = this.knownAt(place);
    const isWritten = known !== null && this.#writeKnown(place, page, known);
    this.#altered ||= !isWritten;
    return isWritten;
  }

  #writeKnown(place: PagePlace, page: MirrorPage, known: RememberedPage): boolean {
    if (page.recalled !== undefined) {
      // Outside of the transaction: what is changed by hand later no longer fits the checksum, which stays.
      if (!this.#store.fitsRows(this.#window, known)) return false;
      this.#same.push(known);
      if (this.#same.length >= pagesPerCommit) this.#countSame();
      this.#note(place, page, known.owned, known.rowsSum);
      return true;
    }
    const { rows } = page;
    const ids = idsOn(page);
    const toWrite = { rows, received: ids.length, known, unchanged: page.unchanged?.size ?? 0, ids };
    const [written] = this.#store.recordPages(this.#run, this.#window, [toWrite]);
    if (written === undefined || written === null) return false;
    for (const id of rows.ids) this.#changed.add(id);
    this.#note(place, page, ids.length, written.rowsSum);
    return true;
  }

  #writeWhole(place: PagePlace, page: MirrorPage): void {
    const parts = page.parts ?? [page];
    const ids = this.remembers && page.parts === undefined ? { ids: idsOn(page) } : {};
    const pages = parts.map((part) => ({ rows: part.rows, received: entriesOn(part).length, ...ids }));
    const written = this.#store.recordPages(this.#run, this.#window, pages);
    const isAsRead = written.every((each) => each !== null && each.inserted + each.updated === 0);
    if (page.parts === undefined && this.#untouched(place)?.hash === page.hash && !isAsRead) this.#altered = true;
    const owned = pages.reduce((sum, { rows }) => sum + rows.ids.length + rows.unusable + rows.keptOut.length, 0);
    if (this.#known.size > 0 && !isAsRead) for (const id of idsOn(page)) this.#changed.add(id);
    this.#note(place, page, owned, written[0]?.rowsSum ?? null);
  }

  #writeHeld(): void {
    const held = this.#held.splice(0).toReversed();
    if (held.length === 0) return;
    const pages = held.map((page) => ({ rows: page.rows, received: entriesOn(page).length }));
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

  #note(place: PagePlace, page: MirrorPage, owned: number, rowsSum: number | null): void {
    const key = keyOf(place);
    this.#readTwice ||= this.#pages.has(key) || (this.#paginate ?? place.paginate) !== place.paginate;
    this.#paginate = place.paginate;
    const { hash, total, lastPage, perPage, recalled, hashes } = page;
    const createdAt = createdAtOn(page).at(-1);
    const lastCreatedAt = typeof createdAt === 'string' ? createdAt : null;
    const records = recalled?.records ?? hashes ?? null;
    this.#pages.set(key, {
      key,
      hash,
      total,
      lastPage,
      perPage,
      ids: idsOn(page),
      owned,
      lastCreatedAt,
      records,
      rowsSum,
    });
  }

  settle(end: Pick<Window, 'serverTotal' | 'freshAsOf' | 'surplus'>): void {
    const pages = this.#toRemember();
    this.#store.endWalk(this.#run, this.#window, { state: 'settled', problem: null, ...end, pages });
  }

  /** What to remember of a settled walk: nothing if a page was read twice, since its rows may come from either reading. */
  #toRemember(): readonly RememberedPage[] | 'as they are' {
    if (this.#readTwice || !this.remembers) return [];
    const pages = [...this.#pages.values()];
    const isKnown = ({ key, hash }: RememberedPage) => this.#known.get(key)?.hash === hash;
    const isAsBefore = this.#changed.size === 0 && pages.length === this.#known.size && pages.every(isKnown);
    return isAsBefore ? 'as they are' : pages;
  }
}
