/**
 * The journal in an SQLite file of its own: all that another database would do in its own way. WAL with synchronous = FULL:
 * what a step has done is on the disk when its promise is kept, since nothing here can be read again from anywhere.
 */
import { statSync } from 'node:fs';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { sql } from 'kysely';
import { FileError } from '../model/errors.ts';
import { explainFileError } from '../model/files.ts';
import type { Clock } from '../model/time.ts';
import { busyMs, openForReading, openForWriting, sameFile } from '../store/file-kind.ts';
import { sqliteDialect } from '../store/kysely-sqlite.ts';
import { storeLocks } from '../store/lock.ts';
import { type JournalBackend, movedTo } from './database.ts';
import { batchLocks, journalKind } from './schema.ts';

const pragmas = [
  // Each commit reaches the disk before anything is sent that relies on it.
  'synchronous = FULL',
  // On macOS, fsync alone leaves it in the drive's own memory.
  'fullfsync = ON',
  'foreign_keys = ON',
  // What is taken out of it is overwritten.
  'secure_delete = ON',
  // A batch of many rows is stored in one transaction, of which a larger cache would keep much and save no writes.
  'cache_size = -2000',
];

/** The journal's file, made with mode 0600 where there is none. Throws `FileError`. The caller closes it. */
export function openBackend(file: string, clock: Clock): JournalBackend & { lockNames(): string[] } {
  const database = openForWriting(journalKind, file, clock, pragmas);
  const names = () => database.prepare<[], string>('SELECT batch FROM journal_locks').pluck().all();
  return { ...backendOf(database, file, clock), lockNames: names };
}

/** The same to be looked at. Throws `FileError` where there is none. */
export function openBackendForReading(file: string, clock: Clock): JournalBackend {
  const absent = new FileError(`there is no journal at ${file}`, {
    advice: `Nothing was planned yet; or name the file with ${journalKind.places}.`,
  });
  return backendOf(openForReading(journalKind, file, absent, absent), file, clock);
}

function backendOf(database: Database, file: string, clock: Clock): JournalBackend {
  const isInPlace = sameFile(file);
  return {
    name: `the journal ${file}`,
    dialect: sqliteDialect(database),
    texts: (json) => sql`jsonb_each(${json})`,
    members: (json) => sql`jsonb_each(${json})`,
    isTaken: (error) => error instanceof SqliteDatabase.SqliteError && error.code === 'SQLITE_CONSTRAINT_UNIQUE',
    explained: (error) => explainFileError(error, 'write to the journal', file) ?? error,
    isInPlace,
    locks: storeLocks(batchLocks(database, clock)),
    clock,
    scrub: async () => {
      // Other statements do not wait inside of SQLite, which holds the thread: this one holds up nobody.
      database.pragma(`busy_timeout = ${busyMs}`);
      try {
        // Rows that changed length may have left bytes in pages; the log holds older states until it is folded in.
        database.exec('VACUUM');
        database.pragma('wal_checkpoint(TRUNCATE)');
      } finally {
        database.pragma('busy_timeout = 0');
      }
    },
    close: () => void database.close(),
  };
}

/** What the file is to whoever uses another database: without a record, moved there, on its way, or a journal of its own. */
export function stateOfFile(file: string): 'empty' | 'moved' | 'moving' | 'journal' {
  if (statSync(file).size === 0) return 'empty';
  const absent = new FileError(`there is no journal at ${file}`);
  const database = openForReading(journalKind, file, absent, absent);
  try {
    const id = database.prepare<[], string>('SELECT id FROM journal_identity').pluck().get() ?? '';
    const { moved } = movedTo(id) ?? {};
    if (moved !== undefined) return moved;
    return database.prepare('SELECT 1 FROM journal_steps LIMIT 1').get() === undefined ? 'empty' : 'journal';
  } finally {
    database.close();
  }
}
