/** The records of a page in the form in which the mirror stores them, made where the page was parsed. */
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
  /** JSON in UTF-8. Its list `data` has an object for each record, with a member for each column that is not null. */
  readonly json: Uint8Array;
  readonly ids: readonly RecordKey[];
  /** Each drift once. */
  readonly drifts: readonly SchemaDrift[];
  /** Whether everything is as documented, so that no record has anything in `_extra`. */
  readonly isServed?: true;
  /** How many records have no usable id. */
  readonly unusable: number;
}

/** Records that the mirror must not take in again. */
export interface KeptOut {
  /** Ids of the page's own resource. */
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
  /** Distinguishes the rows of one parent: the record's id, else `#` and its place in the list. */
  readonly key: string;
  readonly id: string | bigint | number | null;
  readonly record: string;
  /** The names of its members; null if it is no object. */
  readonly keys: readonly (string | null)[];
}

/** What a page brought of one requested relation. */
export interface RelatedRows {
  readonly relation: string;
  readonly parents: readonly (readonly [RecordKey, readonly RelatedRow[]])[];
  /** Whether a record came without the relation. */
  readonly absent: boolean;
}

/** Everything that a page brings for one window. */
export interface PageRows extends RecordRows {
  readonly keptOut: readonly KeptOutRecord[];
  readonly related: readonly RelatedRows[];
}
