/** What the mirror remembers of the journal, so that one that was lost, emptied or put back from a copy is noticed. */
export interface JournalMemory {
  /** The journal that batches were sent from, and the newest of them; null where none was. */
  recall(): { readonly journal: string; readonly batch: string } | null;
  remember(journal: string, batch: string): void;
  close(): void;
}
