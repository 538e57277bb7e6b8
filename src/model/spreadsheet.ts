/** What files that people open in a spreadsheet program have in common: the guard against formulas, and tables to write. */

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

/** A, B, … Z, AA: the names of columns in spreadsheet programs. */
export function columnLetters(at: number): string {
  return (at >= 26 ? columnLetters(Math.floor(at / 26) - 1) : '') + String.fromCharCode(65 + (at % 26));
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
