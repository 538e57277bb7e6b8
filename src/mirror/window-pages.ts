/**
 * Reads and stores the pages of a walk, recognises those that came with the same bytes in the walk before, and records how the
 * reading of a window ended.
 */
import { countOf } from '../api/narrow.ts';
import { coverageOf, type DayRange, takes } from '../model/era.ts';
import { OperatorError } from '../model/errors.ts';
import { version } from '../model/program.ts';
import { secondMs, timestampOf } from '../model/time.ts';
import type { RecordKey } from '../model/records.ts';
import type { RememberedPage, Window } from '../store/mirror-types.ts';
import { ContradictionError, isHopeless } from './failures.ts';
import { createdAtOn, entriesOn, idsOn, type KnownPage, type MirrorPage, noRows } from './page.ts';
import { isOpen } from './plan.ts';
import type { Suspicion } from './reconcile.ts';
import { byEarlierClock } from './server-check.ts';
import { type PageRequest, requestedRange } from './source.ts';
import { surplusWords } from './surplus.ts';
import { problemOf, type Verdict, type WalkPorts } from './walk.ts';
import type { VisitPorts } from './window-visitor.ts';

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

export class WindowPages {
  readonly #ports: VisitPorts;
  readonly #signal: AbortSignal;
  #reportedStale = false;
  /** The days of windows whose altered rows were reported. */
  readonly #altered = new Set<string>();
  /** Pages with more records than this were seen to fail. */
  #readable = Infinity;

  constructor(ports: VisitPorts, signal: AbortSignal) {
    this.#ports = ports;
    this.#signal = signal;
  }

