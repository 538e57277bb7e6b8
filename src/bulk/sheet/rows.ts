/** Rows as they are read, one after the other, on their way to be a sheet. The same for all formats. */
import { counted } from '../../model/counted.ts';
import type { Budget } from './budget.ts';
import { emptyCell, errorReason, hadUnseen } from './cell.ts';
import type { Sheet, SheetCell, SheetProblem, SheetRow } from './sheet.ts';
import { shown } from './shown.ts';

/** What the reader of a format gives back; readSheet adds what is true of the file. */
export type SheetContent = Omit<Sheet, 'file' | 'bytes' | 'hash' | 'format'>;

/** A, B, … Z, AA: as spreadsheet programs call their columns. */
export function columnLetters(at: number): string {
  return (at >= 26 ? columnLetters(Math.floor(at / 26) - 1) : '') + String.fromCharCode(65 + (at % 26));
}

export class SheetRows {
  readonly #columns: readonly string[];
  readonly #budget: Budget;
  readonly #rows: SheetRow[] = [];
  readonly #problems: SheetProblem[] = [];
  #blank = 0;
  #blankAtEnd = 0;
  #unseen = 0;
  #firstUnseen = '';

  /** @param columns the headers, trimmed */
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

  /**
   * A row, which may be blank, or have fewer or more cells than there are columns.
   * @throws UsageError where the sheet is larger than one can be
   */
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
    const exact = cells.length === width ? cells : Array.from({ length: width }, (_, at) => cells[at] ?? emptyCell);
    this.#rows.push({ row, cells: exact });
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
    return { delimiter, sheet, columns, rows: this.#rows, blankRows: this.#blank, notes, problems: this.#problems };
  }
}

/** The headers of a sheet, trimmed, without empty ones at the end. */
export function headersOf(cells: readonly SheetCell[]): readonly string[] {
  const last = cells.findLastIndex(({ kind }) => kind !== 'empty');
  return cells.slice(0, last + 1).map(({ text }) => text);
}
