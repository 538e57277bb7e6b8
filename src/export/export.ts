/**
 * Exports: rows of the mirror as CSV, TSV or JSON lines, all from one state of it, never held whole. A large table is
 * read on several threads, range by range, and comes out in the same bytes as on one.
 */
import { Buffer } from 'node:buffer';
import { availableParallelism } from 'node:os';
import { setImmediate } from 'node:timers/promises';
import type { ReadingStore, Relation, ResultColumn, Rows, Snapshot } from '../store/ports/reading.ts';
import { checkAsOf } from './as-of.ts';
import { header, type Lines, resultLines, tableLines, type TextStyle } from './encoder.ts';
import { gzipped } from './gzip.ts';
import { agreeOnSnapshot, RangeThread, readInOrder } from './range-pool.ts';
import type { EncodedRange } from './range-task.ts';
import { readingPace } from './reading-pace.ts';
import { type ReportRequest, reportRows } from './reports/run.ts';
import { resolveSelection, type TableRequest } from './selection.ts';

export interface ExportRequest {
  readonly what: TableRequest | { readonly sql: string } | ReportRequest;
  readonly style: TextStyle;
  readonly gzip: boolean;
  /** Begins the text with a byte order mark, by which some spreadsheets know UTF-8. */
  readonly bom: boolean;
  /** Threads that read a large table, at most; 2 unless told or where there are fewer processors. */
  readonly threads?: number;
}

export interface ExportRun {
  readonly signal: AbortSignal;
  /** Told how many more rows have been read. */
  readonly onRows: (rows: number) => void;
  /** Told what the operator should know of the rows. */
  readonly onWarning?: (warning: string) => void;
}

/** Two make up for what formatting costs over the database's own shell; each more would take some 40 MB. */
const mostThreads = 2;

/** A table with fewer rows is written before a thread has started. */
const largeTable = 20_000;

/**
 * The bytes of the export, in pieces. Throws a UsageError before the first of them for a table, column or SQL that the
 * mirror does not know or that would do more than read, and later where the SQL fails on the data.
 */
export async function* exportChunks(
  store: ReadingStore,
  request: ExportRequest,
  run: ExportRun,
): AsyncGenerator<Uint8Array> {
  const text = textChunks(store, request, run);
  yield* request.gzip ? gzipped(text) : text;
}

async function* textChunks(store: ReadingStore, request: ExportRequest, run: ExportRun): AsyncGenerator<Uint8Array> {
  const { what, style } = request;
  const snapshot = store.snapshot();
  try {
    if ('sql' in what || 'report' in what) {
      const result = 'sql' in what ? snapshot.query(what.sql) : reportRows(snapshot, what, run.onWarning);
      const lines = await resultLines(style, result.columns);
      yield await head(request, result.columns);
      yield* statementText(result, lines, run);
      return;
    }
    const { relation, selection } = resolveSelection(snapshot, what);
    const { where, order, asOf } = selection;
    const warning = asOf === undefined ? undefined : checkAsOf(snapshot, relation.name, asOf);
    if (warning !== undefined) run.onWarning?.(warning);
    const plain = where === undefined && order === undefined && asOf === undefined;
    if (plain && relation.rangeColumn !== null) {
      yield* tableText(store, snapshot, relation, selection.columns, request, run);
      return;
    }
    const result = snapshot.select(selection);
    const lines = tableLines(style, result.columns);
    yield await head(request, result.columns);
    yield* statementText(result, lines, run);
  } finally {
    snapshot.release();
  }
}

async function head(request: ExportRequest, columns: readonly ResultColumn[]): Promise<Uint8Array> {
  return Buffer.from(`${request.bom ? '\uFEFF' : ''}${await header(request.style, columns)}`);
}

async function* statementText(result: Rows, lines: Lines, run: ExportRun): AsyncGenerator<Uint8Array> {
  const pace = readingPace();
  for (const rows of result.batches(pace.rows)) {
    run.signal.throwIfAborted();
    run.onRows(rows.length);
    const bytes = Buffer.from(lines(rows));
    pace.add({ bytes, rows: rows.length });
    yield bytes;
    // Signals are heard between two batches.
    await setImmediate();
  }
}

async function* tableText(
  store: ReadingStore,
  snapshot: Snapshot,
  relation: Relation,
  columns: readonly string[],
  request: ExportRequest,
  run: ExportRun,
): AsyncGenerator<Uint8Array> {
  const { style } = request;
  const ranged = snapshot.selectRanges(relation, columns);
  const lines = tableLines(style, ranged.columns);
  yield await head(request, ranged.columns);
  const pace = readingPace();
  const wanted = Math.min(request.threads ?? mostThreads, availableParallelism(), mostThreads);
  const threads: RangeThread[] = [];
  let agreed: Snapshot | undefined;
  try {
    if (wanted > 1 && isLarge(snapshot, relation)) {
      for (let count = 0; count < wanted; count += 1) {
        threads.push(new RangeThread({ source: store.source, relation, columns, style }));
      }
      agreed = await agreeOnSnapshot(store, threads, run.signal);
    }
    const ranges = (agreed ?? snapshot).ranges(relation, pace.rows);
    // Where the writer never paused for long enough, one thread reads the state that it already has.
    const read = agreed === undefined ? readHere() : readInOrder(ranges, threads);
    for await (const range of read) {
      run.signal.throwIfAborted();
      run.onRows(range.rows);
      pace.add(range);
      yield range.bytes;
    }
    async function* readHere(): AsyncGenerator<EncodedRange> {
      for (const range of ranges) {
        const rows = ranged.rowsIn(range);
        yield { bytes: Buffer.from(lines(rows)), rows: rows.length };
        await setImmediate();
      }
    }
  } finally {
    await Promise.all(threads.map((thread) => thread.stop()));
    agreed?.release();
  }
}

function isLarge(snapshot: Snapshot, relation: Relation): boolean {
  const [first, second] = snapshot.ranges(relation, () => largeTable);
  return first !== undefined && second !== undefined;
}
