/** Reads an .xlsx in a thread of its own; src/bulk/sheet/xlsx/thread.ts is its other side. */
import { Buffer } from 'node:buffer';
import { type UsageError, errorOf } from '../../../model/errors.ts';
import { unlessAborted } from '../../../model/time.ts';
import { Budget, refusal, threadLimits } from '../limits.ts';
import { cellOf, headersOf, type SheetContent, SheetRows } from '../rows.ts';
import type { FromThread, ThreadRow, ThreadTask } from './thread.ts';
import { Worker } from 'node:worker_threads';
import { moduleBeside } from '../../../model/program.ts';

class Rows {
  readonly #file: string;
  readonly #budget: Budget;
  rows: SheetRows | undefined;
  #last = 1;

  constructor(file: string) {
    this.#file = file;
    this.#budget = new Budget(file);
  }

  add(rows: readonly ThreadRow[]): void {
    for (const [row, packed] of rows) {
      const cells = packed.map(cellOf);
      if (this.rows === undefined) {
        if (row !== 1) {
          throw refusal(
            this.#file,
            `its first row is empty; the first with cells is row ${row}`,
            'Move the headers to row 1.',
          );
        }
        this.rows = new SheetRows(headersOf(cells), this.#budget);
        continue;
      }
      this.rows.addBlank(row - this.#last - 1);
      this.#last = row;
      this.rows.add(row, cells);
    }
  }
}

/** @param bytes gone afterwards: they are handed over to the thread */
export async function readXlsx(
  file: string,
  bytes: Buffer,
  wanted: string | undefined,
  signal: AbortSignal,
): Promise<SheetContent> {
  refuseOldFormats(file, bytes);
  // A small file shares its memory with others, and is copied out of it.
  const own = bytes.length === bytes.buffer.byteLength ? bytes : new Uint8Array(bytes);
  const task: ThreadTask = { file, bytes: own, sheet: wanted };
  const thread = new Worker(new URL(moduleBeside('./thread', import.meta.url)), {
    workerData: task,
    transferList: [task.bytes.buffer as ArrayBuffer],
    resourceLimits: threadLimits,
  });
  const content = new Rows(file);
  const read = new Promise<SheetContent>((resolve, reject) => {
    thread.on('message', (message: FromThread) => {
      try {
        if (message.kind === 'rows') content.add(JSON.parse(message.rows) as ThreadRow[]);
        else if (message.kind === 'failed') reject(errorOf(message.failure));
        else if (content.rows === undefined)
          throw refusal(file, `its sheet "${message.sheet}" is empty`, 'Name another with --sheet.');
        else resolve(content.rows.finish({ delimiter: null, sheet: message.sheet, notes: message.notes }));
      } catch (error) {
        reject(error);
      }
    });
    thread.on('error', (error) => {
      const spent = 'code' in error && error.code === 'ERR_WORKER_OUT_OF_MEMORY';
      reject(
        spent ? refusal(file, 'it takes more memory than a sheet may', 'Split it into smaller files.', error) : error,
      );
    });
    thread.on('exit', () => reject(new Error('the thread of an .xlsx ended before its work')));
  });
  try {
    return await unlessAborted(read, signal);
  } finally {
    await thread.terminate();
  }
}

/** The container of old .xls files; newer ones are put into it to protect them with a password. */
const oldContainer = 'd0cf11e0a1b11ae1';
const encryptedPackage = Buffer.from('EncryptedPackage', 'utf16le');

const isOld = (bytes: Buffer): boolean => bytes.subarray(0, 8).toString('hex') === oldContainer;
const isZip = (bytes: Buffer): boolean => bytes.subarray(0, 4).toString('latin1') === 'PK\u0003\u0004';

/** The first entry of an .ods says what it is, unpacked, behind the 30 bytes that begin any entry. */
const openDocument = 'mimetypeapplication/vnd.oasis.opendocument.spreadsheet';

export const isContainer = (bytes: Buffer): boolean => isOld(bytes) || isZip(bytes);

export const isOpenDocument = (bytes: Buffer): boolean =>
  bytes.toString('latin1', 30, 30 + openDocument.length) === openDocument;

/** No kept library reads one within bounds of memory and without rounding its numbers. */
export const openDocumentRefusal = (file: string): UsageError =>
  refusal(
    file,
    'it is an OpenDocument spreadsheet (.ods), which is not read here',
    'In LibreOffice, save it as Excel 2007-365 (.xlsx) or as Text CSV, and try that file.',
  );

function refuseOldFormats(file: string, bytes: Buffer): void {
  if (isOld(bytes) && bytes.includes(encryptedPackage)) {
    throw refusal(file, 'it is protected by a password', 'Save it without a password, and try that file.');
  }
  if (isOld(bytes)) throw refusal(file, 'it is in the format of Excel before 2007 (.xls)', 'Save it as .xlsx.');
  if (!isZip(bytes)) throw refusal(file, 'its content is not that of an .xlsx');
}
