/** Reads windows until each is settled, cut into smaller ones, or left unsettled with the reason on record. */
import type { LimitFunction } from 'p-limit';
import type { Capabilities } from '../api/capabilities.ts';
import { isPageFailure, RefusedInput } from '../api/errors.ts';
import { countOf } from '../api/narrow.ts';
import { coverageOf, type DayRange } from '../model/era.ts';
import { OperatorError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Day } from '../model/time.ts';
import type { Window } from '../store/mirror-types.ts';
import { ContradictionError, isHopeless, noteForeign } from './failures.ts';
import { findDeletions, findLosses, isWorthSearching } from './find-deletions.ts';
import { lastByTotal, lastShown } from './list-end.ts';
import { entriesOn } from './page.ts';
import type { SyncPorts } from './run.ts';
import { WindowOutcomes, WindowPages } from './window-pages.ts';
import { requestedRange } from './source.ts';
import type { Allowance } from './run-bounds.ts';
import type { Removal } from './reconcile.ts';
import { keyOf, recordKey, type RecordKey } from '../model/records.ts';
import { counted } from '../model/text.ts';
import type { Surplus } from './surplus.ts';
import { cutWords, type Verdict, walkUncut, walkWindow } from './walk.ts';
import { type Extent, splitDay, splitWindow } from './plan.ts';

/** What reading the windows of one resource needs. */
export interface VisitPorts extends Pick<SyncPorts, 'source' | 'store' | 'clock' | 'signal' | 'progress'> {
  readonly run: string;
  readonly resource: ResourceName;
  /** Bounds how many windows are read at the same time, over all resources. */
  readonly limit: LimitFunction;
  readonly allowance: Allowance;
  readonly removal: Removal;
  readonly surplus: Surplus;
  readonly capabilities: Capabilities;
  /** The first day that may still gain records. */
  readonly seal: Day;
  /** Whether the capabilities come from an earlier run; then a contradiction has them measured again. */
  readonly trustsStored: boolean;
  /** Whether every row is compared, even if its page is known. */
  readonly comparesRows: boolean;
  /** Windows with more records are cut. */
  readonly maxRecords: number;
}

interface Waiting {
  readonly window: Window;
  /** What the server counts in it now, if that is known. */
  readonly counted: number | undefined;
}

/** After so many failures in a row, one request shows whether the server still gives the list at all. */
const maxFailuresInARow = 3;

export class WindowVisitor {
  readonly #ports: VisitPorts;
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  readonly #pages: WindowPages;
  readonly #outcomes: WindowOutcomes;
  /** Windows that wait to be visited, the next one last. */
  readonly #waiting: Waiting[] = [];
  #extent: Promise<Extent> | undefined;
  #failures = 0;
  #maxRecords: number;
  /** The first days of windows whose requests failed. */
  readonly #failed = new Set<Day>();
  /** Whether the server has accepted a range of days in this run. */
  #rangesWork = false;
  /** How the server failed on a range of days, until it accepts one. */
  #rangeFailure: OperatorError | undefined;

  constructor(ports: VisitPorts) {
    this.#ports = ports;
    this.#signal = AbortSignal.any([ports.signal, this.#stop.signal]);
    this.#pages = new WindowPages(ports, this.#signal);
    this.#outcomes = new WindowOutcomes(ports);
    this.#maxRecords = ports.maxRecords;
  }

  /** Windows with more records are cut. Falls when the server turns out to show no page beyond some depth. */
  get maxRecords(): number {
    return this.#maxRecords;
  }

