/** Tables that people open in a spreadsheet program: what is in them. The caller chooses the format of the file. */

/** A cell as text is as the file or the journal has it; numbers are ours: rows, ids. */
export type TableCell = string | number | null;

export interface Table {
  /** What a sheet is called. */
  readonly name: string;
  readonly columns: readonly string[];
  readonly rows: AsyncIterable<readonly TableCell[]>;
}

export const tableFormats = ['csv', 'xlsx'] as const;
export type TableFormat = (typeof tableFormats)[number];

export interface TableWriter {
  /** The ending of its files, too. */
  readonly format: TableFormat;
  readonly chunks: (table: Table) => AsyncIterable<Uint8Array>;
}
