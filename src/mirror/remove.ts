/**
 * Removes rows that walks did not show, if the server proves that their records are gone: some of them are requested by
 * themselves, between records that are known to live. Section "Deletions" of docs/architecture.md.
 */
import { type DayRange, owns } from '../model/era.ts';
import type { RecordKey, ServedRecord } from '../model/records.ts';
import { resourceNames, type ResourceName } from '../model/resources.ts';
import { counted } from '../model/text.ts';
import { addDays, type Clock, type Day, minuteMs } from '../model/time.ts';
import type { StoredKnownRecord, Window, WindowCause } from '../store/mirror-types.ts';
import { type Answers, brakeOn, provenGone, suspectsToAsk, type Suspicion, whyLeft, wordsOf } from './deletions.ts';
import { ContradictionError } from './failures.ts';
import { idsOn, type MirrorPage } from './page.ts';
import type { Look } from './look.ts';
import { recordRows } from './rows.ts';
import type { MirrorStore } from './store/mirror-store.ts';

/** A control record is requested after this many suspects, or after this time. */
const batchSize = 20;
const batchMs = 30_000;

/** A moment by the wall clock, which can be set, and by the monotonic clock, which stands still while the machine sleeps. */
type Moment = readonly [wall: number, monotonic: number];

/** The time between two moments, by the clock that went further: evidence must never seem younger than it is. */
function msBetween([wall, monotonic]: Moment, [nextWall, nextMonotonic]: Moment): number {
  return Math.max(Math.abs(nextWall - wall), nextMonotonic - monotonic);
}

interface RemovalPorts {
  readonly run: string;
  readonly resource: ResourceName;
  readonly store: Pick<
    MirrorStore,
    'liveCount' | 'deleteRecords' | 'recordPages' | 'recordEvent' | 'knownRecords' | 'unseenIds'
  >;
  readonly clock: Clock;
  readonly look: (resource: ResourceName, id: RecordKey) => Promise<Look>;
  /** Reads the first page of the records of these days, requested as in a walk. */
  readonly readDays: (days: DayRange) => Promise<MirrorPage>;
  readonly allowDeletions: boolean;
  /** How many rows may go at once, if the operator has set it (`sync.brake`). */
  readonly brake: number | undefined;
  /** How many rows the run has removed so far. */
  readonly removed: { rows: number };
  /** Returns a number from 0 to 1, to choose suspects; `Math.random` by default. */
  readonly random?: () => number;
}

/** A suspicion, and what becomes of its window. */
export interface Suspect extends Suspicion {
  /** Records that the window's rows are those of the server. */
  readonly settle: () => void;
  /** Records why they may not be. */
  readonly leave: (cause: WindowCause, problem: string) => void;
}

/** The suspects of one window that are asked for. */
interface Inquiry {
  readonly suspect: Suspect;
  readonly asked: readonly RecordKey[];
  readonly answers: Answers;
}

const unproven = 'no record that is known to live was shown in the same minute, so nothing is taken for deleted';

/** The removals of one resource in one run. */
export class Removal {
  readonly #ports: RemovalPorts;

  constructor(ports: RemovalPorts) {
    this.#ports = ports;
  }