  /**
   * Visits the windows and their pieces, side by side. Throws what ends the resource.
   * @param counted the windows' totals of now, if known
   */
  async visitAll(
    windows: readonly Window[],
    counted: ReadonlyMap<Window, number | undefined> = new Map(),
  ): Promise<void> {
    this.#wait(windows.map((window) => ({ window, counted: counted.get(window) })));
    const ends = await Promise.allSettled(windows.map(() => this.#visitNext()));
    this.#ports.signal.throwIfAborted();
    if (this.#stop.signal.aborted) {
      if (this.#stop.signal.reason === this.#rangeFailure) this.#doubtRanges();
      throw this.#stop.signal.reason;
    }
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
    this.#doubtRanges();
    await this.#outcomes.removeAbsent();
  }

  /** Whether requests for the window failed in this run, even after retries. */
  hasFailed({ from }: DayRange): boolean {
    return this.#failed.has(from);
  }

  /** Returns how many records the server counts in the window, or in the whole list. */
  async total(window: DayRange | null): Promise<number> {
    const { source, resource, capabilities } = this.#ports;
    const range = window === null ? null : requestedRange(window, capabilities);
    try {
      return await source.total(resource, range, capabilities, this.#signal);
    } catch (error) {
      throw this.#judged(error);
    }
  }

  /** Returns how many records the list shows: fewer than its total, if that counts records that no page shows. */
  async shownInList(): Promise<number> {
    const { capabilities, surplus } = this.#ports;
    const { pageSize: paginate } = capabilities;
    const total = await this.total(null);
    const end = Math.max(1, Math.ceil(total / paginate));
    const [read, readOne] = [this.#reader(null), this.#reader(null, 1)];
    try {
      const last = await lastShown(read, await lastByTotal(read, (place) => readOne(place, true), end), Infinity);
      const shown = (last.page - 1) * last.perPage + entriesOn(last).length;
      if (total - shown > this.#maxRecords) surplus.assume(total - shown);
      return shown;
    } catch (error) {
      if (isPageFailure(error)) return total;
      throw this.#judged(error);
    }
  }

  #reader(range: DayRange | null, paginate = this.#ports.capabilities.pageSize) {
    const { source, resource, capabilities } = this.#ports;
    return (page: number, isBehind = false) =>
      source.page(resource, { page, paginate, range }, capabilities, this.#signal, { isBehind });
  }

  /** Turns a refusal of what the server accepted before into a contradiction. */
  #judged(error: unknown): unknown {
    if (!this.#ports.trustsStored || !(error instanceof RefusedInput)) return error;
    return new ContradictionError(`what the server took before is refused now: ${error.message}`, { cause: error });
  }

  /** Throws if the server failed on every range of days: it may not have ranges any more. */
  #doubtRanges(): void {
    const failure = this.#rangeFailure;
    if (failure === undefined || !this.#ports.trustsStored) return;
    throw new ContradictionError(`no range of days could be read: ${failure.message}`, { cause: failure });
  }

  #wait(windows: readonly Waiting[]): void {
    this.#waiting.push(...windows.toReversed());
  }

  /**
   * Visits the pieces of a window before its neighbours: the records that they show earn the requests for cutting the next one.
   */
  async #visitNext(): Promise<void> {
    const pieces = await this.#ports.limit(() => {
      const next = this.#waiting.pop();
      return next === undefined ? [] : this.#step(next.window, next.counted);
    });
    this.#wait(pieces.map((window) => ({ window, counted: undefined })));
    await Promise.all(pieces.map(() => this.#visitNext()));
  }

  /** Takes one durable step. Returns the windows that it cut this one into, or none if it is done. */
  async #step(window: Window, counted: number | undefined): Promise<Window[]> {
    this.#signal.throwIfAborted();
    try {
      const pieces = (await this.#isSearched(window, counted)) ? [] : await this.#walkOrCut(window);
      this.#failures = 0;
      if (coverageOf(window) === 'days') {
        this.#rangesWork = true;
        this.#rangeFailure = undefined;
      }
      return pieces;
    } catch (thrown) {
      this.#signal.throwIfAborted();
      const error = this.#judged(thrown);
      if (!(error instanceof OperatorError)) throw this.#end(error);
      if (error instanceof ContradictionError && this.#ports.trustsStored) throw this.#end(error);
      noteForeign(error, this.#ports);
      this.#outcomes.leave(window, null, error.message);
      this.#failed.add(window.from);
      if (isPageFailure(error) && coverageOf(window) === 'days' && !this.#rangesWork) this.#rangeFailure = error;
      if (await this.#isListLost(error)) throw this.#end(error);
      return [];
    }
  }

  /** Whether the other windows can only fail, too: the server, the key or the ranges no longer work. */
  async #isListLost(error: OperatorError): Promise<boolean> {
    this.#failures += 1;
    const { source, resource, capabilities, trustsStored } = this.#ports;
    const ends = isHopeless(error);
    if (ends && !isPageFailure(error)) return true;
    if (!ends && this.#failures < maxFailuresInARow) return false;
    // No range has worked yet. The server may not have ranges any more, and measuring shows that in fewer requests.
    if (trustsStored && this.#rangeFailure !== undefined) return true;
    try {
      await source.total(resource, null, capabilities, this.#signal);
      this.#failures = 0;
      return false;
    } catch {
      return true;
    }
  }

  /** Stops the visits that are under way. */
  #end(error: unknown): unknown {
    this.#stop.abort(error);
    return error;
  }

  /** Searches a long window that lost few records for them. Returns false if it must be walked instead. */
  async #isSearched(window: Window, total: number | undefined): Promise<boolean> {
    const { store, run, resource, capabilities, progress } = this.#ports;
    if (total === undefined || !isWorthSearching(window, total, capabilities)) return false;
    const { pageSize } = capabilities;
    const range = requestedRange(window, capabilities);
    const read = this.#reader(range);
    const searched = await findDeletions({ store, read, pageSize }, window, range, total);
    if (searched.kind === 'found') {
      this.#outcomes.settle({ window, ids: searched.lost, showedSome: true }, () =>
        store.endWalk(run, window, { state: 'settled', serverTotal: total, freshAsOf: null, problem: null }),
      );
      return true;
    }
    const text = `${window.from}..${window.to} is read whole: ${searched.problem}`;
    progress({ kind: 'notice', resource, text });
    return false;
  }

  /** Finds the windows that lack records, of a list with so many records in all; undefined if the search fails. */
  async locateLosses(windows: readonly Window[], total: number): Promise<Window[] | undefined> {
    const { store, resource, capabilities } = this.#ports;
    const { pageSize } = capabilities;
    return findLosses({ store, read: this.#reader(null), pageSize }, resource, windows, total, capabilities);
  }

  async #walkOrCut(window: Window): Promise<Window[]> {
    const { store, run, surplus, capabilities } = this.#ports;
    const maxRecords = this.#maxRecords;
    if (window.serverTotal !== null && surplus.shownIn(window) > maxRecords) {
      const pieces = await this.#cut(window, window.serverTotal);
      if (pieces !== undefined) return pieces;
    }
    store.beginWalk(run, window);
    const memory = this.#pages.memoryOf(window);
    try {
      const portsOf = (size: number) => this.#pages.walkPorts(window, size, memory);
      const walked = await walkWindow(portsOf, capabilities.pageSize, maxRecords);
      const isCut = walked.kind === 'settled' ? walked.isCut : walked.kind === 'unstable' && walked.united?.isCut;
      if (isCut) this.#reportCut(window);
      let verdict = await this.#unlessTooDeep(window, walked);
      if (verdict.kind === 'large' || (verdict.kind === 'unstable' && verdict.duplicateIds === undefined)) {
        const pieces = await this.#cut(window, verdict.total);
        if (pieces !== undefined) return pieces;
        verdict = await this.#unlessTooDeep(window, await walkUncut(portsOf, capabilities.pageSize, verdict));
      }
      this.#outcomes.record(window, verdict, memory);
      return [];
    } catch (error) {
      const pieces = await this.#cutRefused(window, error, maxRecords);
      if (pieces === undefined) throw error;
      return pieces;
    } finally {
      this.#pages.countSame(memory);
    }
  }

  /** Records, once, that pages leave out records: any other program that reads this list page by page lacks them. */
  #reportCut({ from, to }: Window): void {
    const { store, run, resource, progress } = this.#ports;
    const detail = `${from}..${to}: ${cutWords}`;
    progress({ kind: 'notice', resource, text: detail });
    store.recordEvent(run, { resource, kind: 'pages_cut', subject: run, detail });
  }

  /**
   * Returns the verdict, or 'large' if the list goes on behind the last page that comes: some servers show none beyond a depth.
   */
  async #unlessTooDeep(window: Window, verdict: Verdict): Promise<Verdict> {
    const { capabilities, surplus } = this.#ports;
    const isRead = verdict.kind === 'settled' || verdict.kind === 'damaged';
    if (!isRead || (capabilities.sorts !== 'kept' && coverageOf(window) !== 'everything')) return verdict;
    const { total, seen } = verdict;
    const { pageSize } = capabilities;
    const { size } = seen;
    if (verdict.kind === 'damaged') {
      const isEnd =
        verdict.unreadable.every(({ first }) => first > size) && countOf(verdict.unreadable) >= 2 * pageSize;
      if (size < pageSize || !isEnd) return verdict;
    } else {
      // A depth is a round number of records, or of pages, unless the total shows that there are more.
      const isRound = size > pageSize && (size % pageSize === 0 || size % 100 === 0);
      const isLess = capabilities.sorts === 'kept' && verdict.surplus > 0 && verdict.surplus !== surplus.of(window);
      if (!isRound && !isLess) return verdict;
      const unseen = (await this.#lookBehind(window, seen)).filter((id) => !seen.has(id)).length;
      // Some may have been added since.
      if (unseen === 0 || unseen <= (await this.total(window)) - total) return verdict;
    }
    // A list that ends before its first page is full has no depth: its page leaves some out.
    if (size >= pageSize) this.#maxRecords = Math.min(this.#maxRecords, size);
    return { kind: 'large', total, problem: `its pages end after ${counted(size, 'record')}, and there are others` };
  }

  /**
   * Reads records that a deep list would show last: the newest or, without an order, those with the ids next to the ones it
   * showed.
   */
  async #lookBehind(window: Window, seen: ReadonlySet<RecordKey>): Promise<RecordKey[]> {
    const { source, resource, capabilities } = this.#ports;
    if (capabilities.sorts === 'kept') {
      const newest = await source.newest(resource, requestedRange(window, capabilities), capabilities, this.#signal);
      return newest?.records.map(recordKey).filter((id) => id !== undefined) ?? [];
    }
    const ids = [...seen].map(BigInt);
    const least = ids.reduce((one, other) => (other < one ? other : one));
    const most = ids.reduce((one, other) => (other > one ? other : one));
    const found: RecordKey[] = [];
    for (const id of [keyOf(most + 1n), keyOf(least - 1n)]) {
      if (id > 0 && (await source.look(resource, id, this.#signal)).kind === 'found') found.push(id);
    }
    return found;
  }

  /**
   * Cuts a window if the server refuses some of its pages: its pieces have fewer.
   * @param maxRecords the bound when it was read
   */
  async #cutRefused(window: Window, error: unknown, maxRecords: number): Promise<Window[] | undefined> {
    const { capabilities, trustsStored } = this.#ports;
    if (!(error instanceof RefusedInput) || trustsStored || coverageOf(window) !== 'days') return undefined;
    const total = await this.total(window);
    const pages = Math.ceil(Math.min(total, maxRecords) / capabilities.pageSize);
    if (pages < 2) return undefined;
    this.#maxRecords = Math.min(this.#maxRecords, Math.floor(pages / 2) * capabilities.pageSize);
    return this.#cut(window, total);
  }

  /** Cuts the window in two, by what the server counts. Returns undefined if it cannot be cut. */
  async #cut(window: Window, total: number): Promise<Window[] | undefined> {
    const { store, resource, surplus } = this.#ports;
    const maxRecords = this.#maxRecords;
    const at = coverageOf(window) === 'days' ? splitDay(window, await this.#knownExtent()) : undefined;
    if (at === undefined) return undefined;
    const before = await this.total({ from: window.from, to: at });
    // If one half seems to hold everything, each total may count records that no page shows, and cutting would never end.
    if (before > maxRecords && total - before <= maxRecords) {
      const each = before + (await this.total({ from: at, to: window.to })) - total;
      if (each > maxRecords && each < total) surplus.assume(each);
      if (each > 0 && total - each <= maxRecords) return undefined;
    }
    store.replaceWindows(resource, splitWindow({ ...window, serverTotal: total }, at, before));
    return store.windows(resource).filter(({ from, to }) => from >= window.from && to <= window.to);
  }

  #knownExtent(): Promise<Extent> {
    const { source, resource, capabilities } = this.#ports;
    this.#extent ??= source.extent(resource, capabilities, this.#signal);
    return this.#extent;
  }
}
