/** Opens the program's SQLite files and migrates their schemas. A newer file, or one of another program, is never changed. */
import { closeSync, existsSync, fsyncSync, openSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import SqliteDatabase, { type Database, type Statement } from 'better-sqlite3';
import { FileError } from '../model/errors.ts';
import { explainFileError, makeFolder, refuseUnfitDatabase } from '../model/files.ts';
import { type Clock, systemClock, timestampOf } from '../model/time.ts';

export type Migration = readonly string[] | ((database: Database) => void);

export interface FileKind {
  /** What messages call it: `mirror`. */
  readonly name: string;
  /** Its `PRAGMA application_id`, which tells it from other SQLite files. */
  readonly applicationId: number;
  /** The first released version. Files of lower versions are upgraded or refused. */
  readonly first: number;
  /** The statements for the first version, then those from each version to the next. Once released, only ever append. */
  readonly migrations: readonly (readonly string[])[];
  /** The migrations from version 1 to 2 and so on, up to `first`: for files from before the first release. */
  readonly upgrades?: readonly Migration[];
  /** Advice for a file below the first version, if such files are not upgraded. */
  readonly outdated?: string;
  /** Records the migrations. */
  readonly migrationTable: string;
  /** Says who is writing. */
  readonly lockTable: string;
  /** Where the operator can name another file: `--db, ADMIN_MIRROR_DB or store.mirror`. */
  readonly places: string;
  /** Advice for a damaged file. */
  readonly damaged: string;
  /** Statements that only PostgreSQL needs, run with the first version there; undefined if this is only ever a file. */
  readonly shared?: () => readonly string[];
}

/** Returns the version that this program writes. */
export function newestVersion({ first, migrations }: Pick<FileKind, 'first' | 'migrations'>): number {
  return first + migrations.length - 1;
}

/** Returns the statements from this version to the next; version 0 is an empty database. */
export function statementsFrom({ first, migrations }: FileKind, version: number): readonly string[] {
  return migrations[version === 0 ? 0 : version - first + 1] ?? [];
}

function isUpgraded({ first, upgrades }: FileKind, version: number): boolean {
  return upgrades !== undefined && version > 0 && version < first;
}

/** Throws a FileError for a version that this program does not know. @param where names the file or database in the message */
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
    `${where} has version ${version}, from before the first release; this program knows ${kind.first} and later ones, and left it as it is`,
    kind.outdated === undefined ? {} : { advice: kind.outdated },
  );
}

/** How long a statement waits for another process's transaction; those of this program last milliseconds. */
export const busyMs = 10_000;

