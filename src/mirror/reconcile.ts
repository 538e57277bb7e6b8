/**
 * Deletions: rows that a walk or a search did not show. It takes a record that is known to live, shown in the same minute by a
 * request of the same shape; and many rows never go at once. Section "Deletions" of docs/architecture.md.
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

/** Rows that may go at once without --allow-deletions: the larger of a number and a share. */
const brakeRows = 50;
const brakeShare = 0.2;
/** A window of no more rows may lose all of them. */
const fewRows = 10;

/** Records that are requested before a control record is, and how long that may take. */
const batchSize = 20;
const batchMs = 30_000;
/** Times that a record is requested until a control record is shown in the same minute. */
const tries = 3;

/** Whether rows that the brake holds may go, where another person must approve that. */
interface RemovalPermit {
  /** Why not, and what to do, in words; null where they may. */
  readonly refusal: string | null;
  /** Called before the first of them goes. Throws an OperatorError where it holds no longer. */
  readonly use: () => Promise<void>;
}
export type RequestPermit = (resource: ResourceName, ids: readonly RecordKey[]) => Promise<RemovalPermit>;

/** When something was seen, by the clock and by one that nobody sets: it stands still while the machine sleeps. */
type Moment = readonly [wall: number, monotonic: number];

/** By the clock that went further, forward or back: evidence is never taken for younger than it may be. */
function msBetween([wall, monotonic]: Moment, [nextWall, nextMonotonic]: Moment): number {
  return Math.max(Math.abs(nextWall - wall), nextMonotonic - monotonic);
}

interface RemovalPorts {
  readonly run: string;
  readonly resource: ResourceName;
  readonly store: Pick<MirrorStore, 'liveCount' | 'deleteRecords' | 'recordEvent' | 'knownRecords' | 'unseenIds'>;
  readonly clock: Clock;
  readonly look: (resource: ResourceName, id: RecordKey) => Promise<Look>;
  /** The first page of the records of these days, requested as walks do. */
  readonly readDays: (days: DayRange) => Promise<MirrorPage>;
  readonly allowDeletions: boolean;
  /** Not given where nobody has to approve what goes past the brake. */
  readonly requestPermit?: RequestPermit | undefined;
  /** Rows that may go at once, where the operator says how many (`sync.brake`). */
  readonly brake: number | undefined;
  readonly removed: { rows: number };
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
  /** Whether there are records that no page shows, so that a suspect may be one of them. */
  readonly hides?: boolean;
  /** Puts on record that the window's rows are those of the server. */
  readonly settle: () => void;
  /** Puts on record why they may not be. */
  readonly leave: (problem: string) => void;
}

/** What was found out about the suspects of one window. */
interface Case extends Suspicion {
  readonly absent: RecordKey[];
  alive: number;
  unclear: number;
}

const unproven = 'no record that is known to live was shown in the same minute, so nothing is taken for deleted';

/** The removals of one resource in one run. */
export class Removal {
  readonly #ports: RemovalPorts;
  /** Used up by the first row that goes. */
  #permit: RemovalPermit | null = null;

  constructor(ports: RemovalPorts) {
    this.#ports = ports;
  }

