/** What one step of the chain says of all rows of a batch: a step a row would make a plan of many rows much dearer. */
import { createHash } from 'node:crypto';

/** First and last of rows in order that were claimed at one time, and the time. */
export type ClaimRun = readonly [first: number, last: number, at: string];

export class RowsSeal {
  readonly #hash = createHash('sha256');
  #rows = 0;

  /** In the order of the rows. */
  add(row: number, digest: string): void {
    this.#hash.update(`${row} ${digest}\n`);
    this.#rows += 1;
  }

  end(): { readonly rows: number; readonly seal: string } {
    return { rows: this.#rows, seal: this.#hash.digest('hex') };
  }
}
