/** The cells of one row by the names of their columns, with every problem collected rather than thrown. */
import type { Big } from 'big.js';
import { amountOf, type AmountOptions } from './sheet/amount.ts';
import type { SheetCell, SheetProblem, SheetRow } from './sheet/sheet.ts';
import { shown } from './sheet/shown.ts';
import { tokenLike } from './token.ts';

/** How cells are read: by settings and flags of the command. */
export interface ReadOptions extends AmountOptions {
  /** Whether a row may ask for a deletion in spite of orders and punishments. */
  readonly allowForce: boolean;
}

const empty: SheetCell = { text: '', raw: '', kind: 'empty' };

export class RowReader {
  readonly row: number;
  readonly options: ReadOptions;
  readonly problems: SheetProblem[] = [];
  readonly #cells: SheetRow['cells'];
  readonly #index: ReadonlyMap<string, number>;

  constructor({ row, cells }: SheetRow, index: ReadonlyMap<string, number>, options: ReadOptions) {
    this.row = row;
    this.options = options;
    this.#cells = cells;
    this.#index = index;
  }

  /** The cell of that column; an empty one where the sheet has no such column. */
  cell(column: string): SheetCell {
    const at = this.#index.get(column);
    return (at === undefined ? undefined : this.#cells[at]) ?? empty;
  }

  isEmpty(column: string): boolean {
    return this.cell(column).kind === 'empty';
  }

  /** The text of the cell; undefined where it is empty. A value that is no text or number is a problem. */
  text(column: string): string | undefined {
    const { text, kind } = this.cell(column);
    switch (kind) {
      case 'empty':
        return undefined;
      case 'text':
      case 'number':
      case 'boolean':
        return text;
      case 'date':
      case 'percent':
        this.problem(column, `${shown(text)} is formatted as a ${kind}; format the cell as text`);
        return undefined;
      case 'error':
        this.problem(column, `the cell holds the error ${shown(text)}`);
        return undefined;
    }
  }

  /** The text of a cell that must not be empty. */
  required(column: string): string {
    if (this.isEmpty(column)) this.problem(column, 'the cell is empty, and a value is needed');
    return this.text(column) ?? '';
  }

  /** The text as it is, of a column that people read and rows are found again by: what looks like a token is a problem. */
  withoutToken<T extends string | undefined>(column: string, text: T): T {
    const like = text === undefined ? undefined : tokenLike(text);
    if (like !== undefined) {
      const problem = `${shown(like)} could be taken for the mark by which a row is found again`;
      this.problem(column, `${problem}; put a space after the colon, or write it otherwise`);
    }
    return text;
  }

  /** One of these words, in lower case; undefined where it is none of them, which is a problem. */
  word<const W extends string>(column: string, words: readonly W[]): W | undefined {
    const text = this.required(column);
    const found = words.find((each) => each === text.toLowerCase());
    if (found === undefined && text !== '') {
      this.problem(column, `${shown(text)} is none of ${words.map((each) => `"${each}"`).join(', ')}`);
    }
    return found;
  }

  /** The exact amount; undefined where there is none, which is a problem. */
  amount(column: string): Big | undefined {
    const read = amountOf(this.cell(column), this.options);
    if (typeof read !== 'string') return read;
    this.problem(column, read);
    return undefined;
  }

  /** Of the row as a whole where the column is null. */
  problem(column: string | null, problem: string): void {
    this.problems.push({ row: this.row, column, problem });
  }
}
