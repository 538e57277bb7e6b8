/** Rows as they are read, one after the other, on their way to be a sheet, and the text of files that are text. */
import { type Buffer, isUtf8 } from 'node:buffer';
import { TextDecoder } from 'node:util';
import { counted } from '../../model/text.ts';
import { emptyCell, errorReason, hadUnseen, shown } from './cell.ts';
import { type Budget, refusal } from './limits.ts';
import { mapRows, PackedRows } from './packed-rows.ts';
import type { CellKind, Sheet, SheetCell, SheetProblem, SheetRow } from './sheet.ts';

/** What the reader of a format gives back; readSheet adds what is true of the file. */
export type SheetContent = Omit<Sheet, 'file' | 'bytes' | 'hash' | 'format'>;

/** A, B, … Z, AA: as spreadsheet programs call their columns. */
export function columnLetters(at: number): string {
  return (at >= 26 ? columnLetters(Math.floor(at / 26) - 1) : '') + String.fromCharCode(65 + (at % 26));
}

/** A cell as few characters of JSON: nearly all are the text that stands in the file. */
export type PackedCell = string | readonly [text: string, raw: string, kind: CellKind];

export function packedCell({ text, raw, kind }: SheetCell): PackedCell {
  const isPlain = text === raw && kind === (text === '' ? 'empty' : 'text');
  return isPlain ? text : [text, raw, kind];
}

export function cellOf(cell: PackedCell): SheetCell {
  if (cell === '') return emptyCell;
  if (typeof cell === 'string') return { text: cell, raw: cell, kind: 'text' };
  const [text, raw, kind] = cell;
  return { text, raw, kind };
}

export class SheetRows {
  readonly #columns: readonly string[];
  readonly #budget: Budget;
  readonly #rows = new PackedRows<{ readonly row: number; readonly cells: readonly PackedCell[] }>();
  readonly #problems: SheetProblem[] = [];
  #blank = 0;
  #blankAtEnd = 0;
  #unseen = 0;
  #firstUnseen = '';

  constructor(columns: readonly string[], budget: Budget) {
    this.#columns = columns;
    this.#budget = budget;
  }

  /** Blank rows, counted once another row follows. */
  addBlank(rows: number): void {
    this.#blankAtEnd += rows;
  }

  addProblem(row: number, column: string | null, problem: string): void {
    this.#problems.push({ row, column, problem });
  }

  /** A row, which may be blank, or have fewer or more cells than there are columns. */
  add(row: number, cells: readonly SheetCell[]): void {
    if (cells.every(({ kind }) => kind === 'empty')) {
      this.addBlank(1);
      return;
    }
    this.#blank += this.#blankAtEnd;
    this.#blankAtEnd = 0;
    const width = this.#columns.length;
    this.#budget.spendRow(row, Math.max(width, cells.length));
    for (const [at, cell] of cells.entries()) {
      this.#budget.spendText(cell.raw, row);
      if (at >= width && cell.kind !== 'empty') {
        this.addProblem(row, null, `column ${columnLetters(at)} holds ${shown(cell.raw)} but has no header`);
      } else if (cell.kind === 'error') this.addProblem(row, this.#columns[at] || null, errorReason(cell));
      if (hadUnseen(cell)) this.#noteUnseen(row, at);
    }
    this.#rows.add({ row, cells: Array.from({ length: width }, (_, at) => packedCell(cells[at] ?? emptyCell)) });
  }

  #noteUnseen(row: number, at: number): void {
    this.#unseen += 1;
    if (this.#unseen === 1) this.#firstUnseen = `row ${row}, column ${shown(this.#columns[at] || columnLetters(at))}`;
  }

  /** @param notes what else there is to say; what was trimmed is added to it */
  finish(source: Pick<Sheet, 'delimiter' | 'sheet' | 'notes'>): SheetContent {
    const notes = [...source.notes];
    if (this.#unseen > 0) {
      const cells = counted(this.#unseen, 'cell');
      notes.push(
        `unseen characters (no-break or zero-width) were trimmed from ${cells}, first in ${this.#firstUnseen}`,
      );
    }
    if (this.#blank > 0) notes.push(`${counted(this.#blank, 'blank row')} between others`);
    const { delimiter, sheet } = source;
    const columns = this.#columns;
    const rows = mapRows(this.#rows, ({ row, cells }): SheetRow => ({ row, cells: cells.map(cellOf) }));
    return { delimiter, sheet, columns, rows, blankRows: this.#blank, notes, problems: this.#problems };
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

/** @throws UsageError where the bytes are anything else, or hold NUL, which no text does */
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
  return text;
}
