/** Rows as CSV and TSV. */
import { Buffer } from 'node:buffer';
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

/** Programs and countries differ in which of these splits cells. */
const splitting = /[",;\t\n\r]/;

/** Returns a function that writes one cell: null as nothing, and empty text in quotes, so that it differs. */
export function cellWriter({ guard }: CsvStyle): (cell: Cell, isQuoted?: boolean) => string {
  return (cell, isQuoted = false) => {
    if (cell === null) return '';
    if (typeof cell !== 'string') return plainText(cell) || '""';
    const text = guard ? guardedText(cell) : cell;
    return isQuoted || text === '' || splitting.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
}

/** Returns a function that writes rows, each ended by LF. */
export function csvLines(style: CsvStyle): (rows: readonly Row[]) => string {
  const { delimiter, guard } = style;
  const cellOf = cellWriter(style);
  return (rows) => {
    let text = '';
    for (const row of rows) {
      const isQuoted = guard && beginsWithSign(row);
      let between = '';
      for (const cell of row) {
        text += between + cellOf(cell, isQuoted);
        between = delimiter;
      }
      text += '\n';
    }
    return text;
  };
}
