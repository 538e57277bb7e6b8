/** What finding users by a file's keys needs of the mirror. */
import type { ServedRecord } from '../model/records.ts';
import type { Timestamp } from '../model/time.ts';

export interface UserDirectory {
  /** Every row was seen on the server at or after this time; null where that is not known. */
  readonly freshAsOf: Timestamp | null;
  /**
   * The users with one of these values in the column, addresses and names without regard to case: rows with `id`,
   * `username`, `email`, `balance` and the fields asked for.
   */
  find(column: 'id' | 'email' | 'username', values: readonly string[], fields: readonly string[]): ServedRecord[];
  /** The user's balance transactions; undefined where the mirror has none of anybody. */
  transactions(user: number): readonly ServedRecord[] | undefined;
  close(): void;
}
