/** The worker's store in a PostgreSQL database. */
import type { Clock } from '../../model/time.ts';
import { openLeases } from '../../store/lease.ts';
import type { SharedStore } from '../../store/postgres.ts';
import { openShared } from '../../store/postgres-schema.ts';
import type { WorkerStore } from './port.ts';
import { workerKind } from './sqlite.ts';
import { openWorkerStoreOver, workerLockWords } from './store.ts';

/** Opens the worker's store there, and makes it where there is none. Throws a FileError. The caller closes it. */
export async function openSharedWorkerStore(store: SharedStore, clock: Clock): Promise<WorkerStore> {
  const database = await openShared(store, workerKind, clock);
  return openWorkerStoreOver(
    {
      dialect: database.dialect,
      // The driver does it, whatever the statement.
      explained: (error) => error,
      locks: openLeases(database, { prefix: '', ...workerLockWords }),
    },
    clock,
  );
}
