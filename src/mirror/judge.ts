/**
 * Judges whether the pages of a walk show a window whole (pure). Section "Judging a walk" of docs/architecture.md.
 */
import { describeUnreadable } from '../api/narrow.ts';
import type { Unreadable } from '../api/body.ts';
import type { RecordKey } from '../model/records.ts';
import { counted } from '../model/text.ts';
import { secondMs, type Timestamp, timestampOf } from '../model/time.ts';
import { createdAtOn, entriesOn, idsOn, type MirrorPage } from './page.ts';

export type Verdict =
  /**
   * The pages showed every record that the server had in the window at `asOf` and has not deleted since. `surplus`: how many
   * records the total counts that no page shows.
   */
  | { readonly kind: 'complete'; readonly total: number; readonly asOf: Timestamp; readonly surplus: number }
  /** `why`: for people, and its kind. `isFinal`: another walk would end in the same way. `showsRest`: only what cannot be read is missing. */
  | {
      readonly kind: 'incomplete';
      readonly total: number;
      readonly cause: 'list_contradicts_itself' | 'list_changed' | 'records_unreadable';
      readonly why: string;
      readonly isFinal: boolean;
      readonly showsRest?: true;
    };

/** What the pages of one walk have shown, from the end of a list to its beginning. */
export class Walk {
  /** Every record that was shown. */
  readonly ids = new Set<RecordKey>();
  /** The total of the page that was read last. */
  total = 0;
  /** Whether every page had the same total. */
  isSteady = true;
  readonly #startedAt: number;
  readonly #unreadable: Unreadable[] = [];
  /** Records without a usable id, or of another resource. */
  #unusable = 0;
  /** How many records with a usable id were shown, those that came twice counted twice. */
  #shown = 0;
  #perPage: number | undefined;
  #otherSize: number | undefined;
  /** The age of the oldest page when it came from a cache in front of the server, ms. */
  maxAgeMs = 0;
  /** When the server made the youngest of the pages, by this machine's clock. */
  #madeAt = -Infinity;
  /** Whether a page was older than one before it. */
  #isBackward = false;
  /** The end of the list when it was first read: the total, and the creation time of the last record. */
  #edge: { readonly total: number; readonly createdAt: unknown } | undefined;
  /** How many of the records were created after the edge. */
  #added = 0;
  #isGrowing = true;

  /** @param startedAt a time before the first request of the walk: everything that the server sends is younger */
  constructor(startedAt: number) {
    this.#startedAt = startedAt;
  }

