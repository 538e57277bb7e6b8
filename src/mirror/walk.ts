/**
 * Reads one window whole, backward, from its last page to its first: a deletion moves records towards the front, onto pages that
 * are still to come. A walk forward would miss them. Section "Windows and walks" of docs/architecture.md.
 */
import type { RecordKey } from '../model/records.ts';
import { counted } from '../model/text.ts';
import type { Unreadable } from '../api/envelope.ts';
import { countOf, describeUnreadable } from '../api/narrow.ts';
import { lastByTotal, lastShown, type ReadPageAt } from './list-end.ts';
import { createdAtOn, entriesOn, idsOn, type MirrorPage } from './page.ts';
import { type Clock, secondMs, type Timestamp, timestampOf } from '../model/time.ts';

/** How a walk reads and stores pages, and what is known of the window beforehand. */
export interface WalkPorts {
  readonly clock: Clock;
  /** Records requested per page. */
  readonly pageSize: number;
  /** The window's total when it was last counted; null if it never was. */
  readonly expected: number | null;
  /** By how much the total was too large when the window was last settled; negative if it was too small. */
  readonly surplus: number;
  /** How many records the total counts behind the last page that shows any, as far as is known. */
  readonly pastEnd: number;
  /** Whether the server keeps the requested order. */
  readonly isOrdered: boolean;
  readonly read: ReadPageAt;
  /** Stores a page's records and the window's progress in one step. */
  readonly record: (page: MirrorPage, seen: ReadonlySet<RecordKey>) => RecordedPage;
  /** Called after each page with the number of distinct records that the pass has seen so far. */
  readonly noteSeen?: (records: number) => void;
}

/** The records of a page that could not be stored. */
interface RecordedPage {
  /** Records without a usable id, or of another resource. */
  readonly unusable: number;
  /** Ids under which another record came before. */
  readonly duplicateIds: readonly RecordKey[];
}

/** What several passes over a list that did not change have seen together. */
interface UnitedPasses {
  readonly seen: ReadonlySet<RecordKey>;
  readonly startedAt: Timestamp;
  readonly perPage: number;
  /** Records on the fullest page. */
  readonly fullest: number;
  readonly passes: number;
  /** Whether the passes showed different records, none of them all, though no record came twice in a pass. */
  readonly isCut: boolean;
  /** Whether a record came on two pages of one pass: then another may have moved past the reader. */
  readonly overlapping: boolean;
  readonly isOrdered: boolean;
  /** Passes in a row that showed nothing new. */
  readonly idle: number;
  /** The end of the list, as the latest pass found it. */
  readonly end: End;
}

/** Where a list was found to end. */
interface End {
  /** How many records the total counts behind it. */
  readonly pastEnd: number;
  /** Whether this run has seen it, rather than taken it from an earlier one. */
  readonly isSure: boolean;
}

export type Verdict =
  /**
   * Every record that the server shows in the window was seen, unless it was deleted after `startedAt`. `surplus`: how many more
   * records the total counts than the pages show, however often they are read; negative if it counts fewer. `pastEnd`: how many
   * of these it counts behind the end of the list. `isCut`: whether each pass left out other records.
   */
  | {
      readonly kind: 'settled';
      readonly total: number;
      readonly seen: ReadonlySet<RecordKey>;
      readonly startedAt: Timestamp;
      readonly surplus: number;
      readonly pastEnd: number;
      readonly isCut: boolean;
    }
  /** Like settled, except for records that no page can show. */
  | {
      readonly kind: 'damaged';
      readonly total: number;
      readonly seen: ReadonlySet<RecordKey>;
      readonly problem: string;
      readonly unreadable: readonly Unreadable[];
    }
  /** `problem`: why the window cannot be read as it is, if not for its size. */
  | { readonly kind: 'large'; readonly total: number; readonly problem?: string }
  /** Some records cannot be stored, however often they are read. */
  | { readonly kind: 'unusable'; readonly total: number; readonly problem: string }
  /** `united`: what was seen if all pages gave one total. Without it, the next pass starts from nothing. */
  | {
      readonly kind: 'unstable';
      readonly total: number;
      readonly problem: string;
      readonly united?: UnitedPasses;
      /** The smaller page size, if pages of two sizes came. */
      readonly perPage?: number;
      /** Ids under which two records came. The window must not be cut: each half would show one of them and seem settled. */
      readonly duplicateIds?: readonly RecordKey[];
    };

type Unstable = Extract<Verdict, { kind: 'unstable' }>;

/** What `isCut` means, for messages. */
export const cutWords = 'its pages leave out records, others at each size of page';

/** Returns why a window is not settled, for messages. */
export function problemOf(verdict: Exclude<Verdict, { kind: 'settled' }>): string {
  return verdict.problem ?? 'it is too large to be read';
}

