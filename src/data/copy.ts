/**
 * Copying an SQLite file of ours while others write to it: SQLite's own backup, under a read transaction, so that all
 * its steps see one state. Section "Copies" of docs/architecture.md.
 */
import { closeSync, openSync, statSync } from 'node:fs';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { FileError } from '../model/errors.ts';
import { explainFileError } from '../model/file-error.ts';
import type { CopyRun, Thoroughness } from './copy-types.ts';
import { type FileKind, openForReading, versionOf } from '../store/file-kind.ts';

/** Pages copied before signals are heard: 2 MB, some milliseconds. */
const pagesAStep = 500;

/** What SQLite is asked of a copy, the size of the file apart; the quick check takes half as long as copying did, the whole one as long. */
const checks: Readonly<Record<Exclude<Thoroughness, 'opened'>, string>> = {
  rows: 'quick_check',
  whole: 'integrity_check',
};

/**
 * Makes `target`, which must not exist, a copy of the file as it is now, with mode 0600, held by nobody and without a log
 * beside it, and looks through it. Throws a FileError where the file is not there, cannot be read, or the copy is not
 * sound; what there is of the copy then is the caller's to remove.
 */
export async function copyFile(
  kind: FileKind,
  source: string,
  target: string,
  { signal, progress }: CopyRun,
  thoroughness: Thoroughness,
): Promise<void> {
  const absent = new FileError(`there is no ${kind.name} at ${source}`, {
    advice: `Check the path; name another file with ${kind.places}.`,
  });
  const database = openForReading(kind, source, absent, absent);
  try {
    // Each page is read once: kept pages are never asked for again.
    database.pragma('cache_size = -512');
    holdState(database);
    closeSync(openSync(target, 'wx', 0o600));
    await database.backup(target, {
      progress: ({ totalPages, remainingPages }) => {
        signal.throwIfAborted();
        progress(totalPages === 0 ? 0 : 1 - remainingPages / totalPages);
        return pagesAStep;
      },
    });
  } catch (error) {
    throw explainFileError(error, `copy the ${kind.name} to`, target) ?? error;
  } finally {
    database.close();
  }
  signal.throwIfAborted();
  detach(kind, target);
  checkCopy(kind, target, thoroughness);
}

/** From here on the connection sees the state of now, and what others commit is not in it. */
export function holdState(database: Database): void {
  database.exec('BEGIN');
  // The state is fixed by the first read, not by BEGIN.
  database.prepare('SELECT count(*) FROM sqlite_schema').get();
}

/** Makes the copy a file that stands alone: without a log, so that it can lie on a disk that cannot be written to. */
function detach(kind: FileKind, target: string): void {
  const database = new SqliteDatabase(target);
  try {
    database.pragma('journal_mode = DELETE');
    // Who holds the original does not hold the copy.
    database.exec(`DELETE FROM ${kind.lockTable}`);
  } finally {
    database.close();
  }
}

/** Throws a FileError where the copy is not a sound file of its kind. */
export function checkCopy(kind: FileKind, target: string, thoroughness: Thoroughness): void {
  const database = new SqliteDatabase(target, { readonly: true });
  try {
    versionOf(kind, database, target);
    const pages = Number(database.pragma('page_count', { simple: true }));
    const bytes = pages * Number(database.pragma('page_size', { simple: true }));
    const { size } = statSync(target);
    if (size !== bytes) throw unsound(kind, `it has ${size} bytes in place of ${bytes}`);
    if (thoroughness === 'opened') return;
    const found = database.pragma(checks[thoroughness], { simple: true });
    if (found !== 'ok') throw unsound(kind, String(found).split('\n')[0] ?? '');
  } catch (error) {
    throw error instanceof SqliteDatabase.SqliteError ? unsound(kind, error.message) : error;
  } finally {
    database.close();
  }
}

function unsound(kind: FileKind, finding: string): FileError {
  return new FileError(`the copy of the ${kind.name} is not sound: ${finding}`, {
    advice: `Look at the disk; \`PRAGMA integrity_check\` on the ${kind.name} itself tells whether it is damaged, too.`,
  });
}
