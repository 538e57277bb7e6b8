/** Temporary names beside a final one, and clearing away what killed processes left under them. */
import { randomBytes } from 'node:crypto';
import { readdir, rm, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, join } from 'node:path';
import { dayMs } from '../../model/time.ts';

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
export function isRunning(pid: number): boolean {
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
