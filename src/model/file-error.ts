/** What the operating system and SQLite say of a file, in words that tell the operator what to do. */
import { FileError, OperatorError } from './errors.ts';

const reasons: Readonly<Record<string, readonly [reason: string, advice: string]>> = {
  ENOENT: ['it does not exist', 'Check the path.'],
  EISDIR: ['it is a folder', 'Name a file.'],
  ENOTDIR: ['a part of its path is not a folder', 'Check the path.'],
  EACCES: ['permission is denied', 'Check the permissions of the file and its folder.'],
  EPERM: ['the operation is not permitted', 'Check the permissions of the file and its folder.'],
  EROFS: ['the file system is read-only', 'Name a place that can be written.'],
  ENOSPC: ['the disk is full', 'Make room, then run the command again; what was there before is unharmed.'],
  EDQUOT: ['the disk quota is used up', 'Make room, then run the command again.'],
  EFBIG: ['it would grow past the largest size allowed', 'Raise the limit (ulimit -f), or name another disk.'],
  EIO: ['the disk reported an error', 'Check the disk.'],
  EMFILE: ['too many files are open', 'Raise the limit of open files (ulimit -n).'],
  SQLITE_NOTADB: ['it is not an SQLite database', 'Name another file; this one was left as it is.'],
  SQLITE_CORRUPT: ['the database is damaged', 'Move it away and run `admin-mirror sync` to build the mirror anew.'],
  SQLITE_CANTOPEN: ['it cannot be opened', 'Check the path and the permissions of the file and its folder.'],
  SQLITE_READONLY: ['it cannot be written', 'Check the permissions of the file and its folder.'],
  SQLITE_FULL: ['the disk is full', 'Make room, then run the command again; what was committed is unharmed.'],
  SQLITE_IOERR: ['the disk reported an error', 'Check the disk and its free space.'],
  SQLITE_BUSY: ['another process is writing to it', 'Try again when the other process has ended.'],
};

/**
 * The error as one for the operator, where its `code` is that of a file problem; an `OperatorError` as it is; undefined
 * for anything else, which is a bug and should be thrown on.
 * @param doing what was being done, to be read after "could not", e.g. `open the mirror`
 */
export function explainFileError(error: unknown, doing: string, file: string): OperatorError | undefined {
  if (error instanceof OperatorError) return error;
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  if (code === undefined) return undefined;
  // Extended codes refine a basic one: SQLITE_IOERR_WRITE is an SQLITE_IOERR.
  const basic = code.startsWith('SQLITE_') ? code.split('_').slice(0, 2).join('_') : code;
  const known = reasons[basic];
  if (known === undefined) return undefined;
  return new FileError(`could not ${doing} ${file}: ${known[0]} (${code})`, { advice: known[1], cause: error });
}
