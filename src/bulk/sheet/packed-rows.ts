/** Rows by the hundred thousand, of which one at a time is needed. */
import { Buffer } from 'node:buffer';

/** An array is one, too. */
export interface Rows<T> extends Iterable<T> {
  readonly length: number;
}

/** The rows, each changed when it is read; nothing is kept. */
export function mapRows<T, U>(rows: Rows<T>, change: (row: T) => U): Rows<U> {
  return {
    length: rows.length,
    *[Symbol.iterator]() {
      for (const row of rows) yield change(row);
    },
  };
}

/** Few enough that a chunk, read again, is gone before the collector has moved it. */
const chunkRows = 100;

/**
 * Plain rows that all have the same members, kept as JSON outside of the heap. As objects they take ten times as much, and
 * the collector lets the heap grow to half as much again before it looks what of it is garbage.
 */
export class PackedRows<T extends object> implements Rows<T> {
  #names: readonly string[] = [];
  readonly #chunks: Buffer[] = [];
  #last: unknown[][] = [];

  get length(): number {
    return this.#chunks.length * chunkRows + this.#last.length;
  }

  add(row: T): void {
    if (this.length === 0) this.#names = Object.keys(row);
    if (this.#last.push(Object.values(row)) < chunkRows) return;
    this.#chunks.push(Buffer.from(JSON.stringify(this.#last)));
    this.#last = [];
  }

  *[Symbol.iterator](): Generator<T, undefined> {
    for (const chunk of this.#chunks) {
      for (const values of JSON.parse(chunk.toString()) as unknown[][]) yield this.#rowOf(values);
    }
    for (const values of this.#last) yield this.#rowOf(values);
  }

  #rowOf(values: readonly unknown[]): T {
    const row: Record<string, unknown> = {};
    for (const [at, name] of this.#names.entries()) row[name] = values[at];
    return row as T;
  }
}
