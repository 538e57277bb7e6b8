/** Reads windows until each is settled, cut into smaller ones, or left incomplete with the reason on record. */
import type { LimitFunction } from 'p-limit';
import { isPageFailure, OtherPageSize, RefusedInput } from '../api/errors.ts';
import { coverageOf, type DayRange } from '../model/era.ts';
import { IncompleteError, OperatorError } from '../model/errors.ts';
import type { ResourceName } from '../model/resources.ts';
import { counted } from '../model/text.ts';
import { addDays, type Day } from '../model/time.ts';
import type { Window, WindowCause } from '../store/mirror-types.ts';
import { causeOf, ContradictionError, isHopeless, noteForeign } from './failures.ts';
import { doubtOf, type Verdict, type Walk } from './judge.ts';
import { farDay, wrongTotals } from './measure.ts';
import type { Profile } from './profile.ts';
import { TooLarge } from './read.ts';
import type { Removal, Suspect } from './remove.ts';
import type { Allowance } from './run-bounds.ts';
import { byEarlierClock } from './server-check.ts';
import { walkWindow, WalkWriter } from './walk-window.ts';
import type { SyncPorts } from './sync.ts';
import { type Extent, isOpen, splitDay, splitWindow } from './windows.ts';

/** What reading the windows of one resource needs. */
export interface VisitPorts extends Pick<SyncPorts, 'source' | 'store' | 'clock' | 'signal' | 'progress'> {
  readonly run: string;
  readonly resource: ResourceName;
  /** Bounds how many windows are read at the same time, over all resources. */
  readonly limit: LimitFunction;
  readonly allowance: Allowance;
  readonly removal: Removal;
  readonly profile: Profile;
  /** The first day that may still gain records. */
  readonly seal: Day;
  /** Whether the profile comes from an earlier run; then a contradiction has it measured again. */
  readonly trustsStored: boolean;
  /** Whether the rows of the page of this number are compared, even if the page is known. */
  readonly comparesRows: (page: number) => boolean;
  /** Windows with more records are cut. */
  readonly maxRecords: number;
}

/** If a half of a window has more than this share of its records, its totals are checked. */
const nearlyAll = 0.75;
/** After so many failures in a row, one request shows whether the server still gives the list at all. */
const maxFailuresInARow = 3;

export class WindowVisitor {
  readonly #ports: VisitPorts;
  readonly #stop = new AbortController();
  readonly #signal: AbortSignal;
  /** Windows that wait to be visited, the next one last. */
  readonly #waiting: Window[] = [];
  readonly #suspects: Suspect[] = [];
  #extent: Promise<Extent> | undefined;
  /** What the server counts on a day without records. */
  #phantoms: Promise<number> | undefined;
  #failures = 0;
  /** The first days of windows whose requests failed. */
  readonly #failed = new Set<Day>();
  /** Whether the server has accepted a range of days in this run. */
  #rangesWork = false;
  /** How the server failed on a range of days, until it accepts one. */
  #rangeFailure: OperatorError | undefined;

  constructor(ports: VisitPorts) {
    this.#ports = ports;
    this.#signal = AbortSignal.any([ports.signal, this.#stop.signal]);
  }

