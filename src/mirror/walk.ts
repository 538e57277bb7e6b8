/**
 * Reading one window whole, from its last page to its first: a deletion moves records towards pages that are still to come, where
 * reading forward would lose them. Section "Windows and walks" of docs/architecture.md.
 */
import type { RecordKey } from '../model/records.ts';
import { counted } from '../model/text.ts';
import type { Unreadable } from '../api/envelope.ts';
import { countOf, describeUnreadable } from '../api/narrow.ts';
import { lastByTotal, lastShown, type ReadPageAt } from './list-end.ts';
import { createdAtOn, entriesOn, idsOn, type MirrorPage } from './page.ts';
import { type Clock, secondMs, type Timestamp, timestampOf } from '../model/time.ts';

/** What a walk requests and where it puts what it gets. */
export interface WalkPorts {
  readonly clock: Clock;
  /** Records that are requested on a page. */
  readonly pageSize: number;
  /** What the server counted in the window when it was last counted; null where it never was. */
  readonly expected: number | null;
  /** By how much the total was too large when the window was last settled, below 0 too small; 0 where it was right. */
  readonly surplus: number;
  /** How many records totals count past the last page that shows any, as far as is known. */
  readonly past: number;
  /** Whether the server keeps to the order requested. */
  readonly isOrdered: boolean;
  readonly read: ReadPageAt;
  /** Keeps a page's records and the window's progress in one step. */
  readonly record: (page: MirrorPage, seen: ReadonlySet<RecordKey>) => RecordedPage;
  /** Takes note of how many records this way through the pages has shown so far. */
  readonly show?: (records: number) => void;
}

/** What could not be kept of a page. */
interface RecordedPage {
  /** Records without a usable id, or of another resource. */
  readonly unusable: number;
  /** Ids of records that are not the ones that came under them before. */
  readonly twins: readonly RecordKey[];
}

/** What passes over a list that held still have shown together. */
interface Shown {
  readonly seen: ReadonlySet<RecordKey>;
  readonly startedAt: Timestamp;
  readonly perPage: number;
  /** Records on the fullest page. */
  readonly fullest: number;
  readonly passes: number;
  /** Whether the passes have shown different records, none of them all, and that not for a record that came twice. */
  readonly isCut: boolean;
  /** Whether a record came on two pages of one pass: then the order may have hidden another. */
  readonly crossing: boolean;
  readonly isOrdered: boolean;
  /** Passes in a row that have shown nothing new. */
  readonly idle: number;
  /** Where the list was found to end by the latest of them. */
  readonly end: End;
}

/** Where a list was found to end. */
interface End {
  /** How many records the total counts past it. */
  readonly past: number;
  /** Whether that was seen in this run, rather than taken from what is known. */
  readonly isSure: boolean;
}

export type Verdict =
  /**
   * Every record that the server shows in the window was seen, unless it was deleted after `startedAt`. `surplus`: how
   * many more its total counts than its pages show, however often they are read; below 0 where it counts fewer. `past`:
   * how many of these it counts past the list's end. `isCut`: whether each way through its pages left out others.
   */
  | {
      readonly kind: 'settled';
      readonly total: number;
      readonly seen: ReadonlySet<RecordKey>;
      readonly startedAt: Timestamp;
      readonly surplus: number;
      readonly past: number;
      readonly isCut: boolean;
    }
  /** The same but for records that no page shows: all others were seen. */
  | {
      readonly kind: 'damaged';
      readonly total: number;
      readonly seen: ReadonlySet<RecordKey>;
      readonly problem: string;
      readonly unreadable: readonly Unreadable[];
    }
  /** `problem`: why it cannot be read as it is. */
  | { readonly kind: 'large'; readonly total: number; readonly problem?: string }
  /** Some of its records cannot be kept, however often they are read. */
  | { readonly kind: 'unusable'; readonly total: number; readonly problem: string }
  /** `shown`: what was seen where all pages gave one total; without it, there is nothing to go on with. */
  | {
      readonly kind: 'unstable';
      readonly total: number;
      readonly problem: string;
      readonly shown?: Shown;
      /** Records on the smaller page, where pages of two sizes came. */
      readonly perPage?: number;
      /** Ids under which two records came; the windows that cutting makes would each show one and seem settled. */
      readonly twins?: readonly RecordKey[];
    };

type Unstable = Extract<Verdict, { kind: 'unstable' }>;

/** What `isCut` means, in words. */
export const cutWords = 'its pages leave out records, others at each size of page';

