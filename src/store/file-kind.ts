/** Opens the program's SQLite files, and makes their tables. A file of another version or program is never changed. */
import { closeSync, existsSync, fsyncSync, openSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import SqliteDatabase, { type Database, type Statement } from 'better-sqlite3';
import { FileError } from '../model/errors.ts';
import { explainFileError, makeFolder, refuseUnfit } from '../model/files.ts';

export interface FileKind {
  /** What messages call it: `mirror`. */
  readonly name: string;
  /** Its `PRAGMA application_id`, which tells it from other SQLite files. */
  readonly applicationId: number;
  /** Its `PRAGMA user_version`, always above 0. A file of another version is refused. */
  readonly version: number;
  /** The statements that make an empty file. */
  readonly tables: readonly string[];
  /** The statements that have made further tables of this file since; none if undefined. */
  readonly later?: (database: Database) => readonly string[];
  /** What another program has done to the rows that this one relies on; undefined if nothing. */
  readonly altered?: (database: Database) => string | undefined;
  /** Says who is writing. */
  readonly lockTable: string;
  /** Where the operator can name another file: `--db, ADMIN_MIRROR_DB or store.mirror`. */
  readonly places: string;
  /** Advice for a damaged file. */
  readonly damaged: string;
  /** Statements that only PostgreSQL needs, run after those of the tables; undefined if this is only ever a file. */
  readonly shared?: () => readonly string[];
}

/** Throws a FileError for another version than this program's. @param where names the file or database in the message */
export function checkVersion({ version: own }: FileKind, version: number, where: string, another = ''): void {
  if (version === 0 || version === own) return;
  throw new FileError(`${where} has version ${version}; this program knows version ${own} and left it as it is`, {
    advice: `Use the admin-mirror that made it${another}.`,
  });
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
  const [flag = ''] = kind.places.split(',');
  checkVersion(kind, version, `the ${kind.name} ${file}`, `, or name another file with ${flag}`);
  return version;
}

function makeTables(kind: FileKind, database: Database, file: string): void {
  const make = database.transaction(() => {
    // Another process may have made them while this one waited for the write lock.
    if (versionOf(kind, database, file) !== 0) return;
    for (const statement of kind.tables) database.exec(statement);
    database.pragma(`application_id = ${kind.applicationId}`);
    database.pragma(`user_version = ${kind.version}`);
  });
  if (versionOf(kind, database, file) === 0) make.immediate();
}

/**
 * Throws a FileError if another program has removed or altered what this one relies on, or has made on its tables what decides over
 * its rows. Columns, indices, tables and views may be added.
 */
function refuseAltered(kind: FileKind, database: Database, file: string): void {
  const refuse = (done: string, advice = kind.damaged): never => {
    throw new FileError(`the ${kind.name} ${file} is damaged: another program has ${done}`, { advice });
  };
  const found = database
    .prepare<[], Made>('SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL')
    .all();
  const texts = new Set(found.map(({ sql }) => sql));
  const checkOwn = (statements: readonly string[]): void => {
    const isGone = (own: string) => needed.test(own) && !texts.has(own) && !found.some(({ sql }) => isGrown(sql, own));
    const [, what = '', name = ''] = statements.find(isGone)?.match(needed) ?? [];
    if (what !== '') refuse(`removed or altered the ${what.toLowerCase()} ${name}`);
  };
  checkOwn(kind.tables);
  const later = kind.later?.(database) ?? [];
  checkOwn(later);
  const altered = kind.altered?.(database);
  if (altered !== undefined) refuse(altered);
  const own = [...kind.tables, ...later];
  // SQLite keeps the case in which a statement names a table.
  const tables = new Set(own.map((sql) => /^CREATE TABLE "?(\w+)/.exec(sql)?.[1]));
  const isOwn = (table: string): boolean => tables.has(table.toLowerCase());
  const references = database.prepare<[string], string>('SELECT "table" FROM pragma_foreign_key_list(?)').pluck();
  for (const { type, name, tbl_name: table, sql } of found) {
    if (isOwn(table) && (type === 'trigger' || sql.startsWith('CREATE UNIQUE')) && !own.includes(sql)) {
      const drop = `DROP ${type.toUpperCase()} "${name.replaceAll('"', '""')}";`;
      refuse(`made the ${type} ${name} on the table ${table}`, `Remove it with any SQLite program: ${drop}`);
    }
    const parent = type === 'table' && !isOwn(name) ? references.all(name).find(isOwn) : undefined;
    if (parent !== undefined) {
      refuse(
        `made the table ${name}, which refers to rows of the table ${parent}`,
        'Make it again without REFERENCES.',
      );
    }
  }
}

interface Made {
  readonly type: string;
  readonly name: string;
  readonly tbl_name: string;
  readonly sql: string;
}

/** What this program relies on. */
const needed = /^CREATE (?:VIRTUAL )?(TABLE|TRIGGER|UNIQUE INDEX|VIEW(?= mirror_)) (\S+)/;

/** Whether the table is as the statement makes it, but for more columns, which SQLite inserts after the last one. */
function isGrown(sql: string, statement: string): boolean {
  if (!statement.startsWith('CREATE TABLE') || sql.length <= statement.length) return false;
  let same = 0;
  while (sql[same] === statement[same]) same += 1;
  const more = sql.slice(same, same - statement.length);
  // What is checked of a row, and what it refers to, could keep a sync from writing it or from removing another.
  return sql.endsWith(statement.slice(same)) && !/\b(?:CHECK|REFERENCES)\b/i.test(more);
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

/** Opens the file in WAL mode, or makes it with mode 0600. The caller closes it. @param pragmas set before its tables are made */
export function openForWriting(kind: FileKind, file: string, pragmas: readonly string[]): Database {
  return guarded(kind, file, () => {
    if (!existsSync(file)) makeFile(file);
    const database = new SqliteDatabase(file, { timeout: busyMs });
    try {
      explainDamage(kind, database, file);
      versionOf(kind, database, file);
      useWal(database);
      for (const pragma of pragmas) database.pragma(pragma);
      makeTables(kind, database, file);
      refuseAltered(kind, database, file);
      return database;
    } catch (error) {
      database.close();
      throw error;
    }
  });
}

/**
 * Opens an existing file for reading only. The caller closes it. Throws a FileError: `absent` if there is no file, `empty` if nothing was ever made in it. @param patienceMs how long a statement waits for a locked file
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
    const database = new SqliteDatabase(file, { readonly: true, timeout: patienceMs });
    try {
      explainDamage(kind, database, file);
      if (versionOf(kind, database, file) === 0) throw empty;
      refuseAltered(kind, database, file);
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
    refuseUnfit(file);
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
