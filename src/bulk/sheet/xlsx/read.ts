/** Reads an .xlsx: chooses one of its sheets and reads the rows. */
import { Buffer } from 'node:buffer';
import type { UsageError } from '../../../model/errors.ts';
import { counted } from '../../../model/text.ts';
import { Budget, refusal } from '../limits.ts';
import { headersOf, type SheetContent, SheetRows, shown } from '../rows.ts';
import { openArchive } from './archive.ts';
import { readSharedTexts, readStyles } from './cells.ts';
import { chooseSheet, readWorkbook, readWorksheet } from './worksheet.ts';

/** Throws a UsageError if no sheet of the file can be read. */
export async function readXlsx(
  file: string,
  bytes: Buffer,
  wanted: string | undefined,
  signal: AbortSignal,
): Promise<SheetContent> {
  refuseOldFormats(file, bytes);
  const archive = await openArchive(file, bytes, signal);
  const { sheets, sharedTexts, styles, from1904, uncalculated } = await readWorkbook(archive);
  const { sheet, notes } = chooseSheet(file, sheets, wanted);
  const source = {
    sharedTexts: sharedTexts === undefined ? [] : await readSharedTexts(archive, sharedTexts),
    styles: styles === undefined ? [] : await readStyles(archive, styles),
    from1904,
    uncalculated,
  };
  let [rows, last] = [undefined as SheetRows | undefined, 1];
  const { hiddenRows, hiddenColumns } = await readWorksheet(archive, sheet, source, (row, cells) => {
    if (rows !== undefined) {
      rows.addBlank(row - last - 1);
      last = row;
      rows.add(row, cells);
    } else if (row === 1) {
      rows = new SheetRows(headersOf(cells), new Budget(file));
    } else {
      const reason = `its first row is empty; the first with cells is row ${row}`;
      throw refusal(file, reason, 'Move the headers to row 1.');
    }
  });
  if (rows === undefined) throw refusal(file, `its sheet ${shown(sheet.name)} is empty`, 'Name another with --sheet.');
  // A person who filters a sheet may think that only the visible rows count.
  if (hiddenRows > 0) {
    notes.push(`${counted(hiddenRows, 'row is', 'rows are')} hidden in the sheet, and read like the others`);
  }
  if (hiddenColumns) notes.push('columns are hidden in the sheet, and read like the others');
  return rows.finish({ delimiter: null, sheet: sheet.name, notes });
}

/** First bytes of old .xls files, and of newer files that are protected with a password. */
const oldContainer = 'd0cf11e0a1b11ae1';
const encryptedPackage = Buffer.from('EncryptedPackage', 'utf16le');

const isOld = (bytes: Buffer): boolean => bytes.subarray(0, 8).toString('hex') === oldContainer;
const isZip = (bytes: Buffer): boolean => bytes.subarray(0, 4).toString('latin1') === 'PK\u0003\u0004';

/** The first entry of an .ods is its type, uncompressed, after the 30 bytes of an entry's header. */
const openDocument = 'mimetypeapplication/vnd.oasis.opendocument.spreadsheet';

export const isContainer = (bytes: Buffer): boolean => isOld(bytes) || isZip(bytes);

export const isOpenDocument = (bytes: Buffer): boolean =>
  bytes.toString('latin1', 30, 30 + openDocument.length) === openDocument;

/** Not supported: no maintained library reads .ods with limited memory and without rounding numbers. */
export const openDocumentRefusal = (file: string): UsageError =>
  refusal(
    file,
    'it is an OpenDocument spreadsheet (.ods), which is not supported',
    'In LibreOffice, save it as Excel 2007-365 (.xlsx) or as Text CSV, and try that file.',
  );

function refuseOldFormats(file: string, bytes: Buffer): void {
  if (isOld(bytes) && bytes.includes(encryptedPackage)) {
    throw refusal(file, 'it is protected by a password', 'Save it without a password, and try that file.');
  }
  if (isOld(bytes)) throw refusal(file, 'it is in the format of Excel before 2007 (.xls)', 'Save it as .xlsx.');
  if (!isZip(bytes)) throw refusal(file, 'its content is not that of an .xlsx');
}
