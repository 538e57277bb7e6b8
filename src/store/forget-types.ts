/** What forgetting needs of stores that hold text about people ("Forgetting a person" of docs/architecture.md). */
/** Rows that something was done to, by table; a table with none is left out. */
export type TableCounts = Readonly<Record<string, number>>;

/** Someone of the users, with every text that identifies them. Never printed, logged or stored. */
export interface Person {
  readonly id: number;
  readonly addresses: readonly string[];
  /** Addresses, user names, first and last names, now and before. */
  readonly texts: readonly string[];
}

/** A journal of writes that can take the text about a person out of itself; amounts and outcomes stay. */
export interface ForgetJournal {
  /** Takes out what identifies the person, and leaves no byte of it in the files; counts rows by table. */
  forget(person: Person): Promise<TableCounts>;
}
