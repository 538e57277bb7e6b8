/** Exports: rows of the mirror as a file of some format, all from one state of it, never held whole; and tables of `bulk` as files. */
import { Buffer } from 'node:buffer';
import { pipeline } from 'node:stream/promises';
import { setImmediate } from 'node:timers/promises';
import { createGzip, createZstdCompress } from 'node:zlib';
import { distinct } from './column-type.ts';
import type { LineBatch } from './csv-lines.ts';
import type { Compression, ExportFormat, TextFormat } from './formats.ts';
import { jsonArray, csvStyle, header, isJson, rowLines, type TextStyle } from './text-lines.ts';
import { type RowSource, sourceOf, type SourceRequest, rowsSource } from './source.ts';
import type { ReadingStore } from '../store/reading.ts';
import type { Table, TableCell, TableFormat, TableWriter } from '../model/table.ts';
import { keepYoungHeapSmall } from '../model/memory.ts';
import { guardedText } from '../store/files/csv.ts';
import type { Cell, Row } from '../store/reading-types.ts';

export interface FileRun {
  readonly signal: AbortSignal;
  readonly onRows: (rows: number) => void;
  readonly onWarning: (warning: string) => void;
}

/** The chunks as one compressed file. An error of the chunks is thrown on. */
async function* compressed(chunks: AsyncIterable<Uint8Array>, compression: Compression): AsyncGenerator<Uint8Array> {
  const compressor = compression === 'gzip' ? createGzip() : createZstdCompress();
  const feeding = pipeline(chunks, compressor);
  // Also thrown by the loop below, which is where it is dealt with.
  feeding.catch(() => {});
  for await (const chunk of compressor) yield chunk as Uint8Array;
  await feeding;
}

export interface FileForm {
  readonly format: ExportFormat;
  /** Text cells of CSV and TSV as they are, without the guard against formulas. */
  readonly raw: boolean;
  /** Of a text format; the others are compressed in themselves. */
  readonly compression: Compression | null;
  /** Begins CSV and TSV with a byte order mark, by which some spreadsheets know UTF-8. */
  readonly bom: boolean;
}

export interface ExportRequest {
  readonly what: SourceRequest;
  readonly form: FileForm;
}

export interface ExportRun extends FileRun {
  /** Each chunk is written before the next one is taken, so that its memory can be used again. */
  readonly writesAtOnce?: boolean;
  /** Called with the cursor of the state that the rows are of, before the first of them. */
  readonly onCursor?: (cursor: string) => void;
}

/** Throws a UsageError before the first piece for what the mirror does not know, later where SQL fails on the data. */
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
  // Rows are garbage as soon as they are written. Room for more of it would be grown to no use, 40 MB by the end.
  keepYoungHeapSmall();
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
      else yield* compressed(text, form.compression);
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
  if (isJson(style)) distinct(columns);
  const bytesOf = textBytes(run.writesAtOnce === true && compression === null);
  yield Buffer.from(`${bom ? '\uFEFF' : ''}${header(style, columns)}`);
  // As bytes before anybody waits: a text that is held meanwhile is garbage that stays long.
  const piece = ({ text, rows }: LineBatch) => {
    run.onRows(rows);
    return bytesOf(text);
  };
  for await (const bytes of piecesOf(source, style, piece)) {
    run.signal.throwIfAborted();
    yield bytes;
  }
}

async function* piecesOf(
  source: RowSource,
  style: TextStyle,
  piece: (lines: LineBatch) => Uint8Array,
): AsyncGenerator<Uint8Array> {
  if (source.lines !== undefined && !isJson(style)) {
    for (const lines of source.lines(csvStyle(style))) {
      yield piece(lines);
      await setImmediate();
    }
    return;
  }
  const write = rowLines(style, source.columns);
  yield* source.pieces((rows) => piece({ text: write(rows), rows: rows.length }));
}

/** Room for the bytes of a batch, some 256,000 characters. */
const roomBytes = 1024 * 1024;

/** Kept room is used again for each text: memory that is new each time comes back only when much of it is in use. */
function textBytes(isRoomKept: boolean): (text: string) => Uint8Array {
  const room = isRoomKept ? Buffer.allocUnsafeSlow(roomBytes) : undefined;
  return (text) => {
    // A character takes three bytes at most; two that make up one take four.
    if (room === undefined || 3 * text.length > room.length) return Buffer.from(text);
    return room.subarray(0, room.write(text));
  };
}

/** Columns whose text is a number where it looks like one, so that a workbook can sum them. */
const numeric = new Set(['user_id', 'amount', 'expected_balance', '_balance_before', '_balance_after', '_change']);
const plainNumber = /^-?\d+(?:\.\d+)?$/;
/** A spreadsheet keeps 15 digits, and puts zeros in the place of the others. */
const mostDigits = 15;

/** @param onWarning called with what the person should know of the file */
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
        batches: (wanted) => batches(rows, wanted, (cells) => cells.map((each, at) => cell(each, columns[at] ?? ''))),
      });
      // Guarded here, cell by cell: amounts of a file are text, and none for a spreadsheet to run.
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
  const isNumber = numeric.has(column.toLowerCase()) && plainNumber.test(cell);
  return isNumber && cell.replaceAll(/\D/g, '').length <= mostDigits ? Number(cell) : cell;
}

async function* batches(
  rows: Table['rows'],
  wanted: () => number,
  made: (cells: readonly TableCell[]) => Cell[],
): AsyncGenerator<Row[], undefined> {
  let batch: Row[] = [];
  let size = wanted();
  for await (const row of rows) {
    batch.push(made(row));
    if (batch.length < size) continue;
    yield batch;
    batch = [];
    size = wanted();
  }
  if (batch.length > 0) yield batch;
}
