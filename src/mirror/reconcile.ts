/**
 * Removes rows that a walk or a search did not show, if the server proves that their records are gone: they are requested by
 * themselves, beside a record that is known to live. Many rows never go at once. Section "Deletions" of docs/architecture.md.
 */
import type { RecordKey } from '../model/records.ts';
import { counted } from '../model/text.ts';
import type { DayRange } from '../model/era.ts';
import { resourceNames, type ResourceName } from '../model/resources.ts';
import { addDays, minuteMs, type Clock, type Day } from '../model/time.ts';
import type { StoredKnownRecord, Window } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';
import { idsOn, type MirrorPage } from './page.ts';
import { ContradictionError } from './failures.ts';
import type { Look } from './server-contact.ts';

/** The brake: how many rows may go at once without --allow-deletions. The larger of a number and a share counts. */
const brakeRows = 50;
const brakeShare = 0.2;
/** A window with at most this many rows may lose all of them. */
const fewRows = 10;

/** A control record is requested after this many suspects, or after this time. */
const batchSize = 20;
/** So many suspects of a window are requested if its pages showed exactly as many records as its total counts. */
const sampleSize = 20;
const batchMs = 30_000;
/** How often a suspect is requested until a control record is shown within the same minute. */
const maxTries = 3;

/** The answer to whether rows that the brake holds may go, if another person must approve that. */
interface RemovalPermit {
  /** Why they may not go, and what to do; null if they may. */
  readonly refusal: string | null;
  /** Uses the approval up, before the first row goes. Throws an OperatorError if it is no longer valid. */
  readonly use: () => Promise<void>;
}
export type RequestPermit = (resource: ResourceName, ids: readonly RecordKey[]) => Promise<RemovalPermit>;

/** A moment by the wall clock, which can be set, and by the monotonic clock, which stands still while the machine sleeps. */
type Moment = readonly [wall: number, monotonic: number];

/** The time between two moments, by the clock that went further: evidence must never seem younger than it is. */
function msBetween([wall, monotonic]: Moment, [nextWall, nextMonotonic]: Moment): number {
  return Math.max(Math.abs(nextWall - wall), nextMonotonic - monotonic);
}

interface RemovalPorts {
  readonly run: string;
  readonly resource: ResourceName;
  readonly store: Pick<MirrorStore, 'liveCount' | 'deleteRecords' | 'recordEvent' | 'knownRecords' | 'unseenIds'>;
  readonly clock: Clock;
  readonly look: (resource: ResourceName, id: RecordKey) => Promise<Look>;
  /** Reads the first page of the records of these days, requested as in a walk. */
  readonly readDays: (days: DayRange) => Promise<MirrorPage>;
  readonly allowDeletions: boolean;
  /** Not given if nobody has to approve removals beyond the brake. */
  readonly requestPermit?: RequestPermit | undefined;
  /** How many rows may go at once, if the operator has set it (`sync.brake`). */
  readonly brake: number | undefined;
  /** How many rows the run has removed so far. */
  readonly removed: { rows: number };
  /** Returns a number from 0 to 1, to choose suspects; `Math.random` by default. */
  readonly random?: () => number;
}

interface DayPorts {
  readonly resource: ResourceName;
  readonly store: Pick<MirrorStore, 'unseenIds'>;
  readonly readDays: RemovalPorts['readDays'];
}

/** A window that was read whole and did not show all of its rows. */
export interface Suspicion {
  readonly window: Window;
  readonly ids: readonly RecordKey[];
  readonly showedSome: boolean;
  /** Whether its total counted exactly the records that it showed. Then a few suspects speak for all. */
  readonly addsUp?: boolean;
  /** Whether the window has records that no page can show, so that a suspect may be one of them. */
  readonly hides?: boolean;
  /** Records that the window's rows are those of the server. */
  readonly settle: () => void;
  /** Records why they may not be. */
  readonly leave: (problem: string) => void;
}

/** What was found out so far about the suspects of one window. */
interface Case extends Suspicion {
  /** The suspects to request: all of them, or some at random. */
  readonly asked: readonly RecordKey[];
  readonly absent: RecordKey[];
  alive: number;
  unclear: number;
}

/** A suspect to request. */
interface Lookup {
  readonly suspected: Case;
  readonly id: RecordKey;
  /** How often it was requested before. */
  readonly tried: number;
}

/** Suspicions that the brake holds: so many rows of so many would go. */
interface Braked {
  readonly held: readonly Suspicion[];
  readonly rows: number;
  readonly of: string;
}

const unproven = 'no record that is known to live was shown in the same minute, so nothing is taken for deleted';

/** The removals of one resource in one run. */
export class Removal {
  readonly #ports: RemovalPorts;
  /** The approval to go beyond the brake; the first removal uses it up. */
  #permit: RemovalPermit | null = null;

  constructor(ports: RemovalPorts) {
    this.#ports = ports;
  }

