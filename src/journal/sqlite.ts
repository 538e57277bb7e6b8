/**
 * The journal in an SQLite file of its own: everything that differs from other databases. WAL with synchronous = FULL: a step
 * is on the disk when its promise resolves, because nothing in the journal can be read again from anywhere.
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
  // Each commit reaches the disk before anything that relies on it is sent.
  'synchronous = FULL',
  // On macOS, fsync alone leaves the data in the drive's own memory.
  'fullfsync = ON',
  'foreign_keys = ON',
  // Overwrites deleted content.
  'secure_delete = ON',
  // A batch is stored in one transaction. A larger cache would keep much of it and save no writes.
  'cache_size = -2000',
];

/** Opens the file of the journal; makes it with mode 0600 if there is none. Throws a FileError. The caller closes it. */
export function openBackend(file: string, clock: Clock): JournalBackend & { lockNames(): string[] } {
  const database = openForWriting(journalKind, file, clock, pragmas);
  const names = () => database.prepare<[], string>('SELECT batch FROM journal_locks').pluck().all();
  return { ...backendOf(database, file, clock), lockNames: names };
}

/** Opens the file for reading. Throws a FileError if there is none. */
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
      // Other statements do not wait inside SQLite, because that would block the thread. Nothing else runs during this one.
      database.pragma(`busy_timeout = ${busyMs}`);
      try {
        // Rows whose length changed may leave bytes in pages, and the log holds older states until it is folded in.
        database.exec('VACUUM');
        database.pragma('wal_checkpoint(TRUNCATE)');
      } finally {
        database.pragma('busy_timeout = 0');
      }
    },
    close: () => void database.close(),
  };
}

/** What the file is for a user of another database: without records, moved or being moved there, or a journal. */
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
