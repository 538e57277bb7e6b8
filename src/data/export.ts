/** Exports rows of the mirror, from one state of it, to a file of some format; also writes the tables of `bulk`. Nothing is held whole. */
import { Buffer } from 'node:buffer';
import { pipeline } from 'node:stream/promises';
import { setImmediate } from 'node:timers/promises';
import { createGzip } from 'node:zlib';
import { distinctColumns } from './column-type.ts';
import type { ExportFormat, TextFormat } from './formats.ts';
import { header, isJson, jsonArray, rowLines, type TextStyle } from './text-lines.ts';
import { type LineBatch, type RowSource, rowsSource, sourceOf, type SourceRequest } from './source.ts';
import type { ReadingStore } from './reading.ts';
import { guardedText, type Table, type TableCell, type TableFormat, type TableWriter } from '../model/spreadsheet.ts';
import type { Cell, Row } from './reading-types.ts';

export interface FileRun {
  readonly signal: AbortSignal;
  readonly onRows: (rows: number) => void;
  readonly onWarning: (warning: string) => void;
}

/** Compresses the chunks. Throws what they throw. */
async function* compressed(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const compressor = createGzip();
  const feeding = pipeline(chunks, compressor);
  // The loop below throws the same error.
  feeding.catch(() => {});
  for await (const chunk of compressor) yield chunk as Uint8Array;
  await feeding;
}

export interface FileForm {
  readonly format: ExportFormat;
  /** CSV and TSV without the guard against formulas in text cells. */
  readonly raw: boolean;
  /** For text formats; the others compress their contents themselves. */
  readonly compression: 'gzip' | null;
  /** Begins CSV and TSV with a byte order mark, which tells some spreadsheets that they are UTF-8. */
  readonly bom: boolean;
}

export interface ExportRequest {
  readonly what: SourceRequest;
  readonly form: FileForm;
}

export interface ExportRun extends FileRun {
  /** The caller has written each chunk before it takes the next, so their memory can be reused. */
  readonly writesAtOnce?: boolean;
  /** Called before the first row, with the cursor of the state that the rows come from. */
  readonly onCursor?: (cursor: string) => void;
}

/** Throws a UsageError: before the first chunk for a name that the mirror does not know, later for SQL that fails on the data. */
export async function* exportChunks(
  store: ReadingStore,
  { what, form }: ExportRequest,
  run: ExportRun,
): AsyncGenerator<Uint8Array> {
  const snapshot = store.snapshot();
  try {
    const source = sourceOf(snapshot, what, run.onWarning);
    run.onCursor?.(snapshot.cursor());
    yield* fileChunks(source, form, run);
  } finally {
    snapshot.release();
  }
}

export async function* fileChunks(source: RowSource, form: FileForm, run: ExportRun): AsyncGenerator<Uint8Array> {
  switch (form.format) {
    case 'parquet': {
      const { parquetChunks } = await import('./parquet.ts');
      yield* parquetChunks(source, run);
      return;
    }
    case 'xlsx': {
      const { xlsxChunks } = await import('./xlsx.ts');
      yield* xlsxChunks(source, run);
      return;
    }
    case 'csv':
    case 'tsv':
    case 'json':
    case 'jsonl': {
      const lines = textChunks(source, { ...form, format: form.format }, run);
      const text = form.format === 'json' ? jsonArray(lines) : lines;
      if (form.compression === null) yield* text;
      else yield* compressed(text);
    }
  }
}

async function* textChunks(
  source: RowSource,
  { format, raw, bom, compression }: FileForm & { readonly format: TextFormat },
  run: ExportRun,
): AsyncGenerator<Uint8Array> {
  const style = { format, raw };
  const { columns } = source;
  if (isJson(style)) distinctColumns(columns);
  yield Buffer.from(`${bom ? '\uFEFF' : ''}${header(style, columns)}`);
  // Encoded before the next await: a text that survives one stays in memory much longer.
  const encode = ({ lines, rows }: LineBatch) => {
    run.onRows(rows);
    return typeof lines === 'string' ? Buffer.from(lines) : lines;
  };
  for await (const bytes of encodedLines(source, style, encode)) {
    run.signal.throwIfAborted();
    yield bytes;
    if (run.writesAtOnce === true && compression === null) free(bytes);
  }
}

/** Frees the memory of bytes that were written: V8 frees buffers only when many are in use. */
function free({ buffer, byteLength }: Uint8Array): void {
  // A buffer that others share stays.
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0);
}

async function* encodedLines(
  source: RowSource,
  style: TextStyle,
  encode: (batch: LineBatch) => Uint8Array,
): AsyncGenerator<Uint8Array> {
  if (source.lines !== undefined) {
    for (const batch of source.lines(style)) {
      yield encode(batch);
      await setImmediate();
    }
    return;
  }
  const write = rowLines(style, source.columns);
  yield* source.pieces((rows) => encode({ lines: write(rows), rows: rows.length }));
}

/** Columns whose text becomes a number if it looks like one, so that a workbook can sum them. */
const numericColumns = new Set([
  'user_id',
  'amount',
  'expected_balance',
  '_balance_before',
  '_balance_after',
  '_change',
]);
const plainNumber = /^-?\d+(?:\.\d+)?$/;
/** A spreadsheet keeps 15 digits and replaces the others by zeros. */
const mostDigits = 15;

/** Returns a writer for tables of `bulk`. @param onWarning called with what the reader of the file should know */
export function tableWriter(
  format: TableFormat,
  signal: AbortSignal,
  onWarning: (warning: string) => void,
): TableWriter {
  const cell = format === 'csv' ? csvCell : sheetCell;
  return {
    format,
    chunks: ({ name, columns, rows }: Table) => {
      const headings = columns.map((column) => ({
        name: format === 'csv' ? guardedText(column) : column,
        table: null,
        origin: null,
      }));
      const source = rowsSource(name, {
        columns: headings,
        batches: (batchSize) =>
          batches(rows, batchSize, (cells) => cells.map((each, at) => cell(each, columns[at] ?? ''))),
      });
      // Guarded here, cell by cell: the guard for text would also catch negative amounts, which are text here.
      const form = { format, raw: true, compression: null, bom: true };
      return fileChunks(source, form, { signal, onRows: () => {}, onWarning });
    },
  };
}

function csvCell(cell: TableCell): Cell {
  if (typeof cell !== 'string') return cell;
  if (cell === '') return null;
  return plainNumber.test(cell) ? cell : guardedText(cell);
}

function sheetCell(cell: TableCell, column: string): Cell {
  if (typeof cell !== 'string') return cell;
  if (cell === '') return null;
  const isNumber = numericColumns.has(column.toLowerCase()) && plainNumber.test(cell);
  return isNumber && cell.replaceAll(/\D/g, '').length <= mostDigits ? Number(cell) : cell;
}

async function* batches(
  rows: Table['rows'],
  batchSize: () => number,
  cellsOf: (row: readonly TableCell[]) => Cell[],
): AsyncGenerator<Row[], undefined> {
  let batch: Row[] = [];
  let size = batchSize();
  for await (const row of rows) {
    batch.push(cellsOf(row));
    if (batch.length < size) continue;
    yield batch;
    batch = [];
    size = batchSize();
  }
  if (batch.length > 0) yield batch;
}
