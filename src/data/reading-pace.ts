/** Chooses how many rows to read at a time, so that memory stays flat: an email can be as long as 500 users. */
import type { Row } from './reading-types.ts';

/** Characters per batch, roughly: enough to be worth a statement, few enough to hold as rows and as text. */
const batchWeight = 256 * 1024;
const fewestRows = 4;

/** @param mostRows the limit for a batch of short rows */
export function readingPace(mostRows = 500) {
  let rowWeight = batchWeight / 100;
  const add = (rows: number, weight: number): void => {
    if (rows > 0) rowWeight = Math.max(weight / rows, 0.75 * rowWeight);
  };
  return {
    /** The size of the next batch, in rows. */
    rows: (): number => Math.max(fewestRows, Math.min(mostRows, Math.floor(batchWeight / rowWeight))),
    /** Must be called with the rows of each batch, and roughly how many characters they have. */
    add,
    addRows: (rows: readonly Row[]): void =>
      add(
        rows.length,
        rows.reduce((sum, row) => sum + weightOf(row), 0),
      ),
  };
}

/** Characters of the row, roughly. The bytes written do not show them if the format is compressed. */
export function weightOf(row: Row): number {
  let weight = 0;
  for (const cell of row) weight += typeof cell === 'string' || cell instanceof Uint8Array ? cell.length : 8;
  return weight;
}
