/** How many rows to read at a time, so that little is held whatever the rows are like: a mail can be as long as 500 users. */
import type { Row } from '../store/reading-types.ts';

/** Text of a reading, about: enough to be worth a statement, little enough to be held as rows and as text. */
const wantedWeight = 256 * 1024;
const fewestRows = 4;
const mostRows = 500;

/** How many rows to read at once: too few cost time, too many cost memory. @param most however short they are */
export function readingPace(most = mostRows) {
  let rowWeight = wantedWeight / 100;
  const add = (rows: number, weight: number): void => {
    if (rows > 0) rowWeight = Math.max(weight / rows, 0.75 * rowWeight);
  };
  return {
    /** For the next reading. */
    rows: (): number => Math.max(fewestRows, Math.min(most, Math.floor(wantedWeight / rowWeight))),
    /** To be called with how many rows a reading gave, and how much text they are, about. */
    add,
    addRows: (rows: readonly Row[]): void =>
      add(
        rows.length,
        rows.reduce((sum, row) => sum + weightOf(row), 0),
      ),
  };
}

/** Characters of the row, about; for formats whose bytes, compressed, do not show it. */
export function weightOf(row: Row): number {
  let weight = 0;
  for (const cell of row) weight += typeof cell === 'string' || cell instanceof Uint8Array ? cell.length : 8;
  return weight;
}
