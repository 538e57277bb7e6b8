/** The sandbox's own database, in memory or in a file, with the ledger of writes that were made through the API. */
import { closeSync, openSync, rmSync } from 'node:fs';
import Database from 'better-sqlite3';
import { FileError } from '../model/errors.ts';
import { fileReason, refuseUnfit } from '../model/files.ts';
import type { OperationName } from '../model/operations.ts';
import { type ResourceName, resourceNames, resourceOf, sqlTypeOf } from '../model/resources.ts';
import { fromJson, type JsonRecord, toJson } from './envelope.ts';

/** A named type, so that the package's type declarations can refer to it. */
export interface Db extends Database.Database {}

/** "AdSb" marks a file as a sandbox's, so that no other database is ever overwritten by mistake. */
const applicationId = 0x41645362;
const schemaVersion = 1;

/** Columns that are stored because they are indexed; the others are computed from the text. */
export const storedColumns: Readonly<Record<ResourceName, readonly string[]>> = {
  users: ['created_at', 'username', 'email'],
  packages: ['created_at'],
  emails: ['created_at', 'user_id'],
  coupons: ['created_at'],
};

/** Indexes for the orders in which clients walk lists, and for counting date ranges. */
export const walkIndexes = [
  'CREATE INDEX IF NOT EXISTS users_walk ON users (created_at, username)',
  'CREATE INDEX IF NOT EXISTS packages_walk ON packages (created_at)',
  'CREATE INDEX IF NOT EXISTS emails_walk ON emails (created_at)',
  'CREATE INDEX IF NOT EXISTS emails_user ON emails (user_id)',
  'CREATE INDEX IF NOT EXISTS coupons_walk ON coupons (created_at)',
];

/** Quotes a name for SQL: `order`, a keyword, is a field of packages. */
export function quoted(name: string): string {
  return `"${name}"`;
}

function tableSql(name: ResourceName): string {
  const stored = storedColumns[name];
  const columns = resourceOf(name)
    .fields.filter((field) => field.name !== 'id')
    .map((field) => {
      // NUMERIC keeps integers as integers, as in the text that is served.
      const column = `${quoted(field.name)} ${field.type === 'number' ? 'NUMERIC' : sqlTypeOf(field.type)}`;
      if (stored.includes(field.name)) return column;
      return `${column} GENERATED ALWAYS AS (body ->> '$.${field.name}') VIRTUAL`;
    });
  return `CREATE TABLE ${name} (id INTEGER PRIMARY KEY, body TEXT NOT NULL, ${columns.join(', ')})`;
}

const otherTables = `
  CREATE TABLE related (
    id INTEGER PRIMARY KEY AUTOINCREMENT, parent TEXT NOT NULL, parent_id INTEGER NOT NULL, kind TEXT NOT NULL,
    body TEXT NOT NULL);
  CREATE INDEX related_parent ON related (parent, kind, parent_id);
  CREATE TABLE related_replaced (
    parent TEXT NOT NULL, parent_id INTEGER NOT NULL, kind TEXT NOT NULL, PRIMARY KEY (parent, parent_id, kind)
  ) WITHOUT ROWID;
  CREATE TABLE ledger (id INTEGER PRIMARY KEY, at TEXT NOT NULL, operation TEXT NOT NULL, user_id INTEGER, body TEXT,
    effect TEXT);
  CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
`;

function createTables(db: Db): void {
  for (const name of resourceNames) db.exec(tableSql(name));
  db.exec(otherTables);
  db.pragma(`application_id = ${applicationId}`);
  db.pragma(`user_version = ${schemaVersion}`);
}

export function readMeta(db: Db, name: string): string | undefined {
  const row = db.prepare<[string], { value: string }>('SELECT value FROM meta WHERE name = ?').get(name);
  return row?.value;
}

export function writeMeta(db: Db, name: string, value: string): void {
  db.prepare('INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)').run(name, value);
}

function fileError(file: string, error: unknown): FileError {
  if (error instanceof FileError) return error;
  const why = fileReason(error);
  return new FileError(`the sandbox cannot use ${file}: ${why}`, {
    advice: 'Name a file in a folder that exists and can be written to, and that no other sandbox is using.',
    cause: error,
  });
}

/** Throws a FileError if the file is a pipe or a folder. */
export function checkPlace(file: string): void {
  try {
    refuseUnfit(file);
  } catch (error) {
    throw fileError(file, error);
  }
}

/** Creates a database with empty tables, in memory or in a file, which replaces any file there. Throws a FileError. */
export function createDatabase(file: string): Db {
  try {
    if (file !== ':memory:') {
      refuseUnfit(file);
      rmSync(file, { force: true });
      // Users may write personal data to the sandbox.
      closeSync(openSync(file, 'wx', 0o600));
    }
    const db = new Database(file);
    // If the process is killed, nothing is lost: the file still has its temporary name and is made again.
    db.pragma('journal_mode = OFF');
    db.pragma('synchronous = OFF');
    db.pragma('cache_size = -65536');
    createTables(db);
    return db;
  } catch (error) {
    throw fileError(file, error);
  }
}

function checkOurs(db: Db, file: string): void {
  if (db.pragma('application_id', { simple: true }) !== applicationId) {
    throw new FileError(`the sandbox cannot use ${file}: it is a database of something else`, {
      advice: 'Name another file with --file, or leave it out to keep the data in memory.',
    });
  }
  if (db.pragma('user_version', { simple: true }) !== schemaVersion) {
    throw new FileError(`the sandbox cannot use ${file}: another version of the sandbox made it`, {
      advice: 'Delete the file (it has only seed data) or name another one with --file.',
    });
  }
}

/** Opens an existing file for this process alone. Throws a FileError if no sandbox made it. */
export function openDatabase(file: string): Db {
  let db: Db | undefined;
  try {
    db = new Database(file, { fileMustExist: true, timeout: 0 });
    // Counts are cached between writes, so no other process may write.
    db.pragma('locking_mode = EXCLUSIVE');
    checkOurs(db, file);
    db.pragma('journal_mode = WAL');
    // Seed data need not survive a power failure, and waiting for the disk would slow down the tests.
    db.pragma('synchronous = OFF');
    db.pragma('cache_size = -131072');
    db.exec('BEGIN IMMEDIATE; COMMIT');
    return db;
  } catch (error) {
    db?.close();
    throw fileError(file, error);
  }
}

export interface LedgerEntry {
  readonly id: number;
  readonly at: string;
  readonly operation: OperationName;
  readonly user_id: number | null;
  /** The request's body, with the password hidden. */
  readonly body: JsonRecord;
  /** What the write changed, such as the balance before and after in cents. */
  readonly effect: JsonRecord;
}

type Row = Omit<LedgerEntry, 'body' | 'effect'> & { readonly body: string; readonly effect: string };

export class Ledger {
  readonly #db: Db;

  constructor(db: Db) {
    this.#db = db;
  }

  record(entry: Omit<LedgerEntry, 'id'>): void {
    const body = 'password' in entry.body ? { ...entry.body, password: '****' } : entry.body;
    this.#db
      .prepare('INSERT INTO ledger (at, operation, user_id, body, effect) VALUES (?, ?, ?, ?, ?)')
      .run(entry.at, entry.operation, entry.user_id, toJson(body), toJson(entry.effect));
  }

  entries(): LedgerEntry[] {
    return this.#db
      .prepare<[], Row>('SELECT * FROM ledger ORDER BY id')
      .all()
      .map((row) => ({ ...row, body: fromJson(row.body), effect: fromJson(row.effect) }));
  }
}