  /** Visits the windows and their pieces, side by side, then decides on rows that were not shown. Throws what ends the resource. */
  async visitAll(windows: readonly Window[]): Promise<void> {
    const { allowance, resource, store, signal } = this.#ports;
    const due = windows.filter(({ from }) => !this.#failed.has(from));
    for (const window of due) allowance.allow(resource, window, store.accountedCount(resource, window));
    this.#waiting.push(...due.toReversed());
    const ends = await Promise.allSettled(due.map(() => this.#visitNext()));
    signal.throwIfAborted();
    if (this.#stop.signal.aborted && this.#stop.signal.reason !== this.#rangeFailure) throw this.#stop.signal.reason;
    this.#doubtRanges();
    if (this.#stop.signal.aborted) throw this.#stop.signal.reason;
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
    await this.#removeAbsent();
  }

  /** Returns how many records the server counts on these days, or in the whole list. */
  async total(days: DayRange | null): Promise<number> {
    const { source, resource, profile } = this.#ports;
    try {
      return await source.total(resource, days, profile, this.#signal);
    } catch (error) {
      throw this.#judged(error);
    }
  }

  /** Turns a refusal of what the server accepted before into a contradiction. */
  #judged(error: unknown): unknown {
    const isRefused = error instanceof RefusedInput || error instanceof OtherPageSize;
    if (!this.#ports.trustsStored || !isRefused) return error;
    const text = `what the server took before is refused now: ${error.message}`;
    return new ContradictionError(text, { what: 'refused', cause: error });
  }

  /** Throws if the server failed on every range of days: it may not have ranges any more. */
  #doubtRanges(): void {
    const failure = this.#rangeFailure;
    if (failure === undefined || !this.#ports.trustsStored) return;
    throw new ContradictionError(`no range of days could be read: ${failure.message}`, {
      what: 'refused',
      cause: failure,
    });
  }

  /** Visits the pieces of a window before its neighbours: the records that they show earn the requests for the next one. */
  async #visitNext(): Promise<void> {
    const pieces = await this.#ports.limit(() => {
      const next = this.#waiting.pop();
      return next === undefined ? [] : this.#visit(next);
    });
    this.#waiting.push(...pieces.toReversed());
    await Promise.all(pieces.map(() => this.#visitNext()));
  }

  /** Reads a window, or cuts it. Returns the pieces, or none if it is done. */
  async #visit(window: Window): Promise<readonly Window[]> {
    this.#signal.throwIfAborted();
    try {
      const pieces = await this.#read(window);
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
      if (error instanceof ContradictionError && (error.what === 'beside' || this.#ports.trustsStored))
        throw this.#end(error);
      noteForeign(error, this.#ports);
      this.#leave(window, null, causeOf(error), error.message);
      // A list that contradicts itself was read; nothing failed.
      if (error instanceof IncompleteError) return [];
      this.#failed.add(window.from);
      if (isPageFailure(error) && coverageOf(window) === 'days' && !this.#rangesWork) this.#rangeFailure = error;
      if (await this.#isListLost(error)) throw this.#end(error);
      return [];
    }
  }

  /** Whether the other windows can only fail, too: the server, the key or the ranges no longer work. */
  async #isListLost(error: OperatorError): Promise<boolean> {
    this.#failures += 1;
    const ends = isHopeless(error);
    if (ends && !isPageFailure(error)) return true;
    if (!ends && this.#failures < maxFailuresInARow) return false;
    // No range has worked yet. The server may not have ranges any more, and measuring shows that in fewer requests.
    if (this.#ports.trustsStored && this.#rangeFailure !== undefined) return true;
    try {
      await this.total(null);
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

  async #read(window: Window): Promise<readonly Window[]> {
    const { store, run, maxRecords, comparesRows } = this.#ports;
    if ((window.serverTotal ?? 0) - window.surplus > maxRecords) {
      const pieces = await this.#cut(window, window.serverTotal ?? 0);
      if (pieces.length > 0) return pieces;
    }
    const writer = new WalkWriter(store, run, window, comparesRows);
    const ports = { ...this.#ports, signal: this.#signal };
    let end: Awaited<ReturnType<typeof walkWindow>>;
    try {
      end = await walkWindow(ports, window, writer, {
        expected: window.serverTotal ?? 0,
        maxRecords: maxRecords + window.surplus,
      });
    } catch (error) {
      if (!(error instanceof TooLarge)) throw error;
      const pieces = await this.#cut(window, error.total);
      if (pieces.length > 0) return pieces;
      end = await walkWindow(ports, window, writer, { expected: error.total, maxRecords: Infinity });
    }
    this.#conclude(window, writer, end.walk, await this.#confirmed(window, end.walk, end.verdict));
    return [];
  }

  /** Doubts a surplus that was not known before. */
  async #confirmed(window: Window, walk: Walk, verdict: Verdict): Promise<Verdict> {
    if (verdict.kind === 'incomplete' || verdict.surplus <= window.surplus) return verdict;
    const { source, resource, profile } = this.#ports;
    const why = doubtOf(walk, await source.newest(resource, window, profile, this.#signal));
    return why === null
      ? verdict
      : { kind: 'incomplete', total: verdict.total, cause: 'list_contradicts_itself', why, isFinal: true };
  }

  #conclude(window: Window, writer: WalkWriter, walk: Walk, verdict: Verdict): void {
    const { store, run, resource, source, progress } = this.#ports;
    const days = `${window.from}..${window.to}`;
    if (writer.isTouched) {
      const detail = `rows of ${days} are not as they were read; they are compared with the server`;
      progress({ kind: 'notice', resource, text: detail });
      store.recordEvent(run, { resource, kind: 'rows_altered', subject: `${days} ${run}`, detail });
    }
    if (verdict.kind === 'incomplete') {
      if (walk.unreadable !== undefined) {
        store.recordEvent(run, { resource, kind: 'unreadable_records', subject: days, detail: walk.unreadable });
      }
      const leaveSo = (): void => this.#leave(window, verdict.total, verdict.cause, verdict.why);
      // An unreadable record may be among those that were not shown, so each of them is asked for.
      if (verdict.showsRest === true) this.#suspect(window, walk, false, leaveSo, leaveSo);
      else leaveSo();
      return;
    }
    const { total, asOf, surplus } = verdict;
    store.releaseUnseen(window, walk.ids);
    this.#suspect(window, walk, surplus === 0, () => {
      const end = { serverTotal: total, freshAsOf: byEarlierClock(asOf, source.serverAheadMs()), surplus };
      writer.settle(end);
      if (coverageOf(window) !== 'days') store.recordListSurplus(resource, surplus);
      this.#seal(window, { ...end, state: 'settled' });
      if (surplus === 0) return;
      const detail = `the server counts ${counted(surplus, 'record')} in ${days} that no page shows`;
      progress({ kind: 'notice', resource, text: detail });
      store.recordEvent(run, { resource, kind: 'totals_differ', subject: `${days} ${surplus}`, detail });
    });
  }

  /** Settles the window once it is decided which of the rows that the walk did not show are gone. */
  #suspect(
    window: Window,
    walk: Walk,
    isExact: boolean,
    settle: () => void,
    leave: Suspect['leave'] = (cause, problem) => this.#leave(window, null, cause, problem),
  ): void {
    const ids = this.#ports.store.unseenIds(window, walk.ids);
    if (ids.length === 0) return settle();
    this.#suspects.push({ window, ids, showedSome: walk.ids.size > 0, isExact, settle, leave });
  }

  #leave(window: Window, total: number | null, cause: WindowCause, problem: string): void {
    const { store, run, progress, resource } = this.#ports;
    store.leaveWindow(run, window, { serverTotal: total ?? window.serverTotal, cause, problem });
    progress({ kind: 'notice', resource, text: `${window.from}..${window.to}: ${problem}` });
  }

  /** Makes the part that has passed the grace period a window of its own, so that the next run need not read it. */
  #seal(window: Window, end: Pick<Window, 'state' | 'freshAsOf' | 'surplus'>): void {
    const { store, resource, seal } = this.#ports;
    const { from, to } = window;
    if (coverageOf(window) !== 'days' || !isOpen(window, seal) || from >= seal || end.surplus > 0) return;
    const pieces = [
      { from, to: seal },
      { from: seal, to },
    ].map((piece) => ({ ...piece, ...end, serverTotal: store.accountedCount(resource, piece) }));
    store.replaceWindows(resource, pieces);
  }

  /** Decides on the rows that were not shown. This waits until all windows were read: only then is it known how many would go. */
  async #removeAbsent(): Promise<void> {
    const { removal, trustsStored, signal, store, resource } = this.#ports;
    // If another window has shown the record meanwhile, under another creation time, the row is that window's now.
    const suspects = this.#suspects.splice(0).map((each) => {
      const held = new Set(store.unseenIds(each.window, new Set()));
      return { ...each, ids: each.ids.filter((id) => held.has(id)) };
    });
    for (const { ids, settle } of suspects) if (ids.length === 0) settle();
    try {
      await removal.decide(
        suspects.filter(({ ids }) => ids.length > 0),
        trustsStored,
      );
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof OperatorError) || error instanceof ContradictionError || isHopeless(error)) throw error;
      const walking = store.windows(resource).filter(({ state }) => state === 'walking');
      for (const window of walking) this.#leave(window, null, causeOf(error), error.message);
    }
  }

  /** Cuts the window in two, by what the server counts. Returns none if it cannot be cut. */
  async #cut(window: Window, total: number): Promise<readonly Window[]> {
    const { store, resource, source, profile } = this.#ports;
    this.#extent ??= source.extent(resource, profile, this.#signal);
    const at = splitDay(window, await this.#extent);
    if (at === undefined) return [];
    const before = await this.total({ from: window.from, to: at });
    // If one half seems to hold nearly everything, each total may be too large, and cutting would never end.
    if (before > total * nearlyAll) await this.#checkTotals();
    store.replaceWindows(resource, splitWindow({ ...window, serverTotal: total }, at, before));
    return store.windows(resource).filter(({ from, to }) => from >= window.from && to <= window.to);
  }
  /** Throws if the server counts records on days that have none. */
  async #checkTotals(): Promise<void> {
    this.#phantoms ??= this.total({ from: farDay, to: addDays(farDay, 1) });
    const phantoms = await this.#phantoms;
    if (phantoms === 0) return;
    throw wrongTotals(phantoms);
  }
}