  /**
   * Removes the suspected rows that the server proves to be gone, and settles their windows. Throws if the server cannot be
   * reached, and a ContradictionError if the responses contradict capabilities of an earlier run (`trustsStored`).
   */
  async decide(suspicions: readonly Suspicion[], trustsStored: boolean): Promise<void> {
    const suspects = new Set(suspicions.flatMap(({ ids }) => ids));
    if (suspects.size === 0) return;
    const isEmpty = suspicions.some(({ showedSome }) => !showedSome) && !(await this.#showsDays(suspects));
    // The server may read ranges by another rule now, and may have shown other days than the requested ones.
    if (isEmpty && trustsStored) throw new ContradictionError('no range of days shows a record that is known to live');
    const empty = isEmpty ? suspicions.filter(({ showedSome }) => !showedSome) : [];
    if (isEmpty) this.#refuse(empty);
    const going = await this.#unbraked(suspicions.filter((each) => !empty.includes(each)));
    const cases = going.map((each): Case => ({
      ...each,
      asked: each.addsUp ? sampleOf(each.ids, this.#ports.random ?? Math.random) : each.ids,
      absent: [],
      alive: 0,
      unclear: 0,
    }));
    if (cases.length === 0) return;
    const open = new Set(cases);
    try {
      if (await this.#showsControl(suspects)) await this.#requestEach(open, suspects);
      else this.#refuse(cases);
    } catch (error) {
      // What was proven until then is kept, so that the next run has less to request.
      for (const each of open) if (each.asked === each.ids) await this.#remove(each.absent);
      throw error;
    }
    const alive = cases.reduce((sum, each) => sum + (each.hides ? 0 : each.alive), 0);
    if (alive === 0 || !trustsStored) return;
    throw new ContradictionError(`the pages did not show ${counted(alive, 'record')} that the server still has`);
  }

  /**
   * Returns the suspicions that the brake does not hold, or that were allowed or approved. Leaves the windows of the others
   * unsettled.
   */
  async #unbraked(suspicions: readonly Suspicion[]): Promise<readonly Suspicion[]> {
    const { resource, allowDeletions, requestPermit } = this.#ports;
    this.#permit = null;
    if (allowDeletions && requestPermit === undefined) return suspicions;
    const braked = this.#braked(suspicions);
    let advice = '--allow-deletions removes them once; sync.brake allows that many in each run';
    if (allowDeletions && requestPermit !== undefined && braked.length > 0) {
      const ids = braked.flatMap(({ held }) => held.flatMap((each) => each.ids));
      const permit = await requestPermit(resource, ids);
      if (permit.refusal === null) {
        this.#permit = permit;
        return suspicions;
      }
      advice = permit.refusal;
    }
    for (const each of braked) this.#hold(each, advice);
    const left = new Set(braked.flatMap(({ held }) => held));
    return suspicions.filter((each) => !left.has(each));
  }

  /** What the brake holds: windows that would lose too many rows, and all the others if the resource would. */
  #braked(suspicions: readonly Suspicion[]): Braked[] {
    const { store, resource, brake, removed } = this.#ports;
    const isTooMany = (rows: number, of: number) => rows > Math.max(brake ?? brakeRows, of * brakeShare);
    const braked = suspicions.flatMap((each) => {
      const rows = each.ids.length;
      const live = store.liveCount(resource, each.window);
      if (!isTooMany(rows, live) && (rows < live || rows <= (brake ?? fewRows))) return [];
      const of = `${counted(live, 'record')} created in ${each.window.from}..${each.window.to}`;
      return [{ held: [each], rows, of }];
    });
    const held = new Set(braked.flatMap((each) => each.held));
    const going = suspicions.filter((each) => !held.has(each));
    const rows = going.reduce((sum, { ids }) => sum + ids.length, 0);
    const live = store.liveCount(resource);
    if (rows === 0 || (!isTooMany(removed.rows + rows, removed.rows + live) && rows < live)) return braked;
    return [...braked, { held: going, rows, of: `${live} ${resource}` }];
  }

  #hold({ held, rows, of }: Braked, advice: string): void {
    const { store, run, resource } = this.#ports;
    const detail = `${rows} of ${of} would be removed; nothing was`;
    const days = held.map(({ window }) => `${window.from}..${window.to}`)[0] ?? '';
    store.recordEvent(run, { resource, kind: 'deletions_refused', subject: `${days} ${run}`, detail });
    for (const { leave } of held) leave(`${detail} (${advice})`);
  }

