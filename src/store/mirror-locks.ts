/** The locks of the mirror file. */
import type { Database } from 'better-sqlite3';
import type { Clock } from '../model/time.ts';
import type { Holder } from './holder.ts';
import { type Locks, locksIn } from './lock.ts';

/** Whoever writes the mirror takes its lock `sync`, whatever it writes. */
export function mirrorLocks(database: Database, clock: Clock, self?: () => Holder): Locks {
  const kind = {
    table: 'mirror_locks',
    key: 'name',
    held: (_name: string, { command }: { readonly command: string }) => `another ${command} holds the lock`,
    what: () => 'the mirror',
  };
  return locksIn(database, kind, clock, self);
}
