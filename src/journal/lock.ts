/** The locks of batches: one process sends a batch. */
import type { Database } from 'better-sqlite3';
import type { Clock } from '../model/time.ts';
import { type Locks, locksIn, type LockWords } from '../store/lock.ts';

export const batchLockWords: LockWords = {
  held: (batch) => `batch ${batch} is in other hands`,
  what: (batch) => `batch ${batch}`,
};

export function batchLocks(database: Database, clock: Clock): Locks {
  return locksIn(database, { table: 'journal_locks', key: 'batch', ...batchLockWords }, clock);
}
