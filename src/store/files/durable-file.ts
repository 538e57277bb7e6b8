/** Files that appear whole or not at all: written beside, brought to the disk, then renamed over the final name. */
import { randomBytes } from 'node:crypto';
import { constants, type FileHandle, open, readdir, realpath, rename, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { FileError } from '../../model/errors.ts';
import { explainFileError, freeSpace, inFolder, refusePlanted } from '../../model/files.ts';
import { dayMs } from '../../model/time.ts';
import type { Stats } from 'node:fs';
import { bytesText } from '../../model/text.ts';

/** The mode of what holds records. */
export const ownerAlone = 0o600;

/**
 * Writes the chunks in place of what was there, which stays where it fails or is aborted; gives the number of bytes. Folders are
 * made. A new file is for its owner alone, unless `mode` says otherwise; a replaced one keeps its mode; a device or a pipe is
 * written directly. Throws a FileError.
 */
export async function writeDurableFile(
  path: string,
  chunks: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
  mode: number = ownerAlone,
): Promise<number> {
  return explaining(path, () => write(path, chunks, signal, mode));
}

/** What the system says of the file, or the folder, while it is written is thrown as a FileError. */
export async function explaining<T>(path: string, writing: () => Promise<T>): Promise<T> {
  try {
    return await writing();
  } catch (error) {
    // Whatever is not of a system call came with what is written.
    const ofSystem = error instanceof Error && 'syscall' in error;
    throw (ofSystem ? explainFileError(error, 'write', path) : undefined) ?? error;
  }
}

/** What is there; undefined where nothing is. */
export async function statOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

async function write(
  path: string,
  chunks: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
  mode: number,
): Promise<number> {
  refusePlanted(path);
  const existing = await statOf(path);
  if (existing?.isDirectory() === true) {
    throw new FileError(`could not write ${path}: it is a folder`, { advice: 'Name a file in it.' });
  }
  if (existing?.isFIFO() === true) {
    // Waits for a reader. A call that the system holds up cannot be taken back, and would keep the process from ending.
    const opening = () => open(path, constants.O_WRONLY | constants.O_NONBLOCK);
    return withHandle(await whenReady('ENXIO', signal, opening), (handle) => fill(handle, chunks, signal));
  }
  if (existing !== undefined && !existing.isFile()) {
    return withHandle(await open(path, 'w'), (handle) => fill(handle, chunks, signal));
  }
  // Through a link to the file that it stands for, so that the link survives.
  const target = existing === undefined ? path : await realpath(path);
  return inPlaceOf(target, signal, async (temporary) =>
    withHandle(await open(temporary, 'wx', mode), async (handle) => {
      if (existing !== undefined) await handle.chmod(existing.mode & 0o7777);
      const written = await fill(handle, chunks, signal);
      await handle.sync();
      return written;
    }),
  );
}

/** The same for a file that something else makes, by the temporary name that it is given. */
export function placeDurableFile<T>(
  path: string,
  make: (temporary: string) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  return inPlaceOf(path, signal, async (temporary) => {
    const made = await make(temporary);
    await syncFile(temporary);
    return made;
  });
}

export async function syncFile(path: string): Promise<void> {
  await withHandle(await open(path, 'r+'), (handle) => handle.sync());
}

/** What may lie beside a temporary file: SQLite has files of its own for each of its. */
const sidecars = ['', '-journal', '-wal', '-shm'] as const;

function inPlaceOf<T>(target: string, signal: AbortSignal, make: (temporary: string) => Promise<T>): Promise<T> {
  const folder = dirname(target);
  return inFolder(folder, async () => {
    await removeStale(folder, target);
    const temporary = join(folder, partialName(target));
    let made: T;
    try {
      made = await make(temporary);
      // The last moment at which nothing has happened yet.
      signal.throwIfAborted();
      await rename(temporary, target);
    } catch (error) {
      await Promise.all(sidecars.map((end) => rm(`${temporary}${end}`, { force: true })));
      throw error;
    }
    await syncFolder(folder);
    return made;
  });
}

async function withHandle<T>(handle: FileHandle, use: (handle: FileHandle) => Promise<T>): Promise<T> {
  try {
    return await use(handle);
  } finally {
    await handle.close();
  }
}

async function fill(handle: FileHandle, chunks: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<number> {
  let bytes = 0;
  for await (const chunk of chunks) {
    signal.throwIfAborted();
    for (let at = 0; at < chunk.length;) {
      const { bytesWritten } = await whenReady('EAGAIN', signal, () => handle.write(chunk, at));
      at += bytesWritten;
    }
    bytes += chunk.length;
  }
  return bytes;
}

/** What the call gives, once it no longer fails because whoever reads is not there, or has not read. */
async function whenReady<T>(code: 'ENXIO' | 'EAGAIN', signal: AbortSignal, call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== code) throw error;
    }
    signal.throwIfAborted();
    await wait(pollMs[code]);
  }
}

