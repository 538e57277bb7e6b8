/**
 * Sheets that are text. CSV and TSV: cells separated by a comma, a semicolon or a tab, and quoted with `"` if necessary; the
 * delimiter is the one of the header. JSON lines: one object on each line, with the columns as its
 * names. Numbers are read digit for digit, as from any sheet.
 */
import { Buffer } from 'node:buffer';
import { setImmediate } from 'node:timers/promises';
import { CsvError, parse, type Parser } from 'csv-parse';
import { columnLetters } from '../../model/spreadsheet.ts';
import { counted, trimmed } from '../../model/text.ts';
import type { UsageError } from '../../model/errors.ts';
import { parseDigits } from '../../api/exact.ts';
import { Turns } from '../../model/turns.ts';
import { Budget, limits, refusal } from './limits.ts';
import {
  decodeText,
  decodeWindowsText,
  emptyCell,
  headersOf,
  type SheetContent,
  SheetRows,
  shown,
  textCell,
} from './rows.ts';
import type { SheetCell, SheetFormat } from './sheet.ts';

/** How much is parsed before other work gets its turn. */
const chunkBytes = 64 * 1024;

const faults: Readonly<Record<string, string>> = {
  CSV_QUOTE_NOT_CLOSED: 'a quote opens a cell and is never closed',
  CSV_MAX_RECORD_SIZE: 'it is longer than a row can be; perhaps a quote is never closed',
  INVALID_OPENING_QUOTE: 'a quote stands inside a cell that does not begin with one',
  CSV_INVALID_CLOSING_QUOTE: 'text follows the quote that ends a cell',
};

/** Turns parsed records into rows, numbered as spreadsheet programs do: a cell with line breaks is part of one row. */
class Records {
  /** The row of the next record. */
  row = 1;
  rows: SheetRows | undefined;
  columns: readonly string[] = [];
  readonly #file: string;
  readonly #budget: Budget;

  constructor(file: string) {
    this.#file = file;
    this.#budget = new Budget(file);
  }

