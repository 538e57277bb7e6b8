/**
 * What forgetting a person needs of the stores that hold text about people. Section "Forgetting a person" of
 * docs/architecture.md.
 */
import type { Timestamp } from '../model/time.ts';
import type { MirrorStore } from './mirror-types.ts';

/** Rows that something was done to, by table; a table with none is left out. */
export type TableCounts = Readonly<Record<string, number>>;

/** Someone of the users, with every text that identifies them. Never printed, logged or stored. */
export interface Person {
  readonly id: number;
  /** The person's own addresses, now and before. */
  readonly addresses: readonly string[];
  /** Addresses, user names, first and last names, now and before. */
  readonly texts: readonly string[];
}

export interface Forgotten {
  /** Rows removed, and rows whose text was taken out. */
  readonly removed: TableCounts;
  /** Ids that are kept out from now on, by resource. */
  readonly suppressed: TableCounts;
}

export interface ForgetStore extends Pick<MirrorStore, 'acquireLock' | 'releaseLock' | 'close'> {
  /** Ids of the users with that email or user name: those of now, or where there are none, those of the history. */
  idsOf(name: string): number[];
  /** Whether anything in the mirror is about that user. */
  knows(id: number): boolean;
  person(id: number): Person;
  /** Removes everything about the person and keeps the ids from coming back, in one step. */
  forget(person: Person, at: Timestamp): Forgotten;
  /**
   * Lets the person's records come back with the next sync, in one step. Counts by resource; none where nothing was
   * kept out.
   */
  undo(id: number): TableCounts;
  /**
   * Makes sure that no byte of what was removed is left in the file, its log or its index. False where another process
   * that reads an older state prevents it.
   */
  scrub(): boolean;
}

/** A journal of writes that can take the text about a person out of itself; amounts and outcomes stay. */
export interface ForgetJournal {
  /** Takes out what identifies the person, and leaves no byte of it in the files; counts rows by table. */
  forget(person: Person): Promise<TableCounts>;
}
