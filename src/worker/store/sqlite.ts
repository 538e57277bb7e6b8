/** The worker's store in a separate SQLite file beside the mirror: it exists before the mirror does, and survives a new mirror. */
import type { Database } from 'better-sqlite3';
import type { WorkerToMove } from '../../journal/open-move.ts';
import { FileError } from '../../model/errors.ts';
import { explainFileError } from '../../model/files.ts';
import { type Clock, systemClock } from '../../model/time.ts';
import { type FileKind, openForReading, openForWriting } from '../../store/file-kind.ts';
import { sqliteDialect } from '../../store/kysely-sqlite.ts';
import { lockColumns, locksIn, storeLocks } from '../../store/lock.ts';
import { type WorkerBackend, workerLockWords, WorkerStore } from './store.ts';

const tables: readonly string[] = [
  `CREATE TABLE worker_jobs (
  job TEXT PRIMARY KEY,
  cron TEXT NOT NULL,
  timezone TEXT NOT NULL,
  handled_until TEXT NOT NULL
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE worker_runs (
  number INTEGER PRIMARY KEY,
  run TEXT NOT NULL UNIQUE,
  job TEXT NOT NULL,
  cause TEXT NOT NULL CHECK (cause IN ('scheduled', 'by_hand')),
  occurrence TEXT,
  attempt INTEGER NOT NULL,
  command TEXT NOT NULL,
  started_at TEXT NOT NULL,
  finished_at TEXT,
  outcome TEXT,
  exit_code INTEGER,
  problem TEXT,
  report TEXT,
  actor TEXT
) STRICT`,
  'CREATE INDEX worker_runs_job ON worker_runs (job, number)',
  `CREATE TABLE worker_locks (
  name TEXT PRIMARY KEY,
  ${lockColumns}
) STRICT, WITHOUT ROWID`,
  `CREATE TABLE worker_alerts (
  problem TEXT PRIMARY KEY,
  code TEXT NOT NULL,
  facts TEXT NOT NULL,
  since TEXT NOT NULL,
  told TEXT NOT NULL,
  ended_at TEXT
) STRICT, WITHOUT ROWID`,
];

export const workerKind: FileKind = {
  name: "worker's file",
  // "awrk"
  applicationId: 0x61_77_72_6b,
  version: 1,
  tables,
  lockTable: 'worker_locks',
  places: '--db, ADMIN_MIRROR_DB or store.mirror; it lies beside the mirror',
  shared: () => [],
  damaged: 'Move it away: the worker makes a new one, and no longer knows what it missed.',
};

// After a power failure, the worker must still know what it began or sent. Otherwise it would do so again.
const pragmas = ['synchronous = FULL'];

/** Opens the worker's file; creates it if it does not exist. Throws a FileError. The caller closes it. */
export function openWorkerStore(file: string, clock: Clock = systemClock): WorkerStore {
  return new WorkerStore(backendOf(openForWriting(workerKind, file, pragmas), file, clock));
}

/** Opens an existing file for reading. Throws a FileError. The caller closes it. */
export function openWorkerStoreForReading(file: string, clock: Clock = systemClock): WorkerStore {
  const absent = new FileError(`there is no ${file}: no worker has run for this mirror`);
  return new WorkerStore(backendOf(openForReading(workerKind, file, absent, absent), file, clock));
}

/** Returns what a move of the whole store takes along from the worker. Opening throws a FileError. */
export function workerToMove(file: string, clock: Clock): WorkerToMove {
  return {
    kind: workerKind,
    file,
    open: () => {
      const database = openForWriting(workerKind, file, pragmas);
      const names = database.prepare<[], string>('SELECT name FROM worker_locks').pluck();
      return { ...backendOf(database, file, clock), lockNames: () => names.all() };
    },
  };
}

function backendOf(database: Database, file: string, clock: Clock): WorkerBackend {
  const locks = locksIn(database, { table: 'worker_locks', key: 'name', ...workerLockWords }, clock);
  return {
    dialect: sqliteDialect(database),
    explain: (error) => explainFileError(error, "write to the worker's file", file) ?? error,
    locks: storeLocks(locks),
    clock,
    close: () => void database.close(),
  };
}
