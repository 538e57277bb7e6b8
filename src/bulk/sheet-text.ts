/** Sheets as this program writes them, so that it reads back exactly what was meant: examples, and rows of a query. */
import { extname } from 'node:path';
import { UsageError } from '../model/errors.ts';
import { csvLines } from '../store/files/csv.ts';

export type WrittenFormat = 'csv' | 'tsv' | 'jsonl';

const formats: Readonly<Record<string, WrittenFormat>> = { '.csv': 'csv', '.tsv': 'tsv', '.jsonl': 'jsonl' };

/** By the name of the file. Throws a UsageError for any other. */
export function writtenFormatOf(file: string): WrittenFormat {
  const format = formats[extname(file).toLowerCase()];
  if (format !== undefined) return format;
  throw new UsageError(`${file} does not end in .csv, .tsv or .jsonl`, {
    advice: 'Spreadsheet programs open .csv, and save it as .xlsx.',
  });
}

const rowsAPiece = 1_000;

/** The text in pieces; empty cells are left empty, and every value is text, so that no digit is lost. */
export function* sheetText(
  columns: readonly string[],
  rows: readonly (readonly string[])[],
  format: WrittenFormat,
): Generator<string> {
  if (format === 'jsonl') {
    for (const row of rows) {
      yield `${JSON.stringify(Object.fromEntries(columns.map((name, at) => [name, row[at] ?? ''])))}\n`;
    }
    return;
  }
  const lines = csvLines({ delimiter: format === 'csv' ? ',' : '\t', guard: false });
  yield lines([columns]);
  for (let at = 0; at < rows.length; at += rowsAPiece) {
    yield lines(rows.slice(at, at + rowsAPiece).map((row) => row.map((cell) => (cell === '' ? null : cell))));
  }
}
