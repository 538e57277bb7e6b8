/** Builds the rows of a sheet, one after the other, and decodes text files. */
import { type Buffer, isUtf8 } from 'node:buffer';
import { TextDecoder } from 'node:util';
import { columnLetters } from '../../model/spreadsheet.ts';
import { trimmed } from '../../model/text.ts';
import { type Budget, limits, refusal } from './limits.ts';
import type { Sheet, SheetCell, SheetProblem, SheetRow } from './sheet.ts';

/** What the reader of a format returns. `readSheet` adds name, size and hash of the file. */
export type SheetContent = Omit<Sheet, 'file' | 'bytes' | 'hash' | 'format'>;

export class SheetRows {
  readonly #columns: readonly string[];
  readonly #budget: Budget;
  /** The rows so far. */
  readonly rows: SheetRow[] = [];
  readonly #problems: SheetProblem[] = [];

  constructor(columns: readonly string[], budget: Budget) {
    this.#columns = columns;
    this.#budget = budget;
  }

  addProblem(row: number, column: string | null, problem: string): void {
    this.#problems.push({ row, column, problem });
  }

  /**
   * Adds a row, which may have fewer or more cells than there are columns. A blank one is left out.
   * @param isText each cell is the `textCell` of its raw text
   */
  add(row: number, cells: readonly SheetCell[], isText = false): void {
    if (cells.every(({ kind }) => kind === 'empty')) return;
    const width = this.#columns.length;
    this.#budget.spendRow(row, Math.max(width, cells.length));
    for (const [at, cell] of cells.entries()) {
      this.#budget.spendText(cell.raw, row);
      if (at >= width && cell.kind !== 'empty') {
        this.addProblem(row, null, `column ${columnLetters(at)} holds ${shown(cell.raw)} but has no header`);
      } else if (cell.kind === 'error') this.addProblem(row, this.#columns[at] || null, errorReason(cell));
    }
    const own = Array.from({ length: width }, (_, at) => cells[at] ?? emptyCell);
    this.rows.push(
      isText
        ? new TextRow(
            row,
            own.map(({ raw }) => raw),
          )
        : { row, cells: own },
    );
  }

  finish(source: Pick<Sheet, 'delimiter' | 'sheet' | 'notes'>): SheetContent {
    return { ...source, columns: this.#columns, rows: this.rows, problems: this.#problems };
  }
}

/** Keeps only the texts and makes the cells when they are read: a sheet may have a million of them. */
class TextRow implements SheetRow {
  readonly row: number;
  readonly #texts: readonly string[];

  constructor(row: number, texts: readonly string[]) {
    this.row = row;
    this.#texts = texts;
  }

  get cells(): readonly SheetCell[] {
    return this.#texts.map(textCell);
  }
}

/** The headers of a sheet, trimmed, without empty ones at the end. */
export function headersOf(cells: readonly SheetCell[]): readonly string[] {
  const last = cells.findLastIndex(({ kind }) => kind !== 'empty');
  return cells.slice(0, last + 1).map(({ text }) => text);
}

const saveAsUtf8 = 'Save it as "CSV UTF-8" in the spreadsheet program, or as .xlsx.';

function firstWrongLine(bytes: Buffer): string {
  let from = 0;
  for (let number = 1; from < bytes.length; number += 1) {
    const end = bytes.indexOf(0x0a, from);
    const line = bytes.subarray(from, end === -1 ? bytes.length : end);
    if (!isUtf8(line)) return `the text of line ${number} is not UTF-8: ${shown(line.toString('utf8').trimEnd())}`;
    from += line.length + 1;
  }
  return 'its text is not UTF-8';
}

/** Bytes that mean nothing in Windows-1252. */
const notInWindows = /[\u0081\u008d\u008f\u0090\u009d]/;

/**
 * Decodes Windows-1252, in which many spreadsheet programs save CSV; undefined if the bytes are UTF-8, or could be UTF-8 that is
 * damaged: then there is another reason.
 */
export function decodeWindowsText(bytes: Buffer): string | undefined {
  // A byte order mark says what it is, and NUL is in no text.
  if (isUtf8(bytes) || bytes.includes(0) || /^(?:fffe|feff|efbbbf)/.test(bytes.subarray(0, 3).toString('hex'))) {
    return undefined;
  }
  // Letters that are whole in UTF-8 would be two or three others in Windows-1252.
  if (/[^\0-\x7f\ufffd]/.test(new TextDecoder().decode(bytes))) return undefined;
  const text = new TextDecoder('windows-1252').decode(bytes);
  return notInWindows.test(text) ? undefined : text;
}

/** Decodes UTF-8, or UTF-16 with a byte order mark. Throws a UsageError for anything else, and for NUL, which no text has. */
export function decodeText(file: string, bytes: Buffer): string {
  const mark = bytes.subarray(0, 2).toString('hex');
  const encoding = mark === 'fffe' ? 'utf-16le' : mark === 'feff' ? 'utf-16be' : 'utf-8';
  let text: string;
  try {
    text = new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch (error) {
    const reason =
      encoding === 'utf-8' ? firstWrongLine(bytes) : `it begins as ${encoding.toUpperCase()} and then is not`;
    throw refusal(file, reason, saveAsUtf8, error);
  }
  if (text.includes('\0')) throw refusal(file, 'it holds NUL characters, which no text does', saveAsUtf8);
  // Programs that add a mark to a text that has one leave it twice.
  return text.replace(/^\uFEFF+/, '');
}

/** What spreadsheet programs write if a formula failed. LibreOffice numbers some of its errors. */
const errorValue =
  /^(?:#(?:N\/A|DIV\/0!|REF!|VALUE!|NAME\?|NUM!|NULL!|SPILL!|CALC!|FIELD!|BLOCKED!|CONNECT!|GETTING_DATA)|Err:\d{3})$/;

export const emptyCell: SheetCell = { text: '', raw: '', kind: 'empty' };

/** The cell of a text. An error that a spreadsheet program wrote as text is still an error. */
export function textCell(raw: string): SheetCell {
  // Refused for its length when its row is added, so nothing else needs to look at it.
  if (raw.length > limits.cellCharacters) return { text: raw, raw, kind: 'text' };
  const text = trimmed(raw);
  if (text === '') return raw === '' ? emptyCell : { text, raw, kind: 'empty' };
  const isError = (text.startsWith('#') || text.startsWith('Err:')) && errorValue.test(text);
  return { text, raw, kind: isError ? 'error' : 'text' };
}

const significant = (number: string): number =>
  number.replace(/e.*$/i, '').replace(/\D/g, '').replace(/^0+/, '').length;

/**
 * The cell of a number from an .xlsx. Excel stores doubles, and writes up to 17 digits: if a person types 0.58, the file has
 * 0.57999999999999996, and for 0.0796 it has 7.9600000000000004E-2. So the text is the shortest one for the same double, if it has no
 * more than the 15 digits that a person can have typed. A sum such as 0.30000000000000004 is another double than 0.3 and stays as it
 * is, and so does a number as large as 1E+20. A whole number is written out: Java and pandas store 5.0 and 1.2345678E7.
 */
export function storedNumberCell(raw: string, kind: 'number' | 'formatted' | 'altered' | 'percent'): SheetCell {
  const number = Number(raw);
  if (significant(raw) <= 15 && Number.isInteger(number) && Math.abs(number) < 1e15) {
    return { text: String(number), raw, kind };
  }
  if (significant(raw) <= 15 && !/e/i.test(raw)) return { text: raw, raw, kind };
  const shortest = String(number);
  const asTyped = !/e\+?\d/i.test(raw) && significant(shortest) <= 15;
  return { text: asTyped ? shortest : raw, raw, kind };
}

/** Says what is wrong with a cell of kind `error`. The raw text of a formula without a value begins with `=`. */
export function errorReason(cell: SheetCell): string {
  if (cell.raw.startsWith('=')) {
    return `the formula ${shown(cell.raw)} has no stored value, or an outdated one; open the file in a spreadsheet program and save it there, or write the value itself`;
  }
  return `the cell holds the error ${shown(cell.raw)}; correct its formula, or write the value itself`;
}

const longest = 60;
/** Characters that a terminal would obey or nobody would see: controls, zero-width and direction marks, odd spaces. */
const unseen = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u{a0}\u{2000}-\u{200a}\u{202f}\u{205f}\u{3000}\u{2800}\u{3164}\p{Cs}]/gu;

/** The text in quotes, with invisible characters as `\u{a0}`, cut after 60 characters. */
export function shown(text: string): string {
  // Code points, so that no surrogate pair is cut in two.
  const characters = Array.from(text.slice(0, 2 * (longest + 1)));
  const part = characters.length > longest ? `${characters.slice(0, longest).join('')}…` : text;
  return `"${part.replace(unseen, (each) => `\\u{${(each.codePointAt(0) ?? 0).toString(16)}}`)}"`;
}