  walkPorts(window: Window, paginate: number, memory: PageMemory): WalkPorts {
    const { source, store, run, resource, capabilities, clock, progress, surplus, allowance, maxRecords } = this.#ports;
    const range = requestedRange(window, capabilities);
    const request = (page: number): PageRequest => ({ page, paginate, range });
    return {
      clock,
      pageSize: paginate,
      expected: window.serverTotal,
      surplus: surplus.sureOf(window, maxRecords),
      pastEnd: surplus.pastEndOf(window),
      isOrdered: capabilities.sorts === 'kept',
      noteSeen: (records) => allowance.noteSeen(resource, window, records),
      read: async (number, isBehind = false) => {
        const requested = request(number);
        const known = memory.knownAt(requested);
        const wanted = { known, rowsOf: [takes.bind(null, window)], keptOut: store.keptOut(resource), isBehind };
        const page = await source.page(resource, requested, capabilities, this.#signal, wanted);
        this.#reportStale(page);
        this.#allowSmaller();
        return memory.recognise(requested, page);
      },
      record: (page, seen) => {
        const { recalled } = page;
        if (recalled !== undefined) {
          if (memory.noteSame(request(page.page), page, recalled) >= samePagesPerCommit) this.countSame(memory);
          progress({ kind: 'page', resource, records: recalled.ids.length });
          return { unusable: 0, duplicateIds: [] };
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

  /** The remembered pages of the window; none if its rows are no longer as they were read. */
  memoryOf(window: Window): PageMemory {
    const { store, comparesRows } = this.#ports;
    if (window.state !== 'settled') return new PageMemory([], comparesRows);
    if (comparesRows || !store.isAltered(window)) return new PageMemory(store.rememberedPages(window), comparesRows);
    this.reportAltered(window);
    return new PageMemory([], comparesRows);
  }

  /** Records, once per window, that rows were changed outside of a sync. */
  reportAltered({ from, to }: Window): void {
    const { store, run, resource, progress } = this.#ports;
    const days = `${from}..${to}`;
    if (this.#altered.has(days)) return;
    this.#altered.add(days);
    const detail = `rows of ${days} are not as they were read; they are compared with the server`;
    progress({ kind: 'notice', resource, text: detail });
    store.recordEvent(run, { resource, kind: 'rows_altered', subject: `${days} ${run}`, detail });
  }

  /** Records, once, that a cache in front of the server responds in its place. */
  #reportStale(page: MirrorPage): void {
    const ageMs = Math.max(...(page.parts ?? [page]).map((part) => part.ageMs ?? 0));
    if (ageMs === 0 || this.#reportedStale) return;
    this.#reportedStale = true;
    const { store, run, resource, source } = this.#ports;
    const detail = `a cache in front of the server gave a page that was ${ageMs / secondMs} s old, against the request`;
    store.recordEvent(run, { resource, kind: 'stale_page', subject: source.contact.address, detail });
  }

  /** Allows more requests if the server turned out to make only smaller pages. */
  #allowSmaller(): void {
    const { allowance, resource, source } = this.#ports;
    const size = source.readablePage(resource);
    if (size < this.#readable) allowance.allowSmaller(resource, size);
    this.#readable = size;
  }
}

export class WindowOutcomes {
  readonly #ports: VisitPorts;
  #suspicions: Suspicion[] = [];

  constructor(ports: VisitPorts) {
    this.#ports = ports;
  }

  record(window: Window, verdict: Verdict, memory: PageMemory): void {
    const { store, run, resource, surplus, source } = this.#ports;
    if (verdict.kind === 'damaged') return this.#recordDamaged(window, verdict);
    if (verdict.kind !== 'settled') {
      for (const id of 'duplicateIds' in verdict ? (verdict.duplicateIds ?? []) : []) {
        const detail = 'two different records have this id; the one that was kept first stays';
        store.recordEvent(run, { resource, kind: 'duplicate_id', subject: String(id), detail });
      }
      return this.leave(window, verdict.total, problemOf(verdict));
    }
    const { total, seen } = verdict;
    const freshAsOf = byEarlierClock(verdict.startedAt, source.serverAheadMs());
    store.releaseUnseen(window, seen);
    const end = { state: 'settled', serverTotal: total, freshAsOf, problem: null } as const;
    const addsUp = verdict.surplus === 0 && !verdict.isCut;
    this.settle({ window, ids: store.unseenIds(window, seen), showedSome: seen.size > 0, addsUp }, () => {
      store.endWalk(run, window, { ...end, pages: memory.pages() });
      surplus.note(window, verdict.surplus, verdict.pastEnd);
      const sealed = this.#seal(window, end, verdict.surplus);
      // Nobody knows whether the surplus is of the sealed part or of the open one, which every run reads anyway. If it is not of
      // the sealed part, that is read once more.
      if (sealed !== undefined) surplus.note(sealed, verdict.surplus);
      if (verdict.surplus === 0) return;
      const text = `${window.from}..${window.to}: ${surplusWords(verdict.surplus)}`;
      this.#ports.progress({ kind: 'notice', resource, text });
    });
  }

  /**
   * Makes the part that has passed the grace period a window of its own, so that the next run need not read it. Returns it, if
   * any.
   */
  #seal(window: Window, end: Pick<Window, 'state' | 'freshAsOf' | 'problem'>, surplus: number): DayRange | undefined {
    const { store, resource, seal } = this.#ports;
    const { from, to } = window;
    if (coverageOf(window) !== 'days' || !isOpen(window, seal) || from >= seal) return undefined;
    const sealed = { from, to: seal };
    const totalOf = (piece: DayRange) => store.accountedCount(resource, piece) + surplus;
    const pieces = [sealed, { from: seal, to }].map((piece) => ({ ...piece, ...end, serverTotal: totalOf(piece) }));
    store.replaceWindows(resource, pieces);
    return sealed;
  }

  /** Records what could not be read. Its rows stay as they are; all others are up to date. */
  #recordDamaged(window: Window, verdict: Extract<Verdict, { kind: 'damaged' }>): void {
    const { store, run, resource, surplus, clock } = this.#ports;
    const { seen, unreadable, problem, total } = verdict;
    store.releaseUnseen(window, seen);
    const subject = `${window.from}..${window.to}`;
    store.recordEvent(run, { resource, kind: 'unreadable_records', subject, detail: problem });
    // An unreadable record may be the one that was not seen.
    this.settle({ window, ids: store.unseenIds(window, seen), showedSome: true, hides: true }, () => {
      this.leave(window, total, problem);
      const end = { state: 'unsettled', freshAsOf: null, problem } as const;
      // The next run finds out which of the two pieces they are in.
      if (this.#seal(window, end, 0) !== undefined) return;
      const missing = total - store.accountedCount(resource, window) - surplus.of(window);
      surplus.noteUnreadable(window, { missing, records: countOf(unreadable), at: timestampOf(clock.now()) });
    });
  }

  leave(window: Window, total: number | null, problem: string): void {
    const { store, run, progress, resource } = this.#ports;
    const serverTotal = total ?? window.serverTotal;
    store.endWalk(run, window, { state: 'unsettled', serverTotal, freshAsOf: null, problem });
    progress({ kind: 'notice', resource, text: `${window.from}..${window.to}: ${problem}` });
  }

  /** Settles a window that was read whole: at once, or once it is decided which of the rows that it did not show are gone. */
  settle(read: Omit<Suspicion, 'settle' | 'leave'>, settle: () => void): void {
    const leave = (problem: string): void => this.leave(read.window, null, problem);
    if (read.ids.length === 0) settle();
    else this.#suspicions.push({ ...read, settle, leave });
  }

  /** Decides on the rows that were not shown. This waits until all windows were read: only then is it known how many would go. */
  async removeAbsent(): Promise<void> {
    const { removal, trustsStored, signal, store, resource } = this.#ports;
    // If another window has shown the record meanwhile, under another creation time, the row is that window's now.
    const suspicions = this.#suspicions.map((each) => {
      const held = new Set(store.unseenIds(each.window, new Set()));
      return { ...each, ids: each.ids.filter((id) => held.has(id)) };
    });
    this.#suspicions = [];
    for (const { ids, settle } of suspicions) if (ids.length === 0) settle();
    const open = suspicions.filter(({ ids }) => ids.length > 0);
    try {
      await removal.decide(open, trustsStored);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof OperatorError) || error instanceof ContradictionError || isHopeless(error)) throw error;
      const walking = store.windows(resource).filter(({ state }) => state === 'walking');
      for (const window of walking) this.leave(window, null, error.message);
    }
  }
}
