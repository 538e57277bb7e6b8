/** The lock of a batch: one process sends it, and a dead holder gives way. */
import type { Database } from 'better-sqlite3';
import { LockHeldError } from '../../../model/errors.ts';
import type { Clock, Timestamp } from '../../../model/time.ts';
import type { BatchLock } from '../../ports/journal.ts';
import { type Holder, isAlive, thisHolder } from '../lock.ts';

type LockRow = Holder & { readonly acquired_at: string };

/** The statements about locks; each belongs into a transaction of the caller. */
export function lockTable(database: Database, clock: Clock) {
  const held = database.prepare<[string], LockRow>('SELECT * FROM journal_locks WHERE batch = ?');
  const take = database.prepare(
    `INSERT INTO journal_locks (batch, pid, process_started, host, acquired_at, beat_at)
     VALUES (@batch, @pid, @process_started, @host, @beat_at, @beat_at)`,
  );
  const drop = database.prepare('DELETE FROM journal_locks WHERE batch = ?');
  const beat = database.prepare('UPDATE journal_locks SET beat_at = ? WHERE batch = ?');

  function owner(batch: string): BatchLock | undefined {
    const row = held.get(batch);
    if (row === undefined || !isAlive(row, clock)) return undefined;
    return { pid: row.pid, host: row.host, acquiredAt: row.acquired_at as Timestamp };
  }

  return {
    owner,
    acquire: (batch: string): void => {
      const other = owner(batch);
      if (other !== undefined) {
        throw new LockHeldError(
          `batch ${batch} is in the hands of process ${other.pid} on ${other.host}, since ${other.acquiredAt}`,
          { advice: 'Wait for it to end, or stop it; a holder that died gives way by itself.' },
        );
      }
      drop.run(batch);
      take.run({ batch, ...thisHolder(clock) });
    },
    release: (batch: string): void => {
      drop.run(batch);
    },
    /** Shows that the holder lives; part of a step that is made anyway. */
    beat: (batch: string, at: Timestamp): void => {
      beat.run(at, batch);
    },
  };
}
