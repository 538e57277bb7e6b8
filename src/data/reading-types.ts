/** The types of reading a mirror. */
import type { Timestamp } from '../model/time.ts';

/** A value of a row. Whole numbers are always bigint, so that none is rounded; a number is a floating-point value. */
export type Cell = string | bigint | number | Uint8Array | null;

export type Row = readonly Cell[];

interface RelationColumn {
  readonly name: string;
  /** The declared type; empty if there is none. */
  readonly type: string;
  readonly notNull: boolean;
}

export interface Relation {
  readonly name: string;
  readonly kind: 'table' | 'view';
  readonly columns: readonly RelationColumn[];
  /** A STRICT table, whose columns hold only values of their declared types. */
  readonly isStrict: boolean;
  /** The INTEGER PRIMARY KEY, by which ranges can be read; null if there is none. */
  readonly rangeColumn: string | null;
  /** The columns that identify and order its rows: the primary key, or `rowid`; empty for a view. */
  readonly key: readonly string[];
}

/** A column of a result. `table` and `origin` name the column that it was read from; null if it was computed. */
export interface ResultColumn {
  readonly name: string;
  readonly table: string | null;
  readonly origin: string | null;
}

/** Values of named parameters, by name without the colon. */
export type BoundValues = Readonly<Record<string, string | bigint | number | null>>;

/** A part of the rows. */
export interface StatementPart {
  /** In this order; all columns by default. */
  readonly columns?: readonly string[] | undefined;
  /** SQL of the operator. */
  readonly where?: string | undefined;
  /** SQL of the operator. By default, rows of a table come in the order of its range column. */
  readonly order?: string | undefined;
  /** Reads each resource's table as the mirror knew it then. */
  readonly asOf?: Timestamp | undefined;
}

/** A table or view, or a part of it. */
export interface Selection extends StatementPart {
  readonly relation: string;
  readonly columns: readonly string[];
  readonly limit?: number;
}

/** What SQLite knows about a statement without running it. */
export interface StatementFacts {
  readonly columns: readonly string[];
  readonly parameters: readonly string[];
}

/** How far back the history of a resource reaches. */
export interface HistoryReach {
  /** Every state since then is known; null if nothing was ever read. */
  readonly beginsAt: Timestamp | null;
  /** When the resource had been read completely for the first time; null if it never was. */
  readonly wholeAt: Timestamp | null;
}

/** Includes both ends. */
export interface ChangeSpan {
  readonly from: Timestamp;
  readonly to: Timestamp;
  /** Only changes of this record. */
  readonly id?: bigint;
}

/** What happened to a record. The cells are the reference's fields, in their order, and then `_extra`. */
export interface RecordChange {
  readonly at: Timestamp;
  readonly id: bigint;
  readonly kind: 'inserted' | 'updated' | 'deleted';
  readonly before: Row | null;
  readonly after: Row | null;
}

/** What happened to a record after a number. For a deletion, `before` is null if the person was forgotten. */
export interface NumberedChange extends RecordChange {
  readonly seq: number;
}

/** Includes both ends. */
export interface IdRange {
  readonly from: bigint;
  readonly to: bigint;
}

export interface Rows {
  readonly columns: readonly ResultColumn[];
  /** Yields all rows in order, in batches of at most `rows()`, which is called before each batch. No batch is empty. */
  readonly batches: (rows: () => number) => IterableIterator<Row[]>;
}

export interface RangedRows {
  readonly columns: readonly ResultColumn[];
  readonly rowsIn: (range: IdRange) => Row[];
  /** The row at this place of the range, counted from 0; nothing if there is none. */
  readonly rowIn: (range: IdRange, at: number) => Row[];
}
