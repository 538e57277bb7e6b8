/**
 * Files that an operator names (settings, keys, reports, sheets), read whole and only if they are regular files; folders of
 * ours; and errors of the operating system and SQLite in words that say what to do.
 */
import { Buffer, isUtf8 } from 'node:buffer';
import {
  accessSync,
  closeSync,
  constants,
  fstatSync,
  openSync,
  readSync,
  type Stats,
  rmdirSync,
  statfsSync,
  statSync,
  existsSync,
  mkdirSync,
} from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { FileError, messageOf, OperatorError, UsageError } from './errors.ts';

/** Far larger than any file that is written by hand. */
const handWrittenBytes = 1024 * 1024;

const withoutWaiting = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;

/** What was named exists but cannot be read. Looks like an error of the operating system about a file. */
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

interface ReadFile {
  readonly bytes: Buffer;
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
}

/**
 * Reads a regular file. A pipe that nobody writes to blocks for ever, a device such as /dev/zero never ends, and a link to
 * either looks like a file. So this opens without waiting, checks what was opened, and reads up to the limit whatever the
 * reported size: files in /proc report 0, and others grow.
 * @throws UnfitFile, or an error of the operating system; `explainFileError` and `fileReason` put both into words
 */
export function readRegularFile(path: string, mostBytes = handWrittenBytes): ReadFile {
  const handle = openSync(path, withoutWaiting);
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

/** Returns the problem, with its line, if the text is not UTF-8: otherwise its characters would silently become others. */
export function notUtf8(bytes: Buffer, name: string): UsageError | undefined {
  if (isUtf8(bytes)) return undefined;
  let line = 1;
  // No character of UTF-8 has the byte of a line break in it.
  for (let at = 0; at < bytes.length; line += 1) {
    const end = bytes.indexOf(0x0a, at);
    const next = end === -1 ? bytes.length : end + 1;
    if (!isUtf8(bytes.subarray(at, next))) break;
    at = next;
  }
  return new UsageError(`${name}:${line}: it is not UTF-8`, { advice: 'Save the file as UTF-8.' });
}

/**
 * Reads a file that decides what is done, such as settings, or what numbers mean, such as reports. Nobody else may have written
 * it.
 * @param what as in `the config file config/admin-mirror.yaml`
 * @throws UsageError if somebody else can have written it, and whatever `readRegularFile` throws
 */
export function readTrustedFile(path: string, what: string): ReadFile {
  const file = readRegularFile(path);
  const problem = distrust(what, file);
  if (problem !== undefined) throw problem;
  return file;
}

/**
 * Returns why the file must not be trusted; undefined if it may. The owner of the program's own files is trusted like this user
 * and root: who can change the program can do worse.
 * @param name as in `the config file config/admin-mirror.yaml`
 */
function distrust(name: string, { mode, uid, gid }: Pick<ReadFile, 'mode' | 'uid' | 'gid'>): UsageError | undefined {
  const user = process.getuid?.();
  if (user === undefined) return undefined;
  if (![user, 0, statSync(fileURLToPath(import.meta.url)).uid].includes(uid)) {
    return new UsageError(`${name} belongs to another user (${uid}), so it is not trusted`, {
      advice: `If it is what you want, make it yours: chown ${user} on it. Else work in another folder.`,
    });
  }
  // A group with the number of its user usually has no other member: many systems make such groups.
  const byGroup = (mode & 0o020) !== 0 && gid !== uid;
  if (!byGroup && (mode & 0o002) === 0) return undefined;
  return new UsageError(`${name} can be changed by other users, so it is not trusted`, {
    advice: 'Check what it says, then run chmod go-w on it.',
  });
}

/**
 * Call it before a library opens the file, which would wait for a pipe.
 * @throws UnfitFile
 */
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

const reasons: Readonly<Record<string, readonly [reason: string, advice: string]>> = {
  ENOENT: ['it does not exist', 'Check the path.'],
  EISDIR: ['it is a folder', 'Name a file.'],
  ELOOP: ['its links lead in a circle', 'Correct the links, or name the file itself.'],
  ENAMETOOLONG: ['its name is too long', 'Check the path.'],
  NOT_A_FILE: ['it is a pipe or a device', 'Write what it gives into a file, and name that.'],
  EEXIST: ['something has this name already', 'Name another place, or move that away.'],
  TOO_LARGE: ['it is larger than such a file can be', 'Check the path.'],
  ENOTDIR: ['a part of its path is not a folder', 'Check the path.'],
  EACCES: ['permission is denied', 'Check the permissions of the file and its folder.'],
  EPERM: ['the operation is not permitted', 'Check the permissions of the file and its folder.'],
  EROFS: ['the file system is read-only', 'Mount it for writing, or name another place.'],
  ENOSPC: ['the disk is full', 'Make room, or remove files (`df -i`); what was there before is unharmed.'],
  EDQUOT: ['the disk quota is used up', 'Make room.'],
  EFBIG: ['it would grow past the largest size allowed', 'Raise the limit (ulimit -f), or name another disk.'],
  EIO: ['the disk reported an error', 'Check the disk.'],
  EMFILE: ['too many files are open', 'Raise the limit of open files (ulimit -n).'],
  SQLITE_NOTADB: ['it is not an SQLite database', 'Name another file; this one was left as it is.'],
  SQLITE_CORRUPT: ['the database is damaged', 'Move it away and run `admin-mirror sync` to build the mirror anew.'],
  SQLITE_CANTOPEN: ['it cannot be opened', 'Check the path and the permissions of the file and its folder.'],
  SQLITE_READONLY: [
    'it cannot be written',
    'Check the permissions of the file, of its -wal and -shm beside it, and of its folder.',
  ],
  // Whoever may only read cannot complete or undo what was left.
  SQLITE_READONLY_ROLLBACK: [
    'a process was killed while it wrote to it',
    'Run `admin-mirror sync` for the mirror, `admin-mirror bulk resume` for the journal: they undo the half of a change.',
  ],
  SQLITE_FULL: ['the disk is full', 'Make room; what was committed is unharmed.'],
  SQLITE_IOERR: ['the disk reported an error', 'Check the disk and its free space.'],
  // Readers, too, need a few pages in the -shm beside the file.
  SQLITE_IOERR_SHMSIZE: ['the disk is full', 'Make room; what was committed is unharmed.'],
  SQLITE_BUSY: ['another process is writing to it', 'Try again when the other process has ended.'],
};

function explanationOf(error: unknown): { readonly reason: string; readonly advice: string } | undefined {
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined;
  if (code === undefined) return undefined;
  if (error instanceof UnfitFile) return { reason: error.message, advice: reasons[code]?.[1] ?? 'Check the path.' };
  // Extended codes refine a basic one: SQLITE_IOERR_WRITE is an SQLITE_IOERR.
  const basic = code.startsWith('SQLITE_') ? code.split('_').slice(0, 2).join('_') : code;
  const [reason, advice] = reasons[code] ?? reasons[basic] ?? [];
  if (reason !== undefined && advice !== undefined) return { reason: `${reason} (${code})`, advice };
  // No list has all codes, and none of them is a bug of this program.
  const ofFile = error instanceof Error && 'path' in error && 'syscall' in error && /^E[A-Z0-9]+$/.test(code);
  return ofFile ? { reason: `the system reports ${code}`, advice: 'Check the path and its disk.' } : undefined;
}

/** Returns why a file cannot be used, to follow "cannot be read:"; the error's own message if it is not about a file. */
export function fileReason(error: unknown): string {
  return explanationOf(error)?.reason ?? messageOf(error);
}

/**
 * Returns the error for the operator if its `code` is that of a file problem. An `OperatorError` is returned unchanged.
 * Undefined for anything else: that is a bug and should be thrown on.
 * @param doing what was being done, to follow "could not", e.g. `open the mirror`
 */
export function explainFileError(error: unknown, doing: string, file: string): OperatorError | undefined {
  if (error instanceof OperatorError) return error;
  const known = explanationOf(reasonOf(error, file));
  if (known === undefined) return undefined;
  return new FileError(`could not ${doing} ${file}: ${known.reason}`, { advice: known.advice, cause: error });
}

/** Explains a file problem that no caller has explained: at least which call failed for which file, and what to do. */
export function systemError(error: unknown): OperatorError | undefined {
  if (!(error instanceof Error)) return undefined;
  // If a thread cannot be started, only the message names the code.
  const lacking = /^Worker initialization failure: (E[A-Z]+)/.exec(error.message)?.[1];
  if (lacking !== undefined) return explainFileError(Object.assign(error, { code: lacking }), 'start', 'a thread');
  if (!('syscall' in error)) return undefined;
  return explainFileError(error, String(error.syscall), 'path' in error ? String(error.path) : 'a file');
}

/** Returns a more precise error if SQLite's is vague: it has one code for everything that it cannot open or write. */
function reasonOf(error: unknown, file: string): unknown {
  const code = String((error as NodeJS.ErrnoException | null)?.code);
  if (!/^SQLITE_(?:CANTOPEN|READONLY|IOERR)/.test(code)) return error;
  try {
    if (existsSync(file)) accessSync(file, constants.R_OK);
    // SQLite makes files beside the database.
    accessSync(dirname(resolve(file)), constants.W_OK | constants.X_OK);
    return error;
  } catch (reason) {
    return reason;
  }
}

/**
 * Returns how many bytes this user may still write to the folder's disk; undefined if unknown. If the folder does not exist
 * yet, this looks at the nearest parent that does.
 */
export function freeSpace(folder: string): number | undefined {
  for (let at = folder; ; at = dirname(at)) {
    try {
      const { bavail, bsize } = statfsSync(at);
      return bavail * bsize;
    } catch {
      // The folder does not exist, or its file system does not say.
      if (dirname(at) === at) return undefined;
    }
  }
}

const ownerAlone = 0o700;

/**
 * Makes the folder and its missing parents, for their owner alone. Returns those that it made, the outermost first. An existing
 * folder stays as it is. Goes one by one: `mkdirSync` with `recursive` never returns where nothing can be made.
 */
export function makeFolder(path: string): readonly string[] {
  try {
    makeNewFolder(path);
    return [path];
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && statSync(path).isDirectory()) return [];
    const parent = dirname(path);
    if (code !== 'ENOENT' || existsSync(parent)) throw error;
    return [...makeFolder(parent), ...makeFolder(path)];
  }
}

/** Runs `work` with the folder, made by `makeFolder`. If `work` fails, removes the new folders that are still empty. */
export async function inFolder<T>(path: string, work: () => Promise<T>): Promise<T> {
  const made = makeFolder(path);
  try {
    return await work();
  } catch (error) {
    try {
      for (const folder of made.toReversed()) rmdirSync(folder);
    } catch {
      // Something is in it by now: it stays, and so do its parents.
    }
    throw error;
  }
}

/** Makes the folder. Throws if the name is taken: never use what others have prepared. */
export function makeNewFolder(path: string): void {
  mkdirSync(path, { mode: ownerAlone });
}

/** Returns the first free name: without a number, then with 2, 3 and so on. */
export function firstFree(isTaken: (name: string) => boolean, nameWith: (number: number | null) => string): string {
  for (let number: number | null = null; ; number = (number ?? 1) + 1) {
    const name = nameWith(number);
    if (!isTaken(name)) return name;
  }
}
