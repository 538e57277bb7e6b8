/** Opens the two sides of a move from the settings. The worker's tables move along: its room opens them, for whoever calls this. */
import { existsSync } from 'node:fs';
import { type Dialect, sql } from 'kysely';
import { databaseText, type SharedStore } from '../model/address.ts';
import { UsageError } from '../model/errors.ts';
import type { Releases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { sharedStoreOf } from '../settings/server.ts';
import type { FileKind } from '../store/file-kind.ts';
import { tablesOver } from '../store/kysely-sqlite.ts';
import type { LockOwner, StoreLocks } from '../store/lock.ts';
import { makeShared, openShared } from '../store/postgres-schema.ts';
import type { StoreSide, StoreTables } from './move-store.ts';
import { openBackend } from './open.ts';
import { journalKind } from './schema.ts';

export type MoveDirection = 'shared' | 'files';

/** What the worker keeps, and its file, which the worker's room opens. */
export interface WorkerToMove {
  readonly kind: FileKind;
  readonly file: string;
  /** Makes the file if there is none. */
  readonly open: () => {
    readonly dialect: Dialect;
    readonly locks: StoreLocks;
    readonly lockNames: () => readonly string[];
    readonly close: () => Promise<void> | void;
  };
}

/** Opens both sides; creates what does not exist. Throws an OperatorError. */
export async function openMove(
  settings: Settings,
  to: MoveDirection,
  worker: WorkerToMove,
  clock: Clock,
  releases: Releases,
): Promise<{ readonly source: StoreSide; readonly target: StoreSide }> {
  const store = sharedStoreOf(settings);
  if (store === undefined) {
    throw new UsageError('store.shared is not set: there is no shared store to copy to or from', {
      advice: 'Set the address of the database in the config file, as docs/worker.md shows.',
    });
  }
  const { journal } = settings.store;
  if (to === 'shared' && !existsSync(journal)) {
    throw new UsageError(`there is nothing to move: no journal at ${journal}`);
  }
  const shared = releases.add(await openSharedSide(store, worker.kind));
  const files = releases.add(openFiles(journal, worker, to === 'files', clock));
  return to === 'shared' ? { source: files, target: shared } : { source: shared, target: files };
}

/** @param createsWorker whether to create the worker's file if it does not exist */
function openFiles(
  file: string,
  { file: workerFile, open }: WorkerToMove,
  createsWorker: boolean,
  clock: Clock,
): StoreSide {
  const backend = openBackend(file, clock);
  const worker = createsWorker || existsSync(workerFile) ? open() : undefined;
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

async function openSharedSide(store: SharedStore, workerKind: FileKind): Promise<StoreSide> {
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
