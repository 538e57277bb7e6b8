/** Files that appear whole or not at all: written under a temporary name, synced to the disk, then renamed to the final name. */
import { randomBytes } from 'node:crypto';
import { type FileHandle, open, readdir, realpath, rename, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { FileError } from '../../model/errors.ts';
import { explainFileError, freeSpace, inFolder } from '../../model/files.ts';
import { dayMs } from '../../model/time.ts';
import type { Stats } from 'node:fs';
import { bytesText } from '../../model/text.ts';

/** The mode of files that hold records. */
export const ownerAlone = 0o600;

/**
 * Writes the chunks to the file, and makes its folders. An older file stays if this fails or is aborted. A new file has the given mode,
 * a replaced one keeps its own; a device is written directly. Returns the number of bytes. Throws a FileError.
 */
export async function writeDurableFile(
  path: string,
  chunks: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
  mode: number = ownerAlone,
): Promise<number> {
  return explaining(path, async () => {
    const existing = await statOf(path);
    if (existing?.isDirectory() === true) {
      throw new FileError(`could not write ${path}: it is a folder`, { advice: 'Name a file in it.' });
    }
    if (existing?.isFIFO() === true) {
      // A call that waits for its reader could not be cancelled, and would keep the process from ending.
      throw new FileError(`could not write ${path}: it is a pipe`, {
        advice: 'Leave the name out, and send the standard output there.',
      });
    }
    if (existing !== undefined && !existing.isFile()) {
      return withHandle(await open(path, 'w'), (handle) => fill(handle, chunks, signal));
    }
    // Replaces the file that a link leads to, so that the link survives.
    const target = existing === undefined ? path : await realpath(path);
    return inPlaceOf(target, signal, async (temporary) =>
      withHandle(await open(temporary, 'wx', mode), async (handle) => {
        if (existing !== undefined) await handle.chmod(existing.mode & 0o7777);
        const written = await fill(handle, chunks, signal);
        await handle.sync();
        return written;
      }),
    );
  });
}

/** The same for a file that `make` writes under the temporary name that it is given. */
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

/** Throws system errors about the file or folder as a FileError. */
export async function explaining<T>(path: string, writing: () => Promise<T>): Promise<T> {
  try {
    return await writing();
  } catch (error) {
    // An error that is not of a system call comes from whatever produces the content.
    const isSystemError = error instanceof Error && 'syscall' in error;
    throw (isSystemError ? explainFileError(error, 'write', path) : undefined) ?? error;
  }
}

/** Returns undefined if nothing is there. */
export async function statOf(path: string): Promise<Stats | undefined> {
  try {
    return await stat(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

export async function syncFile(path: string): Promise<void> {
  await withHandle(await open(path, 'r+'), (handle) => handle.sync());
}

/** The endings of a temporary file and of those that SQLite may put beside it. */
const sidecars = ['', '-journal', '-wal', '-shm'] as const;

function inPlaceOf<T>(target: string, signal: AbortSignal, make: (temporary: string) => Promise<T>): Promise<T> {
  const folder = dirname(target);
  return inFolder(folder, async () => {
    await removeStale(folder, target);
    const temporary = join(folder, partialName(target));
    let made: T;
    try {
      made = await make(temporary);
      // The last moment at which nothing has changed yet.
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
    await handle.writeFile(chunk);
    bytes += chunk.length;
  }
  return bytes;
}

// Some file systems refuse to sync a folder. The rename is then as durable as they make it.
const cannotSync = new Set(['EINVAL', 'ENOTSUP', 'EISDIR', 'EPERM', 'EACCES']);

export async function syncFolder(folder: string): Promise<void> {
  try {
    await withHandle(await open(folder, 'r'), (handle) => handle.sync());
  } catch (error) {
    if (!cannotSync.has(String((error as NodeJS.ErrnoException).code))) throw error;
  }
}

const suffix = '.partial';

/** Returns a temporary name that tells later runs whose it is: `.users.csv.<host>.<process>.<random>.partial`. */
export function partialName(target: string): string {
  return `${prefixOf(target)}${process.pid}.${randomBytes(4).toString('hex')}${suffix}`;
}

function prefixOf(target: string): string {
  // A file name has at most 255 bytes, so only the beginnings of both names are used.
  const name = basename(target).slice(0, 40);
  return `.${name}.${hostname()
    .replaceAll(/[^\w-]/g, '-')
    .slice(0, 40)}.`;
}

/** Removes temporary files that killed processes of this machine left for the same target. @param folder where the temporary names are */
export async function removeStale(folder: string, target: string): Promise<void> {
  const prefix = prefixOf(target);
  for (const name of await namesIn(folder)) {
    if (!name.startsWith(prefix)) continue;
    // SQLite puts files such as `….partial-journal` beside the temporary file.
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
    // The folder may be writable but not listable.
    if (code === 'EACCES') return [];
    throw error;
  }
}

/** Whether this machine has a process with that number. */
function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it runs, as somebody else.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Process numbers are reused, so a file that has not grown for a day is nobody's, whatever process has the number. */
async function isOld(path: string): Promise<boolean> {
  const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Infinity }));
  return Date.now() - mtimeMs > dayMs;
}

/** `freeSpace` of model/files.ts, or a stand-in of a test. */
export type FreeSpace = typeof freeSpace;

/** Smaller needs are not checked: any usable disk has this much. */
const minCheckedBytes = 32e6;

/** Estimates are rough, and a disk must not become completely full. */
const margin = 1.1;

/** Throws a FileError if there is no room. @param doing comes after "no room to" in the message: `make a snapshot` */
export function requireSpace(doing: string, folder: string, bytes: number, free: FreeSpace = freeSpace): void {
  const needed = Math.ceil(bytes * margin);
  if (needed < minCheckedBytes) return;
  const available = free(folder);
  if (available === undefined || available >= needed) return;
  throw new FileError(
    `no room to ${doing}: it needs about ${bytesText(needed)} on the disk of ${folder}, where ${bytesText(available)} are free`,
    { advice: `Make room for ${bytesText(needed - available)} more, or use another disk. What is there is unharmed.` },
  );
}
