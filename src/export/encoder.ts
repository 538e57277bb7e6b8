/** From rows to the text of a format. */
import { UsageError } from '../model/errors.ts';
import type { ResultColumn, Row } from '../store/ports/reading.ts';
import { csvLines, type CsvStyle } from '../store/files/csv.ts';
import type { ExportFormat } from './formats.ts';
import { jsonLines } from './jsonl.ts';

export interface TextStyle {
  readonly format: ExportFormat;
  /** Text cells as they are, without the guard against formulas. */
  readonly raw: boolean;
}

/** Writes rows, each ended by LF. */
export type Lines = (rows: readonly Row[]) => string;

export function csvStyle({ format, raw }: TextStyle): CsvStyle {
  return { delimiter: format === 'tsv' ? '\t' : ',', guard: !raw };
}

/** The lines of a table's rows, as quick as they can be written. */
export function tableLines(style: TextStyle, columns: readonly ResultColumn[]): Lines {
  return style.format === 'jsonl' ? jsonLines(distinct(columns)) : csvLines(csvStyle(style));
}

/** The lines of any other result. */
export async function resultLines(style: TextStyle, columns: readonly ResultColumn[]): Promise<Lines> {
  if (style.format === 'jsonl') return jsonLines(distinct(columns));
  const { stringifiedLines } = await import('./csv-stringified.ts');
  return stringifiedLines(csvStyle(style));
}

/** What stands before the first row; nothing for JSON lines. */
export async function header(style: TextStyle, columns: readonly ResultColumn[]): Promise<string> {
  if (style.format === 'jsonl') return '';
  const { stringifiedLines } = await import('./csv-stringified.ts');
  return stringifiedLines(csvStyle(style))([columns.map(({ name }) => name)]);
}

/** Throws a UsageError where two columns have one name, which an object cannot hold. */
export function distinct(columns: readonly ResultColumn[]): readonly ResultColumn[] {
  const names = columns.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice === undefined) return columns;
  throw new UsageError(`two columns are called "${twice}", and a JSON object can hold only one of them`, {
    advice: 'Give one of them another name with AS.',
  });
}