  /**
   * Removes the suspected rows that the server proves to be gone, and settles their windows. Throws if the server cannot be
   * reached, and a ContradictionError if the responses contradict a profile of an earlier run (`trustsStored`).
   */
  async decide(suspects: readonly Suspect[], trustsStored: boolean): Promise<void> {
    const ids = new Set(suspects.flatMap((each) => each.ids));
    if (ids.size === 0) return;
    const isEmpty = suspects.some(({ showedSome }) => !showedSome) && !(await this.#showsDays(ids));
    // The server may read ranges by another rule now, and may have shown other days than the requested ones.
    if (isEmpty && trustsStored) throw new ContradictionError('no range of days shows a record that is known to live');
    const empty = isEmpty ? suspects.filter(({ showedSome }) => !showedSome) : [];
    this.#refuse(empty);
    const going = await this.#unbraked(suspects.filter((each) => !empty.includes(each)));
    if (going.length === 0) return;
    const inquiries = going.map((suspect): Inquiry => {
      const asked = suspectsToAsk(suspect, this.#ports.random ?? Math.random);
      return { suspect, asked, answers: { absent: [], alive: [], moved: [], unclear: 0 } };
    });
    if (!(await this.#showsControl(ids))) return this.#refuse(going);
    const open = new Set(inquiries);
    try {
      await this.#ask(open, ids);
    } catch (error) {
      // What was proven until then is kept, so that the next run has less to ask.
      for (const { suspect, answers } of open) if (!suspect.isExact) await this.#remove(answers.absent);
      throw error;
    }
    const alive = inquiries.flatMap(({ answers }) => answers.alive);
    if (alive.length === 0 || !trustsStored) return;
    throw new ContradictionError(wordsOf(alive));
  }

  /** Returns those that the brake does not hold, or that were allowed. Leaves the windows of the others unsettled. */
  async #unbraked(suspects: readonly Suspect[]): Promise<readonly Suspect[]> {
    const { store, run, resource, allowDeletions, brake, removed } = this.#ports;
    if (allowDeletions) return suspects;
    const rows = (window?: Window) => store.liveCount(resource, window);
    const braked = brakeOn(suspects, { resource, brake, removed: removed.rows, rows });
    const advice =
      '`admin-mirror sync --allow-deletions` removes them, in as many runs as it takes; sync.brake allows that many in each run';
    const left = new Set<unknown>();
    for (const { held, problem } of braked) {
      const days = held.map(({ window }) => `${window.from}..${window.to}`)[0] ?? '';
      store.recordEvent(run, { resource, kind: 'deletions_refused', subject: `${days} ${run}`, detail: problem });
      for (const each of suspects) {
        if (!held.includes(each)) continue;
        left.add(each);
        each.leave('deletions_refused', `${problem} (${advice})`);
      }
    }
    return suspects.filter((each) => !left.has(each));
  }

  /** Leaves the windows unsettled, since nothing proves that their suspects are gone. */
  #refuse(suspects: readonly Suspect[]): void {
    if (suspects.length === 0) return;
    const { store, run, resource } = this.#ports;
    const rows = suspects.reduce((sum, { ids }) => sum + ids.length, 0);
    const detail = `${counted(rows, 'record was', 'records were')} not shown, and ${unproven}`;
    store.recordEvent(run, { resource, kind: 'absence_unproven', subject: run, detail });
    for (const { leave } of suspects) leave('deletions_unproven', detail);
  }

  /** Asks for the suspects, with control records in between, and decides on each window once all of its answers are known. */
  async #ask(open: Set<Inquiry>, ids: ReadonlySet<RecordKey>): Promise<void> {
    const { clock, look, resource } = this.#ports;
    const moment = (): Moment => [clock.now(), performance.now()];
    const queue = [...open].flatMap(({ suspect, asked, answers }) =>
      asked.map((id) => ({ window: suspect.window, answers, id })),
    );
    let absent: { readonly answers: Answers; readonly id: RecordKey; readonly at: Moment }[] = [];
    // One at a time: they are few, and a failing response ends it.
    for (const [index, { window, answers, id }] of queue.entries()) {
      const found = await look(resource, id);
      if (found.kind === 'found') {
        if (owns(window, found.record['created_at'])) answers.alive.push(id);
        else answers.moved.push(found.record);
      } else if (found.kind === 'unknown') answers.unclear += 1;
      else absent.push({ answers, id, at: moment() });
      const [first] = absent;
      const isFull = absent.length >= batchSize || (first !== undefined && msBetween(first.at, moment()) > batchMs);
      if (first !== undefined && (isFull || index === queue.length - 1)) {
        if (!(await this.#showsControl(ids))) return this.#refuse([...open].map(({ suspect }) => suspect));
        const now = moment();
        for (const each of absent) {
          if (msBetween(each.at, now) <= minuteMs) each.answers.absent.push(each.id);
          else each.answers.unclear += 1;
        }
        absent = [];
      }
      for (const inquiry of open) {
        const { absent: gone, alive, moved, unclear } = inquiry.answers;
        if (gone.length + alive.length + moved.length + unclear < inquiry.asked.length) continue;
        open.delete(inquiry);
        await this.#close(inquiry);
      }
    }
  }

  async #close({ suspect, answers }: Inquiry): Promise<void> {
    this.#move(suspect.window, answers.moved);
    await this.#remove(provenGone(suspect, answers));
    const problem = whyLeft(suspect, answers);
    if (problem === null) suspect.settle();
    else suspect.leave('list_contradicts_itself', problem);
  }

  /** Writes records that are not the window's, as the server showed them: their rows are then those of another window. */
  #move(window: Window, records: readonly ServedRecord[]): void {
    if (records.length === 0) return;
    const { store, run, resource } = this.#ports;
    const rows = { ...recordRows(resource, records), keptOut: [], related: [] };
    store.recordPages(run, window, [{ rows, received: records.length }]);
  }

  async #remove(ids: readonly RecordKey[]): Promise<void> {
    if (ids.length === 0) return;
    const { store, run, resource, removed } = this.#ports;
    store.deleteRecords(run, resource, ids);
    removed.rows += ids.length;
  }

