/** What the operating system and SQLite say of a file, in words that say what to do. */
import { FileError, messageOf, OperatorError } from './errors.ts';
import { UnfitFile } from './read-file.ts';

const reasons: Readonly<Record<string, readonly [reason: string, advice: string]>> = {
  ENOENT: ['it does not exist', 'Check the path.'],
  EISDIR: ['it is a folder', 'Name a file.'],
  ELOOP: ['its links lead in a circle', 'Correct the links, or name the file itself.'],
  ENAMETOOLONG: ['its name is too long', 'Check the path.'],
  NOT_A_FILE: ['it is a pipe or a device', 'Write what it gives into a file, and name that.'],
  TOO_LARGE: ['it is larger than such a file can be', 'Check the path.'],
  ENOTDIR: ['a part of its path is not a folder', 'Check the path.'],
  EACCES: ['permission is denied', 'Check the permissions of the file and its folder.'],
  EPERM: ['the operation is not permitted', 'Check the permissions of the file and its folder.'],
  EROFS: ['the file system is read-only', 'Name a place that can be written.'],
  ENOSPC: ['the disk is full', 'Make room; what was there before is unharmed.'],
  EDQUOT: ['the disk quota is used up', 'Make room.'],
  EFBIG: ['it would grow past the largest size allowed', 'Raise the limit (ulimit -f), or name another disk.'],
  EIO: ['the disk reported an error', 'Check the disk.'],
  EMFILE: ['too many files are open', 'Raise the limit of open files (ulimit -n).'],
  SQLITE_NOTADB: ['it is not an SQLite database', 'Name another file; this one was left as it is.'],
  SQLITE_CORRUPT: ['the database is damaged', 'Move it away and run `admin-mirror sync` to build the mirror anew.'],
  SQLITE_CANTOPEN: ['it cannot be opened', 'Check the path and the permissions of the file and its folder.'],
  SQLITE_READONLY: ['it cannot be written', 'Check the permissions of the file and its folder.'],
  SQLITE_FULL: ['the disk is full', 'Make room; what was committed is unharmed.'],
  SQLITE_IOERR: ['the disk reported an error', 'Check the disk and its free space.'],
  SQLITE_BUSY: ['another process is writing to it', 'Try again when the other process has ended.'],
};

function explanationOf(error: unknown): { readonly reason: string; readonly advice: string } | undefined {
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  if (code === undefined) return undefined;
  if (error instanceof UnfitFile) return { reason: error.message, advice: reasons[code]?.[1] ?? 'Check the path.' };
  // Extended codes refine a basic one: SQLITE_IOERR_WRITE is an SQLITE_IOERR.
  const basic = code.startsWith('SQLITE_') ? code.split('_').slice(0, 2).join('_') : code;
  const [reason, advice] = reasons[basic] ?? [];
  if (reason !== undefined && advice !== undefined) return { reason: `${reason} (${code})`, advice };
  // There are more reasons than anybody lists, and none of them is a bug of this program.
  const ofFile = error instanceof Error && 'path' in error && 'syscall' in error && /^E[A-Z0-9]+$/.test(code);
  return ofFile ? { reason: `the system reports ${code}`, advice: 'Check the path and its disk.' } : undefined;
}

/** Why a file cannot be used, to be read after "cannot be read:"; the error's own words where it is not about a file. */
export function fileReason(error: unknown): string {
  return explanationOf(error)?.reason ?? messageOf(error);
}

/**
 * The error as one for the operator, where its `code` is that of a file problem; an `OperatorError` as it is; undefined
 * for anything else, which is a bug and should be thrown on.
 * @param doing what was being done, to be read after "could not", e.g. `open the mirror`
 */
export function explainFileError(error: unknown, doing: string, file: string): OperatorError | undefined {
  if (error instanceof OperatorError) return error;
  const known = explanationOf(error);
  if (known === undefined) return undefined;
  return new FileError(`could not ${doing} ${file}: ${known.reason}`, { advice: known.advice, cause: error });
}
