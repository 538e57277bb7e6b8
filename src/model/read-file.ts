/** Files that an operator names - settings, keys, reports, sheets - read whole, and only where they are files. */
import { Buffer } from 'node:buffer';
import { accessSync, closeSync, constants, fstatSync, openSync, readSync, type Stats, statSync } from 'node:fs';

/** Far above any file that is written by hand. */
const handWrittenBytes = 1024 * 1024;

/** What was named is there, and is not what can be read; it looks like what the operating system reports of a file. */
export class UnfitFile extends Error {
  override readonly name = 'UnfitFile';
  readonly code: 'EISDIR' | 'NOT_A_FILE' | 'TOO_LARGE';
  readonly syscall = 'read';
  readonly path: string;

  constructor(code: UnfitFile['code'], message: string, path: string) {
    super(message);
    this.code = code;
    this.path = path;
  }
}

export interface ReadFile {
  readonly bytes: Buffer;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
}

/**
 * All bytes of a regular file, and whose it is. A pipe that nobody writes to never ends, and a device such as /dev/zero
 * never ends, while a link to one looks like any file. So it is opened without waiting, looked at, and read up to the
 * limit, whatever size it claims: the files of /proc claim none, and others grow.
 * @throws UnfitFile, or what the operating system reports; `explainFileError` and `fileReason` put both into words
 */
export function readRegularFile(path: string, mostBytes = handWrittenBytes): ReadFile {
  const handle = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
  try {
    const stats = fstatSync(handle);
    const { mode, uid, gid } = stats;
    checkKind(stats, path);
    if (stats.size > mostBytes) throw tooLarge(path, mostBytes);
    const pieces: Buffer[] = [];
    for (let left = mostBytes + 1; ;) {
      const piece = Buffer.allocUnsafe(Math.min(left, Math.max(stats.size + 1, 4096)));
      const length = readSync(handle, piece);
      if (length === 0) return { bytes: Buffer.concat(pieces), mode, uid, gid };
      left -= length;
      if (left === 0) throw tooLarge(path, mostBytes);
      pieces.push(piece.subarray(0, length));
    }
  } finally {
    closeSync(handle);
  }
}

/** For those who have the file opened by others, who would wait. @throws UnfitFile */
export function refuseUnfit(path: string): void {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats !== undefined) checkKind(stats, path);
}

function checkKind(stats: Stats, path: string): void {
  if (stats.isDirectory()) throw new UnfitFile('EISDIR', 'it is a folder', path);
  if (stats.isFile()) return;
  const kind = stats.isFIFO() ? 'a pipe' : stats.isSocket() ? 'a socket' : 'a device';
  throw new UnfitFile('NOT_A_FILE', `it is ${kind}, not a file`, path);
}

function tooLarge(path: string, mostBytes: number): UnfitFile {
  return new UnfitFile('TOO_LARGE', `it has more than ${Math.floor(mostBytes / handWrittenBytes)} MiB`, path);
}

/** Whether this user may use the file so. @param mode `constants.W_OK` and the like of node:fs; false for a file that is not there */
export function mayAccess(path: string, mode: number): boolean {
  try {
    accessSync(path, mode);
    return true;
  } catch {
    return false;
  }
}
