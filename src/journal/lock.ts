/** The locks of batches: one process sends a batch. */
import type { Database } from 'better-sqlite3';
import type { Clock } from '../model/time.ts';
import { type Locks, locksIn } from '../store/lock.ts';

/** The locks of the journal file, by batch. */
export function batchLocks(database: Database, clock: Clock): Locks {
  const kind = {
    table: 'journal_locks',
    key: 'batch',
    held: (batch: string) => `batch ${batch} is in other hands`,
    what: (batch: string) => `batch ${batch}`,
  };
  return locksIn(database, kind, clock);
}
