/** CSV and its relatives: cells separated by a comma, a semicolon or a tab, quoted with `"` where they need it. */
import { Buffer } from 'node:buffer';
import { setImmediate } from 'node:timers/promises';
import { CsvError, parse, type Parser } from 'csv-parse';
import { counted } from '../../model/counted.ts';
import { textCell } from './cell.ts';
import { decodeText } from './decode.ts';
import { type Delimiter, findDelimiter, separatorOf } from './delimiter.ts';
import { Budget } from './budget.ts';
import { limits } from './limits.ts';
import { refusal } from './refusal.ts';
import { columnLetters, headersOf, type SheetContent, SheetRows } from './rows.ts';
import type { SheetFormat } from './sheet.ts';

/** What is parsed before other work gets its turn. */
const chunkBytes = 1024 * 1024;

const faults: Readonly<Record<string, string>> = {
  CSV_QUOTE_NOT_CLOSED: 'a quote opens a cell and is never closed',
  CSV_MAX_RECORD_SIZE: 'it is longer than a row can be, as where a quote is never closed',
  INVALID_OPENING_QUOTE: 'a quote stands inside a cell that does not begin with one',
  CSV_INVALID_CLOSING_QUOTE: 'text follows the quote that ends a cell',
};

/** Records of texts as rows of a sheet, counted as spreadsheet programs count them: a cell with line breaks is one row. */
class Records {
  /** Where the next record begins. */
  row = 1;
  rows: SheetRows | undefined;
  columns: readonly string[] = [];
  readonly #budget: Budget;

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  add(record: readonly string[]): void {
    const row = this.row;
    this.row += 1;
    const cells = record.map((each) => textCell(each));
    if (this.rows === undefined) {
      this.columns = headersOf(cells);
      this.rows = new SheetRows(this.columns, this.#budget);
      return;
    }
    this.rows.add(row, cells);
    const missing = this.columns.length - record.length;
    // An empty line is a blank row; anything else that ends early may have been cut in two by a line break.
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

/** Gives the bytes to the parser piece by piece. Rejects with what the parser, or a record, objected to. */
async function feed(parser: Parser, bytes: Buffer, signal: AbortSignal): Promise<void> {
  const ended = new Promise<void>((resolve, reject) => {
    parser.once('end', resolve).once('error', reject);
  });
  // Awaited below; an error that comes earlier must not count as unheeded until then.
  ended.catch(() => {});
  parser.resume();
  for (let from = 0; from < bytes.length && !parser.destroyed; from += chunkBytes) {
    parser.write(bytes.subarray(from, from + chunkBytes));
    await setImmediate(undefined, { signal });
  }
  parser.end();
  await ended;
}

/**
 * @throws UsageError where the bytes are not text, the delimiter is not clear, quotes are wrong or there is no header
 */
export async function readDelimited(
  file: string,
  bytes: Buffer,
  format: Extract<SheetFormat, 'csv' | 'tsv'>,
  signal: AbortSignal,
): Promise<SheetContent> {
  const whole = decodeText(file, bytes);
  const separator = separatorOf(file, whole);
  const text = separator === undefined ? whole : whole.slice(separator.length);
  const delimiter: Delimiter = separator?.delimiter ?? findDelimiter(file, text) ?? (format === 'tsv' ? '\t' : ',');
  const records = new Records(new Budget(file));
  const parser = parse({
    delimiter,
    // All three, in one file, too: some programs write LF and quote cells with CR LF in them.
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
    throw refusal(file, `${place} is not CSV: ${fault}`, 'Correct that row, or save the sheet anew.', error);
  }
  if (records.rows === undefined || records.columns.length === 0) {
    throw refusal(file, 'its first row is empty', 'The first row must hold the names of the columns.');
  }
  return records.rows.finish({ delimiter, sheet: null, notes: [] });
}
