/**
 * Totals that count what no page shows, as where deleted records are hidden and still counted. It is remembered how many
 * they are, so that they are looked for once. Section "Windows and walks" of docs/architecture.md.
 */
import type { DayRange } from '../model/era.ts';
import type { ResourceName } from '../model/resources.ts';
import type { MirrorStore, Window } from '../store/mirror-types.ts';

const name = 'surplus';

/** How many records are counted beyond those that are shown; below 0, how many fewer. */
interface Stored {
  /** In the total of the list, after everything else was explained. */
  readonly list: number;
  /** In totals of windows, by their days; those of 0 are left out. */
  readonly windows: Readonly<Record<string, number>>;
}

type SurplusStore = Pick<MirrorStore, 'capability' | 'recordCapability' | 'forgetCapability'>;

const keyOf = ({ from, to }: DayRange): string => `${from}..${to}`;

/** What is known of one resource. */
export class Surplus {
  readonly #store: SurplusStore;
  readonly #resource: ResourceName;
  #list: number;
  #windows: Map<string, number>;

  constructor(store: SurplusStore, resource: ResourceName) {
    this.#store = store;
    this.#resource = resource;
    const stored = store.capability(name, resource)?.value as Stored | undefined;
    this.#list = stored?.list ?? 0;
    this.#windows = new Map(Object.entries(stored?.windows ?? {}));
  }

  /** Of the list. */
  get list(): number {
    return this.#list;
  }

  /** Of a window; where nothing is known of that one, what all that are known have in common. */
  of(window: DayRange): number {
    return this.#windows.get(keyOf(window)) ?? this.#common();
  }

  /** Records of the window that its pages show, as far as is known: what is only counted takes no request and no room. */
  shownIn(window: Pick<Window, 'from' | 'to' | 'serverTotal'>): number {
    return Math.max(0, (window.serverTotal ?? 0) - Math.max(0, this.of(window)));
  }

  /** What the total of any range is off by, whatever its days. */
  inEach(): number {
    return this.#list === this.#common() ? this.#list : 0;
  }

  note(window: DayRange, surplus: number): void {
    if (surplus === (this.#windows.get(keyOf(window)) ?? 0)) return;
    if (surplus === 0) this.#windows.delete(keyOf(window));
    else this.#windows.set(keyOf(window), surplus);
    this.#save();
  }

  /** Puts on record what the list's total counts too many, and keeps of the windows those that there still are. */
  noteList(surplus: number, windows: readonly DayRange[]): void {
    const kept = new Map(
      windows.map(keyOf).flatMap((key) => {
        const own = this.#windows.get(key);
        return own === undefined ? [] : [[key, own] as const];
      }),
    );
    if (surplus === this.#list && kept.size === this.#windows.size) return;
    this.#list = surplus;
    this.#windows = kept;
    this.#save();
  }

  /**
   * Whether the windows' own surplus is that of the list: as their sum, or because every total is off by as much.
   * @param overlap whether ranges reach into the neighbours of their windows, so that some is counted several times
   */
  explains(surplus: number, windows: readonly DayRange[], overlap: boolean): boolean {
    const own = windows.map((window) => this.#windows.get(keyOf(window)) ?? 0);
    const sum = own.reduce((before, each) => before + each, 0);
    return sum === surplus || own.every((each) => each === surplus) || (overlap && surplus > 0 && sum > surplus);
  }

  #common(): number {
    const [first = 0, ...others] = this.#windows.values();
    return others.length > 0 && others.every((each) => each === first) ? first : 0;
  }

  #save(): void {
    if (this.#list === 0 && this.#windows.size === 0) this.#store.forgetCapability(name, this.#resource);
    else {
      const stored: Stored = { list: this.#list, windows: Object.fromEntries(this.#windows) };
      this.#store.recordCapability(name, this.#resource, stored);
    }
  }
}

/** What a surplus means, in words. */
export function surplusWords(surplus: number): string {
  return surplus > 0
    ? `the totals of this list count ${surplus} records that no page shows`
    : `the totals of this list count ${-surplus} records fewer than its pages show`;
}
