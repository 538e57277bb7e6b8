/** SQLite files of ours, with numbered changes of their schema. A newer file, or another's, is never changed. */
import { closeSync, existsSync, fsyncSync, openSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import SqliteDatabase, { type Database, type Statement } from 'better-sqlite3';
import { FileError } from '../model/errors.ts';
import { explainFileError, makeFolder, refuseUnfitDatabase } from '../model/files.ts';
import { type Clock, systemClock, timestampOf } from '../model/time.ts';

export type Migration = readonly string[] | ((database: Database) => void);

export interface FileKind {
  /** `mirror`, as messages call it. */
  readonly name: string;
  /** Kept in `PRAGMA application_id`: distinguishes it from other SQLite files. */
  readonly applicationId: number;
  /** The version that a new file is made in. Files of a lower one were made before the first release: they are upgraded, or refused. */
  readonly first: number;
  /** What makes the first version, then each later one of the one before. Never changed once released: a change is a new one at the end. */
  readonly migrations: readonly (readonly string[])[];
  /** What makes each version, from the second to the first that is made, of the one before it. */
  readonly upgrades?: readonly Migration[];
  /** What to do with a file of a version below the first, where it is not upgraded. */
  readonly outdated?: string;
  /** Where the changes are recorded. */
  readonly migrationTable: string;
  /** Who is writing stands there. */
  readonly lockTable: string;
  /** Where to name another file: `--db, ADMIN_MIRROR_DB or store.mirror`. */
  readonly places: string;
  /** What to do where the file is damaged. */
  readonly damaged: string;
  /** What is made in a PostgreSQL database with the first version that SQLite does in its own way; undefined of what is only ever a file. */
  readonly shared?: () => readonly string[];
}

/** The version that this program writes. */
export function newestVersion({ first, migrations }: Pick<FileKind, 'first' | 'migrations'>): number {
  return first + migrations.length - 1;
}

/** What makes a version of the one before it, where 0 is nothing at all. */
export function statementsFrom({ first, migrations }: FileKind, version: number): readonly string[] {
  return migrations[version === 0 ? 0 : version - first + 1] ?? [];
}

function isUpgraded({ first, upgrades }: FileKind, version: number): boolean {
  return upgrades !== undefined && version > 0 && version < first;
}

/** Throws `FileError` for a version that this program does not know. @param where the kind with its place, for the message */
export function checkVersion(kind: FileKind, version: number, where: string, another = ''): void {
  const newest = newestVersion(kind);
  if (version > newest) {
    const advice = `Use the newer admin-mirror that made it${another}.`;
    throw new FileError(`${where} has version ${version}; this program knows up to ${newest} and left it as it is`, {
      advice,
    });
  }
  if (version === 0 || version >= kind.first) return;
  throw new FileError(
    `${where} has version ${version}, of before the first release; this program knows ${kind.first} and later ones, and left it as it is`,
    kind.outdated === undefined ? {} : { advice: kind.outdated },
  );
}

/** How long a statement waits for another process's transaction; ours last milliseconds. */
export const busyMs = 10_000;

/** The file's version, 0 where nothing was ever made in it. Throws `FileError` for one that this program does not know. */
export function versionOf(kind: FileKind, database: Database, file: string): number {
  // One statement sees one moment: another process may be making the file.
  const [version = 0, application, objects = 0] =
    database
      .prepare<[], number[]>(
        `SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version, pragma_application_id`,
      )
      .raw()
      .get() ?? [];
  if (objects > 0 && application !== kind.applicationId) {
    throw new FileError(
      `${file} is an SQLite database, but not a ${kind.name} made by this program; it was left as it is`,
      { advice: `Name another file with ${kind.places}.` },
    );
  }
  if (isUpgraded(kind, version)) return version;
  const [flag = ''] = kind.places.split(',');
  checkVersion(kind, version, `the ${kind.name} ${file}`, `, or name another file with ${flag}`);
  return version;
}

function migrate(kind: FileKind, database: Database, file: string, clock: Clock): void {
  const step = database.transaction(() => {
    // Another process may have taken this step while we waited for the write lock.
    const version = versionOf(kind, database, file);
    if (version === newestVersion(kind)) return;
    const migration = isUpgraded(kind, version) ? kind.upgrades?.[version - 1] : statementsFrom(kind, version);
    if (typeof migration === 'function') migration(database);
    else for (const statement of migration ?? []) database.exec(statement);
    const next = version === 0 ? kind.first : version + 1;
    database
      .prepare(`INSERT INTO ${kind.migrationTable} (version, applied_at) VALUES (?, ?)`)
      .run(next, timestampOf(clock.now()));
    database.pragma(`application_id = ${kind.applicationId}`);
    database.pragma(`user_version = ${next}`);
  });
  while (versionOf(kind, database, file) < newestVersion(kind)) step.immediate();
}

/** Of two processes that make one file at once, SQLite lets one fail where it would have to wait; after that, there is a log. */
function keepLog(database: Database): void {
  try {
    database.pragma('journal_mode = WAL');
  } catch (error) {
    if ((error as { readonly code?: unknown }).code !== 'SQLITE_BUSY') throw error;
    database.pragma('journal_mode = WAL');
  }
}

/** Opens the file in WAL mode, or makes it with mode 0600. The caller closes it. @param pragmas set before all else */
export function openForWriting(kind: FileKind, file: string, clock: Clock, pragmas: readonly string[]): Database {
  return guarded(kind, file, () => {
    if (!existsSync(file)) makeFile(file);
    const database = new SqliteDatabase(file, { timeout: busyMs });
    try {
      explainDamage(kind, database, file);
      versionOf(kind, database, file);
      keepLog(database);
      for (const pragma of pragmas) database.pragma(pragma);
      migrate(kind, database, file, clock);
      return database;
    } catch (error) {
      database.close();
      throw error;
    }
  });
}

/**
 * Opens an existing file for reading only, brought to this program's version. The caller closes it. Throws `FileError`, `absent`
 * where there is none. @param patienceMs how long a statement waits for a file that is locked
 */
export function openForReading(
  kind: FileKind,
  file: string,
  absent: FileError,
  empty: FileError,
  patienceMs = busyMs,
): Database {
  if (!existsSync(file)) throw absent;
  return guarded(kind, file, () => {
    let database = new SqliteDatabase(file, { readonly: true, timeout: patienceMs });
    try {
      explainDamage(kind, database, file);
      const version = versionOf(kind, database, file);
      if (version === 0) throw empty;
      if (version < newestVersion(kind)) {
        database.close();
        openForWriting(kind, file, systemClock, []).close();
        database = new SqliteDatabase(file, { readonly: true, timeout: patienceMs });
        explainDamage(kind, database, file);
      }
      database.pragma('query_only = ON');
      return database;
    } catch (error) {
      database.close();
      throw error;
    }
  });
}

/** Whether the name still leads to the file that it led to when it was opened, and to some of it. */
export function sameFile(file: string): () => boolean {
  const opened = statSync(file, { bigint: true });
  return () => {
    const now = statSync(file, { bigint: true, throwIfNoEntry: false });
    return now !== undefined && now.ino === opened.ino && now.dev === opened.dev && now.size > 0n;
  };
}

/** By us rather than by SQLite, so that it is private from its first byte; -wal and -shm take its mode over. */
function makeFile(file: string): void {
  const folder = dirname(file);
  makeFolder(folder);
  closeSync(openSync(file, 'a', 0o600));
  try {
    // The name of a file is in its folder: without this, a loss of power could take the whole file.
    const handle = openSync(folder, 'r');
    fsyncSync(handle);
    closeSync(handle);
  } catch {
    // Some systems have no such thing as syncing a folder.
  }
}

function guarded<T>(kind: FileKind, file: string, open: () => T): T {
  try {
    refuseUnfitDatabase(file);
    return open();
  } catch (error) {
    throw damageIn(kind, file, error) ?? explainFileError(error, `open the ${kind.name}`, file) ?? error;
  }
}

/** The error as one that names the file and the way back, where it says that the file is damaged. */
function damageIn(kind: FileKind, file: string, error: unknown): FileError | undefined {
  if (!(error instanceof SqliteDatabase.SqliteError && error.code.startsWith('SQLITE_CORRUPT'))) return undefined;
  return new FileError(`the ${kind.name} ${file} is damaged (${error.code})`, { advice: kind.damaged, cause: error });
}

/** Reports damage as a FileError, whatever is done over the connection: any statement may meet a broken page. */
function explainDamage(kind: FileKind, database: Database, file: string): void {
  const explaining =
    <Given extends unknown[], T>(doing: (...given: Given) => T) =>
    (...given: Given): T => {
      try {
        return doing(...given);
      } catch (error) {
        throw damageIn(kind, file, error) ?? error;
      }
    };
  const prepare = database.prepare.bind(database);
  const prepareExplaining = (sql: string): Statement => {
    const statement = prepare(sql);
    const iterate = statement.iterate.bind(statement);
    return Object.assign(statement, {
      run: explaining(statement.run.bind(statement)),
      get: explaining(statement.get.bind(statement)),
      all: explaining(statement.all.bind(statement)),
      iterate: explaining((...given: unknown[]) => {
        const rows = iterate(...given);
        return Object.assign(rows, { next: explaining(rows.next.bind(rows)) });
      }),
    });
  };
  Object.assign(database, {
    prepare: explaining(prepareExplaining),
    exec: explaining(database.exec.bind(database)),
    pragma: explaining(database.pragma.bind(database)),
  });
}

/** A file up to this size is looked through in about a second. */
const checkedBytes = 1_000_000_000;

/** The same of a file that nobody has opened yet. */
export function checkFileSoundness(kind: FileKind, file: string): void {
  guarded(kind, file, () => {
    const database = new SqliteDatabase(file, { readonly: true, timeout: busyMs });
    try {
      explainDamage(kind, database, file);
      checkSoundness(kind, database, file);
    } finally {
      database.close();
    }
  });
}

/** Looks through the file where it is not too large for that. Throws a FileError where it is damaged. */
export function checkSoundness(kind: FileKind, database: Database, file: string): void {
  if (statSync(file).size > checkedBytes) return;
  const lines = database.pragma('quick_check(100)') as { readonly quick_check: string }[];
  // A cell that is not of its column's type is a row that differs: a comparison names it, and a sync puts it right.
  const found = lines.map((line) => line.quick_check).find((each) => !/^non-\w+ value in /.test(each)) ?? 'ok';
  if (found === 'ok') return;
  // One damaged page may be a hundred lines, behind one that names the database.
  const [first = found, ...others] = found.split('\n').filter((line) => !line.startsWith('***'));
  const more = others.length === 0 ? '' : `, and ${others.length} more like it`;
  throw new FileError(`the ${kind.name} ${file} is damaged: ${first}${more}`, { advice: kind.damaged });
}
