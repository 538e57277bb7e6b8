/**
 * Totals that differ from what pages show: hidden records that are still counted, capped totals, unreadable records. By how much is
 * remembered, so that it is searched once. Section "Windows and walks" of docs/architecture.md.
 */
import type { DayRange } from '../model/era.ts';
import type { ResourceName } from '../model/resources.ts';
import { counted } from '../model/text.ts';
import type { Timestamp } from '../model/time.ts';
import type { Window } from '../store/mirror-types.ts';
import type { MirrorStore } from './store/mirror-store.ts';

const name = 'surplus';

/** Records of a window that no page shows, however small. */
interface Unreadable {
  /** How many of them the server counts and the mirror does not hold. */
  readonly missing: number;
  readonly records: number;
  /** When they were searched. */
  readonly at: Timestamp;
}

/** How many more records are counted than are held; below 0, how many fewer. */
interface Stored {
  /** In the total of the list, after everything else was explained. */
  readonly list: number;
  /** The total that the list had then. */
  readonly total?: number | undefined;
  /** In totals of windows, by their days; those of 0 are left out. */
  readonly windows: Readonly<Record<string, number>>;
  /** How many of these are counted past the end of a window's list, where not all are. */
  readonly past?: Readonly<Record<string, number>>;
  readonly unreadable?: Readonly<Record<string, Unreadable>>;
}

type SurplusStore = Pick<MirrorStore, 'capability' | 'recordCapability' | 'forgetCapability'>;

const keyOf = ({ from, to }: DayRange): string => `${from}..${to}`;

/** What is known of one resource. */
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

  /** Of a window; where nothing is known of that one, what all that are known have in common. */
  of(window: DayRange): number {
    return this.#windows.get(keyOf(window)) ?? (this.#common() || this.#guess);
  }

  /** Of a window, where nothing else can look like it: a page that leaves out a few, in a window that is not known to count too many. */
  sureOf(window: DayRange, most: number): number {
    const surplus = this.of(window);
    return this.#windows.has(keyOf(window)) || surplus > most ? surplus : 0;
  }

  /** How many records the total of a window counts past the last page that shows any. */
  pastEndOf(window: DayRange): number {
    return this.#past.get(keyOf(window)) ?? this.of(window);
  }

  /** Records of the window that its pages show, as far as is known: what is only counted takes no request and no room. */
  shownIn(window: Pick<Window, 'from' | 'to' | 'serverTotal'>): number {
    return Math.max(0, (window.serverTotal ?? 0) - this.of(window));
  }

  /** What the total of any range is off by, whatever its days. */
  inEach(): number {
    return this.#list === this.#common() ? this.#list : 0;
  }

  /** Takes every total to be off by so much in this run, as counts of halves and of their whole have shown. */
  assume(surplus: number): void {
    this.#guess = surplus;
  }

  /** @param past how many of them are counted past the end of the window's list */
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

  /** When records of the window were found to be unreadable; undefined where none is known to be. */
  searchedAt(window: DayRange): Timestamp | undefined {
    return this.#unreadable.get(keyOf(window))?.at;
  }

  /** Records of these windows that no page shows, however small. */
  unreadableIn(windows: readonly DayRange[]): number {
    return windows.reduce((sum, window) => sum + (this.#unreadable.get(keyOf(window))?.records ?? 0), 0);
  }

  /** Puts on record by how much the list's total is off, and keeps of the windows those that there still are. */
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
   * Whether it is known why the list counts more, or fewer, than are held: it did before, or the windows' own surplus explains it. A
   * total that is too small and stands still is capped, and says nothing of what has come or gone.
   */
  isKnown(surplus: number, total: number, windows: readonly DayRange[]): boolean {
    return surplus === this.#list || this.isCapped(surplus, total) || this.explains(surplus, windows, false);
  }

  isCapped(surplus: number, total: number): boolean {
    return surplus < 0 && this.#list < 0 && total === this.#total && total > 0;
  }

  /** Whether the windows explain it: by their sum, or each is off by as much. @param overlap whether ranges reach into other windows */
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
    // A total that counts too few is capped, and says nothing of other days: an empty window would be cut day by day.
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

/** What a surplus means, in words. */
export function surplusWords(surplus: number): string {
  return surplus > 0
    ? `the totals of this list count ${counted(surplus, 'record')} that no page shows`
    : `the totals of this list count ${counted(-surplus, 'record')} fewer than its pages show`;
}
