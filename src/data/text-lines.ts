/** Rows as lines of CSV, TSV or JSON; the lines of a JSON array are those of JSON lines until the file is put together. */
import { distinct } from './column-type.ts';
import type { TextFormat } from './formats.ts';
import { jsonLines } from './jsonl.ts';
import { csvLines, type CsvStyle, resultCsvLines } from '../store/files/csv.ts';
import type { ResultColumn, Row } from '../store/reading-types.ts';

export interface TextStyle {
  readonly format: TextFormat;
  /** Text cells as they are, without the guard against formulas. */
  readonly raw: boolean;
}

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
