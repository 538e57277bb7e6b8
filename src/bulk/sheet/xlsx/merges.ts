/** Merged cells of an .xlsx. Of those that lie under one, a spreadsheet program shows nothing, but the file may still hold values. */
import { UsageError } from '../../../model/errors.ts';
import { columnLetters, type SheetRows, shown } from '../rows.ts';
import { refusal } from '../limits.ts';

interface Range {
  readonly name: string;
  readonly rows: readonly [first: number, last: number];
  readonly columns: readonly [first: number, last: number];
}

/** Far more than a sheet of people and amounts has. */
const mostRanges = 10_000;

const reference = /^([A-Z]{1,3})([1-9]\d{0,6})(?::([A-Z]{1,3})([1-9]\d{0,6}))?$/;

export class Merges {
  readonly #file: string;
  readonly #ranges: Range[] = [];

  constructor(file: string) {
    this.#file = file;
  }

  /** Throws a UsageError for what is no range, and for too many. */
  add(name: string, columnOf: (letters: string) => number): void {
    const [, left = '', top = '', right = left, bottom = top] = reference.exec(name) ?? [];
    if (left === '') throw refusal(this.#file, `it is damaged: ${shown(name)} is no range of merged cells`);
    if (this.#ranges.length >= mostRanges) {
      throw new UsageError(`${this.#file} has more than ${mostRanges} ranges of merged cells`, {
        advice: 'Unmerge them in the spreadsheet program.',
      });
    }
    this.#ranges.push({
      name,
      rows: [Number(top), Number(bottom)],
      columns: [columnOf(left), columnOf(right)],
    });
  }

  /**
   * Adds a problem for each cell that holds a value under a range, and for each row that shares a cell with another: nobody can see
   * whom its value is for.
   */
  check(rows: SheetRows, columns: readonly string[]): void {
    const waiting = this.#ranges.toSorted((a, b) => b.rows[0] - a.rows[0]);
    let open: Range[] = [];
    for (const { row, cells } of rows.written()) {
      for (let next = waiting.at(-1); next !== undefined && next.rows[0] <= row; next = waiting.at(-1)) {
        open.push(next);
        waiting.pop();
      }
      open = open.filter((range) => range.rows[1] >= row);
      for (const {
        name,
        rows: [top, bottom],
        columns: [left, right],
      } of open) {
        for (let at = left; at <= Math.min(right, columns.length - 1); at += 1) {
          const place = `${columnLetters(at)}${row}`;
          const isFirst = row === top && at === left;
          const raw = cells[at]?.raw ?? '';
          const problem =
            !isFirst && raw !== ''
              ? `the cell ${place} holds ${shown(raw)} under the merged cells ${name}, where nobody sees it`
              : bottom > top
                ? `the cells ${name} are merged over several rows, so it is not clear whom the value is for`
                : undefined;
          if (problem !== undefined)
            rows.addProblem(row, columns[at] || null, `${problem}; unmerge them, and fill each cell`);
        }
      }
    }
  }
}
