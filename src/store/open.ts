/** Opens the mirror file: makes it private, in WAL mode, and makes its tables. */
import type { Database } from 'better-sqlite3';
import { FileError, UsageError } from '../model/errors.ts';
import { explainFileError } from '../model/files.ts';
import { type FileKind, openForReading, openForWriting } from './file-kind.ts';
import { areNumbersLost, mirrorNumbering, numberInserts, ourStep } from './cursor.ts';
import type { Locks } from './lock.ts';
import { relationSql, relationsRead } from './relations.ts';
import { mirrorTables, userSearch } from './schema.ts';

export const mirrorKind: FileKind = {
  name: 'mirror',
  // "amir"
  applicationId: 0x61_6d_69_72,
  version: 1,
  tables: [...mirrorTables, ...mirrorNumbering],
  later: (database) => [...relationsRead(database).flatMap(relationSql), ...searchMade(database)],
  altered: (database) =>
    areNumbersLost(database) ? 'altered the numbers of changes (mirror_cursor, mirror_epochs)' : undefined,
  lockTable: 'mirror_locks',
  places: '--db, ADMIN_MIRROR_DB or store.mirror',
  damaged: 'Move it away and run `admin-mirror sync` to build the mirror anew.',
};

/** Whether the mirror has its search for users, or a part of it. The first complete sync makes it. */
export function hasUserSearch(database: Database): boolean {
  return database.prepare("SELECT 1 FROM sqlite_schema WHERE name GLOB 'users_search*'").get() !== undefined;
}

/** The statements of the search for users, as SQLite keeps them. */
function searchMade(database: Database): readonly string[] {
  if (!hasUserSearch(database)) return [];
  return userSearch().flatMap((sql) => (sql.startsWith('CREATE') ? [sql.replace(' IF NOT EXISTS', '')] : []));
}

const pragmas = [
  // Under WAL, NORMAL keeps the file consistent through a power loss. The last commits may be gone; the next run then reads those
  // windows again, because their state is gone with them.
  'synchronous = NORMAL',
  'foreign_keys = ON',
  // 8,000 KiB. Windows are written in the order of ids, so a larger cache did not help.
  'cache_size = -8000',
  // Cuts the log back to this size when it begins anew, after one long transaction or reader has enlarged it.
  'journal_size_limit = 64000000',
];

/** Opens the file for writing, or makes it. The caller closes it. @param isNumbering the caller's statements set every `_seq` themselves */
export function openMirrorFile(file: string, isNumbering = false): Database {
  const database = openForWriting(mirrorKind, file, pragmas);
  if (!isNumbering) numberInserts(database);
  return database;
}

/** Returns the ways to run a change of the mirror's file, each on top of the one before. @param what for an error: `write to the mirror` */
export function stepsIn(database: Database, file: string, what: string, locks: Pick<Locks, 'guard'>) {
  /** Throws a FileError for what the system reports about the file. */
  function explained<T>(doing: () => T): T {
    try {
      return doing();
    } catch (error) {
      throw explainFileError(error, what, file) ?? error;
    }
  }
  const ours = ourStep(database);
  /** Runs it in one immediate transaction: all or nothing. */
  const whole = <T>(doing: () => T): T => explained(() => database.transaction(() => ours(doing)).immediate());
  /** Also does nothing if this process has lost one of its locks. */
  const step = <T>(doing: () => T): T =>
    whole(() => {
      locks.guard();
      return doing();
    });
  return { explained, whole, step };
}

/** Opens an existing mirror for reading only. Throws a FileError if there is none. The caller closes it. */
export function openMirrorForReading(file: string): Database {
  const absent = new FileError(`there is no mirror at ${file}`, {
    advice: `Run \`admin-mirror sync\` first, or name the file with ${mirrorKind.places}.`,
  });
  const empty = new FileError(`the mirror ${file} is empty`, { advice: 'Run `admin-mirror sync` first.' });
  return openForReading(mirrorKind, file, absent, empty);
}

/** Opens the mirror for reading, runs `reading` and closes it. Throws a FileError if there is none. */
export function readMirror<T>(file: string, reading: (database: Database) => T): T {
  const database = openMirrorForReading(file);
  try {
    return reading(database);
  } finally {
    database.close();
  }
}

/** The address of the server that the mirror was read from; null before the first contact. */
export function serverIn(database: Database): string | null {
  return database.prepare<[], string>('SELECT address FROM mirror_server').pluck().get() ?? null;
}

/** The problem of a mirror that was read from another address than this one; undefined if it was not, or if one is not known. */
export function otherServer(file: string, read: string | null, address: string | undefined): UsageError | undefined {
  if (read === null || address === undefined || read === address) return undefined;
  return new UsageError(`the mirror ${file} was read from ${read}, and api.base_url is ${address}`, {
    advice:
      'If the server has moved, `admin-mirror sync` makes sure that it is the same. Else correct api.base_url or store.mirror.',
  });
}
