/** Rows on their way between threads: a few long lists cross faster than hundreds of thousands of small objects. */
import { emptyCell } from '../cell.ts';
import type { CellKind, SheetCell } from '../sheet.ts';
import type { PlacedCell } from './worksheet.ts';

const kinds: readonly CellKind[] = ['text', 'number', 'boolean', 'date', 'percent', 'error', 'empty'];

export interface Batch {
  characters: number;
  readonly rows: number[];
  /** How many cells each row has here. */
  readonly lengths: number[];
  /** Of all cells, one row after the other. */
  readonly columns: number[];
  readonly kinds: number[];
  readonly raws: string[];
  /** Null where it is the raw text. */
  readonly texts: (string | null)[];
}

export const newBatch = (): Batch => ({
  characters: 0,
  rows: [],
  lengths: [],
  columns: [],
  kinds: [],
  raws: [],
  texts: [],
});

export function addToBatch(batch: Batch, row: number, cells: readonly PlacedCell[]): void {
  batch.rows.push(row);
  batch.lengths.push(cells.length);
  for (const { column, cell } of cells) {
    batch.columns.push(column);
    batch.kinds.push(kinds.indexOf(cell.kind));
    batch.raws.push(cell.raw);
    batch.characters += cell.raw.length;
    batch.texts.push(cell.text === cell.raw ? null : cell.text);
  }
}

/** The rows of a batch, their cells in place, with empty ones between. */
export function* rowsOfBatch(batch: Batch): Generator<{ readonly row: number; readonly cells: readonly SheetCell[] }> {
  let at = 0;
  for (const [index, row] of batch.rows.entries()) {
    const cells: SheetCell[] = [];
    for (const end = at + (batch.lengths[index] ?? 0); at < end; at += 1) {
      const column = batch.columns[at] ?? 0;
      while (cells.length < column) cells.push(emptyCell);
      const raw = batch.raws[at] ?? '';
      cells.push({ text: batch.texts[at] ?? raw, raw, kind: kinds[batch.kinds[at] ?? 0] ?? 'text' });
    }
    yield { row, cells };
  }
}
