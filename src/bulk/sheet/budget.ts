/** Keeps count of what a sheet takes, and refuses it where that is more than a sheet can need. */
import { limits } from './limits.ts';
import { refusal } from './refusal.ts';

const split = 'Split the sheet into smaller files.';

export class Budget {
  readonly #file: string;
  #cells = 0;
  #characters = 0;
  #row = 0;
  #rowCharacters = 0;

  constructor(file: string) {
    this.#file = file;
  }

  /**
   * Counts a row of so many cells.
   * @throws UsageError where it is one too many
   */
  spendRow(row: number, cells: number): void {
    this.#cells += cells;
    if (row > limits.rows) throw refusal(this.#file, `it has more than ${limits.rows} rows`, split);
    if (this.#cells > limits.cells) throw refusal(this.#file, `it has more than ${limits.cells} cells`, split);
  }

  /**
   * Counts the text of a cell.
   * @throws UsageError where it is longer than a cell can be, or all of them together are
   */
  spendText(text: string, row: number | null): void {
    this.#characters += text.length;
    if (text.length > limits.cellCharacters) {
      const where = row === null ? 'a cell' : `a cell of row ${row}`;
      throw refusal(this.#file, `${where} has more than ${limits.cellCharacters} characters`, 'Shorten it.');
    }
    if (row !== null && row !== this.#row) {
      this.#row = row;
      this.#rowCharacters = 0;
    }
    this.#rowCharacters += row === null ? 0 : text.length;
    if (this.#rowCharacters > limits.rowCharacters) {
      throw refusal(this.#file, `row ${row} has more than ${limits.rowCharacters} characters`, 'Shorten it.');
    }
    if (this.#characters > limits.characters) {
      throw refusal(this.#file, `its cells have more than ${limits.characters} characters`, split);
    }
  }
}