  /** Rows that are not suspected, so known to live: some of the newest, then some of the oldest. */
  #controls(resource: ResourceName, suspects: ReadonlySet<RecordKey>): StoredKnownRecord[] {
    const { store } = this.#ports;
    const suspected = resource === this.#ports.resource ? suspects : new Set<RecordKey>();
    const count = Math.min(suspected.size, 1_000) + 2;
    const rows = [...store.knownRecords(resource, 'newest', count), ...store.knownRecords(resource, 'oldest', count)];
    return rows.filter(({ id }) => !suspected.has(id));
  }

  /** Whether the server shows a record that is known to live, requested in the same way as the suspects. */
  async #showsControl(suspects: ReadonlySet<RecordKey>): Promise<boolean> {
    const { resource, look, allowDeletions } = this.#ports;
    let controls = this.#controls(resource, suspects).map(({ id }) => ({ resource, id }));
    if (controls.length === 0 && allowDeletions) {
      // The operator allows the resource to become empty. Then a record of another resource must show that the server works.
      const others = resourceNames.filter((name) => name !== resource);
      controls = others.flatMap((name) => this.#controls(name, suspects).map(({ id }) => ({ resource: name, id })));
      if (controls.length === 0) return true;
    }
    for (const control of newestAndOldest(controls)) {
      if ((await look(control.resource, control.id)).kind === 'found') return true;
    }
    return false;
  }

  /** Whether a day on which a live record was created shows one that is not suspected, requested as in a walk. */
  async #showsDays(suspects: ReadonlySet<RecordKey>): Promise<boolean> {
    const { resource, store, readDays, allowDeletions } = this.#ports;
    const controls = this.#controls(resource, suspects);
    if (controls.length === 0) return allowDeletions;
    for (const control of newestAndOldest(controls)) {
      const from = control.createdAt.slice(0, 10) as Day;
      const days = { from, to: addDays(from, 1) };
      const known = new Set(store.unseenIds({ resource, ...days }, suspects));
      if (idsOn(await readDays(days)).some((id) => known.has(id))) return true;
    }
    return false;
  }
}

/** Of records from the newest to the oldest, those at the ends: the newest may have been deleted just now, but hardly an old one as well. */
function newestAndOldest<T>(controls: readonly T[]): T[] {
  return [...new Set([...controls.slice(0, 1), ...controls.slice(-1)])];
}
