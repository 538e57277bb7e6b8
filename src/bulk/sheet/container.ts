/** What the first bytes of a file say of the program that wrote it, whatever its name says. */
import { Buffer } from 'node:buffer';
import type { UsageError } from '../../model/errors.ts';
import { refusal } from './refusal.ts';

/** The container of old .xls files; newer ones are put into it to protect them with a password. */
const oldContainer = 'd0cf11e0a1b11ae1';
const encryptedPackage = Buffer.from('EncryptedPackage', 'utf16le');

const isOld = (bytes: Buffer): boolean => bytes.subarray(0, 8).toString('hex') === oldContainer;
const isZip = (bytes: Buffer): boolean => bytes.subarray(0, 4).toString('latin1') === 'PK\u0003\u0004';

/** The first entry of an .ods says what it is, unpacked, behind the 30 bytes that begin any entry. */
const openDocument = 'mimetypeapplication/vnd.oasis.opendocument.spreadsheet';

/** Whether it is a file of a spreadsheet program, not text. */
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

/** @throws UsageError where it is not the archive that an .xlsx is */
export function refuseOldFormats(file: string, bytes: Buffer): void {
  if (isOld(bytes) && bytes.includes(encryptedPackage)) {
    throw refusal(file, 'it is protected by a password', 'Save it without a password, and try that file.');
  }
  if (isOld(bytes)) throw refusal(file, 'it is in the format of Excel before 2007 (.xls)', 'Save it as .xlsx.');
  if (!isZip(bytes)) throw refusal(file, 'its content is not that of an .xlsx');
}
