/** What the main thread and a range worker say to each other. */
import type { Failure } from '../model/failure.ts';
import type { IdRange, ReadingSource, Relation } from '../store/reading-types.ts';
import type { EncodedPiece, Encoding } from './encoding.ts';

/** Given to a worker at its start. */
export interface RangeWorkerData {
  readonly source: ReadingSource;
}

/** A table, and what shall become of its rows. */
export interface RangeTask {
  readonly relation: Relation;
  readonly columns: readonly string[];
  readonly encoding: Encoding;
}

/** Rows of the table at hand. */
export interface TaskRange {
  readonly range: IdRange;
  /** How many rows are in it, at most. */
  readonly rows: number;
  /** The place of the first of them in the whole table, from 0. */
  readonly first: number;
}

/**
 * `begin` takes a new snapshot in place of the last one; `task` names the table that the next ranges are of; a range asks
 * for its rows as they were then.
 */
export type RangeRequest = 'begin' | { readonly task: RangeTask } | TaskRange;

/** One a request, in the order of the requests; `begin` and `task` are answered with nothing. */
export type RangeReply = EncodedPiece | { readonly failure: Failure };
