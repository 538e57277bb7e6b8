/**
 * Opens the journal that the settings name: in its file, or in the store that several machines share. And the file itself:
 * everything that differs from other databases. WAL with synchronous = FULL: a step is on the disk when its promise resolves,
 * because nothing in the journal can be read again from anywhere.
 */
import { existsSync, statSync } from 'node:fs';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { sql } from 'kysely';
import { FileError } from '../model/errors.ts';
import type { Actor } from '../model/actor.ts';
import { explainFileError } from '../model/files.ts';
import type { Releases } from '../model/releases.ts';
import type { Clock } from '../model/time.ts';
import type { Settings } from '../settings/settings.ts';
import { sharedStoreOf } from '../settings/server.ts';
import { busyMs, openForReading, openForWriting, sameFile } from '../store/file-kind.ts';
import { sqliteDialect } from '../store/kysely-sqlite.ts';
import { storeLocks } from '../store/lock.ts';
import { type JournalBackend, movedTo } from './database.ts';
import { openJournalOver } from './journal.ts';
import type { Journal, JournalRules } from './port.ts';
import { batchLocks, journalKind } from './schema.ts';

/** Opens the journal for the actor; makes it if there is none. Throws a FileError. */
export async function openJournal(
  settings: Settings,
  actor: Actor,
  clock: Clock,
  releases: Releases,
): Promise<Journal> {
  return releases.add(await openJournalOver(await openBackendOf(settings, clock), actor, rulesOf(settings)));
}

/** Opens the journal for reading; undefined if nothing was ever recorded. Throws a FileError. */
export async function openJournalForReading(
  settings: Settings,
  clock: Clock,
  releases: Releases,
): Promise<Journal | undefined> {
  const backend = await openBackendToLook(settings, clock);
  return backend && releases.add(await openJournalOver(backend, null, rulesOf(settings)));
}

/** The one place that chooses between the file and the shared store. Whatever is opened over the backend closes it. */
export async function openBackendOf(settings: Settings, clock: Clock): Promise<JournalBackend> {
  const store = sharedStoreOf(settings);
  if (store === undefined) return openBackend(settings.store.journal, clock);
  refuseLeftFile(settings);
  const { openSharedBackend } = await import('./postgres.ts');
  return openSharedBackend(store, clock);
}

/** Opens the backend for reading; undefined if nothing was ever recorded. */
export async function openBackendToLook(settings: Settings, clock: Clock): Promise<JournalBackend | undefined> {
  const store = sharedStoreOf(settings);
  const { journal } = settings.store;
  if (store === undefined) return existsSync(journal) ? openBackendForReading(journal, clock) : undefined;
  refuseLeftFile(settings);
  const { openSharedBackendIfMade } = await import('./postgres.ts');
  return openSharedBackendIfMade(store, clock);
}

/** Whether there may be records. Does not look into the shared store. */
export function mayHaveJournal({ store: { journal, shared } }: Settings): boolean {
  return shared !== undefined || existsSync(journal);
}

/** Nobody would look at a journal that was left in a file, and what it has on record would be paid again. */
function refuseLeftFile({ store: { journal } }: Settings): void {
  if (!existsSync(journal)) return;
  const found = stateOfFile(journal);
  if (found === 'empty' || found === 'moved') return;
  if (found === 'moving') {
    throw new FileError(
      `the journal ${journal} is being moved to the shared store, or a command that did that was killed`,
      {
        advice: 'Once no `admin-mirror store copy` is running any more, run it again: it completes what was begun.',
      },
    );
  }
  throw new FileError(`store.shared is set, and the journal ${journal} has records that were never moved there`, {
    advice:
      'Run `admin-mirror store copy` to move it. If the shared store is the right one, and nothing in the ' +
      'file is needed any more, move the file away.',
  });
}

/** After a journal was moved to a shared store, whatever belongs to it continues there. Throws a FileError. */
export function refuseMovedFile({ store: { journal } }: Settings): void {
  if (!existsSync(journal) || !['moved', 'moving'].includes(stateOfFile(journal))) return;
  throw new FileError(`the journal ${journal} was moved to a shared store, and jobs are on record there`, {
    advice: 'Set store.shared as it was when it was moved there.',
  });
}

function rulesOf({ bulk: { approval, maxRow, maxTotal, maxDay, maxRows, currency } }: Settings): JournalRules {
  return { approval, caps: { maxRow, maxTotal, maxDay, maxRows, currency } };
}

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
  const database = openForWriting(journalKind, file, pragmas);
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
  const isInPlace = sameFile(database);
  return {
    name: `the journal ${file}`,
    dialect: sqliteDialect(database),
    texts: (json) => sql`jsonb_each(${json})`,
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
function stateOfFile(file: string): 'empty' | 'moved' | 'moving' | 'journal' {
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
