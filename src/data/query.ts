/** Queries: one statement of the operator's that reads, its rows as a table, CSV, TSV, JSON or JSON lines. */
import { Buffer } from 'node:buffer';
import type { Rows } from '../store/reading-types.ts';
import type { Snapshot } from '../store/reading.ts';
import { header, resultLines } from './text-lines.ts';
import type { QueryFormat, TextFormat } from './formats.ts';
import { jsonArray } from './jsonl.ts';
import { tableText } from './text-table.ts';

const batchRows = () => 200;

/** Lines of a table that are printed at a time. */
const heldLines = 200;

export interface QueryRequest {
  readonly sql: string;
  readonly format: QueryFormat;
  /** Columns of the terminal that a table is to fit in; without it, every value is whole. */
  readonly room?: number | undefined;
}

/** What the query prints, in pieces. Throws a UsageError for SQL that fails or would do more than read. */
export async function* queryChunks(
  snapshot: Snapshot,
  { sql, format, room }: QueryRequest,
): AsyncGenerator<Uint8Array> {
  const result = snapshot.query(sql);
  const chunks = bytesOf(format === 'table' ? tables(result, room) : lines(result, format));
  yield* format === 'json' ? jsonArray(chunks) : chunks;
}

async function* bytesOf(texts: Iterable<string>): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

function* lines({ columns, batches }: Rows, format: TextFormat): Generator<string> {
  const style = { format, raw: false };
  const write = resultLines(style, columns);
  yield header(style, columns);
  for (const rows of batches(batchRows)) yield write(rows);
}

function* tables({ columns, batches }: Rows, room: number | undefined): Generator<string> {
  let text = '';
  let held = 0;
  for (const line of tableText(
    columns,
    Iterator.from(batches(batchRows)).flatMap((rows) => rows),
    room,
  )) {
    text += `${line}\n`;
    held += 1;
    if (held < heldLines) continue;
    yield text;
    text = '';
    held = 0;
  }
  yield text;
}
