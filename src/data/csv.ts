/** Rows as CSV and TSV. */
import { Buffer } from 'node:buffer';
import { stringify } from 'csv-stringify/sync';
import { guardedText } from '../model/spreadsheet.ts';
import type { Cell, Row } from './reading-types.ts';

export interface CsvStyle {
  readonly delimiter: ',' | '\t';
  /** Puts a `'` before text, or a part of it, that a spreadsheet would take for a formula. */
  readonly guard: boolean;
}

/** Writes whole numbers with all digits, others as the shortest text that reads back the same, and bytes in hexadecimal. */
export function plainText(cell: Exclude<Cell, string | null>): string {
  return cell instanceof Uint8Array ? Buffer.from(cell).toString('hex') : String(cell);
}

/** Whether the row begins with a negative number. If only `;` splits, the whole line is one cell that begins with a sign, like a formula. */
function beginsWithSign([first]: Row): boolean {
  return (typeof first === 'number' || typeof first === 'bigint') && first < 0;
}

/** Returns a function that writes rows, each ended by LF. Null becomes nothing, empty text becomes `""`. */
export function csvLines({ delimiter, guard }: CsvStyle): (rows: readonly Row[]) => string {
  return (rows) => {
    // csv-stringify has a guard of its own, but it ignores spreadsheets that split at other characters.
    const string = (value: string, { records }: { readonly records: number }) => {
      if (!guard) return value;
      const text = guardedText(value);
      return beginsWithSign(rows[records] ?? []) ? { value: text, quoted: true } : text;
    };
    const object = (bytes: object) => ({ value: plainText(bytes as Uint8Array), quoted_empty: true });
    return stringify([...rows], {
      delimiter,
      record_delimiter: '\n',
      // Programs and countries differ in which of these splits cells.
      quoted_match: /^$|[,;\t]/,
      quote_record_delimiter: true,
      cast: { string, object },
    });
  };
}
