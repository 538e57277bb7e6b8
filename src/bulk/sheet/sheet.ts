/** Reads files of rows that people hand in: spreadsheets, CSV, JSON lines. Says what is in each cell, and guesses nothing. */
import type { Buffer } from 'node:buffer';
import { hash } from 'node:crypto';
import { extname } from 'node:path';
import type { JournalProblem } from '../../journal/port.ts';
import { UsageError } from '../../model/errors.ts';
import { explainFileError, readRegularFile, UnfitFile } from '../../model/files.ts';
import { readDelimited, readJsonl } from './text.ts';
import { limits, refusal } from './limits.ts';
import type { SheetContent } from './rows.ts';
import { readXlsx } from './xlsx/read.ts';

export type SheetFormat = 'csv' | 'tsv' | 'xlsx' | 'jsonl';

/**
 * CSV and TSV have only `text`, `error` and `empty`; JSON lines also have numbers and booleans. `formatted` and `altered` are
 * numbers that an .xlsx shows in another form, and as another number or not at all (xlsx/number-format.ts).
 */
type CellKind = 'text' | 'number' | 'formatted' | 'altered' | 'boolean' | 'date' | 'percent' | 'error' | 'empty';

export interface SheetCell {
  /** Without spaces, no-break spaces and zero-width characters at its ends; '' if empty. */
  readonly text: string;
  /** As it is in the file; numbers digit for digit. */
  readonly raw: string;
  readonly kind: CellKind;
}

export interface SheetRow {
  /** As spreadsheet programs count: the header is row 1, blank rows count, and a cell with line breaks is part of one row. */
  readonly row: number;
  readonly cells: readonly SheetCell[];
}

/** A problem, told to whoever wrote the sheet. */
export type SheetProblem = JournalProblem;

/** What the sheet says, wherever it is from. */
export type SheetTable = Pick<Sheet, 'columns' | 'rows' | 'notes' | 'problems'>;

export interface Sheet {
  readonly file: string;
  readonly bytes: number;
  /** SHA-256 of the file's bytes, in hexadecimal. */
  readonly hash: string;
  readonly format: SheetFormat;
  /** Null for xlsx and jsonl. */
  readonly delimiter: string | null;
  /** Name of the worksheet that was read; null for other formats. */
  readonly sheet: string | null;
  /** The headers, trimmed; '' if one is empty. */
  readonly columns: readonly string[];
  /** Without blank rows. */
  readonly rows: readonly SheetRow[];
  /** What the user should know, such as sheets that were skipped. */
  readonly notes: readonly string[];
  /** Problems of cells: errors, formulas without a value, text outside the columns. */
  readonly problems: readonly SheetProblem[];
}

const formats: Readonly<Record<string, SheetFormat>> = {
  '.csv': 'csv',
  '.tsv': 'tsv',
  '.xlsx': 'xlsx',
  '.jsonl': 'jsonl',
};

function formatOf(file: string): SheetFormat {
  const ending = extname(file).toLowerCase();
  const format = formats[ending];
  if (format !== undefined) return format;
  if (ending === '.ods') {
    // No maintained library reads it with limited memory and without rounding numbers.
    const advice = 'In LibreOffice, save it as Excel 2007-365 (.xlsx) or as Text CSV, and try that file.';
    throw refusal(file, 'it is an OpenDocument spreadsheet (.ods), which is not supported', advice);
  }
  throw refusal(file, 'its name does not end in .csv, .tsv, .xlsx or .jsonl', 'Save it in one of these formats.');
}

function readBytes(file: string): Buffer {
  try {
    return readRegularFile(file, limits.fileBytes).bytes;
  } catch (error) {
    if (error instanceof UnfitFile && error.code === 'TOO_LARGE') {
      throw refusal(file, `${error.message}, and a sheet may have no more`, 'Split it into smaller files.', error);
    }
    throw explainFileError(error, 'read', file) ?? error;
  }
}

async function readContent(
  file: string,
  bytes: Buffer,
  format: SheetFormat,
  options: ReadOptions,
): Promise<SheetContent> {
  const { sheet, signal } = options;
  if (format === 'xlsx') return readXlsx(file, bytes, sheet, signal);
  if (sheet !== undefined)
    throw new UsageError(`${file} has no sheets to choose from`, { advice: 'Leave the name of the sheet out.' });
  return format === 'jsonl' ? readJsonl(file, bytes, signal) : readDelimited(file, bytes, format, signal);
}

interface ReadOptions {
  /** Name of the worksheet of an .xlsx. By default, the first visible one. */
  readonly sheet?: string;
  readonly signal: AbortSignal;
}

/** Throws a UsageError or FileError if the file as a whole cannot be read. Cells and rows have their `problems`. */
export async function readSheet(file: string, options: ReadOptions): Promise<Sheet> {
  const format = formatOf(file);
  const bytes = readBytes(file);
  options.signal.throwIfAborted();
  const known = { file, bytes: bytes.length, hash: hash('sha256', bytes), format };
  const content = await readContent(file, bytes, format, options);
  options.signal.throwIfAborted();
  return { ...known, ...content };
}
