/** What the operating system says of a file, in words for the person who must make room or grant access. */
import { FileError } from './errors.ts';

const causes: Readonly<Record<string, { readonly why: string; readonly advice: string }>> = {
  ENOSPC: { why: 'the disk is full', advice: 'Make room on it, or choose a file on another disk, and run it again.' },
  EDQUOT: { why: 'the disk quota is used up', advice: 'Make room, or choose a file elsewhere, and run it again.' },
  EFBIG: {
    why: 'the file would grow past the limit',
    advice: 'Raise the limit (`ulimit -f`), or choose another disk.',
  },
  EACCES: { why: 'permission denied', advice: 'Check who owns the file and its folder, or choose another place.' },
  EPERM: { why: 'the operation is not permitted', advice: 'Check who owns the file, or choose another place.' },
  EROFS: { why: 'the file system is read-only', advice: 'Choose a file in a folder that can be written to.' },
  ENOENT: { why: 'it, or its folder, does not exist', advice: 'Check the name, and make the folder first.' },
  ENOTDIR: { why: 'a part of the path is not a folder', advice: 'Check the path.' },
  EISDIR: { why: 'it is a folder', advice: 'Name a file.' },
  EMFILE: { why: 'too many files are open', advice: 'Raise the limit (`ulimit -n`), or run less at once.' },
  EIO: { why: 'the disk reported an error', advice: 'Check the disk before anything else.' },
};

/**
 * The FileError behind an error of `node:fs`; undefined for any other error. `doing` says what was under way
 * (`write the export`), else the system call's own name is given.
 */
export function explainFileError(error: unknown, doing?: string): FileError | undefined {
  if (!(error instanceof Error) || !('code' in error) || !('syscall' in error)) return undefined;
  const cause = causes[String(error.code)];
  if (cause === undefined) return undefined;
  const path = 'path' in error && typeof error.path === 'string' ? ` ${error.path}` : '';
  return new FileError(`cannot ${doing ?? String(error.syscall)}${path}: ${cause.why}`, {
    advice: cause.advice,
    cause: error,
  });
}
