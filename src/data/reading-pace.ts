/** How many rows to read at a time, so that little is held whatever the rows are like: a mail can be as long as 500 users. */
import type { Row } from '../store/reading-types.ts';

interface ReadingPace {
  /** For the next reading. */
  readonly rows: () => number;
  /** To be called with what a reading gave: its rows, and how much text they are, about. */
  readonly add: (reading: { readonly weight: number; readonly rows: number }) => void;
}

/** Text of a reading, about: enough to be worth a statement, little enough to be held as rows and as text. */
const wantedWeight = 256 * 1024;
const fewestRows = 4;
const mostRows = 500;

/** Follows longer rows at once and shorter ones slowly: too few rows cost time, too many cost memory. */
/** @param most rows at a time, however short they are */
export function readingPace(most = mostRows): ReadingPace {
  let rowWeight = wantedWeight / 100;
  return {
    rows: () => Math.max(fewestRows, Math.min(most, Math.floor(wantedWeight / rowWeight))),
    add: ({ weight, rows }) => {
      if (rows > 0) rowWeight = Math.max(weight / rows, 0.75 * rowWeight);
    },
  };
}

/** Characters of the row, about; for formats whose bytes, compressed, do not show it. */
export function weightOf(row: Row): number {
  let weight = 0;
  for (const cell of row) weight += typeof cell === 'string' || cell instanceof Uint8Array ? cell.length : 8;
  return weight;
}

export function weightOfRows(rows: readonly Row[]): number {
  let weight = 0;
  for (const row of rows) weight += weightOf(row);
  return weight;
}
