/**
 * Remembers by how much totals differ from what pages show (hidden records that are still counted, capped totals, unreadable
 * records), so that each difference is searched only once. Section "Windows and walks" of docs/architecture.md.
 */
import type { DayRange } from '../model/era.ts';
import type { ResourceName } from '../model/resources.ts';
import { counted } from '../model/text.ts';
import type { Timestamp } from '../model/time.ts';
import type { Window } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';

const name = 'surplus';

/** Records of a window that no page can show, not even a page of one. */
interface Unreadable {
  /** How many of them the server counts and the mirror does not hold. */
  readonly missing: number;
  readonly records: number;
  /** When they were searched. */
  readonly at: Timestamp;
}

/** How many more records the server counts than its pages show; negative if it counts fewer. */
interface Stored {
  /** In the total of the whole list. */
  readonly list: number;
  /** The total that the list had then. */
  readonly total?: number | undefined;
  /** In the totals of windows, by their days. Windows without a surplus are left out. */
  readonly windows: Readonly<Record<string, number>>;
  /** How many of these are counted behind the end of a window's list. A window for which that is all of them is left out. */
  readonly past?: Readonly<Record<string, number>>;
  readonly unreadable?: Readonly<Record<string, Unreadable>>;
}

type SurplusStore = Pick<MirrorStore, 'capability' | 'recordCapability' | 'forgetCapability'>;

const keyOf = ({ from, to }: DayRange): string => `${from}..${to}`;

/** The known surpluses of one resource. */
export class Surplus {
  readonly #store: SurplusStore;
  readonly #resource: ResourceName;
  #list: number;
  #total: number | undefined;
  #windows: Map<string, number>;
  #past: Map<string, number>;
  #unreadable: Map<string, Unreadable>;
  #guess = 0;

  constructor(store: SurplusStore, resource: ResourceName) {
    this.#store = store;
    this.#resource = resource;
    const stored = store.capability(name, resource)?.value as Stored | undefined;
    this.#list = stored?.list ?? 0;
    this.#total = stored?.total;
    this.#windows = new Map(Object.entries(stored?.windows ?? {}));
    this.#past = new Map(Object.entries(stored?.past ?? {}));
    this.#unreadable = new Map(Object.entries(stored?.unreadable ?? {}));
  }

  get list(): number {
    return this.#list;
  }

  /** The surplus of a window. If that is not known: the one that all known windows have in common. */
  of(window: DayRange): number {
    return this.#windows.get(keyOf(window)) ?? (this.#common() || this.#guess);
  }

  /**
   * The surplus of a window if nothing else can look like it, else 0. If it was not found in this very window, pages that leave
   * out up to `maxRecords` records would look the same.
   */
  sureOf(window: DayRange, maxRecords: number): number {
    const surplus = this.of(window);
    return this.#windows.has(keyOf(window)) || surplus > maxRecords ? surplus : 0;
  }

  /** How many records the total of a window counts behind the last page that shows any. */
  pastEndOf(window: DayRange): number {
    return this.#past.get(keyOf(window)) ?? this.of(window);
  }

  /** How many records the window's pages show, as far as is known. The surplus takes no requests and no room. */
  shownIn(window: Pick<Window, 'from' | 'to' | 'serverTotal'>): number {
    return Math.max(0, (window.serverTotal ?? 0) - this.of(window));
  }

  /** By how much the total of every range is off, whatever its days; 0 if that is not known. */
  inEach(): number {
    return this.#list === this.#common() ? this.#list : 0;
  }

  /** Takes every total to be off by this much for the rest of the run, as the counts of a whole and of its halves have shown. */
  assume(surplus: number): void {
    this.#guess = surplus;
  }

