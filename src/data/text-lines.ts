/** Rows as lines of CSV, TSV or JSON; the lines of a JSON array are those of JSON lines until the file is put together. */
import { Buffer } from 'node:buffer';
import { distinct } from './column-type.ts';
import type { RowEncoder, TextStyle } from './encoding.ts';
import { jsonLines } from './jsonl.ts';
import { csvLines, type CsvStyle, resultCsvLines } from '../store/files/csv.ts';
import type { ResultColumn, Row } from '../store/reading-types.ts';

/** Writes rows, each ended by LF. */
export type Lines = (rows: readonly Row[]) => string;

export function csvStyle({ format, raw }: TextStyle): CsvStyle {
  return { delimiter: format === 'tsv' ? '\t' : ',', guard: !raw };
}

export function isJson({ format }: TextStyle): boolean {
  return format === 'json' || format === 'jsonl';
}

/** The lines of a whole table's rows, as quick as they can be written. */
export function rowLines(style: TextStyle, columns: readonly ResultColumn[]): Lines {
  return isJson(style) ? jsonLines(distinct(columns)) : csvLines(csvStyle(style));
}

/** The lines of a result, such as a query's. */
export function resultLines(style: TextStyle, columns: readonly ResultColumn[]): Lines {
  return isJson(style) ? jsonLines(distinct(columns)) : resultCsvLines(csvStyle(style));
}

/** What stands before the first row; nothing for JSON. */
export function header(style: TextStyle, columns: readonly ResultColumn[]): string {
  return isJson(style) ? '' : resultCsvLines(csvStyle(style))([columns.map(({ name }) => name)]);
}

/** Room for the bytes of a piece, some 256,000 characters. */
const pieceBytes = 1024 * 1024;

/**
 * A function that makes bytes of text. Kept room is used again for each text: memory that is new each time comes back only
 * when much of it is in use.
 */
export function textBytes(isRoomKept: boolean): (text: string) => Uint8Array {
  const room = isRoomKept ? Buffer.allocUnsafeSlow(pieceBytes) : undefined;
  return (text) => {
    // A character takes three bytes at most; two that make up one take four.
    if (room === undefined || 3 * text.length > room.length) return Buffer.from(text);
    return room.subarray(0, room.write(text));
  };
}

/** Makes pieces of text. */
export function textEncoder(style: TextStyle, columns: readonly ResultColumn[], isRoomKept: boolean): RowEncoder {
  const lines = rowLines(style, columns);
  const bytesOf = textBytes(isRoomKept);
  let text = '';
  let rows = 0;
  return {
    add: (batch) => {
      text += lines(batch);
      rows += batch.length;
    },
    take: () => {
      const piece = { bytes: bytesOf(text), rows };
      text = '';
      rows = 0;
      return piece;
    },
  };
}
