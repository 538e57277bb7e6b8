/** Tables that people open in a spreadsheet program. The caller chooses the file format. */

/** Strings are as in the file or the journal. Numbers are ours: rows, ids. */
export type TableCell = string | number | null;

export interface Table {
  /** The name of the sheet. */
  readonly name: string;
  readonly columns: readonly string[];
  readonly rows: AsyncIterable<readonly TableCell[]>;
}

export const tableFormats = ['csv', 'xlsx'] as const;
export type TableFormat = (typeof tableFormats)[number];

export interface TableWriter {
  /** Also the file extension. */
  readonly format: TableFormat;
  readonly chunks: (table: Table) => AsyncIterable<Uint8Array>;
}
