/**
 * Tables as files that people open in a spreadsheet program: CSV and TSV. csv-stringify writes short lists; whole tables are
 * written by hand, several times faster, with the same bytes.
 */
import { Buffer } from 'node:buffer';
import { stringify } from 'csv-stringify/sync';
import type { Cell, Row } from '../reading-types.ts';

export interface CsvStyle {
  readonly delimiter: ',' | '\t';
  /** Puts a `'` before text, or a part of it, that a spreadsheet would take for a formula. */
  readonly guard: boolean;
}

/** The beginning of a formula, also with full-width signs and after characters that a spreadsheet ignores; or a tab or line break. */
const formula = /^'*(?:[[\p{Cc}\p{Cf}\p{Z}]--[\t\n\r]]*[=+\-@＝＋－＠]|[\t\n\r])/v;
/** In many countries spreadsheets split at `;`, even within quotes that do not begin the cell. */
const laterFormula = /([;\t\n\r])(?='*[[\p{Cc}\p{Cf}\p{Z}"]--[\t\n\r]]*[=+\-@＝＋－＠])/gv;
const guardedLater = /([;\t\n\r])'(?='*[[\p{Cc}\p{Cf}\p{Z}"]--[\t\n\r]]*[=+\-@＝＋－＠])/gv;
/** A quick test that most text passes: it begins with one of these characters, is on one line and has no `;`, so it is no formula. */
const harmless = /^[\w"(<[{][^;\t\n\r]*$/;

/** Returns the text changed so that no spreadsheet takes any of it for a formula. Numbers never come here. */
export function guardedText(text: string): string {
  if (harmless.test(text)) return text;
  const guarded = text.replaceAll(laterFormula, "$1'");
  return formula.test(text) ? `'${guarded}` : guarded;
}

/** Takes the guard off again: exactly one from each place, since a text that had one already got another. */
export function unguardedText(text: string): string {
  const plain = text.startsWith("'") && formula.test(text) ? text.slice(1) : text;
  return plain.replaceAll(guardedLater, '$1');
}

/** Text with one of these is quoted, since programs and countries differ in which of them splits cells. */
const quoted = /[",;\t\n\r]/;

/** Writes whole numbers with all digits, others as the shortest text that reads back the same, and bytes in hexadecimal. */
export function plainText(cell: Exclude<Cell, string | null>): string {
  return cell instanceof Uint8Array ? Buffer.from(cell).toString('hex') : String(cell);
}

/** Whether the row begins with a negative number. If only `;` splits, the whole line is one cell that begins with a sign, like a formula. */
function beginsWithSign([first]: Row): boolean {
  return (typeof first === 'number' || typeof first === 'bigint') && first < 0;
}

/** Returns a function that writes one cell. Null becomes nothing, empty text becomes `""`. */
export function csvCell({ guard }: CsvStyle): (cell: Cell, inQuotes: boolean) => string {
  return (cell: Cell, inQuotes: boolean): string => {
    if (cell === null) return '';
    // Numbers need no quotes. Zero bytes are not null either.
    if (typeof cell === 'number' || typeof cell === 'bigint') return String(cell);
    const plain = typeof cell === 'string' ? cell : plainText(cell);
    if (plain === '') return '""';
    const text = guard ? guardedText(plain) : plain;
    return inQuotes || quoted.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
}

/** Returns a function that writes rows, each ended by LF. */
export function csvLines({ delimiter, guard }: CsvStyle): (rows: readonly Row[]) => string {
  // csv-stringify has a guard against formulas, but it ignores spreadsheets that split at other characters.
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

/** The same, fast enough for tables of millions of rows. */
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
