/** The doctor on the mirror and the journal: there, ours, private, writable, with room to grow. Changes nothing. */
import { accessSync, constants, existsSync, openSync, readSync, closeSync, statfsSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { FileError } from '../../model/errors.ts';
import { explainFileError } from '../../model/file-error.ts';
import { refuseUnfit } from '../../model/read-file.ts';
import { type Check, failed, ok, warn } from './check.ts';

/** Below this much free space a first sync of a middle-sized server may not fit. */
const littleRoomBytes = 512 * 1024 * 1024;

/** How SQLite's files begin. */
const sqliteHeader = 'SQLite format 3\0';

export interface FileToCheck {
  /** `mirror`; what the checks are called. */
  readonly name: string;
  readonly path: string;
  /** Where to name another: `--db, ADMIN_MIRROR_DB or store.mirror`. */
  readonly places: string;
  /** What makes it: `sync`. */
  readonly madeBy: string;
  /** Opens it as its own commands would, and closes it; throws a FileError. */
  readonly open?: () => Promise<void>;
}

export async function checkFile(file: FileToCheck): Promise<Check[]> {
  try {
    refuseUnfit(file.path);
    return existsSync(file.path) ? await checkExisting(file) : checkFuture(file);
  } catch (error) {
    return [failed(file.name, explainFileError(error, 'look at', file.path) ?? error)];
  }
}

async function checkExisting(file: FileToCheck): Promise<Check[]> {
  const { size, mode } = statSync(file.path);
  accessSync(file.path, constants.R_OK | constants.W_OK);
  // WAL files are made beside it.
  accessSync(dirname(file.path), constants.W_OK);
  if (size > 0 && !isSqlite(file.path)) {
    throw new FileError(`${file.path} is not an SQLite database`, { advice: `Name another file: ${file.places}.` });
  }
  if (size > 0) await file.open?.();
  const others = (mode & 0o077) !== 0;
  return [
    ok(file.name, `${file.path}: ${size === 0 ? 'empty' : megabytes(size)}`),
    ...(others ? [warn(file.name, `${file.path} can be read by others`, `Run: chmod 600 ${file.path}`)] : []),
    ...checkRoom(file, dirname(file.path), size),
  ];
}

function checkFuture(file: FileToCheck): Check[] {
  const folder = nearestFolder(file.path);
  if (!statSync(folder).isDirectory()) {
    throw notFolder(file.path, folder, file.places);
  }
  accessSync(folder, constants.W_OK);
  return [
    ok(file.name, `${file.path}: not there yet; the first ${file.madeBy} makes it`),
    ...checkRoom(file, folder, 0),
  ];
}

/** A folder that something is to be written into: it can be made and written, and its disk has room. */
export function checkFolder({ name, folder, places }: { name: string; folder: string; places: string }): Check[] {
  const file = { name, path: join(folder, 'any'), places, madeBy: '' };
  try {
    const found = nearestFolder(file.path);
    if (!statSync(found).isDirectory()) throw notFolder(folder, found, places);
    accessSync(found, constants.W_OK);
    return [ok(name, found === folder ? folder : `${folder}: made when it is needed`), ...checkRoom(file, found, 0)];
  } catch (error) {
    return [failed(name, explainFileError(error, 'write to', folder) ?? error)];
  }
}

function notFolder(path: string, found: string, places: string): FileError {
  return new FileError(`${path} cannot be made: ${found} is not a folder`, { advice: `Name another: ${places}.` });
}

/** A full copy of the file is what a rebuild may need for a while. */
function checkRoom(file: Omit<FileToCheck, 'open'>, folder: string, size: number): Check[] {
  const { bavail, bsize } = statfsSync(folder);
  const free = bavail * bsize;
  const name = `${file.name} disk`;
  if (free >= Math.max(littleRoomBytes, size)) return [ok(name, `${megabytes(free)} free`)];
  return [warn(name, `only ${megabytes(free)} free in ${folder}`, `Make room, or name another file: ${file.places}.`)];
}

/** What stands at the folder of the file, or at the nearest place above it where anything does. */
function nearestFolder(path: string): string {
  const folder = dirname(path);
  return existsSync(folder) || folder === path ? folder : nearestFolder(folder);
}

function isSqlite(path: string): boolean {
  const handle = openSync(path, 'r');
  try {
    const start = Buffer.alloc(sqliteHeader.length);
    readSync(handle, start, 0, start.length, 0);
    return start.toString('latin1') === sqliteHeader;
  } finally {
    closeSync(handle);
  }
}

function megabytes(bytes: number): string {
  const mega = bytes / 1024 / 1024;
  return mega >= 1024 ? `${(mega / 1024).toFixed(1)} GiB` : `${mega.toFixed(mega < 10 ? 1 : 0)} MiB`;
}
