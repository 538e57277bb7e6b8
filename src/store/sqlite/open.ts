/** Opening the mirror file: created private, in WAL mode, brought to this program's version. */
import { closeSync, existsSync, mkdirSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { FileError } from '../../model/errors.ts';
import { explainFileError } from '../../model/file-error.ts';
import { systemClock, type Clock } from '../../model/time.ts';
import { checkVersion, migrate } from './migrations.ts';

/** How long a statement waits for another process's transaction; ours last milliseconds. */
const busyMs = 10_000;

/** Opens the file for writing, and makes it with mode 0600 where it does not exist. The caller closes it. */
export function openMirrorFile(file: string, clock: Clock = systemClock): Database {
  return guarded(file, 'open the mirror', () => {
    if (!existsSync(file)) {
      mkdirSync(dirname(file), { recursive: true });
      // Made by us rather than by SQLite, so that it is private from its first byte; -wal and -shm take its mode over.
      closeSync(openSync(file, 'a', 0o600));
    }
    const database = new SqliteDatabase(file, { timeout: busyMs });
    try {
      checkVersion(database, file);
      database.pragma('journal_mode = WAL');
      // With WAL, NORMAL keeps the file consistent through a power loss; the last commits may be gone, and the next run
      // reads those windows again because their state went with them.
      database.pragma('synchronous = NORMAL');
      database.pragma('foreign_keys = ON');
      // KiB; windows are written one stretch of ids after another, so a larger cache than this was not found to help.
      database.pragma('cache_size = -8000');
      migrate(database, file, clock);
      return database;
    } catch (error) {
      database.close();
      throw error;
    }
  });
}

/** Opens an existing mirror for reading only. Throws `FileError` where there is none. The caller closes it. */
export function openMirrorForReading(file: string): Database {
  if (!existsSync(file)) {
    throw new FileError(`there is no mirror at ${file}`, {
      advice: 'Run `admin-mirror sync` first, or name the file with --db, ADMIN_MIRROR_DB or store.mirror.',
    });
  }
  return guarded(file, 'open the mirror', () => {
    const database = new SqliteDatabase(file, { readonly: true, timeout: busyMs });
    try {
      if (checkVersion(database, file) === 0) {
        throw new FileError(`the mirror ${file} is empty`, { advice: 'Run `admin-mirror sync` first.' });
      }
      database.pragma('query_only = ON');
      return database;
    } catch (error) {
      database.close();
      throw error;
    }
  });
}

function guarded<T>(file: string, doing: string, open: () => T): T {
  try {
    return open();
  } catch (error) {
    throw explainFileError(error, doing, file) ?? error;
  }
}
