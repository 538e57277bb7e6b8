/**
 * Decides which rows a run removes (pure): which of those that a walk did not show are asked for, whether the answers prove that
 * all of them are gone, and how many may go at once. Section "Deletions" of docs/architecture.md.
 */
import type { RecordKey, ServedRecord } from '../model/records.ts';
import { counted } from '../model/text.ts';
import type { Window } from '../store/mirror-types.ts';

/** A window that was read whole and did not show all of its rows. */
export interface Suspicion {
  readonly window: Window;
  readonly ids: readonly RecordKey[];
  /** Whether its pages showed any record. */
  readonly showedSome: boolean;
  /** Whether its total counted exactly the records that it showed. Then a few suspects speak for all. */
  readonly isExact: boolean;
}

/** The brake: how many rows may go at once without --allow-deletions. The larger of a number and a share counts. */
const brakeRows = 50;
const brakeShare = 0.2;
/** A window with at most this many rows may lose all of them. */
const fewRows = 10;

/** So many suspects of a window speak for all: a walk that was misled would have missed others than those that are gone. */
const sampleSize = 20;

/** Suspicions that the brake holds, and why. */
interface Held {
  readonly held: readonly Suspicion[];
  readonly problem: string;
}

interface BrakePorts {
  readonly resource: string;
  /** How many rows may go at once, if the operator has set it (`sync.brake`). */
  readonly brake: number | undefined;
  /** How many rows the run has removed so far. */
  readonly removed: number;
  /** How many rows the resource has, or the window. */
  readonly rows: (window?: Window) => number;
}

/** Returns what the brake holds: windows that would lose too many rows, and all the others if the resource would. */
export function brakeOn(suspicions: readonly Suspicion[], { resource, brake, removed, rows }: BrakePorts): Held[] {
  const isTooMany = (lost: number, of: number) => lost > Math.max(brake ?? brakeRows, of * brakeShare);
  const words = (lost: number, of: string) => `${lost} of ${of} would be removed; nothing was`;
  const held = suspicions.flatMap((each): Held[] => {
    const lost = each.ids.length;
    const live = rows(each.window);
    if (!isTooMany(lost, live) && (lost < live || lost <= (brake ?? fewRows))) return [];
    const of = `${counted(live, 'record')} created in ${each.window.from}..${each.window.to}`;
    return [{ held: [each], problem: words(lost, of) }];
  });
  const going = suspicions.filter((each) => !held.some((other) => other.held.includes(each)));
  const lost = going.reduce((sum, { ids }) => sum + ids.length, 0);
  const live = rows();
  if (lost === 0 || (!isTooMany(removed + lost, removed + live) && lost < live)) return held;
  return [...held, { held: going, problem: words(lost, `${live} ${resource}`) }];
}

/** Returns the suspects to ask for: all of them or, if they are many, some at random. @param random returns a number from 0 to 1 */
export function suspectsToAsk({ ids, isExact }: Suspicion, random: () => number): readonly RecordKey[] {
  if (!isExact || ids.length <= sampleSize) return ids;
  const left = [...ids];
  return Array.from({ length: sampleSize }, () => left.splice(Math.floor(random() * left.length), 1)).flat();
}

/** How the server answered to the suspects of one window that were asked for. */
export interface Answers {
  readonly absent: RecordKey[];
  readonly alive: RecordKey[];
  /** Records whose creation time is not one of the window's: the row said otherwise, or the server has changed it. */
  readonly moved: ServedRecord[];
  /** Neither shown nor denied, or too long before a control record was shown. */
  unclear: number;
}

/** What the pages kept from the reader, for people. @param alive at least one record */
export function wordsOf(alive: readonly RecordKey[]): string {
  const some = `id ${alive.slice(0, 3).join(', ')}${alive.length > 3 ? ', …' : ''}`;
  return `the pages did not show ${counted(alive.length, 'record')} that the server still has (${some})`;
}

/** Returns why the window is not settled; null if all suspects are gone. If one of those asked for lives, the walk was misled. */
export function whyLeft({ ids }: Suspicion, { alive, absent, moved, unclear }: Answers): string | null {
  if (alive.length > 0) return wordsOf(alive);
  // Those that were not asked for may have moved, too.
  if (moved.length > 0 && absent.length + moved.length + unclear < ids.length) {
    return `the creation times of ${counted(moved.length, 'row')} were not those of the server`;
  }
  if (unclear === 0) return null;
  return `the pages did not show ${counted(unclear, 'record')} that the server neither shows nor denies to have`;
}

/** Returns the rows that are proven to be gone: those of a window together, unless each of them was asked for by itself. */
export function provenGone(suspicion: Suspicion, answers: Answers): readonly RecordKey[] {
  const { ids, isExact } = suspicion;
  if (!isExact || answers.moved.length > 0) return answers.absent;
  return whyLeft(suspicion, answers) === null ? ids : [];
}