  /** Leaves the windows unsettled, since nothing proves that their suspects are gone. */
  #refuse(cases: readonly Suspicion[]): void {
    const { store, run, resource } = this.#ports;
    const rows = cases.reduce((sum, { ids }) => sum + ids.length, 0);
    const detail = `${counted(rows, 'record was', 'records were')} not shown, and ${unproven}`;
    store.recordEvent(run, { resource, kind: 'absence_unproven', subject: run, detail });
    for (const { leave } of cases) leave(detail);
  }

  /** Requests each suspect, with control records in between, and decides on each window once all of its suspects are known. */
  async #requestEach(open: Set<Case>, suspects: ReadonlySet<RecordKey>): Promise<void> {
    const { clock, look, resource } = this.#ports;
    const moment = (): Moment => [clock.now(), performance.now()];
    const queue = [...open].flatMap((suspected) => suspected.asked.map((id): Lookup => ({ suspected, id, tried: 0 })));
    let absent: (Lookup & { readonly at: Moment })[] = [];
    // One at a time: they are few, and a failing response ends it.
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const { kind } = await look(resource, next.id);
      if (kind === 'found') next.suspected.alive += 1;
      else if (kind === 'unknown') next.suspected.unclear += 1;
      else absent.push({ ...next, at: moment() });
      const [first] = absent;
      const isFull = absent.length >= batchSize || (first !== undefined && msBetween(first.at, moment()) > batchMs);
      if (absent.length > 0 && (isFull || queue.length === 0)) {
        if (!(await this.#showsControl(suspects))) {
          this.#refuse([...open]);
          return;
        }
        const now = moment();
        for (const { suspected, id, tried, at } of absent) {
          if (msBetween(at, now) <= minuteMs) suspected.absent.push(id);
          else if (tried + 1 < maxTries) queue.push({ suspected, id, tried: tried + 1 });
          else suspected.unclear += 1;
        }
        absent = [];
      }
      for (const each of open) {
        if (each.absent.length + each.alive + each.unclear < each.asked.length) continue;
        open.delete(each);
        await this.#close(each);
      }
    }
  }

  /** Removes the absent rows of a window and settles it, or leaves it unsettled. If only some were requested, all or none go. */
  async #close({ ids, asked, absent, alive, unclear, hides, settle, leave }: Case): Promise<void> {
    if (asked === ids) await this.#remove(absent);
    else if (absent.length === asked.length) await this.#remove(ids);
    if (hides) settle();
    else if (alive > 0) leave(`the pages did not show ${counted(alive, 'record')} that the server still has`);
    else if (unclear > 0)
      leave(`the pages did not show ${counted(unclear, 'record')} that the server neither shows nor denies to have`);
    else settle();
  }

  async #remove(ids: readonly RecordKey[]): Promise<void> {
    if (ids.length === 0) return;
    const { store, run, resource, removed } = this.#ports;
    const permit = this.#permit;
    this.#permit = null;
    await permit?.use();
    store.deleteRecords(run, resource, ids);
    removed.rows += ids.length;
  }

  #controls(resource: ResourceName, suspects: ReadonlySet<RecordKey>): StoredKnownRecord[] {
    return controlsOf(this.#ports.store, resource, resource === this.#ports.resource ? suspects : new Set());
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
    // The newest may have been deleted just now, but hardly an old one as well.
    for (const control of [controls[0], controls.at(-1)]) {
      if (control !== undefined && (await look(control.resource, control.id)).kind === 'found') return true;
    }
    return false;
  }

  /** Whether a day on which a live record was created shows one, requested as in a walk. */
  async #showsDays(suspects: ReadonlySet<RecordKey>): Promise<boolean> {
    const { resource, allowDeletions } = this.#ports;
    const [control] = this.#controls(resource, suspects);
    return control === undefined ? allowDeletions : showsDayOf(this.#ports, control, suspects);
  }
}

/** Returns the ids, or some at random if they are many. */
function sampleOf(ids: readonly RecordKey[], random: () => number): readonly RecordKey[] {
  if (ids.length <= sampleSize) return ids;
  const left = [...ids];
  return Array.from({ length: sampleSize }, () => left.splice(Math.floor(random() * left.length), 1)).flat();
}

/** Returns rows that are not suspected, so known to live: some of the newest, then some of the oldest. */
export function controlsOf(
  store: Pick<MirrorStore, 'knownRecords'>,
  resource: ResourceName,
  suspects: ReadonlySet<RecordKey>,
): StoredKnownRecord[] {
  const count = Math.min(suspects.size, 1_000) + 2;
  const rows = [...store.knownRecords(resource, 'newest', count), ...store.knownRecords(resource, 'oldest', count)];
  return rows.filter(({ id }) => !suspects.has(id));
}

/** Whether the first page of the day on which the control record was created shows any row that is not suspected. */
export async function showsDayOf(
  { store, resource, readDays }: DayPorts,
  control: StoredKnownRecord,
  suspects: ReadonlySet<RecordKey>,
): Promise<boolean> {
  const from = control.createdAt.slice(0, 10) as Day;
  const days = { from, to: addDays(from, 1) };
  const known = new Set(store.unseenIds({ resource, ...days }, suspects));
  return idsOn(await readDays(days)).some((id) => known.has(id));
}
