/**
 * The sandbox's own database, the records of a resource in it, and how often they have changed. A record is stored as the very JSON
 * text that is served, so a page is joined text and nothing is put together on reading; the other columns are read out of that text,
 * so the two cannot differ.
 */
import Database, { type Statement } from 'better-sqlite3';
import type { OperationName } from '../model/operations.ts';
import { type ResourceName, resourceOf, resourceNames, sqlTypeOf } from '../model/resources.ts';
import { fromJson, type JsonRecord, toJson } from './envelope.ts';
import { closeSync, openSync, rmSync } from 'node:fs';
import { FileError } from '../model/errors.ts';
import { fileReason, refuseUnfitDatabase } from '../model/files.ts';

/** With a name of its own, by which the types of the package can name it. */
export interface Db extends Database.Database {}

/** "AdSb": marks a file as a sandbox's, so that no other database is ever written to by mistake. */
const applicationId = 0x41645362;
const schemaVersion = 1;

/** Columns stored beside the text because an index holds them; the others are computed. */
const storedColumns: Readonly<Record<ResourceName, readonly string[]>> = {
  users: ['created_at', 'username', 'email'],
  packages: ['created_at'],
  emails: ['created_at', 'user_id'],
  coupons: ['created_at'],
};

/** The order of each resource's walk, and the counting of date ranges. */
export const walkIndexes = [
  'CREATE INDEX IF NOT EXISTS users_walk ON users (created_at, username)',
  'CREATE INDEX IF NOT EXISTS packages_walk ON packages (created_at)',
  'CREATE INDEX IF NOT EXISTS emails_walk ON emails (created_at)',
  'CREATE INDEX IF NOT EXISTS emails_user ON emails (user_id)',
  'CREATE INDEX IF NOT EXISTS coupons_walk ON coupons (created_at)',
];

/** Columns that are looked up by value, of which no two records share one; each gets its index when it is first used. */
export const lookedUp: Readonly<Record<ResourceName, readonly string[]>> = {
  users: ['username', 'email'],
  packages: [],
  emails: [],
  coupons: [],
};

/** A name in SQL; `order` is a field of packages. */
export function quoted(name: string): string {
  return `"${name}"`;
}

