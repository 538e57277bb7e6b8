/** Opens the two sides of a move from the settings. The worker's tables move along: its room opens them, for whoever calls this. */
import { existsSync } from 'node:fs';
import type { Dialect } from 'kysely';
import { databaseText } from '../model/address.ts';
import { UsageError } from '../model/errors.ts';
import type { Releases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { sharedStoreOf } from '../settings/server.ts';
import type { FileKind } from '../store/file-kind.ts';
import { tablesOver } from '../store/kysely-sqlite.ts';
import type { LockOwner, StoreLocks } from '../store/lock.ts';
import { makeShared, openShared } from '../store/postgres-schema.ts';
import type { MoveSource, MoveTarget } from './move-store.ts';
import { openBackend } from './open.ts';
import { journalKind } from './schema.ts';
import type { JournalTables } from './tables.ts';

/** What the worker keeps, and its file, which the worker's room opens. */
export interface WorkerToMove {
  readonly kind: FileKind;
  readonly file: string;
  readonly open: () => {
    readonly dialect: Dialect;
    readonly locks: StoreLocks;
    readonly lockNames: () => readonly string[];
    readonly close: () => Promise<void> | void;
  };
}

/** Opens both sides; makes the tables of the shared store if they do not exist. Throws an OperatorError. */
export async function openMove(
  settings: Settings,
  worker: WorkerToMove,
  clock: Clock,
  releases: Releases,
): Promise<{ readonly source: MoveSource; readonly target: MoveTarget }> {
  const store = sharedStoreOf(settings);
  if (store === undefined) {
    throw new UsageError('store.shared is not set: there is no shared store to copy to', {
      advice: 'Set the address of the database in the config file, as docs/worker.md shows.',
    });
  }
  const { journal } = settings.store;
  if (!existsSync(journal)) throw new UsageError(`there is nothing to move: no journal at ${journal}`);
  const database = releases.add(await openShared(store, journalKind));
  await makeShared(database, worker.kind);
  return {
    source: openFiles(journal, worker, clock, releases),
    target: {
      name: `${databaseText(store.address)} (${store.schema})`,
      db: tablesOver<JournalTables>(database.dialect),
    },
  };
}

function openFiles(
  file: string,
  { file: workerFile, open }: WorkerToMove,
  clock: Clock,
  releases: Releases,
): MoveSource {
  const backend = releases.add(openBackend(file, clock));
  const worker = existsSync(workerFile) ? releases.add(open()) : undefined;
  const journal = tablesOver<JournalTables>(backend.dialect);
  return {
    name: backend.name,
    journal,
    worker: worker && tablesOver<JournalTables>(worker.dialect),
    owners: async () => {
      const owners: (LockOwner | undefined)[] = [];
      for (const { locks, lockNames } of worker === undefined ? [backend] : [backend, worker]) {
        // `owner` ignores the connection, which is busy with a transaction here.
        for (const name of lockNames()) owners.push(await locks.owner(journal, name));
      }
      return owners.filter((each) => each !== undefined);
    },
  };
}
