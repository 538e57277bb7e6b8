/** Opens the two sides of a move from the settings. */
import { existsSync } from 'node:fs';
import { sql } from 'kysely';
import { openBackend } from '../journal/open.ts';
import { journalKind } from '../journal/schema.ts';
import { databaseText, type SharedStore } from '../model/address.ts';
import { UsageError } from '../model/errors.ts';
import type { Releases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { sharedStoreOf } from '../settings/server.ts';
import { tablesOver } from '../store/kysely-sqlite.ts';
import type { LockOwner } from '../store/lock.ts';
import { makeShared, openShared } from '../store/postgres-schema.ts';
import type { StoreSide, StoreTables } from './move-store.ts';
import { workerFileOf } from './open-store.ts';
import { openWorkerBackend, workerKind } from './store/sqlite.ts';

export type MoveDirection = 'shared' | 'files';

/** Opens both sides; creates what does not exist. Throws an OperatorError. */
export async function openMove(settings: Settings, to: MoveDirection, clock: Clock, releases: Releases) {
  const store = sharedStoreOf(settings);
  if (store === undefined) {
    throw new UsageError('store.shared is not set: there is no shared store to copy to or from', {
      advice: 'Set the address of the database in the config file, as docs/fleet.md shows.',
    });
  }
  const { journal } = settings.store;
  if (to === 'shared' && !existsSync(journal)) {
    throw new UsageError(`there is nothing to move: no journal at ${journal}`);
  }
  const shared = releases.add(await openSharedSide(store));
  const files = releases.add(openFiles(settings, to === 'files', clock));
  return to === 'shared' ? { source: files, target: shared } : { source: shared, target: files };
}

/** @param createsWorker whether to create the worker's file if it does not exist */
function openFiles(settings: Settings, createsWorker: boolean, clock: Clock): StoreSide {
  const file = workerFileOf(settings.store.mirror);
  const backend = openBackend(settings.store.journal, clock);
  const worker = createsWorker || existsSync(file) ? openWorkerBackend(file, clock) : undefined;
  const journal = tablesOver<StoreTables>(backend.dialect);
  const workerDb = worker && tablesOver<StoreTables>(worker.dialect);
  return {
    name: backend.name,
    journal,
    worker: workerDb,
    owners: async () => {
      const owners: (LockOwner | undefined)[] = [];
      // `owner` ignores the connection, which is busy with a transaction here.
      for (const name of backend.lockNames()) owners.push(await backend.locks.owner(journal, name));
      for (const name of worker?.lockNames() ?? []) owners.push(await worker?.locks.owner(journal, name));
      return owners.filter((each) => each !== undefined);
    },
    // SQLite always continues after the highest number.
    continueNumbers: async () => {},
    close: async () => {
      await backend.close();
      await worker?.close();
    },
  };
}

async function openSharedSide(store: SharedStore): Promise<StoreSide> {
  const database = await openShared(store, journalKind);
  await makeShared(database, workerKind);
  const db = tablesOver<StoreTables>(database.dialect);
  return {
    name: `${databaseText(store.address)} (${store.schema})`,
    journal: db,
    worker: db,
    owners: () =>
      database.query<LockOwner>(
        `select run, command, pid, host, acquired_at as "acquiredAt" from ${database.schema}.store_leases
           where until > clock_timestamp()`,
      ),
    continueNumbers: async (connection, table, column) => {
      await sql`select setval(pg_get_serial_sequence(${table}, ${column}),
        coalesce((select max(${sql.ref(column)}) from ${sql.table(table)}), 1),
        exists (select from ${sql.table(table)}))`.execute(connection);
    },
    close: database.close,
  };
}
