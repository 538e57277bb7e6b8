/**
 * Files that an operator names - settings, keys, reports, sheets - read whole, and only where they are files; folders of ours;
 * and what the operating system and SQLite say of both, in words that say what to do.
 */
import { Buffer } from 'node:buffer';
import {
  accessSync,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
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
import { bytesText } from './text.ts';

/** Far above any file that is written by hand. */
const handWrittenBytes = 1024 * 1024;

/** What was named is there, and is not what can be read; it looks like what the operating system reports of a file. */
export class UnfitFile extends Error {
  override readonly name = 'UnfitFile';
  readonly code: 'EISDIR' | 'NOT_A_FILE' | 'TOO_LARGE' | 'PLANTED';
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

/** Whether the last line of the file has no end, as where a disk became full; false where that cannot be seen. */
export function isCutOff(path: string): boolean {
  let handle: number | undefined;
  try {
    handle = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    const stats = fstatSync(handle);
    const last = Buffer.alloc(1);
    return stats.isFile() && stats.size > 0 && readSync(handle, last, 0, 1, stats.size - 1) === 1 && last[0] !== 0x0a;
  } catch {
    return false;
  } finally {
    if (handle !== undefined) closeSync(handle);
  }
}

/**
 * As `readRegularFile`, of a file that says what is done, as settings do, or what numbers mean, as reports do: only where nobody else wrote it.
 * @param what as in `the config file config/admin-mirror.yaml`
 * @throws UsageError where somebody else can have written it, and as `readRegularFile`
 */
export function readTrustedFile(path: string, what: string): ReadFile {
  const file = readRegularFile(path);
  refusePlanted(path);
  const problem = distrust(what, file);
  if (problem !== undefined) throw problem;
  return file;
}

/**
 * Why what the file says must not be taken; undefined where it may. The owner of the program's own files is trusted like this
 * user and root: whoever can change the program can do worse. @param name as in `the config file config/admin-mirror.yaml`
 */
export function distrust(
  name: string,
  { mode, uid, gid }: Pick<ReadFile, 'mode' | 'uid' | 'gid'>,
): UsageError | undefined {
  const user = process.getuid?.();
  if (user === undefined) return undefined;
  if (![user, 0, statSync(fileURLToPath(import.meta.url)).uid].includes(uid)) {
    return new UsageError(`${name} belongs to another user (${uid}), so what it says is not taken`, {
      advice: `If it is what you want, make it yours: chown ${user} on it. Else work in another folder.`,
    });
  }
  // A group that is called by its user's number is that user's alone: so do many systems make them.
  const byGroup = (mode & 0o020) !== 0 && gid !== uid;
  if (!byGroup && (mode & 0o002) === 0) return undefined;
  return new UsageError(`${name} can be changed by other users, so what it says is not taken`, {
    advice: 'See that it is as you want it, and run: chmod go-w on it.',
  });
}

/** For those who have the file opened by others, who would wait. @throws UnfitFile */
export function refuseUnfit(path: string): void {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats !== undefined) checkKind(stats, path);
}

/**
 * For what is to be written or believed. Where everybody may make files, as in /tmp, another user may have put a link there that leads to
 * a file of ours, a file that they can read and change, or a folder in which they can replace files. Linux can refuse such links
 * (fs.protected_symlinks), but not to whoever follows them by themselves, as we do. @throws UnfitFile
 */
export function refusePlanted(path: string): void {
  const user = process.getuid?.();
  const above = dirname(resolve(path));
  if (user === undefined || above === resolve(path)) return;
  refusePlanted(above);
  const owner = lstatSync(path, { throwIfNoEntry: false })?.uid;
  if (owner === undefined || owner === user || owner === 0) return;
  if ((statSync(above).mode & 0o002) === 0) return;
  throw new UnfitFile('PLANTED', `${planted}: ${path}`, path);
}

/** Both, for a file that SQLite is to write. @throws UnfitFile */
export function refuseUnfitDatabase(path: string): void {
  refuseUnfit(path);
  // SQLite takes what stands in those for a part of the file.
  for (const end of ['', '-wal', '-shm', '-journal']) refusePlanted(`${path}${end}`);
}

const planted = 'this belongs to another user and lies in a folder that everybody can write to';

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

const reasons: Readonly<Record<string, readonly [reason: string, advice: string]>> = {
  ENOENT: ['it does not exist', 'Check the path.'],
  EISDIR: ['it is a folder', 'Name a file.'],
  ELOOP: ['its links lead in a circle', 'Correct the links, or name the file itself.'],
  ENAMETOOLONG: ['its name is too long', 'Check the path.'],
  NOT_A_FILE: ['it is a pipe or a device', 'Write what it gives into a file, and name that.'],
  PLANTED: ['it belongs to another user', 'Name a place in a folder of your own.'],
  EEXIST: ['something has this name already', 'Name another place, or move that away.'],
  TOO_LARGE: ['it is larger than such a file can be', 'Check the path.'],
  ENOTDIR: ['a part of its path is not a folder', 'Check the path.'],
  EACCES: ['permission is denied', 'Check the permissions of the file and its folder.'],
  EPERM: ['the operation is not permitted', 'Check the permissions of the file and its folder.'],
  EROFS: ['the file system is read-only', 'Mount it for writing, or name another place.'],
  ENOSPC: ['the disk is full', 'Make room; what was there before is unharmed.'],
  'no inodes': ['the disk has no room for one more file', 'Remove files there, of any size: `df -i` counts them.'],
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
  // Whoever reads needs a few pages, too, in the -shm beside the file.
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
  const known = explanationOf(reasonOf(error, file));
  if (known === undefined) return undefined;
  const where = (error as NodeJS.ErrnoException).code === 'SQLITE_FULL' ? whichDisk(dirname(resolve(file))) : '';
  return new FileError(`could not ${doing} ${file}: ${known.reason}`, { advice: known.advice + where, cause: error });
}

/** A file problem that no room has explained: at least what was called on which file, and what to do. */
export function systemError(error: unknown): OperatorError | undefined {
  if (!(error instanceof Error)) return undefined;
  // A thread that could not be started says why in words alone.
  const lacking = /^Worker initialization failure: (E[A-Z]+)/.exec(error.message)?.[1];
  if (lacking !== undefined) return explainFileError(Object.assign(error, { code: lacking }), 'start', 'a thread');
  if (!('syscall' in error)) return undefined;
  return explainFileError(error, String(error.syscall), 'path' in error ? String(error.path) : 'a file');
}

/** The error, or what the system says of the place where that tells more: SQLite has one code for whatever it cannot open or write. */
function reasonOf(error: unknown, file: string): unknown {
  const code = String((error as NodeJS.ErrnoException | null)?.code);
  const folder = dirname(resolve(file));
  const isVague = /^SQLITE_(?:CANTOPEN|READONLY|IOERR)/.test(code);
  if ((isVague || code === 'ENOSPC') && hasNoInodes(folder))
    return Object.assign(new Error(code), { code: 'no inodes' });
  if (!isVague) return error;
  const opened: number[] = [];
  try {
    if (existsSync(file)) accessSync(file, constants.R_OK);
    // Files are made beside it: with its log, and the index of that, three are open, and one to sort in.
    accessSync(folder, constants.W_OK | constants.X_OK);
    while (opened.length < 4) opened.push(openSync(folder, constants.O_RDONLY));
    return error;
  } catch (reason) {
    return reason;
  } finally {
    for (const each of opened) closeSync(each);
  }
}

/** Whether the disk takes no more files, which can be far from full. Systems that make inodes as they go count none. */
export function hasNoInodes(folder: string): boolean {
  try {
    const { files, ffree } = statfsSync(folder);
    return files > 0 && ffree === 0;
  } catch {
    return false;
  }
}

/** SQLite says alike that the disk of the file is full, and that of the files that it sorts in, which may be another one. */
function whichDisk(folder: string): string {
  const { SQLITE_TMPDIR, TMPDIR } = process.env;
  const candidates = [SQLITE_TMPDIR, TMPDIR, '/var/tmp', '/usr/tmp', '/tmp'];
  const temporary = candidates.find((each) => each && mayAccess(each, constants.W_OK | constants.X_OK));
  if (temporary === undefined || statSync(temporary).dev === statSync(folder, { throwIfNoEntry: false })?.dev)
    return '';
  const [here = 0, there = 0] = [folder, temporary].map(freeSpace);
  // No page of it fits: then that is the one.
  if (here < 4096) return '';
  return ` The disk of ${folder} has ${bytesText(here)} free, that of temporary files, ${temporary}, ${bytesText(there)}: SQLITE_TMPDIR names another folder for those.`;
}

/**
 * Bytes that this user may still write to the disk of the folder, as the system says; of a folder that is not there yet, of the nearest
 * one that is. Undefined where that is not known.
 */
export function freeSpace(folder: string): number | undefined {
  for (let at = folder; ; at = dirname(at)) {
    try {
      const { bavail, bsize } = statfsSync(at);
      return bavail * bsize;
    } catch {
      // Not there, or its system does not say.
      if (dirname(at) === at) return undefined;
    }
  }
}

const ownerAlone = 0o700;

/**
 * Makes the folder and those that lead to it, and gives those that were made, the outermost first; one that is there stays as it is,
 * and one that another user has put where everybody can write is refused. One by one: where nothing can be made, as in /proc, Node
 * never comes back from making all of them at once.
 */
export function makeFolder(path: string): readonly string[] {
  try {
    makeNewFolder(path);
    return [path];
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST' && statSync(path).isDirectory()) {
      refusePlanted(path);
      return [];
    }
    const parent = dirname(path);
    if (code !== 'ENOENT' || existsSync(parent)) throw error;
    const made = makeFolder(parent);
    makeNewFolder(path);
    return [...made, path];
  }
}

/** Does the work in the folder, as `makeFolder` makes it. Where the work fails, folders that were made for it and are empty go again. */
export async function inFolder<T>(path: string, work: () => Promise<T>): Promise<T> {
  const made = makeFolder(path);
  try {
    return await work();
  } catch (error) {
    try {
      for (const folder of made.toReversed()) rmdirSync(folder);
    } catch {
      // Something is in it by now: it stays, and so do those around it.
    }
    throw error;
  }
}

/** Makes the folder, and throws where something has that name: what others have prepared is never used. */
export function makeNewFolder(path: string): void {
  mkdirSync(path, { mode: ownerAlone });
}

/** The first of the names that is not taken: with no number, then with 2, 3 and so on. */
export function firstFree(isTaken: (name: string) => boolean, nameWith: (number: number | null) => string): string {
  for (let number: number | null = null; ; number = (number ?? 1) + 1) {
    const name = nameWith(number);
    if (!isTaken(name)) return name;
  }
}
