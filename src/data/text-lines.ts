/** Rows as lines of CSV, TSV or JSON; the lines of a JSON array are those of JSON lines until the file is put together. */
import type { ResultColumn, Row } from '../store/reading-types.ts';
import { csvLines, type CsvStyle } from '../store/files/csv.ts';
import { distinct } from './distinct.ts';
import type { RowEncoder, TextStyle } from './encoding.ts';
import { jsonLines } from './jsonl.ts';

/** Writes rows, each ended by LF. */
export type Lines = (rows: readonly Row[]) => string;

function csvStyle({ format, raw }: TextStyle): CsvStyle {
  return { delimiter: format === 'tsv' ? '\t' : ',', guard: !raw };
}

function isJson({ format }: TextStyle): boolean {
  return format === 'json' || format === 'jsonl';
}

/** The lines of rows, as quick as they can be written. */
export function rowLines(style: TextStyle, columns: readonly ResultColumn[]): Lines {
  return isJson(style) ? jsonLines(distinct(columns)) : csvLines(csvStyle(style));
}

/** The lines of a few rows, such as a query's. */
export async function resultLines(style: TextStyle, columns: readonly ResultColumn[]): Promise<Lines> {
  if (isJson(style)) return jsonLines(distinct(columns));
  const { stringifiedLines } = await import('./csv-stringified.ts');
  return stringifiedLines(csvStyle(style));
}

/** What stands before the first row; nothing for JSON. */
export async function header(style: TextStyle, columns: readonly ResultColumn[]): Promise<string> {
  if (isJson(style)) return '';
  const { stringifiedLines } = await import('./csv-stringified.ts');
  return stringifiedLines(csvStyle(style))([columns.map(({ name }) => name)]);
}

/** Makes pieces of text. */
export function textEncoder(style: TextStyle, columns: readonly ResultColumn[]): RowEncoder {
  const lines = rowLines(style, columns);
  const encoder = new TextEncoder();
  let text = '';
  let rows = 0;
  return {
    add: (batch) => {
      text += lines(batch);
      rows += batch.length;
    },
    take: () => {
      const piece = { bytes: encoder.encode(text), rows };
      text = '';
      rows = 0;
      return piece;
    },
  };
}
