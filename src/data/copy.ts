/** The bytes of an SQLite file while others write to it. Section "Copies" of docs/architecture.md. */
import { execFile } from 'node:child_process';
import { chmodSync, closeSync, existsSync, openSync, readSync, rmSync, statSync, writeSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';
import { ownerAlone } from '../store/files/durable-file.ts';

export interface CopyRun {
  readonly signal: AbortSignal;
  /** Called with how much of the work is done, from 0 to 1. */
  readonly progress: (share: number) => void;
}

/** `opened`, and of the right length; `rows`, every page and row; `whole`, each index against its table as well. */
export type Thoroughness = 'opened' | 'rows' | 'whole';

/** Bytes copied before signals are heard. */
const chunkBytes = 8 * 1024 * 1024;

/** The header of a log; its salts change whenever the log is begun anew (https://www.sqlite.org/fileformat.html#the_write_ahead_log). */
const logHeaderBytes = 32;

/**
 * Copies the file first, then its log to `<target>-wal`. The caller has a read transaction open. While it is, nothing gets
 * from the log into the file but what the log still holds when it is copied, or nothing gets there at all; so the file with
 * its log on top is a state that there was. Only a log that was in the file already can be begun anew meanwhile, and only once: a copy that saw that happen
 * could hold the old beginning alone, and is made again.
 */
export async function copyBytes(source: string, target: string, { signal, progress }: CopyRun): Promise<void> {
  const [sourceLog, targetLog] = [logOf(source), logOf(target)];
  const bytes = sizeOf(source) + sizeOf(sourceLog);
  progress(0);
  await copyElsewhere(source, target, signal, () => progress(Math.min(1, sizeOf(target) / bytes)));
  let copied = sizeOf(target);
  const noteBytes = (count: number) => {
    signal.throwIfAborted();
    copied += count;
    progress(Math.min(1, copied / bytes));
  };
  noteBytes(0);
  for (;;) {
    if (!existsSync(sourceLog)) return;
    const log = openSync(sourceLog, 'r');
    try {
      const header = logHeader(log);
      rmSync(targetLog, { force: true });
      await copyInto(log, targetLog, noteBytes);
      if (header.equals(logHeader(log))) return;
    } finally {
      closeSync(log);
    }
  }
}

async function copyInto(from: number, target: string, noteBytes: (count: number) => void): Promise<void> {
  const to = openSync(target, 'wx', ownerAlone);
  try {
    const chunk = Buffer.allocUnsafeSlow(chunkBytes);
    for (let at = 0; ;) {
      const bytes = readSync(from, chunk, 0, chunkBytes, at);
      if (bytes === 0) return;
      for (let done = 0; done < bytes;) done += writeSync(to, chunk, done, bytes - done, at + done);
      at += bytes;
      noteBytes(bytes);
      await setImmediate();
    }
  } finally {
    closeSync(to);
  }
}

function logHeader(log: number): Buffer {
  const header = Buffer.alloc(logHeaderBytes);
  return header.subarray(0, readSync(log, header, 0, logHeaderBytes, 0));
}

/** How often a running copy is looked at. */
const lookEveryMs = 100;

/**
 * Copies the file in a process of its own. There the system copies from cache to cache, which takes a quarter of the time
 * of reading and writing; and what that process closes is not ours. With the first close of a file, the system takes every
 * lock of a process on it, those of open connections included
 * (https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_).
 */
async function copyElsewhere(source: string, target: string, signal: AbortSignal, look: () => void): Promise<void> {
  const script = 'const [, from, to] = process.argv; require("node:fs").copyFileSync(from, to);';
  const looking = setInterval(look, lookEveryMs);
  try {
    closeSync(openSync(target, 'wx', ownerAlone));
    await promisify(execFile)(process.execPath, ['-e', script, source, target], { signal, killSignal: 'SIGKILL' });
    chmodSync(target, ownerAlone);
  } catch (error) {
    signal.throwIfAborted();
    throw systemError(error);
  } finally {
    clearInterval(looking);
  }
}

/** What the system said in that process, as an error of ours: `ENOSPC`, say, and not the text of a stack. */
function systemError(error: unknown): unknown {
  const said =
    error instanceof Error && 'stderr' in error ? /\b(E[A-Z]{2,}): ([^\n]*)/.exec(String(error.stderr)) : null;
  const [message, code] = said ?? [];
  return message === undefined ? error : Object.assign(new Error(message), { code, syscall: 'copyfile' });
}

export const logOf = (file: string): string => `${file}-wal`;

export function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