  /** Remembers a window's surplus. @param past how many of these are counted behind the end of the window's list */
  note(window: DayRange, surplus: number, past = surplus): void {
    const key = keyOf(window);
    const wasUnreadable = this.#unreadable.delete(key);
    const isSame = surplus === (this.#windows.get(key) ?? 0) && past === (this.#past.get(key) ?? surplus);
    if (isSame && !wasUnreadable) return;
    if (surplus === 0) this.#windows.delete(key);
    else this.#windows.set(key, surplus);
    if (surplus === 0 || past === surplus) this.#past.delete(key);
    else this.#past.set(key, past);
    this.#save();
  }

  noteUnreadable(window: DayRange, unreadable: Unreadable): void {
    this.#unreadable.set(keyOf(window), unreadable);
    this.#save();
  }

  /** When records of the window were last found to be unreadable; undefined if none is. */
  searchedAt(window: DayRange): Timestamp | undefined {
    return this.#unreadable.get(keyOf(window))?.at;
  }

  /** How many records of these windows cannot be read. */
  unreadableIn(windows: readonly DayRange[]): number {
    return windows.reduce((sum, window) => sum + (this.#unreadable.get(keyOf(window))?.records ?? 0), 0);
  }

  /** Remembers by how much the list's total is off, and forgets windows that no longer exist. */
  noteList(surplus: number, total: number, windows: readonly DayRange[]): void {
    const keys = new Set(windows.map(keyOf));
    const ofWindows = <T>(known: ReadonlyMap<string, T>) => new Map([...known].filter(([key]) => keys.has(key)));
    const kept = ofWindows(this.#windows);
    const unreadable = ofWindows(this.#unreadable);
    const isSame = surplus === this.#list && (surplus === 0 || total === this.#total);
    if (isSame && kept.size === this.#windows.size && unreadable.size === this.#unreadable.size) return;
    this.#list = surplus;
    this.#total = total;
    this.#windows = kept;
    this.#past = ofWindows(this.#past);
    this.#unreadable = unreadable;
    this.#save();
  }

  /**
   * Whether it is known why the list counts more or fewer records than the mirror has: it was so before, the total is capped, or
   * the surpluses of the windows explain it.
   */
  isKnown(surplus: number, total: number, windows: readonly DayRange[]): boolean {
    return surplus === this.#list || this.isCapped(surplus, total) || this.explains(surplus, windows, false);
  }

  /** Whether the total is too small and has not moved. Then it is capped, and does not show what has come or gone. */
  isCapped(surplus: number, total: number): boolean {
    return surplus < 0 && this.#list < 0 && total === this.#total && total > 0;
  }

  /**
   * Whether the windows explain it: their sum does, or each of them is off by as much.
   * @param overlap whether ranges show records of other windows
   */
  explains(surplus: number, windows: readonly DayRange[], overlap: boolean): boolean {
    const own = windows.map((window) => {
      const key = keyOf(window);
      return (this.#windows.get(key) ?? 0) + (this.#unreadable.get(key)?.missing ?? 0);
    });
    const sum = own.reduce((before, each) => before + each, 0);
    return sum === surplus || own.every((each) => each === surplus) || (overlap && surplus > 0 && sum > surplus);
  }

  #common(): number {
    const [first = 0, ...others] = this.#windows.values();
    // Only a positive one: a capped total says nothing of other days, and an empty window would be cut day by day.
    return first > 0 && others.length > 0 && others.every((each) => each === first) ? first : 0;
  }

  #save(): void {
    if (this.#list === 0 && this.#windows.size === 0 && this.#unreadable.size === 0) {
      this.#store.forgetCapability(name, this.#resource);
      return;
    }
    const stored: Stored = {
      list: this.#list,
      total: this.#total,
      windows: Object.fromEntries(this.#windows),
      past: Object.fromEntries(this.#past),
      unreadable: Object.fromEntries(this.#unreadable),
    };
    this.#store.recordCapability(name, this.#resource, stored);
  }
}

/** Says what a surplus means, for messages. */
export function surplusWords(surplus: number): string {
  return surplus > 0
    ? `the totals of this list count ${counted(surplus, 'record')} that no page shows`
    : `the totals of this list count ${counted(-surplus, 'record')} fewer than its pages show`;
}