  /**
   * Removes the suspected rows that the server proves to have no longer, and settles their windows. Throws what keeps the server from
   * being reached, and a ContradictionError where it has what capabilities of an earlier run (`trustsStored`) rule out.
   */
  async decide(suspicions: readonly Suspicion[], trustsStored: boolean): Promise<void> {
    const suspects = new Set(suspicions.flatMap(({ ids }) => ids));
    if (suspects.size === 0) return;
    const isEmpty = suspicions.some(({ showedSome }) => !showedSome) && !(await this.#showsDays(suspects));
    // The server may follow another rule by now, under which the days that were requested are others.
    if (isEmpty && trustsStored) throw new ContradictionError('no range of days shows a record that is known to live');
    const empty = isEmpty ? suspicions.filter(({ showedSome }) => !showedSome) : [];
    if (isEmpty) this.#refuse(empty);
    const going = await this.#unbraked(suspicions.filter((each) => !empty.includes(each)));
    const cases = going.map((each): Case => ({ ...each, absent: [], alive: 0, unclear: 0 }));
    if (cases.length === 0) return;
    if (await this.#showsControl(suspects)) await this.#requestOne(new Set(cases), suspects);
    else this.#refuse(cases);
    const alive = cases.reduce((sum, each) => sum + (each.hides ? 0 : each.alive), 0);
    if (alive === 0 || !trustsStored) return;
    throw new ContradictionError(`the pages did not show ${counted(alive, 'record')} that the server still has`);
  }

  /** The suspicions that may go: no brake holds them, or it is let go of. The others are left. */
  async #unbraked(suspicions: readonly Suspicion[]): Promise<readonly Suspicion[]> {
    const { resource, allowDeletions, requestPermit } = this.#ports;
    this.#permit = null;
    if (allowDeletions && requestPermit === undefined) return suspicions;
    const braked = this.#braked(suspicions);
    let advice = '--allow-deletions lets them go once, sync.brake as many each time';
    if (allowDeletions && requestPermit !== undefined && braked.length > 0) {
      const permit = await requestPermit(
        resource,
        braked.flatMap(({ held }) => held.flatMap(({ ids }) => ids)),
      );
      if (permit.refusal === null) {
        this.#permit = permit;
        return suspicions;
      }
      advice = permit.refusal;
    }
    for (const { held, rows, of } of braked) this.#hold(held, rows, of, advice);
    const left = new Set(braked.flatMap(({ held }) => held));
    return suspicions.filter((each) => !left.has(each));
  }

  /** What the brake holds: windows that would lose too much, then all the others where the resource would. */
  #braked(suspicions: readonly Suspicion[]): { readonly held: readonly Suspicion[]; rows: number; of: string }[] {
    const { store, resource, brake, removed } = this.#ports;
    const isMuch = (rows: number, of: number) => rows > Math.max(brake ?? brakeRows, of * brakeShare);
    const braked = suspicions.flatMap((each) => {
      const rows = each.ids.length;
      const live = store.liveCount(resource, each.window);
      if (!isMuch(rows, live) && (rows < live || rows <= (brake ?? fewRows))) return [];
      return [
        { held: [each], rows, of: `${counted(live, 'record')} created in ${each.window.from}..${each.window.to}` },
      ];
    });
    const held = new Set(braked.flatMap((each) => each.held));
    const going = suspicions.filter((each) => !held.has(each));
    const rows = going.reduce((sum, { ids }) => sum + ids.length, 0);
    const live = store.liveCount(resource);
    if (rows === 0 || (!isMuch(removed.rows + rows, removed.rows + live) && rows < live)) return braked;
    return [...braked, { held: going, rows, of: `${live} ${resource}` }];
  }

