/** What the writing of a file is given besides its rows. */
export interface FileRun {
  readonly signal: AbortSignal;
  /** Told how many more rows have been written. */
  readonly onRows: (rows: number) => void;
  /** Told what the operator should know of the rows. */
  readonly onWarning: (warning: string) => void;
}