  /** Takes the next page. @param receivedAt when it came, ms since 1970 */
  add(page: MirrorPage, receivedAt: number): void {
    this.#unreadable.push(...(page.unreadable ?? []));
    this.#perPage ??= page.perPage;
    if (page.perPage !== this.#perPage) this.#otherSize = page.perPage;
    for (const part of page.parts ?? [page]) this.#addPart(part, receivedAt);
  }

  #addPart(page: MirrorPage, receivedAt: number): void {
    const { total } = page;
    this.#noteAge(page.ageMs, receivedAt);
    this.#unusable += page.rows.unusable;
    this.isSteady &&= this.#edge === undefined || total === this.total;
    this.#isGrowing &&= total >= this.total;
    this.total = total;
    const ids = entriesOn(page);
    const createdAt = createdAtOn(page);
    if (this.#edge === undefined) this.#edge = { total, createdAt: createdAt.at(-1) };
    else if (page.recalled === undefined) {
      // The records of a page that came again unchanged are not new.
      for (const [at, id] of ids.entries()) {
        if (id !== null && isAfter(createdAt[at], this.#edge.createdAt) && !this.ids.has(id)) this.#added += 1;
      }
    }
    for (const id of idsOn(page)) {
      this.#shown += 1;
      this.ids.add(id);
    }
  }

  #noteAge(reported: number | undefined, receivedAt: number): void {
    // Ages are rounded down to whole seconds.
    const ageMs = reported === undefined ? 0 : reported + secondMs;
    const madeAt = receivedAt - ageMs;
    this.maxAgeMs = Math.max(this.maxAgeMs, ageMs);
    this.#isBackward ||= ageMs > 0 && madeAt < this.#madeAt - secondMs;
    this.#madeAt = Math.max(this.#madeAt, madeAt);
  }

  /** Every page is at least as young as this. */
  get asOf(): Timestamp {
    return timestampOf(this.#startedAt - this.maxAgeMs);
  }

  get surplus(): number {
    return this.total - this.ids.size - this.#unreadable.length;
  }

  /**
   * Whether the total only grew, by records at the end, and each of them was seen. Counting the added records is not enough: one
   * added in the middle pushes another past the reader, one deleted after it was seen stands in for it, and the two cancel out.
   */
  get grewAtTheEnd(): boolean {
    return this.#isGrowing && this.#added === this.total - (this.#edge?.total ?? 0);
  }

  /** Why no other walk would do better; undefined if it may. */
  get flaw(): string | undefined {
    if (this.#unusable > 0) {
      const records = counted(this.#unusable, 'record has', 'records have');
      return `${records} no usable id, or the fields of another resource; a sync keeps them in mirror_events`;
    }
    return undefined;
  }

  /** How many records came twice, although each page was read once: records moved meanwhile, or share an id. */
  get repeated(): number {
    return this.isSteady ? this.#shown - this.ids.size : 0;
  }

  /** Why the pages do not fit together; undefined if they do. @param freshAsOf when the window was last read */
  contradiction(freshAsOf: Timestamp | null): string | undefined {
    if (this.#otherSize !== undefined) {
      return `the page size changed from ${this.#perPage} to ${this.#otherSize} while it was read`;
    }
    const age = `a cache in front of the server gave pages up to ${this.maxAgeMs / secondMs} s old`;
    if (this.#isBackward) return `${age}, older ones after newer ones`;
    const isOlder = this.maxAgeMs > 0 && freshAsOf !== null && this.asOf < freshAsOf;
    return isOlder ? `${age}, from before the last reading` : undefined;
  }

  /** What could not be read, for people; undefined if everything could. */
  get unreadable(): string | undefined {
    return this.#unreadable.length === 0 ? undefined : describeUnreadable(this.#unreadable);
  }
}

function isAfter(createdAt: unknown, edge: unknown): boolean {
  return typeof createdAt === 'string' && typeof edge === 'string' && createdAt > edge;
}

/** What is known of the window before the walk. */
export interface Known {
  /** How many records its total counted that no page showed when it was last settled. */
  readonly surplus: number;
  readonly freshAsOf: Timestamp | null;
  /** The walk just before this one, in pages of another size. */
  readonly before?: Walk | undefined;
}

/**
 * Judges a walk. Complete are walks that saw as many records as the total of the last page, if all pages had one total or it only
 * grew at the end; and the second of two in a row, in pages of different sizes, that showed the same records and the same total.
 */
export function judge(walk: Walk, { surplus: known, freshAsOf, before }: Known): Verdict {
  const { total, ids, surplus } = walk;
  const incomplete = (why: string, isFinal = false) =>
    ({ kind: 'incomplete', total, cause: 'list_contradicts_itself', why, isFinal }) as const;
  if (walk.flaw !== undefined) return incomplete(walk.flaw, true);
  const contradiction = walk.contradiction(freshAsOf);
  if (contradiction !== undefined) return incomplete(contradiction);
  if (!walk.isSteady && !walk.grewAtTheEnd) {
    const why = `records came or went while it was read (${total} at the end, ${ids.size} seen)`;
    return { ...incomplete(why), cause: 'list_changed' };
  }
  if (walk.repeated > 0) {
    return incomplete(`${counted(walk.repeated, 'record')} came twice: they moved while it was read, or share an id`);
  }
  const isKnown = surplus > 0 && walk.isSteady && (surplus === known || isSame(walk, before));
  if (surplus === 0 || isKnown) {
    if (walk.unreadable !== undefined)
      return { ...incomplete(walk.unreadable, true), cause: 'records_unreadable', showsRest: true };
    return { kind: 'complete', total, asOf: walk.asOf, surplus };
  }
  return incomplete(`the server counts ${counted(total, 'record')}, its pages showed ${ids.size}`);
}

/**
 * Returns why a surplus is not believed; null if it is. A server that shows no page beyond some depth looks as if it counted
 * records that it does not have, but for its newest records.
 * @param newest null if the list does not come in order
 */
export function doubtOf({ ids, total }: Walk, newest: readonly RecordKey[] | null): string | null {
  if (newest === null) {
    return `the server counts ${counted(total, 'record')}, its pages showed ${ids.size}, and they come in no order that shows where they end`;
  }
  const unseen = newest.filter((id) => !ids.has(id));
  return unseen.length === 0 ? null : `its pages end after ${counted(ids.size, 'record')}, and there are newer ones`;
}

/** Whether both walks saw one list: the same records, and the same total on every page. */
function isSame(walk: Walk, before: Walk | undefined): boolean {
  if (before === undefined || !before.isSteady || before.total !== walk.total) return false;
  return before.ids.size === walk.ids.size && walk.ids.isSubsetOf(before.ids);
}