/** A pipe holds 64 KiB: a reader that is there takes them in no time. */
const pollMs = { ENXIO: 50, EAGAIN: 1 } as const;

// Some file systems refuse to sync a folder; the rename is then as durable as they make it.
const cannotSync = new Set(['EINVAL', 'ENOTSUP', 'EISDIR', 'EPERM', 'EACCES']);

export async function syncFolder(folder: string): Promise<void> {
  try {
    await withHandle(await open(folder, 'r'), (handle) => handle.sync());
  } catch (error) {
    if (!cannotSync.has(String((error as NodeJS.ErrnoException).code))) throw error;
  }
}

const suffix = '.partial';

/** `.users.csv.<host>.<process>.<random>.partial`: shows a later run whose it was. */
export function partialName(target: string): string {
  return `${prefixOf(target)}${process.pid}.${randomBytes(4).toString('hex')}${suffix}`;
}

function prefixOf(target: string): string {
  // Names have at most 255 bytes, and most of them belong to the file's own.
  const name = basename(target).slice(0, 40);
  return `.${name}.${hostname()
    .replaceAll(/[^\w-]/g, '-')
    .slice(0, 40)}.`;
}

/** Removes what killed processes of this machine left of the same file. @param folder of the temporary names */
export async function removeStale(folder: string, target: string): Promise<void> {
  const prefix = prefixOf(target);
  for (const name of await namesIn(folder)) {
    if (!name.startsWith(prefix)) continue;
    // SQLite has files of its own beside each of its: `….partial-journal`.
    const owner = /^(\d+)\.[0-9a-f]{8}\.partial(?:-\w+)?$/.exec(name.slice(prefix.length))?.[1];
    if (owner === undefined) continue;
    const path = join(folder, name);
    if (!isRunning(Number(owner)) || (await isOld(path))) await rm(path, { force: true, recursive: true });
  }
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // A folder that may be written to but not listed.
    if (code === 'EACCES') return [];
    throw error;
  }
}

/** Whether there is a process of that number on this machine. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it runs, as somebody else.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Process numbers are used again; nobody writes a file without a byte for a day. */
async function isOld(path: string): Promise<boolean> {
  const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Infinity }));
  return Date.now() - mtimeMs > dayMs;
}

/** As `freeSpace` of model/files.ts. */
export type FreeSpace = typeof freeSpace;

/** What is smaller is not checked: any disk that works at all has it. */
const worthChecking = 32e6;

/** Estimates are rough, and a disk without a free byte is of no use to anybody. */
const margin = 1.1;

/** Throws a FileError where there is no room. @param doing to be read after "no room to": `make a snapshot` */
export function requireSpace(doing: string, folder: string, bytes: number, free: FreeSpace = freeSpace): void {
  const needed = Math.ceil(bytes * margin);
  if (needed < worthChecking) return;
  const there = free(folder);
  if (there === undefined || there >= needed) return;
  throw new FileError(
    `no room to ${doing}: it needs about ${bytesText(needed)} on the disk of ${folder}, where ${bytesText(there)} are free`,
    { advice: `Make room for ${bytesText(needed - there)} more, or use another disk. What is there is unharmed.` },
  );
}
