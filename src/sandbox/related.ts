/** Related records by parent and kind: those that follow from the seed, and those that were written since. */
import type { Db } from './database.ts';
import type { RecordTable } from './records.ts';
import { seedPackagePart } from './seed-records.ts';
import { firstUserOf, seedOrder, seedUserParts, type SeedWorld, maxOrders, orderCount } from './seed-user-parts.ts';
import { fromJson, type JsonRecord, toJson } from './envelope.ts';

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
    const made = seedPackagePart(kind, this.#world.seed, record);
    return [...(Array.isArray(made) ? (made as JsonRecord[]) : made === null ? [] : [made as JsonRecord]), ...written];
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
