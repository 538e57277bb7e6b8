/** Files of rows that people hand in: spreadsheets, CSV, JSON lines. What stands in them, and where, and nothing guessed. */
import type { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { extname } from 'node:path';
import type { JournalProblem } from '../../journal/port.ts';
import { UsageError } from '../../model/errors.ts';
import { explainFileError, readRegularFile, UnfitFile } from '../../model/files.ts';
import { readDelimited } from './delimited.ts';
import { readJsonl } from './jsonl.ts';
import { limits, refusal } from './limits.ts';
import type { Rows, SheetContent } from './rows.ts';
import { isContainer, isOpenDocument, openDocumentRefusal, readXlsx } from './xlsx/read.ts';

export type SheetFormat = 'csv' | 'tsv' | 'xlsx' | 'jsonl';

/** What a cell is. Those of text files are `text` or `empty`; those of JSON lines may be numbers and booleans, too. */
export type CellKind = 'text' | 'number' | 'boolean' | 'date' | 'percent' | 'error' | 'empty';

export interface SheetCell {
  /** Without spaces, NBSP and zero-width characters at its ends; '' where empty. */
  readonly text: string;
  /** As it stands in the file; numbers digit for digit. */
  readonly raw: string;
  readonly kind: CellKind;
}

export interface SheetRow {
  /** As spreadsheet programs count them: the header is row 1, blank rows count, and a cell with line breaks is one row. */
  readonly row: number;
  readonly cells: readonly SheetCell[];
}

/** For the person who wrote it. */
export type SheetProblem = JournalProblem;

export interface Sheet {
  readonly file: string;
  readonly bytes: number;
  /** SHA-256 of the file's bytes, in hexadecimal. */
  readonly hash: string;
  readonly format: SheetFormat;
  /** Of csv and tsv. */
  readonly delimiter: string | null;
  /** Of xlsx: the name of the sheet that was read. */
  readonly sheet: string | null;
  /** The headers as they stand, trimmed; '' where one is empty. */
  readonly columns: readonly string[];
  /** Without blank ones. */
  readonly rows: Rows<SheetRow>;
  /** Blank rows between others; those after the last one are not counted. */
  readonly blankRows: number;
  /** What the user should know: sheets skipped, cells trimmed, blank rows. */
  readonly notes: readonly string[];
  /** Of cells: errors, formulas without a value, text outside of the columns. */
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
  if (ending === '.ods') throw openDocumentRefusal(file);
  throw refusal(file, 'its name does not end in .csv, .tsv, .xlsx or .jsonl', 'Save it as one of these.');
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
  if (isOpenDocument(bytes)) throw openDocumentRefusal(file);
  if (format === 'xlsx') return readXlsx(file, bytes, sheet, signal);
  if (sheet !== undefined)
    throw new UsageError(`${file} has no sheets to choose from`, { advice: 'Leave --sheet out.' });
  if (isContainer(bytes)) throw refusal(file, `its content is that of a spreadsheet program, not of a .${format} file`);
  return format === 'jsonl' ? readJsonl(file, bytes, signal) : readDelimited(file, bytes, format, signal);
}

interface ReadOptions {
  /** The sheet of an .xlsx; else the first that can be seen. */
  readonly sheet?: string;
  readonly signal: AbortSignal;
}

/** @throws UsageError or FileError where the file as a whole cannot be read; cells and rows have their `problems` */
export async function readSheet(file: string, options: ReadOptions): Promise<Sheet> {
  const format = formatOf(file);
  const bytes = readBytes(file);
  options.signal.throwIfAborted();
  const known = { file, bytes: bytes.length, hash: createHash('sha256').update(bytes).digest('hex'), format };
  return { ...known, ...(await readContent(file, bytes, format, options)) };
}
