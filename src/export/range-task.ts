/** What the main thread and a range worker say to each other. */
import { FileError, OperatorError, UsageError } from '../model/errors.ts';
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

/** Errors lose their class between threads. */
export interface WorkerFailure {
  readonly kind: 'usage' | 'file' | 'bug';
  readonly message: string;
  readonly advice: string | undefined;
  readonly stack: string | undefined;
}

/** One a request, in the order of the requests; `begin` is answered with an empty range. */
export type RangeReply = EncodedRange | { readonly failure: WorkerFailure };

export function failureOf(error: unknown): WorkerFailure {
  const known = error instanceof Error ? error : new Error(String(error));
  const kind = known instanceof UsageError ? 'usage' : known instanceof FileError ? 'file' : 'bug';
  const advice = known instanceof OperatorError ? known.advice : undefined;
  return { kind, message: known.message, advice, stack: known.stack };
}

export function errorOf({ kind, message, advice, stack }: WorkerFailure): Error {
  if (kind === 'usage') return new UsageError(message, { advice });
  if (kind === 'file') return new FileError(message, { advice });
  const bug = new Error(message);
  if (stack !== undefined) bug.stack = stack;
  return bug;
}
