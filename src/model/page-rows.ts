/**
 * Records of a page as a store takes them in, made where the page was parsed. Plain data: it passes from the thread that
 * reads to the one that writes.
 */
import type { ServedRecord, RecordKey } from './records.ts';
import type { ResourceName } from './resources.ts';

/** How a record departed from the reference. */
export interface Surprise {
  readonly kind:
    | 'unknown_field'
    | 'missing_field'
    | 'changed_type'
    | 'unreadable_text'
    | 'unusable_id'
    | 'foreign_record';
  /** The field. */
  readonly subject: string;
  readonly detail: string;
}

export interface PageRows {
  /** A JSON array with an array of cells for each record, in UTF-8; the store's own business beyond that. */
  readonly json: Uint8Array;
  /** Of each row. */
  readonly ids: readonly RecordKey[];
  /** Each one once. */
  readonly surprises: readonly Surprise[];
  /** Records without an id that they could be kept under, or with the fields of another resource. */
  readonly unusable: number;
}

/** A store's way to make rows of records. */
export type RowMaker = (resource: ResourceName, records: readonly ServedRecord[]) => PageRows;
