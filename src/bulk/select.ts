/**
 * `bulk select` and `bulk template`: write sheets that this program reads back exactly as they were meant. If the action would refuse
 * a row of the query, no file is written. Looks nobody up and sends nothing.
 */
import { extname } from 'node:path';
import { Readable } from 'node:stream';
import { stringify } from 'csv-stringify/sync';
import { counted } from '../model/text.ts';
import { UsageError } from '../model/errors.ts';
import { guardedText, type Table } from '../model/spreadsheet.ts';
import type { Action } from './action.ts';
import { readRows } from './read-rows.ts';
import { TypeSums } from './report.ts';
import type { ReadOptions } from './row-reader.ts';
import { emptyCell, shown, textCell } from './sheet/rows.ts';
import type { SheetCell, SheetProblem } from './sheet/sheet.ts';

type Cell = string | bigint | number | Uint8Array | null;

/** The result of the query. */
interface QueryRows {
  readonly columns: readonly { readonly name: string }[];
  readonly batches: (rows: () => number) => Iterable<readonly (readonly Cell[])[]>;
}

interface SelectOptions extends ReadOptions {
  readonly format: WrittenFormat;
  readonly signal: AbortSignal;
}

/** Throws a UsageError if the query finds no rows, or rows that cannot be sent. */
export async function selectSheet(found: QueryRows, action: Action, options: SelectOptions) {
  const columns = found.columns.map(({ name }) => name);
  const rows: (readonly Cell[])[] = [];
  for (const batch of found.batches(() => 1_000)) {
    options.signal.throwIfAborted();
    rows.push(...batch);
  }
  if (rows.length === 0) throw new UsageError('the query found no rows; nothing was written');
  const sheet = {
    columns,
    // Numbered as in the file: JSON lines have no header.
    rows: rows.map((cells, at) => ({ row: at + (options.format === 'jsonl' ? 1 : 2), cells: cells.map(cellOf) })),
    notes: [],
    problems: [],
  };
  const read = readRows(sheet, action, options);
  const problems = [
    ...read.problems,
    ...[...read.rows].flatMap((row) => row.problems),
    ...(options.format === 'jsonl' ? [] : formulas(columns, rows)),
  ];
  if (problems.length > 0) throw refusal(problems);
  const types = new TypeSums();
  for (const row of read.rows) types.add(row);
  const texts = rows.map((cells) => cells.map((cell) => cellOf(cell).raw));
  return {
    rows: rows.length,
    totals: types.end(),
    /** For the user, such as columns that the action does not read. */
    notes: read.notes,
    text: () => sheetText(columns, texts, options.format),
  };
}

/** A cell of a sheet with all digits of the number, so that rounding errors of a calculation show, and are refused. */
function cellOf(cell: Cell): SheetCell {
  if (cell === null) return emptyCell;
  if (cell instanceof Uint8Array) return { text: 'bytes', raw: 'bytes', kind: 'error' };
  if (typeof cell !== 'string') return { text: String(cell), raw: String(cell), kind: 'number' };
  return textCell(cell);
}

function formulas(columns: readonly string[], rows: readonly (readonly Cell[])[]): SheetProblem[] {
  return rows.flatMap((cells, at) =>
    cells.flatMap((cell, column) => {
      if (typeof cell !== 'string' || guardedText(cell) === cell || /^-?\d+(?:\.\d+)?$/.test(cell)) return [];
      const problem = `${shown(cell)} would be run as a formula by a spreadsheet; name a file that ends in .jsonl`;
      return { row: at + 2, column: columns[column] ?? null, problem };
    }),
  );
}

const mostProblems = 10;

function refusal(problems: readonly SheetProblem[]): UsageError {
  const lines = problems
    .slice(0, mostProblems)
    .map(({ row, column, problem }) => `row ${row}${column === null ? '' : `, ${column}`}: ${problem}`);
  const more = problems.length - lines.length;
  const count = counted(problems.length, 'problem');
  const advice = [
    ...lines,
    ...(more > 0 ? [`and ${more} more`] : []),
    'Correct the SQL; round(…, 2) leaves two places.',
  ];
  return new UsageError(`the rows of the query cannot be sent as they are (${count}); nothing was written`, {
    advice: advice.join('\n'),
  });
}

export type WrittenFormat = 'csv' | 'tsv' | 'jsonl';

const formats: Readonly<Record<string, WrittenFormat>> = { '.csv': 'csv', '.tsv': 'tsv', '.jsonl': 'jsonl' };

/** The format by the ending of the file's name. Throws a UsageError for any other ending. */
export function writtenFormatOf(file: string): WrittenFormat {
  const format = formats[extname(file).toLowerCase()];
  if (format !== undefined) return format;
  throw new UsageError(`${file} does not end in .csv, .tsv or .jsonl`, {
    advice: 'Spreadsheet programs open .csv, and save it as .xlsx.',
  });
}

const rowsAPiece = 1_000;

/** The text of the sheet in pieces. Every value is written as text, so that no digit is lost; empty cells stay empty. */
function* sheetText(
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
  const delimiter = format === 'csv' ? ',' : '\t';
  const options = { delimiter, record_delimiter: '\n', quoted_match: /[,;\t]/, quote_record_delimiter: true };
  yield stringify([columns], options);
  for (let at = 0; at < rows.length; at += rowsAPiece) yield stringify(rows.slice(at, at + rowsAPiece), options);
}

function exampleRows({ examples }: Action) {
  const columns = [...new Set(examples.flatMap((row) => Object.keys(row)))];
  return { columns, rows: examples.map((row) => columns.map((name) => row[name] ?? '')) };
}

export function templateText(action: Action, format: WrittenFormat): string {
  const { columns, rows } = exampleRows(action);
  return [...sheetText(columns, rows, format)].join('');
}

/** The same for a spreadsheet. */
export function templateTable(action: Action): Table {
  const { columns, rows } = exampleRows(action);
  return { name: action.name, columns, rows: Readable.from(rows) };
}
