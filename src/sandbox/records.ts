/**
 * The records of one resource in the sandbox's database. A record is stored as exactly the JSON text that is served, so a page
 * is made by joining texts. The other columns are read out of that text, so the two cannot differ.
 */
import type { Statement } from 'better-sqlite3';
import { type ResourceName, resourceOf } from '../model/resources.ts';
import { type Db, quoted, readMeta, storedColumns, writeMeta } from './database.ts';
import { fromJson, type JsonRecord, toJson } from './envelope.ts';

/** Unique columns by which records are looked up. Each gets its index when it is first used. */
export const lookedUp: Readonly<Record<ResourceName, readonly string[]>> = {
  users: ['username', 'email'],
  packages: [],
  emails: [],
  coupons: [],
};

export type SqlValue = string | number | bigint | null;

/** The most cached statements and counts: more than tests need, but few enough that no client can fill the memory. */
const maxCached = 1_000;

export class RecordTable {
  readonly name: ResourceName;
  readonly #db: Db;
  readonly #statements = new Map<string, Statement<SqlValue[]>>();
  readonly #stored: readonly string[];
  /** The name in `meta` under which the highest id ever given is stored. */
  readonly #highest: string;
  /** Counts by condition; valid until the next write. */
  readonly #counts = new Map<string, number>();
  #total: number | null = null;
  readonly #indexed = new Set<string>();
  /** The temporary table of hidden records. */
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
      if (this.#statements.size >= maxCached) this.#statements.clear();
      statement = this.#db.prepare<SqlValue[]>(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }

  #changed(difference: number): void {
    this.#counts.clear();
    if (this.#total !== null) this.#total += difference;
  }

  /** Builds the index of a unique column when it is first needed, since it would slow down seeding millions of records. */
  indexFor(column: string): void {
    if (this.#indexed.has(column) || !lookedUp[this.name].includes(column)) return;
    this.#db.exec(`CREATE INDEX IF NOT EXISTS ${this.name}_${column} ON ${this.name} (${quoted(column)})`);
    this.#indexed.add(column);
  }

  /** Adds a record and returns it. A record without an id gets the next free one. */
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
    // Otherwise the id of the last record would be given again.
    if (id === this.lastId()) writeMeta(this.#db, this.#highest, String(Math.max(id, this.nextId() - 1)));
    const gone = this.#prepared(`DELETE FROM ${this.name} WHERE id = ?`).run(id).changes > 0;
    if (gone) this.#changed(-1);
    return gone;
  }

  /** Removes a record that totals continue to count, as when a server forgets to leave out soft-deleted records. */
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

  /** Returns the first record with this id or a larger one. */
  from(id: number): JsonRecord | undefined {
    const sql = `SELECT body FROM ${this.name} WHERE id >= ? ORDER BY id LIMIT 1`;
    return recordIn(this.#prepared(sql).pluck().get(id));
  }

  lastId(): number {
    return (this.#prepared(`SELECT max(id) FROM ${this.name}`).pluck().get() as number | null) ?? 0;
  }

  /** Returns an id that no record has ever had: the API never uses an id twice. */
  nextId(): number {
    return Math.max(Number(readMeta(this.#db, this.#highest) ?? 0), this.lastId()) + 1;
  }

  /** Counts the records that match; `where` is SQL, empty for all records. */
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
      if (this.#counts.size >= maxCached) this.#counts.clear();
      this.#counts.set(key, found);
    }
    return found;
  }

  /** Returns the bodies of a selection, joined by commas, for the array of a list. */
  joined(tail: string, values: readonly SqlValue[]): { bodies: Buffer; count: number } {
    // SQLite joins the texts and returns their bytes, so that no record becomes a JavaScript string.
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

  /** Yields every record in the order of ids. Reads them in batches, since there may be millions. */
  *everyBody(): Generator<string> {
    const batchSize = 5_000;
    const sql = `SELECT id, body FROM ${this.name} WHERE id > ? ORDER BY id LIMIT ${batchSize}`;
    for (let last = 0; ;) {
      const rows = this.#prepared(sql).raw().all(last) as [number, string][];
      for (const [id, body] of rows) {
        last = id;
        yield body;
      }
      if (rows.length < batchSize) return;
    }
  }
}

function recordIn(body: unknown): JsonRecord | undefined {
  return typeof body === 'string' ? fromJson(body) : undefined;
}

/** Returns a record whose fields are null if they may be, else an empty value of their type. */
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
