/** A server that changes while it is read, with a record of when each change was made; a seed makes it repeatable. */
import SqliteDatabase from 'better-sqlite3';
import type { ResourceName } from '../../src/model/resources.ts';
import { dayMs } from '../../src/model/time.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';

/**
 * A separate small generator: fast-check gives the seed, and the run must not depend on how often numbers are drawn.
 */
export function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** A clock that moves by a millisecond at each look, so that no two moments are the same. */
export class StepClock {
  #ms: number;

  constructor(start: number) {
    this.#ms = start;
  }

  now(): number {
    this.#ms += 1;
    return this.#ms;
  }

  advance(ms: number): void {
    this.#ms += ms;
  }
}

/** `undo`: the newest record is deleted, and the last updated one is as it was before, including its time. */
export type Change = 'insert' | 'backdate' | 'update' | 'undo' | 'remove' | 'import' | 'ancient';
export const changes: readonly Change[] = ['insert', 'backdate', 'update', 'undo', 'remove', 'import', 'ancient'];

const mostChanges = 80;

export class ServerHistory {
  readonly #sandbox: Sandbox;
  readonly #resource: ResourceName;
  readonly #clock: StepClock;
  readonly #random: () => number;
  readonly #kinds: readonly Change[];
  #left = mostChanges;
  #inserted: number | undefined;
  #updated: Readonly<Record<string, unknown>> | undefined;
  /** When a record was last changed, and when one was deleted, by the step clock. */
  readonly touched = new Map<number, number>();
  readonly removed = new Map<number, number>();

  constructor(sandbox: Sandbox, resource: ResourceName, clock: StepClock, seed: number, kinds = changes) {
    this.#sandbox = sandbox;
    this.#resource = resource;
    this.#clock = clock;
    this.#random = randomFrom(seed);
    this.#kinds = kinds;
  }

  /** Changes the server once with the given chance; limited, so that it does not grow faster than it is read. */
  maybe(chance: number): void {
    if (this.#left <= 0) return;
    if (this.#random() < chance) this.change(this.#kinds[Math.floor(this.#random() * this.#kinds.length)] ?? 'insert');
  }

  change(kind: Change): void {
    const { control } = this.#sandbox;
    this.#left -= 1;
    switch (kind) {
      case 'insert':
        this.#insertAt(0);
        break;
      case 'backdate':
        this.#insertAt(dayMs * 900 * this.#random());
        break;
      case 'ancient':
        this.#insertAt(dayMs * 365 * 50);
        break;
      case 'import': {
        // Many records in one second, on a leap day.
        const at = Date.parse('2024-02-29T12:00:00Z');
        for (let count = 0; count < 12; count += 1) {
          this.#touch(control.insert(this.#resource, { created_at: this.#timestamp(at) }));
        }
        break;
      }
      case 'update': {
        const id = this.#anyId();
        if (id === undefined) break;
        this.#updated = control.get(this.#resource, id);
        this.#touch(control.update(this.#resource, id, this.#newValue()));
        break;
      }
      case 'undo': {
        const { id, ...before } = this.#updated ?? {};
        if (this.#inserted !== undefined) this.#remove(this.#inserted);
        if (control.get(this.#resource, Number(id ?? 0)) === undefined) break;
        this.#touch(control.update(this.#resource, Number(id), before));
        break;
      }
      case 'remove': {
        const id = this.#anyId();
        if (id !== undefined) this.#remove(id);
      }
    }
  }

  #insertAt(agoMs: number): void {
    const record = this.#sandbox.control.insert(this.#resource, {
      created_at: this.#timestamp(this.#clock.now() - agoMs),
    });
    this.#inserted = Number(record['id']);
    this.#touch(record);
  }

  #remove(id: number): void {
    if (!this.#sandbox.control.remove(this.#resource, id)) return;
    this.touched.delete(id);
    this.removed.set(id, this.#clock.now());
  }

  #timestamp(ms: number): string {
    // Whole seconds, as such servers store them.
    return `${new Date(ms).toISOString().slice(0, 19)}.000000Z`;
  }

  #newValue(): Record<string, unknown> {
    const value = `changed ${Math.floor(this.#random() * 1e9)}`;
    return this.#resource === 'users' ? { first_name: value } : { sender: value };
  }

  #anyId(): number | undefined {
    const records = this.#sandbox.control.dump(this.#resource);
    const record = records[Math.floor(this.#random() * records.length)];
    return record === undefined ? undefined : Number(record['id']);
  }

  #touch(record: Readonly<Record<string, unknown>>): void {
    const id = Number(record['id']);
    this.touched.set(id, this.#clock.now());
    this.removed.delete(id);
  }
}

/** The rows of the mirror by id, as text that is equal for equal records. */
export function rowsOf(file: string, resource: ResourceName, fields: readonly string[]): Map<number, string> {
  const database = new SqliteDatabase(file, { readonly: true });
  try {
    const rows = database.prepare<[], Record<string, unknown>>(`SELECT * FROM "${resource}"`).all();
    return new Map(rows.map((row) => [Number(row['id']), textOf(row, fields)]));
  } finally {
    database.close();
  }
}

/** The record's fields as text; JSON columns are text in the mirror already. */
export function textOf(record: Readonly<Record<string, unknown>>, fields: readonly string[]): string {
  return JSON.stringify(
    fields.map((field) => {
      const value = record[field] ?? null;
      return typeof value === 'object' && value !== null ? JSON.stringify(value) : value;
    }),
  );
}
