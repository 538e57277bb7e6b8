/** How many rows to read at a time, so that little is held whatever the rows are like: a mail can be as long as 500 users. */

export interface ReadingPace {
  /** For the next reading. */
  readonly rows: () => number;
  /** Tells what a reading gave. */
  readonly add: (reading: { readonly bytes: Uint8Array; readonly rows: number }) => void;
}

/** Text of a reading, about: enough to be worth a message between threads, little enough to hold several. */
const wantedBytes = 256 * 1024;
const fewestRows = 4;
const mostRows = 500;

/** Follows longer rows at once and shorter ones slowly: too few rows cost time, too many cost memory. */
export function readingPace(): ReadingPace {
  let rowBytes = wantedBytes / 100;
  return {
    rows: () => Math.max(fewestRows, Math.min(mostRows, Math.floor(wantedBytes / rowBytes))),
    add: ({ bytes, rows }) => {
      if (rows > 0) rowBytes = Math.max(bytes.length / rows, 0.75 * rowBytes);
    },
  };
}