function tableSql(name: ResourceName): string {
  const stored = storedColumns[name];
  const columns = resourceOf(name)
    .fields.filter((field) => field.name !== 'id')
    .map((field) => {
      // NUMERIC keeps a whole number whole, as the text that is served has it.
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

/** Throws FileError where the file is a pipe, or another user's in a folder for all. */
export function checkPlace(file: string): void {
  try {
    refuseUnfitDatabase(file);
  } catch (error) {
    throw fileError(file, error);
  }
}

/** A new database with empty tables, in memory or in a file, whatever was there before. Throws FileError. */
export function createDatabase(file: string): Db {
  try {
    if (file !== ':memory:') {
      refuseUnfitDatabase(file);
      rmSync(file, { force: true });
      // What is written to the sandbox may be about people, too.
      closeSync(openSync(file, 'wx', 0o600));
    }
    const db = new Database(file);
    // Nothing is lost with a file that is half made: it has a temporary name, and is made anew.
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

/** Opens a file that is there, for this process alone. Throws FileError where it is no sandbox's. */
export function openDatabase(file: string): Db {
  let db: Db | undefined;
  try {
    db = new Database(file, { fileMustExist: true, timeout: 0 });
    // Counts are remembered between writes, so nobody else may write.
    db.pragma('locking_mode = EXCLUSIVE');
    checkOurs(db, file);
    db.pragma('journal_mode = WAL');
    // Seed data need not survive a power cut, and waiting for the disk would only slow the tests.
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
  /** The request's body, its password hidden. */
  readonly body: JsonRecord;
  /** What it came to, such as the balance before and after in cents. */
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

export type SqlValue = string | number | bigint | null;

/** Statements and counts kept: more than the tests need, less than a stranger could fill the memory with. */
const mostKept = 1_000;

export class RecordTable {
  readonly name: ResourceName;
  readonly #db: Db;
  readonly #statements = new Map<string, Statement<SqlValue[]>>();
  readonly #stored: readonly string[];
  /** Under which name the highest id that was ever given is kept. */
  readonly #highest: string;
  /** Counts that are true until the next write. */
  readonly #counts = new Map<string, number>();
  #total: number | null = null;
  readonly #indexed = new Set<string>();
  /** Where the hidden records are, for as long as the sandbox runs. */
  readonly #hidden: string;
  #hides = false;

  constructor(db: Db, name: ResourceName) {
    this.#db = db;
    this.name = name;
    this.#stored = storedColumns[name];
    this.#highest = `highest ${name}`;
    this.#hidden = `temp.hidden_${name}`;
  }

  #prepared(sql: string): Statement<SqlValue[]> {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      if (this.#statements.size >= mostKept) this.#statements.clear();
      statement = this.#db.prepare<SqlValue[]>(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  #changed(difference: number): void {
    this.#counts.clear();
    if (this.#total !== null) this.#total += difference;
  }

  /** Builds the index of a column that is looked up by value, at the first time: seeding millions does without. */
  indexFor(column: string): void {
    if (this.#indexed.has(column) || !lookedUp[this.name].includes(column)) return;
    this.#db.exec(`CREATE INDEX IF NOT EXISTS ${this.name}_${column} ON ${this.name} (${quoted(column)})`);
    this.#indexed.add(column);
  }

  /** Adds a record, which must have an id unless the next free one will do; gives it back with its id. */
  insert(record: JsonRecord): JsonRecord {
    const id = typeof record['id'] === 'number' ? record['id'] : this.nextId();
    const whole = { ...record, id };
    const columns = this.#stored.map((column) => whole[column as keyof typeof whole] as SqlValue);
    const names = ['id', 'body', ...this.#stored.map(quoted)];
    const sql = `INSERT INTO ${this.name} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`;
    this.#prepared(sql).run(id, toJson(whole), ...columns);
    this.#changed(1);
    return whole;
  }

  replace(record: JsonRecord): void {
    const columns = this.#stored.map((column) => record[column] as SqlValue);
    const assignments = ['body = ?', ...this.#stored.map((column) => `${quoted(column)} = ?`)];
    const sql = `UPDATE ${this.name} SET ${assignments.join(', ')} WHERE id = ?`;
    this.#prepared(sql).run(toJson(record), ...columns, record['id'] as number);
    this.#changed(0);
  }

  remove(id: number): boolean {
    // The last one's id would else be free again.
    if (id === this.lastId()) writeMeta(this.#db, this.#highest, String(Math.max(id, this.nextId() - 1)));
    const gone = this.#prepared(`DELETE FROM ${this.name} WHERE id = ?`).run(id).changes > 0;
    if (gone) this.#changed(-1);
    return gone;
  }

  /** Takes a record away that totals go on counting, as where a soft deletion is forgotten in them. */
  hide(id: number): boolean {
    this.#db.exec(`CREATE TEMP TABLE IF NOT EXISTS ${this.#hidden} AS SELECT * FROM ${this.name} WHERE 0`);
    this.#prepared(`INSERT INTO ${this.#hidden} SELECT * FROM ${this.name} WHERE id = ?`).run(id);
    this.#hides = true;
    return this.remove(id);
  }

  countHidden(where: string, values: readonly SqlValue[]): number {
    if (!this.#hides) return 0;
    const sql = `SELECT count(*) FROM ${this.#hidden}${where === '' ? '' : ` WHERE ${where}`}`;
    return this.#prepared(sql)
      .pluck()
      .get(...values) as number;
  }

  get(id: number): JsonRecord | undefined {
    return recordIn(this.body(id));
  }

  body(id: number): string | undefined {
    return this.#prepared(`SELECT body FROM ${this.name} WHERE id = ?`).pluck().get(id) as string | undefined;
  }

  find(column: string, value: SqlValue): JsonRecord | undefined {
    this.indexFor(column);
    const sql = `SELECT body FROM ${this.name} WHERE ${quoted(column)} = ? ORDER BY id LIMIT 1`;
    return recordIn(this.#prepared(sql).pluck().get(value));
  }

  from(id: number): JsonRecord | undefined {
    const sql = `SELECT body FROM ${this.name} WHERE id >= ? ORDER BY id LIMIT 1`;
    return recordIn(this.#prepared(sql).pluck().get(id));
  }

  lastId(): number {
    return (this.#prepared(`SELECT max(id) FROM ${this.name}`).pluck().get() as number | null) ?? 0;
  }

  /** An id that no record has ever had: the API's ids are not used twice. */
  nextId(): number {
    return Math.max(Number(readMeta(this.#db, this.#highest) ?? 0), this.lastId()) + 1;
  }

  /** Records that match; `where` is SQL, empty for all of them. */
  count(where = '', values: readonly SqlValue[] = []): number {
    if (where === '') {
      this.#total ??= this.#prepared(`SELECT count(*) FROM ${this.name}`).pluck().get() as number;
      return this.#total;
    }
    const key = `${where}\u0000${values.join('\u0000')}`;
    let found = this.#counts.get(key);
    if (found === undefined) {
      found = this.#prepared(`SELECT count(*) FROM ${this.name} WHERE ${where}`)
        .pluck()
        .get(...values) as number;
      if (this.#counts.size >= mostKept) this.#counts.clear();
      this.#counts.set(key, found);
    }
    return found;
  }

  /** The bodies of a selection, joined by commas: what stands between the brackets of a list. */
  joined(tail: string, values: readonly SqlValue[]): { bodies: Buffer; count: number } {
    // SQLite joins the texts and hands over their bytes, so no record becomes a JavaScript string on the way.
    const sql = `SELECT CAST(group_concat(body, ',') AS BLOB), count(*) FROM (SELECT body FROM ${this.name} ${tail})`;
    const [bodies, count] = this.#prepared(sql)
      .raw()
      .get(...values) as [Buffer | null, number];
    return { bodies: bodies ?? Buffer.alloc(0), count };
  }

  bodies(tail: string, values: readonly SqlValue[]): string[] {
    return this.#prepared(`SELECT body FROM ${this.name} ${tail}`)
      .pluck()
      .all(...values) as string[];
  }

  /** Every record in the order of ids, in pieces, so that millions can be looked at. */
  *everyBody(): Generator<string> {
    const piece = 5_000;
    const sql = `SELECT id, body FROM ${this.name} WHERE id > ? ORDER BY id LIMIT ${piece}`;
    for (let last = 0; ;) {
      const rows = this.#prepared(sql).raw().all(last) as [number, string][];
      for (const [id, body] of rows) {
        last = id;
        yield body;
      }
      if (rows.length < piece) return;
    }
  }
}

function recordIn(body: unknown): JsonRecord | undefined {
  return typeof body === 'string' ? fromJson(body) : undefined;
}

/** A field's default where nobody gives one: null where it may be, else an empty value of its type. */
export function emptyRecord(name: ResourceName): JsonRecord {
  const record: JsonRecord = {};
  for (const field of resourceOf(name).fields) {
    if (field.nullable) record[field.name] = null;
    else if (field.type === 'string' || field.type === 'timestamp') record[field.name] = '';
    else if (field.type === 'object') record[field.name] = {};
    else if (field.type === 'strings') record[field.name] = [];
    else record[field.name] = 0;
  }
  return record;
}
