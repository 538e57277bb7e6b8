/**
 * The records of one resource in the sandbox's database, and the related records of users and packages. A record is stored as
 * exactly the JSON text that is served, so a page is made by joining texts. The other columns are read out of that text, so
 * the two cannot differ.
 */
import type { Statement } from 'better-sqlite3';
import { type ResourceName, resourceOf } from '../model/resources.ts';
import { type Db, quoted, readMeta, storedColumns, writeMeta } from './database.ts';
import { fromJson, type JsonRecord, toJson } from './envelope.ts';
import { seedPackagePart } from './seed-records.ts';
import { firstUserOf, seedOrder, seedUserParts, type SeedWorld, maxOrders, orderCount } from './seed-user-parts.ts';

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

  constructor(db: Db, name: ResourceName) {
    this.#db = db;
    this.name = name;
    this.#stored = storedColumns[name];
    this.#highest = `highest ${name}`;
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

export type Parent = 'users' | 'packages';

/** Kinds of which a record has at most one. */
const single = new Set(['affiliate', 'address', 'category']);

/** A package may have more orders than fit into a response. */
const maxPackageOrders = 1_000;

const place = 'parent = ? AND kind = ? AND parent_id = ?';

/** Prepares the statements once: a page with includes runs them a thousand times. */
function statementsOf(db: Db) {
  return {
    list: db.prepare<[Parent, string, number], string>(`SELECT body FROM related WHERE ${place} ORDER BY id`).pluck(),
    isReplaced: db.prepare<[Parent, string, number]>(`SELECT 1 FROM related_replaced WHERE ${place}`),
    add: db.prepare<[Parent, string, number]>(
      "INSERT INTO related (parent, kind, parent_id, body) VALUES (?, ?, ?, '{}')",
    ),
    fill: db.prepare<[string, number | bigint]>('UPDATE related SET body = ? WHERE id = ?'),
    remove: db.prepare<[Parent, string, number]>(`DELETE FROM related WHERE ${place}`),
    replace: db.prepare<[Parent, string, number]>(
      'INSERT OR IGNORE INTO related_replaced (parent, kind, parent_id) VALUES (?, ?, ?)',
    ),
    removeAll: db.prepare<[Parent, number]>('DELETE FROM related WHERE parent = ? AND parent_id = ?'),
    forgetReplaced: db.prepare<[Parent, number]>('DELETE FROM related_replaced WHERE parent = ? AND parent_id = ?'),
  };
}

export class Related {
  readonly #statements: ReturnType<typeof statementsOf>;
  readonly #world: SeedWorld;
  readonly #users: RecordTable;
  readonly #emails: RecordTable;

  constructor(db: Db, world: SeedWorld, users: RecordTable, emails: RecordTable) {
    this.#statements = statementsOf(db);
    this.#world = world;
    this.#users = users;
    this.#emails = emails;
  }

  #packageOrders(packageId: number): JsonRecord[] {
    const world = this.#world;
    if (world.packages === 0 || packageId > world.packages) return [];
    const orders: JsonRecord[] = [];
    for (let at = 0; at < maxOrders; at += 1) {
      for (let user = firstUserOf(world, packageId, at); user <= world.users; user += world.packages) {
        if (orders.length >= maxPackageOrders) return orders;
        if (orderCount(world, user) <= at) continue;
        const record = this.#users.get(user);
        if (record !== undefined) orders.push(seedOrder(world, ownerOf(record), at));
      }
    }
    return orders;
  }

  list(parent: Parent, record: JsonRecord, kind: string): JsonRecord[] {
    const id = record['id'] as number;
    if (parent === 'users' && kind === 'emails') {
      return this.#emails.bodies('WHERE user_id = ? ORDER BY id', [id]).map(fromJson);
    }
    const written = this.#statements.list.all(parent, kind, id).map(fromJson);
    if (this.#statements.isReplaced.get(parent, kind, id) !== undefined) return written;
    if (parent === 'users') return [...seedUserParts(kind, this.#world, ownerOf(record)), ...written];
    if (kind === 'orders') return [...this.#packageOrders(id), ...written];
    return [...seedPackagePart(kind, this.#world.seed, record), ...written];
  }

  /** Returns the value of the relation: a list, or a single record or null. */
  value(parent: Parent, record: JsonRecord, name: string): unknown {
    const kind = name === 'suborder' ? 'suborders' : name;
    const list = this.list(parent, record, kind);
    return single.has(kind) ? (list.at(-1) ?? null) : list;
  }

  add(parent: Parent, id: number, kind: string, body: JsonRecord): JsonRecord {
    const { lastInsertRowid: row } = this.#statements.add.run(parent, kind, id);
    // Larger than any id of the seed.
    const whole = { id: 9_000_000_000 + Number(row), ...body };
    this.#statements.fill.run(toJson(whole), row);
    return whole;
  }

  /** Replaces all records of that kind, also those of the seed. */
  replace(parent: Parent, id: number, kind: string, bodies: readonly JsonRecord[]): void {
    this.#statements.remove.run(parent, kind, id);
    this.#statements.replace.run(parent, kind, id);
    for (const body of bodies) this.add(parent, id, kind, body);
  }

  removeAll(parent: Parent, id: number): void {
    this.#statements.removeAll.run(parent, id);
    this.#statements.forgetReplaced.run(parent, id);
  }
}

function ownerOf(record: JsonRecord): { id: number; createdAt: string; language: string } {
  return {
    id: record['id'] as number,
    createdAt: String(record['created_at']),
    language: String(record['language']),
  };
}