/** Returns the file's version; 0 if it is empty. Throws a FileError for a version that this program does not know. */
export function versionOf(kind: FileKind, database: Database, file: string): number {
  // One statement, because another process may be making the file at this moment.
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
    // Another process may have migrated the file while this one waited for the write lock.
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

/** If two processes make a file at once, SQLite fails one of them instead of letting it wait. The second try finds WAL already on. */
function useWal(database: Database): void {
  try {
    database.pragma('journal_mode = WAL');
  } catch (error) {
    if ((error as { readonly code?: unknown }).code !== 'SQLITE_BUSY') throw error;
    database.pragma('journal_mode = WAL');
  }
}

/** Opens the file in WAL mode, or makes it with mode 0600, and migrates it. The caller closes it. @param pragmas set before migrating */
export function openForWriting(kind: FileKind, file: string, clock: Clock, pragmas: readonly string[]): Database {
  return guarded(kind, file, () => {
    if (!existsSync(file)) makeFile(file);
    const database = new SqliteDatabase(file, { timeout: busyMs });
    try {
      explainDamage(kind, database, file);
      versionOf(kind, database, file);
      useWal(database);
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
 * Opens an existing file for reading only, after migrating it if it is older. The caller closes it. Throws a FileError: `absent` if
 * there is no file, `empty` if nothing was ever made in it. @param patienceMs how long a statement waits for a locked file
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

/**
 * Returns a function that tells whether the path still leads to the file of the database, and nothing was cut off it. SQLite itself
 * notices neither: it keeps writing to a file that was removed, and reads what it remembers of one that was cut.
 */
export function sameFile(database: Database): () => boolean {
  const opened = statSync(database.name, { bigint: true });
  const pageSize = BigInt(Number(database.pragma('page_size', { simple: true })));
  let { size } = opened;
  return () => {
    const now = statSync(database.name, { bigint: true, throwIfNoEntry: false });
    if (now === undefined || now.ino !== opened.ino || now.dev !== opened.dev) return false;
    // VACUUM makes a file smaller, too, and leaves no page of it to the log.
    const pages = now.size < size ? Number(database.pragma('page_count', { simple: true })) : 0;
    if (now.size === 0n || now.size < pageSize * BigInt(pages)) return false;
    ({ size } = now);
    return true;
  };
}

/** Makes the file before SQLite does, so that it is private from its first byte. -wal and -shm inherit its mode. */
function makeFile(file: string): void {
  const folder = dirname(file);
  makeFolder(folder);
  closeSync(openSync(file, 'a', 0o600));
  try {
    // The folder holds the file's name: without this, a power loss could take the whole file.
    const handle = openSync(folder, 'r');
    fsyncSync(handle);
    closeSync(handle);
  } catch {
    // Some systems cannot sync a folder.
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

/** Returns a FileError that names the file and the way back if the error says that the file is damaged; undefined otherwise. */
function damageIn(kind: FileKind, file: string, error: unknown): FileError | undefined {
  if (!(error instanceof SqliteDatabase.SqliteError && error.code.startsWith('SQLITE_CORRUPT'))) return undefined;
  return new FileError(`the ${kind.name} ${file} is damaged (${error.code})`, { advice: kind.damaged, cause: error });
}

/** Makes every call over the connection report damage as a FileError, and every read an error of the disk: any may meet a broken page. */
function explainDamage(kind: FileKind, database: Database, file: string): void {
  const explaining =
    <Given extends unknown[], T>(doing: (...given: Given) => T, isRead = false) =>
    (...given: Given): T => {
      try {
        return doing(...given);
      } catch (error) {
        const isDiskError =
          isRead && error instanceof SqliteDatabase.SqliteError && error.code.startsWith('SQLITE_IOERR');
        const disk = isDiskError ? explainFileError(error, `read the ${kind.name}`, file) : undefined;
        throw damageIn(kind, file, error) ?? disk ?? error;
      }
    };
  const prepare = database.prepare.bind(database);
  const prepareExplaining = (sql: string): Statement => {
    const statement = prepare(sql);
    const iterate = statement.iterate.bind(statement);
    return Object.assign(statement, {
      run: explaining(statement.run.bind(statement)),
      get: explaining(statement.get.bind(statement), true),
      all: explaining(statement.all.bind(statement), true),
      iterate: explaining((...given: unknown[]) => {
        const rows = iterate(...given);
        return Object.assign(rows, { next: explaining(rows.next.bind(rows), true) });
      }, true),
    });
  };
  Object.assign(database, {
    prepare: explaining(prepareExplaining),
    exec: explaining(database.exec.bind(database)),
    pragma: explaining(database.pragma.bind(database)),
  });
}

/** Checking a file of this size takes about a second. */
const maxCheckedBytes = 1_000_000_000;

/** Opens the file and checks it as `checkSoundness` does. */
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

/** Checks the file for damage, unless it is too large for that. Throws a FileError if it is damaged. */
export function checkSoundness(kind: FileKind, database: Database, file: string): void {
  if (statSync(file).size > maxCheckedBytes) return;
  const lines = database.pragma('quick_check(100)') as { readonly quick_check: string }[];
  // A cell of the wrong type is no damage: `verify` names its row, and a sync corrects it.
  const found = lines.map((line) => line.quick_check).find((each) => !/^non-\w+ value in /.test(each)) ?? 'ok';
  if (found === 'ok') return;
  // One damaged page may give a hundred lines, after a line that names the database.
  const [first = found, ...others] = found.split('\n').filter((line) => !line.startsWith('***'));
  const more = others.length === 0 ? '' : `, and ${others.length} more like it`;
  throw new FileError(`the ${kind.name} ${file} is damaged: ${first}${more}`, { advice: kind.damaged });
}
