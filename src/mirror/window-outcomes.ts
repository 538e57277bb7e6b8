/** Records how the reading of windows ended: settled, sealed, or unsettled with the reason; and removes rows that are gone. */
import { countOf } from '../api/narrow.ts';
import { coverageOf, type DayRange } from '../model/era.ts';
import { OperatorError } from '../model/errors.ts';
import { timestampOf } from '../model/time.ts';
import type { Window } from '../store/mirror-types.ts';
import { ContradictionError, isHopeless } from './failures.ts';
import type { Suspicion } from './reconcile.ts';
import { byEarlierClock } from './server-check.ts';
import { surplusWords } from './surplus.ts';
import { problemOf, type Verdict } from './walk.ts';
import type { PageMemory } from './window-pages.ts';
import type { VisitPorts } from './window-visitor.ts';
import { isOpen } from './plan.ts';

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
    this.settle({ window, ids: store.unseenIds(window, seen), showedSome: seen.size > 0 }, () => {
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
