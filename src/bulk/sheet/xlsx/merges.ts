/** Merged cells of an .xlsx. Of those that lie under one, a spreadsheet program shows nothing, but the file may still hold values. */
import { Turns } from '../../../model/turns.ts';
import { columnLetters, type SheetRows, shown } from '../rows.ts';
import { refusal } from '../limits.ts';

interface Range {
  readonly name: string;
  readonly rows: readonly [first: number, last: number];
  readonly columns: readonly [first: number, last: number];
}

/** Far more than a sheet of people and amounts has. */
const mostRanges = 10_000;
/** Each is a problem that a person would have to read. */
const mostProblems = 10_000;
const unmerge = 'Unmerge them in the spreadsheet program, and fill each cell.';

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
      throw refusal(this.#file, `it has more than ${mostRanges} ranges of merged cells`, unmerge);
    }
    this.#ranges.push({
      name,
      rows: [Number(top), Number(bottom)],
      columns: [columnOf(left), columnOf(right)],
    });
  }

  /**
   * Adds a problem for each cell that holds a value under a range, and for each cell of a range over several rows: nobody can see whom
   * its value is for. Throws a UsageError if ranges overlap, which no spreadsheet program writes, or cover a header.
   */
  async check(rows: SheetRows, columns: readonly string[], signal: AbortSignal): Promise<void> {
    this.#checkHeader(columns);
    const waiting = this.#ranges.toSorted((a, b) => b.rows[0] - a.rows[0]);
    const turns = new Turns();
    let open: Range[] = [];
    let found = 0;
    for (const { row, cells } of rows.rows) {
      if (turns.isDue()) await turns.take(signal);
      open = open.filter((range) => range.rows[1] >= row);
      for (let next = waiting.at(-1); next !== undefined && next.rows[0] <= row; next = waiting.at(-1)) {
        const { name, columns: own } = next;
        const other = open.find((each) => each.columns[0] <= own[1] && own[0] <= each.columns[1]);
        if (other !== undefined) {
          throw refusal(this.#file, `it is damaged: the merged cells ${other.name} and ${name} overlap`);
        }
        open.push(next);
        waiting.pop();
      }
      for (const range of open) {
        for (let at = range.columns[0]; at <= Math.min(range.columns[1], columns.length - 1); at += 1) {
          const problem = problemOf(range, row, at, cells[at]?.raw ?? '');
          if (problem === undefined) continue;
          if ((found += 1) > mostProblems)
            throw refusal(this.#file, `more than ${mostProblems} of its cells are merged`, unmerge);
          rows.addProblem(row, columns[at] || null, `${problem}; unmerge them, and fill each cell`);
        }
      }
    }
  }

  #checkHeader(columns: readonly string[]): void {
    for (const {
      name,
      rows: [top],
      columns: [left, right],
    } of this.#ranges) {
      const covered = top === 1 ? columns.slice(left + 1, right + 1).find((header) => header !== '') : undefined;
      if (covered === undefined) continue;
      throw refusal(
        this.#file,
        `its header ${shown(covered)} lies under the merged cells ${name}, where nobody sees it`,
        unmerge,
      );
    }
  }
}

function problemOf({ name, rows: [top, bottom], columns: [left] }: Range, row: number, at: number, raw: string) {
  const isFirst = row === top && at === left;
  if (!isFirst && raw !== '') {
    return `the cell ${columnLetters(at)}${row} holds ${shown(raw)} under the merged cells ${name}, where nobody sees it`;
  }
  return bottom > top
    ? `the cells ${name} are merged over several rows, so it is not clear whom the value is for`
    : undefined;
}