/** A page without its records: those must not stay in memory for the rest of the walk. */
type PageSummary = Pick<MirrorPage, 'total' | 'lastPage' | 'perPage'> & { readonly entries: number };

/** One way through the pages of a window, from the end of the list to its beginning. */
class Pass {
  readonly #ports: WalkPorts;
  readonly #startedAt: number;
  readonly #seen = new Set<RecordKey>();
  readonly #unreadable: Unreadable[] = [];
  /** The age of the oldest page when it came from a cache in front of the server, ms. */
  #maxAgeMs = 0;
  /** When the server made the youngest of the pages, by this machine's clock. */
  #madeAt = -Infinity;
  /** Whether a page was older than one before it. */
  #backward = false;
  #unusable = 0;
  readonly #duplicateIds = new Set<RecordKey>();
  /** The end of the list when it was first read: the total, and the creation time of the last record. */
  #edge: { readonly total: number; readonly createdAt: unknown } | undefined;
  #total = 0;
  /** Records on the fullest page. */
  #fullest = 0;
  /** How many of the seen records were created after the edge. */
  #added = 0;
  #constant = true;
  /** Whether a record came on two pages. */
  #overlapping = false;
  /** Whether no page had a smaller total than the one before it. */
  #growing = true;
  readonly #end: End;

  /** @param startedAt a time before the first request of the pass: everything that the server sends is younger */
  constructor(ports: WalkPorts, startedAt: number, end: End) {
    this.#ports = ports;
    this.#startedAt = startedAt;
    this.#end = end;
  }

  /** Whether every page had the same total. */
  get constant(): boolean {
    return this.#constant;
  }

  async read(number: number): Promise<PageSummary> {
    return this.take(await this.#ports.read(number));
  }

  take(page: MirrorPage): PageSummary {
    this.#unreadable.push(...(page.unreadable ?? []));
    for (const part of page.parts ?? [page]) this.#takePart(part);
    this.#ports.noteSeen?.(this.#seen.size);
    const { total, lastPage, perPage } = page;
    const entries = entriesOn(page).length;
    this.#fullest = Math.max(this.#fullest, entries);
    return { total, lastPage, perPage, entries };
  }

  #takePart(page: MirrorPage): void {
    const { total } = page;
    this.#noteAge(page.ageMs);
    this.#constant &&= this.#edge === undefined || total === this.#total;
    this.#growing &&= total >= this.#total;
    this.#total = total;
    const { unusable, duplicateIds } = this.#ports.record(page, this.#seen);
    this.#unusable += unusable;
    for (const id of duplicateIds) this.#duplicateIds.add(id);
    if (this.#edge === undefined) this.#edge = { total, createdAt: createdAtOn(page).at(-1) };
    else this.#countAdded(page, this.#edge.createdAt);
    const ids = idsOn(page);
    const before = this.#seen.size;
    for (const id of ids) this.#seen.add(id);
    const fresh = this.#seen.size - before;
    // A record that comes twice on this page alone does not count.
    this.#overlapping ||= fresh < ids.length && fresh < new Set(ids).size;
  }

  #noteAge(reported: number | undefined): void {
    // Ages are rounded down to whole seconds.
    const ageMs = reported === undefined ? 0 : reported + secondMs;
    const madeAt = this.#ports.clock.now() - ageMs;
    this.#maxAgeMs = Math.max(this.#maxAgeMs, ageMs);
    this.#backward ||= ageMs > 0 && madeAt < this.#madeAt - secondMs;
    this.#madeAt = Math.max(this.#madeAt, madeAt);
  }

  #countAdded(page: MirrorPage, edge: unknown): void {
    // The records of a known page are not new.
    if (page.recalled !== undefined) return;
    const createdAt = createdAtOn(page);
    for (const [index, id] of entriesOn(page).entries()) {
      if (id !== null && isAfter(createdAt[index], edge) && !this.#seen.has(id)) this.#added += 1;
    }
  }

