/**
 * The journal in an SQLite file of its own: all that another database would do in its own way. WAL with synchronous = FULL:
 * what a step has done is on the disk when its promise is kept, since nothing here can be read again from anywhere.
 */
import { statSync } from 'node:fs';
import { setTimeout as wait } from 'node:timers/promises';
import SqliteDatabase, { type Database, type Statement } from 'better-sqlite3';
import {
  CompiledQuery,
  type DatabaseConnection,
  SqliteAdapter,
  type Dialect,
  SqliteDriver,
  SqliteIntrospector,
  SqliteQueryCompiler,
  sql,
} from 'kysely';
import { FileError } from '../model/errors.ts';
import { explainFileError } from '../model/file-error.ts';
import { type Clock, systemClock } from '../model/time.ts';
import { busyMs, openForReading, openForWriting } from '../store/file-kind.ts';
import { type JournalBackend, openJournalOver } from './journal.ts';
import { batchLocks } from './lock.ts';
import type { Journal } from './port.ts';
import { journalKind } from './schema.ts';

const pragmas = [
  // Each commit reaches the disk before anything is sent that relies on it.
  'synchronous = FULL',
  // On macOS, fsync alone leaves it in the drive's own memory.
  'fullfsync = ON',
  'foreign_keys = ON',
  // What is taken out of it is overwritten.
  'secure_delete = ON',
];

/** Opens the journal, and makes it with mode 0600 where there is none. Throws `FileError`. The caller closes it. */
export function openJournal(file: string, clock: Clock = systemClock): Promise<Journal> {
  return opened(() => openForWriting(journalKind, file, clock, pragmas), file, clock);
}

/** Opens an existing journal to be looked at. Throws `FileError` where there is none. The caller closes it. */
export function openJournalForReading(file: string, clock: Clock = systemClock): Promise<Journal> {
  const absent = new FileError(`there is no journal at ${file}`, {
    advice: `Nothing was planned yet; or name the file with ${journalKind.places}.`,
  });
  return opened(() => openForReading(journalKind, file, absent, absent), file, clock);
}

async function opened(open: () => Database, file: string, clock: Clock): Promise<Journal> {
  const database = open();
  try {
    return await openJournalOver(backendOf(database, file, clock), clock);
  } catch (error) {
    database.close();
    throw error;
  }
}

function backendOf(database: Database, file: string, clock: Clock): JournalBackend {
  const locks = batchLocks(database, clock);
  const isInPlace = sameFile(file);
  return {
    dialect: dialectOf(database),
    members: (json) => sql`jsonb_each(${json})`,
    isTaken: (error) => error instanceof SqliteDatabase.SqliteError && error.code === 'SQLITE_CONSTRAINT_UNIQUE',
    explained: (error) => explainFileError(error, 'write to the journal', file) ?? error,
    checkInPlace: async (id, found) => {
      // A file that was removed goes on taking steps, which nobody will ever read.
      if (!isInPlace() || (await found()) !== id) throw replaced(file);
    },
    locks: { ...locks, acquire: (batch, owner) => locks.acquire(batch, owner, 'bulk') },
    scrub: () => {
      // Rows that changed length may have left bytes in pages; the log holds older states until it is folded in.
      database.exec('VACUUM');
      database.pragma('wal_checkpoint(TRUNCATE)');
    },
  };
}

/**
 * Kysely over the open file. It gives the one connection to one transaction, or one statement, at a time: works that go
 * on side by side wait for each other, and none of them gets into the transaction of another.
 */
function dialectOf(database: Database): Dialect {
  const statements = new Map<string, Statement>();
  const prepared = (text: string): Statement => {
    let statement = statements.get(text);
    if (statement === undefined) statements.set(text, (statement = database.prepare(text)));
    return statement;
  };
  return {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () =>
      new WritingDriver({ database: { prepare: prepared, close: () => void database.close() } }, database),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  };
}

class WritingDriver extends SqliteDriver {
  readonly #database: Database;

  constructor(config: ConstructorParameters<typeof SqliteDriver>[0], database: Database) {
    super(config);
    this.#database = database;
  }

  /**
   * Locked from its beginning: what it reads stays true until it writes, whoever else is at the file. Their transactions
   * last milliseconds; waiting for them inside of SQLite would hold this thread.
   */
  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    const until = performance.now() + busyMs;
    for (;;) {
      try {
        this.#database.pragma('busy_timeout = 0');
        await connection.executeQuery(CompiledQuery.raw('begin immediate'));
        return;
      } catch (error) {
        if (!isBusy(error) || performance.now() > until) throw error;
      } finally {
        this.#database.pragma(`busy_timeout = ${busyMs}`);
      }
      await wait(retryMs);
    }
  }

  /** SQLite has ended it by itself where the disk was full: that error is the one to tell. */
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    if (this.#database.inTransaction) await super.rollbackTransaction(connection);
  }
}

/** Between two tries to begin a transaction. */
const retryMs = 5;

function isBusy(error: unknown): boolean {
  return error instanceof SqliteDatabase.SqliteError && error.code.startsWith('SQLITE_BUSY');
}

/** Whether the name still leads to the file that it led to when it was opened, and to some of it. */
function sameFile(file: string): () => boolean {
  const opened = statSync(file, { bigint: true });
  return () => {
    const now = statSync(file, { bigint: true, throwIfNoEntry: false });
    return now !== undefined && now.ino === opened.ino && now.dev === opened.dev && now.size > 0n;
  };
}

function replaced(file: string): FileError {
  return new FileError(`the journal ${file} was removed, emptied or replaced while it was in use`, {
    advice:
      'Put the file back as it was. Do not plan or send anything before: nothing else knows what was sent, and what ' +
      'was under way may have been made.',
  });
}
