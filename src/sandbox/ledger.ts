/** Every write that the sandbox has made on request, in order: what a test holds a client's claims against. */
import type { OperationName } from '../model/operations.ts';
import { fromJson, type JsonRecord, toJson } from './serialise.ts';
import type { Db } from './schema.ts';

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

interface Row {
  readonly id: number;
  readonly at: string;
  readonly operation: OperationName;
  readonly user_id: number | null;
  readonly body: string;
  readonly effect: string;
}

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
