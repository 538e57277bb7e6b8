/**
 * Limits on the size of a sheet. A file may be built to fill the machine's memory, and whoever hands it in may not know. Each limit is
 * far above any sheet of people and amounts, and low enough to do no harm.
 */
import { UsageError } from '../../model/errors.ts';

const mebibyte = 1024 * 1024;

export const limits = {
  /** Size of the file on disk. */
  fileBytes: 100 * mebibyte,
  /** Size of all parts of an .xlsx, unpacked. A million rows are about 400 MB of XML. */
  unpackedBytes: 1024 * mebibyte,
  /** Size of each part that describes the workbook: the list of its sheets, its formats. */
  smallPartBytes: 32 * mebibyte,
  zipEntries: 10_000,
  /** This and the next two are Excel's own limits. */
  rows: 1_048_576,
  columns: 16_384,
  cellCharacters: 32_767,
  cells: 8_000_000,
  characters: 100_000_000,
  /** Of a line of text. */
  rowCharacters: 4 * mebibyte,
  /** Of one tag, or of the text between two tags. */
  xmlTokenCharacters: 4 * mebibyte,
  xmlDepth: 100,
} as const;

/** `256 MiB`, for messages about the limits above. */
export const megabytes = (bytes: number): string => `${Math.ceil(bytes / mebibyte)} MiB`;

const saveElsewhere = 'Save it as .xlsx or as CSV UTF-8 in a spreadsheet program, and try that file.';

/** `sheet.xlsx cannot be read: it is protected by a password`, with what to do next. */
export function refusal(file: string, reason: string, advice: string = saveElsewhere, cause?: unknown): UsageError {
  return new UsageError(`${file} cannot be read: ${reason}`, { advice, cause });
}

const split = 'Split the sheet into smaller files.';

/** Counts what is read of a file. Throws a UsageError once a limit is exceeded. */
export class Budget {
  readonly #file: string;
  #cells = 0;
  #characters = 0;

  constructor(file: string) {
    this.#file = file;
  }

  spendRow(row: number, cells: number): void {
    this.#cells += cells;
    if (row > limits.rows) throw refusal(this.#file, `it has more than ${limits.rows} rows`, split);
    if (this.#cells > limits.cells) throw refusal(this.#file, `it has more than ${limits.cells} cells`, split);
  }

  /** @param row null for a shared text, which is not in a row yet */
  spendText(text: string, row: number | null): void {
    this.#characters += text.length;
    if (text.length > limits.cellCharacters) {
      const where = row === null ? 'a cell' : `a cell of row ${row}`;
      throw refusal(this.#file, `${where} has more than ${limits.cellCharacters} characters`, 'Shorten it.');
    }
    if (this.#characters > limits.characters) {
      throw refusal(this.#file, `its cells have more than ${limits.characters} characters`, split);
    }
  }
}
