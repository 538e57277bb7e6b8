/** What the main thread and a range worker say to each other. */
import type { Failure } from '../model/failure.ts';
import type { IdRange, ReadingSource, Relation } from '../store/ports/reading.ts';
import type { TextStyle } from './encoder.ts';

/** Given to a worker at its start. */
export interface RangeTask {
  readonly source: ReadingSource;
  readonly relation: Relation;
  readonly columns: readonly string[];
  readonly style: TextStyle;
}

/** `begin` takes a new snapshot in place of the last one; a range asks for its rows as they were then. */
export type RangeRequest = 'begin' | IdRange;

export interface EncodedRange {
  readonly bytes: Uint8Array;
  readonly rows: number;
}

/** One a request, in the order of the requests; `begin` is answered with an empty range. */
export type RangeReply = EncodedRange | { readonly failure: Failure };
