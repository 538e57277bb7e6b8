/**
 * Reading one window whole, over offset pages that shift while they are read. Pages go from the last to the first: a
 * deletion moves records towards pages that are still to come, where reading forward would lose them. Section "Windows
 * and walks" of docs/architecture.md.
 */
import type { Page, Unreadable } from '../api/envelope.ts';
import { countOf, wordsOf } from '../api/narrow.ts';
import { createdAtOn, entriesOn, idsOn, isRecalled } from './page-entries.ts';
import { secondMs, timestampOf, type Clock, type Timestamp } from '../model/time.ts';

/** What a walk asks for and where it puts what it gets. */
export interface WalkPorts {
  readonly clock: Clock;
  /** Records that are asked for on a page. */
  readonly pageSize: number;
  /** What the server counted in the window when it was last asked; null where it never was. */
  readonly expected: number | null;
  /** Asks for one page of the window. */
  readonly read: (page: number) => Promise<Page>;
  /** Keeps a page's records and the window's progress in one step; gives how many records had no usable id. */
  readonly record: (page: Page) => number;
}

export type Verdict =
  /** Every record that the server had in the window at `startedAt` was seen, unless it has been deleted since. */
  | {
      readonly kind: 'settled';
      readonly total: number;
      readonly seen: ReadonlySet<number>;
      readonly startedAt: Timestamp;
    }
  /** The same but for records that no page shows: all others were seen. */
  | {
      readonly kind: 'damaged';
      readonly total: number;
      readonly seen: ReadonlySet<number>;
      readonly problem: string;
      readonly unreadable: readonly Unreadable[];
    }
  | { readonly kind: 'large'; readonly total: number }
  /** `constant`: the totals agreed, so it is the order of the records that does not hold still. */
  | { readonly kind: 'unstable'; readonly total: number; readonly constant: boolean; readonly problem: string };

/** Why a window is not settled, in words. */
export function problemOf(verdict: Exclude<Verdict, { kind: 'settled' }>): string {
  return verdict.kind === 'large' ? 'it is too large to be read' : verdict.problem;
}

/** A page without its records: those of a page that was kept must not stay in memory for the rest of the walk. */
type Size = Pick<Page, 'total' | 'lastPage' | 'perPage'>;

/** What one way through the pages has shown, from the list's end on. */
class Pass {
  readonly #ports: WalkPorts;
  readonly #startedAt: number;
  readonly #seen = new Set<number>();
  readonly #unreadable: Unreadable[] = [];
  /** How old the oldest page was when it came, out of a cache in front of the server, ms. */
  #age = 0;
  /** When the server gave the latest of the pages, by this machine's clock. */
  #givenAt = -Infinity;
  /** Whether a page came that is older than one before it. */
  #backward = false;
  #unusable = 0;
  /** The list's end when it was read first: the total, and the creation time of the last record. */
  #edge: { readonly total: number; readonly createdAt: unknown } | undefined;
  #total = 0;
  /** How many of the seen were created after the edge. */
  #added = 0;
  #constant = true;
  /** Whether no page told a smaller total than the one before it. */
  #growing = true;

  constructor(ports: WalkPorts) {
    this.#ports = ports;
    // Before the first request: what the server sends is at least as young as this.
    this.#startedAt = ports.clock.now();
  }

  /** Whether every page told the same total. */
  get constant(): boolean {
    return this.#constant;
  }

  /** Reads a page and keeps it. */
  async take(number: number): Promise<Size> {
    return this.keep(await this.#ports.read(number));
  }

  keep(page: Page): Size {
    this.#unreadable.push(...(page.unreadable ?? []));
    for (const part of page.parts ?? [page]) this.#keepPart(part);
    const { total, lastPage, perPage } = page;
    return { total, lastPage, perPage };
  }

  #keepPart(page: Page): void {
    const { total } = page;
    this.#noteAge(page.ageMs ?? 0);
    this.#constant &&= this.#edge === undefined || total === this.#total;
    this.#growing &&= total >= this.#total;
    this.#total = total;
    this.#unusable += this.#ports.record(page);
    if (this.#edge === undefined) this.#edge = { total, createdAt: createdAtOn(page).at(-1) };
    else this.#countAdded(page, this.#edge.createdAt);
    for (const id of idsOn(page)) this.#seen.add(id);
  }

  #noteAge(ageMs: number): void {
    const givenAt = this.#ports.clock.now() - ageMs;
    this.#age = Math.max(this.#age, ageMs);
    // Ages are told in whole seconds.
    this.#backward ||= ageMs > 0 && givenAt < this.#givenAt - secondMs;
    this.#givenAt = Math.max(this.#givenAt, givenAt);
  }