  #hold(held: readonly Suspicion[], rows: number, of: string, advice: string): void {
    const { store, run, resource } = this.#ports;
    const detail = `${rows} of ${of} would be removed; nothing was`;
    const days = held.map(({ window }) => `${window.from}..${window.to}`)[0] ?? '';
    store.recordEvent(run, { resource, kind: 'deletions_refused', subject: `${days} ${run}`, detail });
    for (const { leave } of held) leave(`${detail} (${advice})`);
  }

  #refuse(cases: readonly Suspicion[]): void {
    const { store, run, resource } = this.#ports;
    const rows = cases.reduce((sum, { ids }) => sum + ids.length, 0);
    const detail = `${counted(rows, 'record was', 'records were')} not shown, and ${unproven}`;
    store.recordEvent(run, { resource, kind: 'absence_unproven', subject: run, detail });
    for (const { leave } of cases) leave(detail);
  }

  /** Requests each suspect, and for a control record between them, and deals with each window once all is known. */
  async #requestOne(open: Set<Case>, suspects: ReadonlySet<RecordKey>): Promise<void> {
    const { clock, look, resource } = this.#ports;
    const moment = (): Moment => [clock.now(), performance.now()];
    const queue = [...open].flatMap((each) => each.ids.map((id) => ({ each, id, tried: 0 })));
    let absent: ((typeof queue)[number] & { readonly at: Moment })[] = [];
    // One at a time: a handful of records, and a response that fails ends it.
    for (let requested = queue.shift(); requested !== undefined; requested = queue.shift()) {
      const { kind } = await look(resource, requested.id);
      if (kind === 'found') requested.each.alive += 1;
      else if (kind === 'unknown') requested.each.unclear += 1;
      else absent.push({ ...requested, at: moment() });
      const [first] = absent;
      const isFull = absent.length >= batchSize || (first !== undefined && msBetween(first.at, moment()) > batchMs);
      if (absent.length > 0 && (isFull || queue.length === 0)) {
        if (!(await this.#showsControl(suspects))) {
          this.#refuse([...open]);
          return;
        }
        const now = moment();
        for (const { each, id, tried, at } of absent) {
          if (msBetween(at, now) <= minuteMs) each.absent.push(id);
          else if (tried + 1 < tries) queue.push({ each, id, tried: tried + 1 });
          else each.unclear += 1;
        }
        absent = [];
      }
      for (const each of open) {
        if (each.absent.length + each.alive + each.unclear < each.ids.length) continue;
        open.delete(each);
        await this.#close(each);
      }
    }
  }

  async #close({ absent, alive, unclear, hides, settle, leave }: Case): Promise<void> {
    const { store, run, resource, removed } = this.#ports;
    if (absent.length > 0) {
      const permit = this.#permit;
      this.#permit = null;
      await permit?.use();
      store.deleteRecords(run, resource, absent);
    }
    removed.rows += absent.length;
    if (hides) settle();
    else if (alive > 0) leave(`the pages did not show ${counted(alive, 'record')} that the server still has`);
    else if (unclear > 0)
      leave(`the pages did not show ${counted(unclear, 'record')} that the server neither shows nor denies to have`);
    else settle();
  }

  /** Rows that are not suspected, newest and oldest first. */
  #controls(resource: ResourceName, suspects: ReadonlySet<RecordKey>): StoredKnownRecord[] {
    return controlsOf(this.#ports.store, resource, resource === this.#ports.resource ? suspects : new Set());
  }

  /** Whether a record that is known to live is shown, requested as the suspects are. */
  async #showsControl(suspects: ReadonlySet<RecordKey>): Promise<boolean> {
    const { resource, look, allowDeletions } = this.#ports;
    let controls = this.#controls(resource, suspects).map(({ id }) => ({ resource, id }));
    if (controls.length === 0 && allowDeletions) {
      // The operator says that the resource may become empty: then others must show that the server is itself.
      const others = resourceNames.filter((name) => name !== resource);
      controls = others.flatMap((name) => this.#controls(name, suspects).map(({ id }) => ({ resource: name, id })));
      if (controls.length === 0) return true;
    }
    // The newest may have been deleted just now; the one beside it hardly, too.
    for (const control of [controls[0], controls.at(-1)]) {
      if (control !== undefined && (await look(control.resource, control.id)).kind === 'found') return true;
    }
    return false;
  }

  /** Whether days on which records are known to have been created show one, requested as walks do. */
  async #showsDays(suspects: ReadonlySet<RecordKey>): Promise<boolean> {
    const { resource, allowDeletions } = this.#ports;
    const [control] = this.#controls(resource, suspects);
    return control === undefined ? allowDeletions : showsDayOf(this.#ports, control, suspects);
  }
}

/** Rows of the resource that are not suspected, newest and oldest first: they are known to live. */
export function controlsOf(
  store: Pick<MirrorStore, 'knownRecords'>,
  resource: ResourceName,
  suspects: ReadonlySet<RecordKey>,
): StoredKnownRecord[] {
  const count = Math.min(suspects.size, 1_000) + 2;
  const rows = [...store.knownRecords(resource, 'newest', count), ...store.knownRecords(resource, 'oldest', count)];
  return rows.filter(({ id }) => !suspects.has(id));
}

/** Whether the first page of the day on which the control record was created shows a row that is not suspected. */
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
