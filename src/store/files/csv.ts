/** CSV and TSV: by csv-stringify, and the rows of whole tables by hand, several times quicker, in the same bytes. */
import { Buffer } from 'node:buffer';
import { stringify } from 'csv-stringify/sync';
import type { Cell, Row } from '../reading-types.ts';

export interface CsvStyle {
  readonly delimiter: ',' | '\t';
  /** Puts a `'` before text, or a part of it, that a spreadsheet would run. */
  readonly guard: boolean;
}

/** What a formula begins with, also in East Asian widths and behind what a spreadsheet leaves out, or such signs. */
const formula = /^(?:[[\p{Cc}\p{Cf}\p{Z}]--[\t\n\r]]*[=+\-@＝＋－＠]|[\t\n\r])/v;
/** Many countries split by `;` even within quotes, which then do not stand at the beginning of the cell. */
const laterFormula = /([;\t\n\r])(?=[[\p{Cc}\p{Cf}\p{Z}"]--[\t\n\r]]*[=+\-@＝＋－＠])/gv;
/** Text that begins with one of these characters and is on one line is no formula, and most text is so. */
const harmless = /^[\w"'(<[{][^;\t\n\r]*$/;

/** The text so that no spreadsheet takes any of it for a formula. Numbers never pass through here. */
export function guardedText(text: string): string {
  if (harmless.test(text)) return text;
  const guarded = text.replaceAll(laterFormula, "$1'");
  return formula.test(text) ? `'${guarded}` : guarded;
}

/** Text with one of these stands in quotes: what splits cells in one program or country does not in another. */
const quoted = /[",;\t\n\r]/;

/** Whole numbers with all digits, others as the shortest text that reads back the same, bytes in hexadecimal. */
export function plainText(cell: Exclude<Cell, string | null>): string {
  return cell instanceof Uint8Array ? Buffer.from(cell).toString('hex') : String(cell);
}

/** Whether the row begins with a negative number: where `;` splits, the line is one cell, which begins with a sign like a formula. */
function beginsWithSign([first]: Row): boolean {
  return (typeof first === 'number' || typeof first === 'bigint') && first < 0;
}

/** A function that writes one cell. Null is nothing at all, empty text is `""`. */
export function csvCell({ guard }: CsvStyle): (cell: Cell, inQuotes: boolean) => string {
  return (cell: Cell, inQuotes: boolean): string => {
    if (cell === null) return '';
    // Numbers need no quotes; of bytes there may be none, which is not null either.
    if (typeof cell === 'number' || typeof cell === 'bigint') return String(cell);
    const plain = typeof cell === 'string' ? cell : plainText(cell);
    if (plain === '') return '""';
    const text = guard ? guardedText(plain) : plain;
    return inQuotes || quoted.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
}

/** A function that writes rows, each ended by LF. */
export function csvLines({ delimiter, guard }: CsvStyle): (rows: readonly Row[]) => string {
  // Its own guard against formulas knows nothing of spreadsheets that split elsewhere.
  const options = { delimiter, record_delimiter: '\n', quoted_match: /^$|[,;\t]/, quote_record_delimiter: true };
  const line = (row: Row): string => {
    const cells = row.map((cell) => {
      if (typeof cell === 'string') return guard ? guardedText(cell) : cell;
      return cell instanceof Uint8Array ? plainText(cell) : cell;
    });
    return stringify([cells], { ...options, quoted_string: guard && beginsWithSign(row) });
  };
  return (rows) => rows.map(line).join('');
}

/** The same of tables, which may have millions of rows. */
export function tableLines(style: CsvStyle): (rows: readonly Row[]) => string {
  const { delimiter, guard } = style;
  const cellText = csvCell(style);
  return (rows) => {
    let lines = '';
    for (const row of rows) {
      let between = '';
      const inQuotes = guard && beginsWithSign(row);
      for (const cell of row) {
        lines += between + cellText(cell, inQuotes);
        between = delimiter;
      }
      lines += '\n';
    }
    return lines;
  };
}