  #countAdded(page: Page, edge: unknown): void {
    // What was known before is not new.
    if (isRecalled(page)) return;
    const createdAt = createdAtOn(page);
    for (const [index, id] of entriesOn(page).entries()) {
      if (id !== null && !this.#seen.has(id) && isAfter(createdAt[index], edge)) this.#added += 1;
    }
  }

  verdict(): Verdict {
    // Every page is at least as young as the oldest of them, whose age is told without its last part of a second.
    const startedAt = timestampOf(this.#startedAt - (this.#age > 0 ? this.#age + secondMs : 0));
    const total = this.#total;
    const seen = this.#seen;
    const constant = this.#constant;
    if (this.#unusable > 0) {
      const problem = `${this.#unusable} records have no usable id; they stand in mirror_events`;
      return { kind: 'unstable', total, constant: false, problem };
    }
    if (this.#backward) {
      const problem = `a cache in front of the server gave older pages after newer ones, up to ${this.#age / secondMs} s old`;
      return { kind: 'unstable', total, constant: false, problem };
    }
    const unreadable = this.#unreadable;
    if (seen.size + countOf(unreadable) === total && (constant || this.#grewAtTheEnd())) {
      if (unreadable.length === 0) return { kind: 'settled', total, seen, startedAt };
      return { kind: 'damaged', total, seen, unreadable, problem: wordsOf(unreadable) };
    }
    const problem = constant
      ? `the server counts ${total} records, its pages showed ${seen.size}`
      : `records came or went while it was read (${total} at the end, ${seen.size} seen)`;
    return { kind: 'unstable', total, constant, problem };
  }

  /**
   * Whether the total only grew, by nothing but records added at the end, each of which was seen. Counting all alike
   * would not do: a record added in the middle pushes another one past the reader, one that was deleted after it was
   * seen stands in for one that was missed, and the two make up for each other.
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
 * is read would pull another one onto it, and with one added meanwhile the total would not tell.
 * @param most records beyond which the window is too large to be walked and should be cut
 */
export async function walkOnce(ports: WalkPorts, most: number): Promise<Verdict> {
  let end = Math.max(1, Math.ceil((ports.expected ?? 0) / ports.pageSize));
  let total = 0;
  for (let aim = 0; aim < aims; aim += 1) {
    const pass = new Pass(ports);
    const page = await ports.read(end);
    total = page.total;
    if (total > most) return { kind: 'large', total };
    if (page.lastPage === end) {
      pass.keep(page);
      return walkBack(pass, end, page.perPage);
    }
    end = page.lastPage;
  }
  return { kind: 'unstable', total, constant: false, problem: 'its last page was another one each time' };
}

/** Goes on from the list's end, which was taken, to its beginning. */
async function walkBack(pass: Pass, end: number, perPage: number): Promise<Verdict> {
  let lastPage = end;
  // One after another on purpose: the order is what makes a deletion harmless.
  for (let number = end - 1; number >= 1; number -= 1) {
    const page = await pass.take(number);
    if (page.perPage !== perPage) {
      const problem = `the page size changed from ${perPage} to ${page.perPage} during the walk`;
      return { kind: 'unstable', total: page.total, constant: false, problem };
    }
    lastPage = page.lastPage;
  }
  // What was added meanwhile stands at the end, from the page that was the last one on.
  if (!pass.constant) for (let number = end; number <= lastPage; number += 1) await pass.take(number);
  return pass.verdict();
}

/** Times that a window is walked before its order is judged not to hold still. */
const attempts = 3;

/** Walks the window until a walk is consistent, a few times at the most. */
export async function walkWindow(ports: WalkPorts, most: number): Promise<Verdict> {
  let verdict = await walkOnce(ports, most);
  for (let attempt = 1; attempt < attempts && verdict.kind === 'unstable'; attempt += 1) {
    verdict = await walkOnce(ports, most);
  }
  return verdict;
}

/**
 * Collects a window that cannot be cut further and whose order changes from request to request: walks it again and
 * again and unites what was seen, until that is as many as the server counts. Each record has the same chance to be
 * missed by a pass, so a few dozen passes find the last one.
 */
export async function collectWindow(ports: WalkPorts, passes: number): Promise<Verdict> {
  const startedAt = timestampOf(ports.clock.now());
  const seen = new Set<number>();
  const record = (page: Page): number => {
    for (const id of idsOn(page)) seen.add(id);
    return ports.record(page);
  };
  const first = await walkOnce({ ...ports, record }, Infinity);
  let verdict = first;
  for (let pass = 1; pass < passes; pass += 1) {
    // Where records came or went, what was seen before no longer adds up with what is seen now.
    if (verdict.kind !== 'unstable' || !verdict.constant || verdict.total !== first.total) return verdict;
    if (seen.size === first.total) return { kind: 'settled', total: first.total, seen, startedAt };
    verdict = await walkOnce({ ...ports, record }, Infinity);
  }
  return verdict;
}
