/** Records of a page as the mirror takes them in, made where the page was parsed. */
import type { RecordKey } from './records.ts';

export interface SchemaDrift {
  readonly kind:
    | 'unknown_field'
    | 'missing_field'
    | 'changed_type'
    | 'unreadable_text'
    | 'unusable_id'
    | 'foreign_record';
  readonly subject: string;
  readonly detail: string;
}

export interface RecordRows {
  /** JSON in UTF-8 whose list `data` has an object for each record, with a member for each column that is not null. */
  readonly json: Uint8Array;
  readonly ids: readonly RecordKey[];
  /** Each one once. */
  readonly drifts: readonly SchemaDrift[];
  /** Whether all is as documented, so that no record has anything in `_extra`. */
  readonly isServed?: true;
  /** Records without an id that they could be kept under. */
  readonly unusable: number;
}

/** Whom the mirror must not take in again. */
export interface KeptOut {
  /** Ids of the resource at hand. */
  readonly own: readonly number[];
  readonly users: readonly number[];
  readonly emails: readonly number[];
}

export interface KeptOutRecord {
  readonly id: number;
  readonly user: number;
  readonly createdAt: unknown;
}

export interface RelatedRow {
  /** What distinguishes the row from the parent's others: the record's id, else `#` and its place in the list. */
  readonly key: string;
  readonly id: string | bigint | number | null;
  readonly record: string;
  /** The names of what it holds; null where it is no object. */
  readonly keys: readonly (string | null)[];
}

/** What a page brought of one relation that was requested. */
export interface RelatedRows {
  readonly relation: string;
  readonly parents: readonly (readonly [RecordKey, readonly RelatedRow[]])[];
  /** Whether a record came without it. */
  readonly absent: boolean;
}

/** All that a page brings for one window. */
export interface PageRows extends RecordRows {
  readonly keptOut: readonly KeptOutRecord[];
  readonly related: readonly RelatedRows[];
}