/** Why a window is not settled, in words. */
export function problemOf(verdict: Exclude<Verdict, { kind: 'settled' }>): string {
  return verdict.problem ?? 'it is too large to be read';
}

/** A page without its records: those of a page that was kept must not stay in memory for the rest of the walk. */
type Size = Pick<MirrorPage, 'total' | 'lastPage' | 'perPage'> & { readonly entries: number };

/** What one way through the pages has shown, from the list's end on. */
class Pass {
  readonly #ports: WalkPorts;
  readonly #startedAt: number;
  readonly #seen = new Set<RecordKey>();
  readonly #unreadable: Unreadable[] = [];
  /** How old the oldest page was when it came, out of a cache in front of the server, ms. */
  #age = 0;
  /** When the server gave the latest of the pages, by this machine's clock. */
  #givenAt = -Infinity;
  /** Whether a page came that is older than one before it. */
  #backward = false;
  #unusable = 0;
  readonly #twins = new Set<RecordKey>();
  /** The list's end when it was read first: the total, and the creation time of the last record. */
  #edge: { readonly total: number; readonly createdAt: unknown } | undefined;
  #total = 0;
  /** Records on the fullest page. */
  #fullest = 0;
  /** How many of the seen were created after the edge. */
  #added = 0;
  #constant = true;
  /** Whether a record came on a page that had come on another. */
  #crossing = false;
  /** Whether no page had a smaller total than the one before it. */
  #growing = true;
  readonly #end: End;

  /** @param startedAt before the first request of the pass: what the server sends is at least as young as this */
  constructor(ports: WalkPorts, startedAt: number, end: End) {
    this.#ports = ports;
    this.#startedAt = startedAt;
    this.#end = end;
  }

  /** Whether every page had the same total. */
  get constant(): boolean {
    return this.#constant;
  }

  async take(number: number): Promise<Size> {
    return this.keep(await this.#ports.read(number));
  }

  keep(page: MirrorPage): Size {
    this.#unreadable.push(...(page.unreadable ?? []));
    for (const part of page.parts ?? [page]) this.#keepPart(part);
    this.#ports.show?.(this.#seen.size);
    const { total, lastPage, perPage } = page;
    const entries = entriesOn(page).length;
    this.#fullest = Math.max(this.#fullest, entries);
    return { total, lastPage, perPage, entries };
  }

  #keepPart(page: MirrorPage): void {
    const { total } = page;
    this.#noteAge(page.ageMs);
    this.#constant &&= this.#edge === undefined || total === this.#total;
    this.#growing &&= total >= this.#total;
    this.#total = total;
    const { unusable, twins } = this.#ports.record(page, this.#seen);
    this.#unusable += unusable;
    for (const id of twins) this.#twins.add(id);
    if (this.#edge === undefined) this.#edge = { total, createdAt: createdAtOn(page).at(-1) };
    else this.#countAdded(page, this.#edge.createdAt);
    const ids = idsOn(page);
    const before = this.#seen.size;
    for (const id of ids) this.#seen.add(id);
    const shown = this.#seen.size - before;
    // One that comes twice on this page alone is on no other.
    this.#crossing ||= shown < ids.length && shown < new Set(ids).size;
  }

  #noteAge(reported: number | undefined): void {
    // Ages come in whole seconds, without the part of one that is left.
    const ageMs = reported === undefined ? 0 : reported + secondMs;
    const givenAt = this.#ports.clock.now() - ageMs;
    this.#age = Math.max(this.#age, ageMs);
    this.#backward ||= ageMs > 0 && givenAt < this.#givenAt - secondMs;
    this.#givenAt = Math.max(this.#givenAt, givenAt);
  }

  #countAdded(page: MirrorPage, edge: unknown): void {
    // What was known before is not new.
    if (page.recalled !== undefined) return;
    const createdAt = createdAtOn(page);
    for (const [index, id] of entriesOn(page).entries()) {
      if (id !== null && isAfter(createdAt[index], edge) && !this.#seen.has(id)) this.#added += 1;
    }
  }