  add(record: readonly string[]): void {
    const row = this.row;
    this.row += 1;
    const cells = record.map((each) => textCell(each));
    if (this.rows === undefined) {
      for (const { raw } of cells) this.#budget.spendText(raw, row);
      this.columns = headersOf(cells);
      // Now, not after the last row: there may be 50 million empty lines.
      if (this.columns.length === 0) throw noHeader(this.#file);
      this.rows = new SheetRows(this.columns, this.#budget);
      return;
    }
    // Blank rows count, too. They are not kept, but a small file can have millions of them.
    if (row > limits.rows) throw refusal(this.#file, `it has more than ${limits.rows} rows`);
    this.rows.add(row, cells, true);
    const missing = this.columns.length - record.length;
    // An empty line is a blank row. Any other row with too few cells may have been cut in two by a line break.
    if (missing > 0 && !(record.length === 1 && cells[0]?.text === '')) {
      const count = counted(record.length, 'cell');
      this.rows.addProblem(
        row,
        null,
        `the row has ${count}, the header ${this.columns.length}; a cell with a line break needs quotes`,
      );
    }
  }
}

/** Feeds the bytes to the parser piece by piece. Rejects with the error of the parser, or of `Records`. */
async function feed(parser: Parser, bytes: Buffer, signal: AbortSignal): Promise<void> {
  const ended = new Promise<void>((resolve, reject) => {
    parser.once('end', resolve).once('error', reject);
  });
  // It is awaited below. Until then, an error must not count as an unhandled rejection.
  ended.catch(() => {});
  parser.resume();
  for (let from = 0; from < bytes.length && parser.errored === null; from += chunkBytes) {
    parser.write(bytes.subarray(from, from + chunkBytes));
    await setImmediate(undefined, { signal });
  }
  parser.end();
  await ended;
}

/** Throws a UsageError if the bytes are not text, the delimiter is ambiguous, or quotes are wrong. */
export async function readDelimited(
  file: string,
  bytes: Buffer,
  format: Extract<SheetFormat, 'csv' | 'tsv'>,
  signal: AbortSignal,
): Promise<SheetContent> {
  const windows = decodeWindowsText(bytes);
  const whole = windows ?? decodeText(file, bytes);
  const separator = separatorOf(file, whole);
  const text = separator === undefined ? whole : whole.slice(separator.length);
  const delimiter: Delimiter =
    separator?.delimiter ?? findDelimiter(file, text.slice(0, limits.rowCharacters)) ?? (format === 'tsv' ? '\t' : ',');
  const records = new Records(file);
  const parser = parse({
    delimiter,
    // All three, even in one file: some programs write LF, but keep CR LF in quoted cells.
    record_delimiter: ['\r\n', '\n', '\r'],
    relax_column_count: true,
    max_record_size: limits.rowCharacters,
    on_record: (record: string[]) => {
      records.add(record);
      return null;
    },
  });
  try {
    await feed(parser, Buffer.from(text), signal);
  } catch (error) {
    signal.throwIfAborted();
    const fault = error instanceof CsvError ? faults[error.code] : undefined;
    if (fault === undefined) throw error;
    const column: unknown = error instanceof CsvError ? error['column'] : undefined;
    const place =
      typeof column === 'number' ? `row ${records.row}, column ${columnLetters(column)}` : `row ${records.row}`;
    throw refusal(file, `${place} is not CSV: ${fault}`, 'Correct that row, or save the sheet again.', error);
  }
  if (records.rows === undefined || records.columns.length === 0) {
    throw noHeader(file);
  }
  return records.rows.finish({ delimiter, sheet: null, notes: windows === undefined ? [] : [windowsNote(windows)] });
}

/** How many words with letters beyond ASCII are shown. */
const shownWords = 5;

function windowsNote(text: string): string {
  const words = new Set<string>();
  for (const [word] of text.matchAll(/[^\s,;"]{0,40}[^\0-\x7f][^\s,;"]{0,40}/g)) {
    if (words.add(word).size === shownWords) break;
  }
  return `the file is not UTF-8 and was read as Windows-1252; check that these are right: ${[...words].map(shown).join(', ')}`;
}

function noHeader(file: string): UsageError {
  return refusal(file, 'its first row is empty', 'The first row must hold the names of the columns.');
}

type Delimiter = ',' | ';' | '\t';

const delimiters: readonly Delimiter[] = [',', ';', '\t'];

const delimiterNames: Readonly<Record<Delimiter, string>> = { ',': 'comma', ';': 'semicolon', '\t': 'tab' };

/** The first line with cells; line breaks within quotes belong to it. */
const firstRecord = /^[\r\n]*((?:"[^"]*"?|[^"\r\n])*)/;

/** The only delimiter in the header outside quotes; undefined for a single cell. */
function findDelimiter(file: string, text: string): Delimiter | undefined {
  const header = (firstRecord.exec(text)?.[1] ?? '').replaceAll(/"[^"]*"?/g, '');
  const [only, another] = delimiters.filter((each) => header.includes(each));
  if (another === undefined) return only;
  const names = delimiters.filter((each) => header.includes(each)).map((each) => delimiterNames[each]);
  const advice = 'Put a line with the delimiter before the header, such as sep=; and leave the rest as it is.';
  throw refusal(file, `its cells may be separated by ${names.join(' and ')}`, advice);
}

/** Programs that save the file again put it into quotes, or fill the row with separators. */
const separatorLine = /^(?:"sep=(.?)"|sep=(.?))[,;\t]*(?:\r\n|\n|\r|$)/i;

/** The first line `sep=;`, which tells spreadsheet programs the delimiter and does not count as a row. */
function separatorOf(file: string, text: string) {
  const line = separatorLine.exec(text);
  if (line === null) return undefined;
  const delimiter = delimiters.find((each) => each === (line[1] ?? line[2]));
  if (delimiter !== undefined) return { delimiter, length: line[0].length };
  throw refusal(
    file,
    `its first line, ${shown(line[0].trimEnd())}, does not name a supported delimiter`,
    'Use a comma, a semicolon or a tab.',
  );
}

const oneAnObject = 'Each line must be one JSON object, such as {"user_id": 1, "type": "add", "amount": "5.00"}.';

/** Each line is a row, and the first is row 1. Columns are in the order in which their names first appear. */
export async function readJsonl(file: string, bytes: Buffer, signal: AbortSignal): Promise<SheetContent> {
  const turns = new Turns();
  const columns: string[] = [];
  const lines: { readonly row: number; readonly cells: ReadonlyMap<string, SheetCell> }[] = [];
  const repeated: number[] = [];
  for (const [at, line] of decodeText(file, bytes).split('\n').entries()) {
    if (turns.isDue()) await turns.take(signal);
    if (line.length > limits.rowCharacters) {
      throw refusal(file, `row ${at + 1} has more than ${limits.rowCharacters} characters`, oneAnObject);
    }
    if (line.trim() === '') continue;
    const { cells, isRepeated } = cellsOfLine(file, line, at + 1);
    if (isRepeated) repeated.push(at + 1);
    for (const name of cells.keys()) if (!columns.includes(name)) columns.push(name);
    if (columns.length > limits.columns) throw refusal(file, `it has more than ${limits.columns} columns`, oneAnObject);
    lines.push({ row: at + 1, cells });
  }
  if (columns.length === 0) throw refusal(file, 'it is empty', oneAnObject);
  const rows = new SheetRows(columns, new Budget(file));
  for (const { row, cells } of lines) {
    if (turns.isDue()) await turns.take(signal);
    rows.add(
      row,
      columns.map((name) => cells.get(name) ?? emptyCell),
    );
  }
  for (const row of repeated) rows.addProblem(row, null, 'a name is there more than once; keep one of them');
  return rows.finish({ delimiter: null, sheet: null, notes: [] });
}

/** How many names the objects in a JSON text have. */
function namesIn(json: string): number {
  return json.replaceAll(/"[^"\\]*(?:\\.[^"\\]*)*"?/g, '').split(':').length - 1;
}

function cellsOfLine(file: string, line: string, row: number) {
  let value: unknown;
  try {
    value = parseDigits(line);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw refusal(file, `row ${row} is not JSON: ${shown(line)}`, oneAnObject, error);
  }
  if (!line.trimStart().startsWith('{'))
    throw refusal(file, `row ${row} is not a JSON object: ${shown(line)}`, oneAnObject);
  const cells = new Map(Object.entries(value as object).map(([name, each]) => [trimmed(name), cellOfValue(each)]));
  // Of several members with one name, a parser keeps only the last.
  const isRepeated = namesIn(line) > namesIn(JSON.stringify(value)) || cells.size < Object.keys(value as object).length;
  return { cells, isRepeated };
}

function cellOfValue(value: unknown): SheetCell {
  if (value === null) return emptyCell;
  if (typeof value === 'string') return textCell(value);
  // A number as it is in the file; a list or an object as its JSON.
  const json = JSON.stringify(value);
  const kind = typeof value === 'boolean' ? 'boolean' : /^[-\d]/.test(json) ? 'number' : 'text';
  return { text: json, raw: json, kind };
}
