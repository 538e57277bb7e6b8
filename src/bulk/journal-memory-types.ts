/** What the mirror remembers of the journal, so that one that was lost, emptied or put back from a copy is noticed. */
export interface RememberedJournal {
  /** The id of the journal. */
  readonly journal: string;
  /** The newest batch of which something was sent. */
  readonly batch: string;
  /** How many steps the journal had when the newest request was about to go out. */
  readonly steps: number;
}

export interface JournalMemory {
  /** Null where nothing was ever sent. Throws a FileError where the mirror cannot be read. */
  recall(): RememberedJournal | null;
  /** To be called before each request. Throws a FileError where the mirror cannot be written. */
  remember(newest: RememberedJournal): void;
  close(): void;
}
