/** What a comparison of the mirror with the server has found: which records are in one alone, and which differ. */
import type { RecordKey } from '../model/records.ts';
import type { Comparison } from './store/verify-store.ts';

export interface Difference {
  readonly id: RecordKey;
  readonly fields: readonly string[];
}

/** Ids only: a mirror that has nothing in common with the server must still be reported in bounded memory. */
export class Findings {
  /** On the server only. */
  readonly missing = new Set<RecordKey>();
  /** In the mirror only. */
  readonly extra = new Set<RecordKey>();
  /** In both, by id, with the columns that differ. */
  readonly different = new Map<RecordKey, readonly string[]>();
  /** On the server, and kept out of the mirror on purpose. */
  readonly hidden = new Set<RecordKey>();
  readonly #lists = new Map<string, readonly string[]>();

  get size(): number {
    return this.missing.size + this.extra.size + this.different.size;
  }

  /** Takes what was found of a record; a later look at it stands in the place of an earlier one. */
  note(comparison: Comparison): void {
    const { id, kind } = comparison;
    this.missing.delete(id);
    this.different.delete(id);
    if (kind === 'missing') this.missing.add(id);
    if (kind === 'hidden') this.hidden.add(id);
    if (kind === 'different') this.different.set(id, this.#shared(comparison.fields));
  }

  /** Thousands of records differ in the same few columns: their names are kept once. */
  #shared(fields: readonly string[]): readonly string[] {
    const key = fields.join(' ');
    const known = this.#lists.get(key) ?? fields;
    this.#lists.set(key, known);
    return known;
  }

  /** Drops what was found of records that a later pass over the same pages did not show. */
  keepSeen(seen: ReadonlySet<RecordKey>): void {
    for (const id of this.missing) if (!seen.has(id)) this.missing.delete(id);
    for (const id of this.different.keys()) if (!seen.has(id)) this.different.delete(id);
  }

  /** Adds what the comparison of another part of the resource has found. */
  add(other: Findings): void {
    for (const id of other.missing) this.missing.add(id);
    for (const id of other.extra) this.extra.add(id);
    for (const id of other.hidden) this.hidden.add(id);
    for (const [id, fields] of other.different) this.different.set(id, this.#shared(fields));
    // A row whose record turns up under another creation time has its record.
    for (const id of this.different.keys()) this.extra.delete(id);
  }

  /** What this one and a later look at the same records have both found. */
  confirmedBy(later: Findings): Findings {
    const both = new Findings();
    for (const id of this.missing) if (later.missing.has(id)) both.missing.add(id);
    for (const id of this.extra) if (later.extra.has(id)) both.extra.add(id);
    for (const [id, fields] of later.different) if (this.different.has(id)) both.different.set(id, fields);
    for (const id of later.hidden) both.hidden.add(id);
    return both;
  }

  listed(): { readonly missing: RecordKey[]; readonly extra: RecordKey[]; readonly different: Difference[] } {
    return {
      missing: inOrder(this.missing),
      extra: inOrder(this.extra),
      different: inOrder(this.different.keys()).map((id) => ({ id, fields: this.different.get(id) ?? [] })),
    };
  }
}

function inOrder(ids: Iterable<RecordKey>): RecordKey[] {
  return [...ids].sort((a, b) => (a < b ? -1 : 1));
}