  verdict(perPage: number): Verdict {
    const flaw = this.#flaw();
    if (flaw !== undefined) return flaw;
    const total = this.#total;
    const seen = this.#seen;
    const unreadable = this.#unreadable;
    // Every page is at least as young as the oldest one.
    const startedAt = timestampOf(this.#startedAt - this.#maxAgeMs);
    const surplus = total - seen.size - countOf(unreadable);
    const isKnown = surplus === this.#ports.surplus && !this.#overlapping;
    if ((surplus === 0 || isKnown) && (this.#constant || this.#grewAtTheEnd())) {
      if (unreadable.length > 0)
        return { kind: 'damaged', total, seen, unreadable, problem: describeUnreadable(unreadable) };
      return { kind: 'settled', total, seen, startedAt, surplus, pastEnd: this.#end.pastEnd, isCut: false };
    }
    if (!this.#constant || unreadable.length > 0) {
      const problem = `records came or went while it was read (${total} at the end, ${seen.size} seen)`;
      return { kind: 'unstable', total, problem };
    }
    const united = {
      seen,
      startedAt,
      perPage,
      fullest: this.#fullest,
      passes: 1,
      isCut: false,
      overlapping: this.#overlapping,
      isOrdered: this.#ports.isOrdered,
      idle: 0,
      end: this.#end,
    };
    return { kind: 'unstable', total, problem: countsDiffer(total, seen.size), united };
  }

  /** Returns what makes the pass useless, whatever it has counted. */
  #flaw(): Verdict | undefined {
    const total = this.#total;
    if (this.#unusable > 0) {
      const records = counted(this.#unusable, 'record has', 'records have');
      const problem = `${records} no usable id, or the fields of another resource; a sync keeps them in mirror_events`;
      return { kind: 'unusable', total, problem };
    }
    if (this.#duplicateIds.size > 0) {
      const duplicateIds = [...this.#duplicateIds];
      const problem = `different records have the same id: ${duplicateIds.slice(0, 5).join(', ')}`;
      return { kind: 'unstable', total, problem, duplicateIds };
    }
    if (!this.#backward) return undefined;
    const age = this.#maxAgeMs / secondMs;
    const problem = `a cache in front of the server gave older pages after newer ones, up to ${age} s old`;
    return { kind: 'unstable', total, problem };
  }

  /**
   * Whether the total only grew, by records at the end, and each of them was seen. Counting the added records is not enough: one
   * added in the middle pushes another past the reader, one deleted after it was seen stands in for it, and the two cancel out.
   */
  #grewAtTheEnd(): boolean {
    return this.#growing && this.#added === this.#total - (this.#edge?.total ?? 0);
  }
}

function isAfter(createdAt: unknown, edge: unknown): boolean {
  return typeof createdAt === 'string' && typeof edge === 'string' && createdAt > edge;
}

function countsDiffer(total: number, seen: number): string {
  return `the server counts ${counted(total, 'record')}, its pages showed ${seen}`;
}

/** How often to look for the end of the list before giving up: the list changes too fast. */
const maxEndSearches = 3;

/**
 * Walks the window once. It does not read page 1 to find the end: if a record of page 1 were deleted before the last page is
 * read, another record would move onto page 1 unseen, and one added meanwhile would make up for it in the total.
 * @param maxRecords above this the window is too large to walk and should be cut
 * @param knownEnd where an earlier pass of this run has found the end
 */
async function walkOnce(ports: WalkPorts, portsOf: PortsOf, maxRecords: number, knownEnd?: End): Promise<Verdict> {
  const { pastEnd } = knownEnd ?? ports;
  const isSure = pastEnd === 0 || knownEnd !== undefined;
  const pageOf = (records: number, perPage: number) => Math.max(1, Math.ceil((records - pastEnd) / perPage));
  let end = pageOf(ports.expected ?? 0, ports.pageSize);
  let total = 0;
  for (let search = 0; search < maxEndSearches; search += 1) {
    const startedAt = ports.clock.now();
    const page = await lastByTotal(ports.read, (place) => portsOf(1).read(place, true), end);
    total = page.total;
    if (total - pastEnd > maxRecords) return { kind: 'large', total };
    const lastPage = pastEnd === 0 ? page.lastPage : pageOf(total, page.perPage);
    if (lastPage === end || page.page < end) {
      const last = await lastShown(ports.read, page, maxRecords, knownEnd?.isSure === false);
      const shown = (last.page - 1) * page.perPage + entriesOn(last).length;
      if (shown > maxRecords) return { kind: 'large', total: shown };
      const pass = new Pass(ports, startedAt, { pastEnd: last.total - shown, isSure });
      pass.take(last);
      return walkBack(pass, last.page, page.perPage);
    }
    end = lastPage;
  }
  return { kind: 'unstable', total, problem: 'its last page was another one each time' };
}

/** Walks from the page before the end, which the pass already has, to page 1. */
async function walkBack(pass: Pass, end: number, perPage: number): Promise<Verdict> {
  let lastPage = end;
  // One page after another: only this order makes deletions harmless.
  for (let number = end - 1; number >= 1; number -= 1) {
    const page = await pass.read(number);
    if (page.perPage !== perPage) {
      const problem = `the page size changed from ${perPage} to ${page.perPage} during the walk`;
      return { kind: 'unstable', total: page.total, problem, perPage: Math.min(perPage, page.perPage) };
    }
    lastPage = page.lastPage;
  }
  // Records that were added meanwhile stand at the end, from the old last page on.
  if (!pass.constant) {
    for (let number = end; number <= lastPage; number += 1) if ((await pass.read(number)).entries === 0) break;
  }
  return pass.verdict(perPage);
}

/** How often a window is walked before it is cut, or left for another run. */
const maxPasses = 3;

/** After so many passes in a row without a new record, no more are expected. */
const idlePasses = 4;

/** The same if the order changes with every request: then each pass may miss a record with a chance of one in four. */
const idlePassesUnordered = 8;

/** Ports that request pages of this many records. */
type PortsOf = (pageSize: number) => WalkPorts;

/** Page sizes of later passes, as shares of the fullest page, in turns: what one page leaves out at its end, another shows. */
const sizeShares = [1, 0.7, 0.5];

/**
 * Returns how many records to request per page in the next pass.
 * @param pageSize the size if the passes have nothing in common
 */
function nextSize({ united, perPage = Infinity }: Unstable, pageSize: number): number {
  if (united === undefined) return Math.min(pageSize, perPage);
  const { seen, fullest, passes, isOrdered } = united;
  // Without an order, two smaller pages would show some records twice and others never.
  const isOnePage = !isOrdered && seen.size <= fullest;
  return Math.max(1, Math.floor(fullest * (isOnePage ? 1 : (sizeShares[passes % sizeShares.length] ?? 1))));
}

/**
 * Walks the window until a pass is consistent, at most `passes` times. Passes over a list that does not change are united:
 * - If the order changes with every request, each pass has the same chance to miss a record, and a few dozen find the last one.
 * - If the order is kept and two passes, on pages of other sizes, show the same records, there are no others: a server whose
 *   pages leave records out would have left out others.
 * @param before what earlier passes have seen, to go on from
 */
export async function walkWindow(
  portsOf: PortsOf,
  pageSize: number,
  maxRecords: number,
  passes = maxPasses,
  before?: Unstable,
): Promise<Verdict> {
  let verdict: Verdict = before ?? (await walkOnce(portsOf(pageSize), portsOf, maxRecords));
  for (let pass = 1; pass < passes && verdict.kind === 'unstable'; pass += 1) {
    const { united } = verdict;
    if (united !== undefined && united.idle >= (united.isOrdered ? idlePasses : idlePassesUnordered)) break;
    const next = await walkOnce(portsOf(nextSize(verdict, pageSize)), portsOf, maxRecords, united?.end);
    verdict = next.kind === 'unstable' ? unite(verdict, next) : next;
  }
  return verdict;
}

function unite(before: Unstable, now: Unstable): Verdict {
  const [a, b] = [before.united, now.united];
  // If records came or went, the passes saw different lists and do not add up.
  if (a === undefined || b === undefined || before.total !== now.total) return now;
  const { startedAt } = a;
  const { total } = now;
  const { isOrdered } = b;
  const seen = a.seen.union(b.seen);
  const isSame = seen.size === a.seen.size && seen.size === b.seen.size;
  const overlapping = a.overlapping || b.overlapping;
  const isCut = a.isCut || !(isSame || overlapping);
  const idle = seen.size > a.seen.size ? 0 : a.idle + 1;
  // Two passes in different orders may miss the same record by chance.
  const isAll =
    isOrdered || !overlapping ? isSame && (!b.overlapping || a.perPage !== b.perPage) : idle >= idlePassesUnordered;
  if (seen.size === total || isAll) {
    return { kind: 'settled', total, seen, startedAt, surplus: total - seen.size, pastEnd: b.end.pastEnd, isCut };
  }
  const counts = countsDiffer(total, seen.size);
  const problem = isCut ? `${counts}: ${cutWords}` : counts;
  const fullest = Math.max(a.fullest, b.fullest);
  const united = { ...b, seen, startedAt, fullest, passes: a.passes + 1, isCut, overlapping, idle };
  return { kind: 'unstable', total, problem, united };
}

/** The most passes over a window that cannot be cut and whose order changes with every request. */
const maxPassesUncut = 40;

/** Tries what is left for a window that cannot be cut: reads it though it is large, and unites what many passes show. */
export async function walkUncut(portsOf: PortsOf, pageSize: number, verdict: Verdict): Promise<Verdict> {
  const isUnread = verdict.kind === 'large' && verdict.problem === undefined;
  const walked = isUnread ? await walkWindow(portsOf, pageSize, Infinity) : verdict;
  if (walked.kind !== 'unstable' || walked.united === undefined) return walked;
  return walkWindow(portsOf, pageSize, Infinity, maxPassesUncut, walked);
}