  verdict(perPage: number): Verdict {
    // Every page is at least as young as the oldest of them.
    const startedAt = timestampOf(this.#startedAt - this.#age);
    const total = this.#total;
    const seen = this.#seen;
    if (this.#unusable > 0) {
      const records = counted(this.#unusable, 'record has', 'records have');
      const problem = `${records} no usable id, or the fields of another resource; a sync keeps them in mirror_events`;
      return { kind: 'unusable', total, problem };
    }
    if (this.#twins.size > 0) {
      const twins = [...this.#twins];
      const ids = twins.slice(0, 5).join(', ');
      return { kind: 'unstable', total, problem: `different records have the same id: ${ids}`, twins };
    }
    if (this.#backward) {
      const problem = `a cache in front of the server gave older pages after newer ones, up to ${this.#age / secondMs} s old`;
      return { kind: 'unstable', total, problem };
    }
    const unreadable = this.#unreadable;
    const { surplus } = this.#ports;
    const missing = total - seen.size - countOf(unreadable);
    const asBefore = missing === surplus && !this.#crossing;
    if ((missing === 0 || asBefore) && (this.#constant || this.#grewAtTheEnd())) {
      if (unreadable.length > 0)
        return { kind: 'damaged', total, seen, unreadable, problem: describeUnreadable(unreadable) };
      return { kind: 'settled', total, seen, startedAt, surplus: missing, past: this.#end.past, isCut: false };
    }
    if (this.#constant && unreadable.length === 0) {
      const problem = `the server counts ${counted(total, 'record')}, its pages showed ${seen.size}`;
      const shown = {
        seen,
        startedAt,
        perPage,
        fullest: this.#fullest,
        passes: 1,
        isCut: false,
        crossing: this.#crossing,
        isOrdered: this.#ports.isOrdered,
        idle: 0,
        end: this.#end,
      };
      return { kind: 'unstable', total, problem, shown };
    }
    const problem = `records came or went while it was read (${total} at the end, ${seen.size} seen)`;
    return { kind: 'unstable', total, problem };
  }

  /**
   * Whether the total only grew, by records at the end, each of which was seen. To count all alike would not do: one added in the
   * middle pushes another past the reader, one deleted after it was seen stands in for it, and the two cancel out.
   */
  #grewAtTheEnd(): boolean {
    return this.#growing && this.#added === this.#total - (this.#edge?.total ?? 0);
  }
}

function isAfter(createdAt: unknown, edge: unknown): boolean {
  return typeof createdAt === 'string' && typeof edge === 'string' && createdAt > edge;
}

/** Times that the list's end is sought before the window is judged to change too fast. */
const aims = 3;

/**
 * Walks the window once. Its end is not sought by reading page 1 of many: a record deleted from that before the last page
 * is read would pull another one onto it, and with one added meanwhile the total would not show it.
 * @param most records beyond which the window is too large to be walked and should be cut
 * @param before where an earlier pass of this run has found the end
 */
async function walkOnce(ports: WalkPorts, portsOf: PortsOf, most: number, before?: End): Promise<Verdict> {
  const { past } = before ?? ports;
  const isSure = past === 0 || before !== undefined;
  const pageOf = (records: number, perPage: number) => Math.max(1, Math.ceil((records - past) / perPage));
  let end = pageOf(ports.expected ?? 0, ports.pageSize);
  let total = 0;
  for (let aim = 0; aim < aims; aim += 1) {
    const startedAt = ports.clock.now();
    const page = await lastByTotal(ports.read, (place) => portsOf(1).read(place, true), end);
    total = page.total;
    if (total - past > most) return { kind: 'large', total };
    const lastPage = past === 0 ? page.lastPage : pageOf(total, page.perPage);
    if (lastPage === end || page.page < end) {
      const last = await lastShown(ports.read, page, most, before?.isSure === false);
      const shown = (last.page - 1) * page.perPage + entriesOn(last).length;
      if (shown > most) return { kind: 'large', total: shown };
      const pass = new Pass(ports, startedAt, { past: last.total - shown, isSure });
      pass.keep(last);
      return walkBack(pass, last.page, page.perPage);
    }
    end = lastPage;
  }
  return { kind: 'unstable', total, problem: 'its last page was another one each time' };
}

/** Goes on from the list's end, which was taken, to its beginning. */
async function walkBack(pass: Pass, end: number, perPage: number): Promise<Verdict> {
  let lastPage = end;
  // One after another on purpose: the order is what makes a deletion harmless.
  for (let number = end - 1; number >= 1; number -= 1) {
    const page = await pass.take(number);
    if (page.perPage !== perPage) {
      const problem = `the page size changed from ${perPage} to ${page.perPage} during the walk`;
      return { kind: 'unstable', total: page.total, problem, perPage: Math.min(perPage, page.perPage) };
    }
    lastPage = page.lastPage;
  }
  // What was added meanwhile stands at the end, from the page that was the last one on.
  if (!pass.constant) {
    for (let number = end; number <= lastPage; number += 1) if ((await pass.take(number)).entries === 0) break;
  }
  return pass.verdict(perPage);
}

/** Times that a window is walked before it is cut, or left for another run. */
const attempts = 3;

/** Passes in a row without a new record, after which no other is expected. */
const idlePasses = 4;

/** The same where the order changes with every request: each of them may miss a record with a chance of one in four. */
const idleShuffled = 8;

type PortsOf = (pageSize: number) => WalkPorts;

/** How full pages are requested, of the fullest that came, in turns: what hides where one page ends shows on another. */
const shares = [1, 0.7, 0.5];

/** Records to be requested on a page after what earlier passes have shown. @param pageSize where that is nothing to go on with */
function sizeAfter({ shown, perPage = Infinity }: Unstable, pageSize: number): number {
  if (shown === undefined) return Math.min(pageSize, perPage);
  const { seen, fullest, passes, isOrdered } = shown;
  // What one page shows in no order, another one may not.
  const isOnePage = !isOrdered && seen.size <= fullest;
  return Math.max(1, Math.floor(fullest * (isOnePage ? 1 : (shares[passes % shares.length] ?? 1))));
}

/**
 * Walks the window until a walk is consistent, so many times at the most. Passes over a list that holds still are united:
 * where its order changes from request to request, each of them has the same chance to miss a record, so a few dozen
 * find the last one; and where two of them, on pages that end elsewhere, show the same records in an order that is kept, there are no
 * others to be shown: a server whose pages leave some out would have left out others.
 * @param before what earlier passes have shown, to go on from
 */
export async function walkWindow(
  portsOf: PortsOf,
  pageSize: number,
  most: number,
  passes = attempts,
  before?: Unstable,
): Promise<Verdict> {
  let verdict: Verdict = before ?? (await walkOnce(portsOf(pageSize), portsOf, most));
  for (let pass = 1; pass < passes && verdict.kind === 'unstable'; pass += 1) {
    const { shown } = verdict;
    // Another pass would show nothing else.
    if (shown !== undefined && shown.idle >= (shown.isOrdered ? idlePasses : idleShuffled)) break;
    const next = await walkOnce(portsOf(sizeAfter(verdict, pageSize)), portsOf, most, shown?.end);
    verdict = next.kind === 'unstable' ? unite(verdict, next) : next;
  }
  return verdict;
}

function unite(before: Unstable, now: Unstable): Verdict {
  const [a, b] = [before.shown, now.shown];
  // Where records came or went, what was seen before no longer adds up with what is seen now.
  if (a === undefined || b === undefined || before.total !== now.total) return now;
  const { startedAt } = a;
  const { total } = now;
  const { isOrdered } = b;
  const seen = a.seen.union(b.seen);
  const isSame = seen.size === a.seen.size && seen.size === b.seen.size;
  const crossing = a.crossing || b.crossing;
  const isCut = a.isCut || !(isSame || crossing);
  const idle = seen.size > a.seen.size ? 0 : a.idle + 1;
  // By chance, two passes in different orders may miss the same record.
  const isAll = isOrdered || !crossing ? isSame && (!b.crossing || a.perPage !== b.perPage) : idle >= idleShuffled;
  if (seen.size === total || isAll) {
    return { kind: 'settled', total, seen, startedAt, surplus: total - seen.size, past: b.end.past, isCut };
  }
  const counts = `the server counts ${counted(total, 'record')}, its pages showed ${seen.size}`;
  const problem = isCut ? `${counts}: ${cutWords}` : counts;
  const fullest = Math.max(a.fullest, b.fullest);
  const shown = { ...b, seen, startedAt, fullest, passes: a.passes + 1, isCut, crossing, idle };
  return { kind: 'unstable', total, problem, shown };
}

/** Passes over a window that cannot be cut and whose order changes with every request, before it is left as it is. */
const collectPasses = 40;

/** What is left to try with a window that cannot be cut: read it though it is large, unite what many passes show. */
export async function walkUncut(portsOf: PortsOf, pageSize: number, verdict: Verdict): Promise<Verdict> {
  const isUnread = verdict.kind === 'large' && verdict.problem === undefined;
  const walked = isUnread ? await walkWindow(portsOf, pageSize, Infinity) : verdict;
  if (walked.kind !== 'unstable' || walked.shown === undefined) return walked;
  return walkWindow(portsOf, pageSize, Infinity, collectPasses, walked);
}
