/** What exports and queries need of a mirror: consistent reads, and nothing that could change it. */
import type { Timestamp } from '../model/time.ts';

/** A value of a row: whole numbers are always bigint, so that none is rounded; number is a floating-point value. */
export type Cell = string | bigint | number | Uint8Array | null;

export type Row = readonly Cell[];

interface RelationColumn {
  readonly name: string;
  /** As declared; empty where nothing is. */
  readonly type: string;
  readonly notNull: boolean;
}

export interface Relation {
  readonly name: string;
  readonly kind: 'table' | 'view';
  readonly columns: readonly RelationColumn[];
  /** Whether each column holds what it is declared to hold and nothing else. */
  readonly isStrict: boolean;
  /** The column of whole numbers that identifies a row and by which ranges can be read; null where there is none. */
  readonly rangeColumn: string | null;
  /** What tells its rows apart, and orders them: columns that are never null, or the row's own number; empty of a view. */
  readonly key: readonly string[];
}

/** A column of a result; `table` and `origin` say where it was read from, null where it was computed. */
export interface ResultColumn {
  readonly name: string;
  readonly table: string | null;
  readonly origin: string | null;
}

/** Values of a statement's named parameters, by name without the colon. */
export type BoundValues = Readonly<Record<string, string | bigint | number | null>>;

/** What of the rows is wanted. */
export interface StatementPart {
  /** In this order; all without it. */
  readonly columns?: readonly string[] | undefined;
  readonly where?: string | undefined;
  /** The operator's own SQL order; without it, rows of a table come by the range column where there is one. */
  readonly order?: string | undefined;
  /** The relation, which is a resource's table, as the mirror knew it then; and so is any other that the condition names. */
  readonly asOf?: Timestamp | undefined;
}

/** A table or view, or a part of it. */
export interface Selection extends StatementPart {
  readonly relation: string;
  readonly columns: readonly string[];
  readonly limit?: number;
}

/** What is known of a statement without running it. */
export interface StatementFacts {
  readonly columns: readonly string[];
  readonly parameters: readonly string[];
}

/** How far back the history of a resource reaches. */
export interface HistoryReach {
  /** Every state from then on is known; null where nothing was ever read. */
  readonly beginsAt: Timestamp | null;
  /** When the resource had been read whole for the first time; null where it never was. */
  readonly wholeAt: Timestamp | null;
}

/** Both ends belong to it. */
export interface ChangeSpan {
  readonly from: Timestamp;
  readonly to: Timestamp;
  /** Only changes of this record. */
  readonly id?: bigint;
}

/** What happened to a record; the cells are those of the reference's fields, in their order, then `_extra`. */
export interface RecordChange {
  readonly at: Timestamp;
  readonly id: bigint;
  readonly kind: 'inserted' | 'updated' | 'deleted';
  readonly before: Row | null;
  readonly after: Row | null;
}

/** What happened to a record after a number. Of a deletion `before` is null where the person was forgotten. */
export interface NumberedChange extends RecordChange {
  readonly seq: number;
}

/** Both ends belong to it. */
export interface IdRange {
  readonly from: bigint;
  readonly to: bigint;
}

export interface Rows {
  readonly columns: readonly ResultColumn[];
  /** All rows in order, at most `rows` at a time, which is called before each batch; no batch is empty. */
  readonly batches: (rows: () => number) => IterableIterator<Row[]>;
}

export interface RangedRows {
  readonly columns: readonly ResultColumn[];
  readonly rowsIn: (range: IdRange) => Row[];
}
