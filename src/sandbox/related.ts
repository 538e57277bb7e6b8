/** Related records: the made-up ones and those written since, by parent and kind. */
import type { RecordTable } from './records.ts';
import type { Db } from './schema.ts';
import { madePackagePart } from './made-packages.ts';
import { firstUserOf, madeOrder, madeUserParts, type MadeWorld, mostOrders, orderCount } from './made-user-parts.ts';
import { fromJson, type JsonRecord, toJson } from './serialise.ts';

export type Parent = 'users' | 'packages';

/** Kinds of which a record has one or none. */
const single = new Set(['affiliate', 'address', 'category']);

/** A package can have sold more than an answer can carry. */
const mostPackageOrders = 1_000;

export class Related {
  readonly #db: Db;
  readonly #world: MadeWorld;
  readonly #users: RecordTable;
  readonly #emails: RecordTable;

  constructor(db: Db, world: MadeWorld, users: RecordTable, emails: RecordTable) {
    this.#db = db;
    this.#world = world;
    this.#users = users;
    this.#emails = emails;
  }

  #written(parent: Parent, id: number, kind: string): JsonRecord[] {
    const rows = this.#db
      .prepare<[string, string, number], string>(
        'SELECT body FROM related WHERE parent = ? AND kind = ? AND parent_id = ? ORDER BY id',
      )
      .pluck()
      .all(parent, kind, id);
    return rows.map(fromJson);
  }

  #replaced(parent: Parent, id: number, kind: string): boolean {
    const sql = 'SELECT 1 FROM related_replaced WHERE parent = ? AND parent_id = ? AND kind = ?';
    return this.#db.prepare(sql).get(parent, id, kind) !== undefined;
  }

  #packageOrders(packageId: number): JsonRecord[] {
    const world = this.#world;
    if (world.packages === 0 || packageId > world.packages) return [];
    const orders: JsonRecord[] = [];
    for (let at = 0; at < mostOrders; at += 1) {
      for (let user = firstUserOf(world, packageId, at); user <= world.users; user += world.packages) {
        if (orders.length >= mostPackageOrders) return orders;
        if (orderCount(world, user) <= at) continue;
        const record = this.#users.get(user);
        if (record !== undefined) orders.push(madeOrder(world, ownerOf(record), at));
      }
    }
    return orders;
  }

  /** All records of that kind, oldest first. */
  list(parent: Parent, record: JsonRecord, kind: string): JsonRecord[] {
    const id = record['id'] as number;
    if (parent === 'users' && kind === 'emails') {
      return this.#emails.bodies('WHERE user_id = ? ORDER BY id', [id]).map(fromJson);
    }
    const written = this.#written(parent, id, kind);
    if (this.#replaced(parent, id, kind)) return written;
    if (parent === 'users') return [...madeUserParts(kind, this.#world, ownerOf(record)), ...written];
    if (kind === 'orders') return [...this.#packageOrders(id), ...written];
    const made = madePackagePart(kind, this.#world.seed, record);
    return [...(Array.isArray(made) ? (made as JsonRecord[]) : made === null ? [] : [made as JsonRecord]), ...written];
  }

  /** The value that stands under the relation's name: a list, or one record or null. */
  value(parent: Parent, record: JsonRecord, name: string): unknown {
    const kind = name === 'suborder' ? 'suborders' : name;
    const list = this.list(parent, record, kind);
    return single.has(kind) ? (list.at(-1) ?? null) : list;
  }

  /** Adds a record of that kind and gives it back with its id. */
  add(parent: Parent, id: number, kind: string, body: JsonRecord): JsonRecord {
    const row = this.#db
      .prepare('INSERT INTO related (parent, parent_id, kind, body) VALUES (?, ?, ?, ?)')
      .run(parent, id, kind, '{}');
    // Far from the ids of what was made up.
    const whole = { id: 9_000_000_000 + Number(row.lastInsertRowid), ...body };
    this.#db.prepare('UPDATE related SET body = ? WHERE id = ?').run(toJson(whole), row.lastInsertRowid);
    return whole;
  }

  /** Puts exactly these records in the place of all of that kind, the made-up ones included. */
  replace(parent: Parent, id: number, kind: string, bodies: readonly JsonRecord[]): void {
    this.#db.prepare('DELETE FROM related WHERE parent = ? AND parent_id = ? AND kind = ?').run(parent, id, kind);
    this.#db
      .prepare('INSERT OR IGNORE INTO related_replaced (parent, parent_id, kind) VALUES (?, ?, ?)')
      .run(parent, id, kind);
    for (const body of bodies) this.add(parent, id, kind, body);
  }

  /** Forgets what was written for a parent that is gone. */
  removeAll(parent: Parent, id: number): void {
    this.#db.prepare('DELETE FROM related WHERE parent = ? AND parent_id = ?').run(parent, id);
    this.#db.prepare('DELETE FROM related_replaced WHERE parent = ? AND parent_id = ?').run(parent, id);
  }
}

function ownerOf(record: JsonRecord): { id: number; createdAt: string; language: string } {
  return {
    id: record['id'] as number,
    createdAt: String(record['created_at']),
    language: String(record['language']),
  };
}
