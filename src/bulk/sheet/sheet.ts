/** Files of rows that people hand in: spreadsheets, CSV, JSON lines. What stands in them, and where, and nothing guessed. */

export type SheetFormat = 'csv' | 'tsv' | 'xlsx' | 'jsonl';

/** What a cell is. Those of text files are `text` or `empty`; those of JSON lines may be numbers and booleans, too. */
export type CellKind = 'text' | 'number' | 'boolean' | 'date' | 'percent' | 'error' | 'empty';

export interface SheetCell {
  /** Without spaces, NBSP and zero-width characters at its ends; '' where empty. */
  readonly text: string;
  /** As it stands in the file; numbers digit for digit. */
  readonly raw: string;
  readonly kind: CellKind;
}

export interface SheetRow {
  /** Physical: the header is row 1, a record of several lines is where it begins. */
  readonly row: number;
  /** One for each column of the sheet. */
  readonly cells: readonly SheetCell[];
}

/** What is wrong with one cell or row, for the person who wrote the sheet. */
export interface SheetProblem {
  readonly row: number;
  /** The header of the column; null where it is the row as a whole. */
  readonly column: string | null;
  readonly problem: string;
}

export interface Sheet {
  readonly file: string;
  readonly bytes: number;
  /** SHA-256 of the file's bytes, in hexadecimal. */
  readonly hash: string;
  readonly format: SheetFormat;
  /** Of csv and tsv. */
  readonly delimiter: string | null;
  /** Of xlsx: the name of the sheet that was read. */
  readonly sheet: string | null;
  /** The headers as they stand, trimmed; '' where one is empty. */
  readonly columns: readonly string[];
  /** Without blank ones. */
  readonly rows: readonly SheetRow[];
  /** Blank rows between others; those after the last one are not counted. */
  readonly blankRows: number;
  /** What the user should be told: delimiter found, sheets passed over, cells trimmed. */
  readonly notes: readonly string[];
  /** Of cells: errors, formulas without a value, text outside of the columns. */
  readonly problems: readonly SheetProblem[];
}
