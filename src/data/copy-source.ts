/** The mirror and the journal as something to be copied, and snapshots, which appear whole or not at all. */
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { closeSync, openSync, readSync, rmSync, statSync, chmodSync, existsSync, writeSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { dirname } from 'node:path';
import { writeAnonymousCopy } from './anonymous-copy.ts';
import { journalKind } from '../journal/schema.ts';
import { FileError, UsageError } from '../model/errors.ts';
import { explainFileError } from '../model/files.ts';
import { type ResourceName, resourceNames } from '../model/resources.ts';
import { type Clock, earliest, type Timestamp } from '../model/time.ts';
import { type FileKind, openForReading, versionOf } from '../store/file-kind.ts';
import { ownerAlone, placeDurableFile, requireSpace, statOf } from '../store/files/durable-file.ts';
import { mirrorKind, readMirror } from '../store/open.ts';
import { quoteName } from '../store/schema.ts';
import { build, Runner } from '../store/tables.ts';
import { execFile } from 'node:child_process';
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';

/** How SQLite checks a copy, the size of the file apart; the quick check takes half as long as copying did, the whole one as long. */
const checks: Readonly<Record<Exclude<Thoroughness, 'opened'>, string>> = {
  rows: 'quick_check',
  whole: 'integrity_check',
};

/**
 * Makes `target`, which must not exist, a sound copy of the file as it is now, private and without a log beside it. Throws a
 * FileError; what there is of the copy then is the caller's to remove.
 */
export async function copyFile(
  kind: FileKind,
  source: string,
  target: string,
  run: CopyRun,
  thoroughness: Thoroughness,
): Promise<void> {
  const absent = new FileError(`there is no ${kind.name} at ${source}`, {
    advice: `Check the path; name another file with ${kind.places}.`,
  });
  try {
    const database = openForReading(kind, source, absent, absent);
    try {
      holdState(database);
      await copyBytes(source, target, run);
    } finally {
      database.close();
    }
    detach(kind, target);
  } catch (error) {
    throw explainFileError(error, `copy the ${kind.name} to`, target) ?? error;
  } finally {
    rmSync(logOf(target), { force: true });
  }
  run.signal.throwIfAborted();
  checkCopy(kind, target, thoroughness);
}

/** From here on the connection sees the state of now, and what others commit is not in it. */
function holdState(database: Database): void {
  database.exec('BEGIN');
  // The state is fixed by the first read, not by BEGIN.
  database.prepare('SELECT count(*) FROM sqlite_schema').get();
}

/** Makes the copy a file that stands alone: without a log, so that it can lie on a disk that cannot be written to. */
function detach(kind: FileKind, target: string): void {
  const database = new SqliteDatabase(target);
  try {
    database.pragma('journal_mode = DELETE');
    // The lock of the original is none of the copy.
    database.exec(`DELETE FROM ${kind.lockTable}`);
  } finally {
    database.close();
  }
}

/** Throws a FileError where the copy is not a sound file of its kind. */
export function checkCopy(kind: FileKind, target: string, thoroughness: Thoroughness): void {
  const database = new SqliteDatabase(target, { readonly: true });
  try {
    versionOf(kind, database, target);
    const pages = Number(database.pragma('page_count', { simple: true }));
    const bytes = pages * Number(database.pragma('page_size', { simple: true }));
    const { size } = statSync(target);
    if (size !== bytes) throw unsound(kind, `it has ${size} bytes in place of ${bytes}`);
    if (thoroughness === 'opened') return;
    const found = database.pragma(checks[thoroughness], { simple: true });
    if (found !== 'ok') throw unsound(kind, String(found).split('\n')[0] ?? '');
  } catch (error) {
    throw error instanceof SqliteDatabase.SqliteError ? unsound(kind, error.message) : error;
  } finally {
    database.close();
  }
}

function unsound(kind: FileKind, finding: string): FileError {
  return new FileError(`the copy of the ${kind.name} is not sound: ${finding}`, {
    advice: `Look at the disk; \`PRAGMA integrity_check\` on the ${kind.name} itself shows whether it is damaged, too.`,
  });
}

export function mirrorToCopy(file: string, clock: Clock) {
  return {
    ...toCopy(mirrorKind, file),
    /** A copy without personal data; its rows are looked at in any case. Throws a FileError. */
    copyAnonymous: async (target: string, run: CopyRun, thoroughness: Thoroughness): Promise<void> => {
      await writeAnonymousCopy(file, target, clock, run);
      checkCopy(mirrorKind, target, thoroughness === 'whole' ? 'whole' : 'rows');
    },
    contents,
  };
}

export function journalToCopy(file: string) {
  return toCopy(journalKind, file);
}

export type CopySource = ReturnType<typeof toCopy>;
type MirrorCopySource = ReturnType<typeof mirrorToCopy>;

function toCopy(kind: FileKind, file: string) {
  return {
    /** `mirror` or `journal`. */
    name: kind.name,
    file,
    /** Bytes that a copy of it may take on the disk while it is made; undefined where there is none. */
    size: (): number | undefined => {
      const bytes = sizeOf(file);
      // The log twice: a copy has it beside the file first, and then in it.
      return bytes === 0 ? undefined : bytes + 2 * sizeOf(logOf(file));
    },
    /** Whether a file may be replaced by a copy: an earlier copy that nothing writes to, or an empty file. */
    replaceable: (path: string) => isCopyOf(kind, path),
    /** Makes `target`, which must not be there, a copy of the state of now, and checks it. Throws a FileError. */
    copy: (target: string, run: CopyRun, thoroughness: Thoroughness) => copyFile(kind, file, target, run, thoroughness),
  };
}

/** Places in the header of an SQLite file (https://www.sqlite.org/fileformat.html). */
const header = { magic: 'SQLite format 3\0', writeVersion: 18, applicationId: 68, length: 100 } as const;
const withoutLog = 1;

/** By its first bytes alone: opening it would be using it. A file with a log, or with changes in hand, is one in use. */
function isCopyOf(kind: FileKind, path: string): boolean {
  if (sizeOf(path) === 0) return true;
  if (sizeOf(logOf(path)) > 0 || sizeOf(`${path}-journal`) > 0) return false;
  const bytes = Buffer.alloc(header.length);
  const handle = openSync(path, 'r');
  try {
    readSync(handle, bytes, 0, header.length, 0);
  } finally {
    closeSync(handle);
  }
  return (
    bytes.toString('latin1', 0, header.magic.length) === header.magic &&
    bytes[header.writeVersion] === withoutLog &&
    bytes.readUInt32BE(header.applicationId) === kind.applicationId
  );
}

/** What a copy holds, and the time of its stalest resource; null where one was never read whole. */
function contents(copy: string) {
  return readMirror(copy, (database) => {
    const fresh = new Map(
      new Runner(database)
        .all(build.selectFrom('mirror_freshness').select(['resource', 'fresh_as_of']))
        .map((row) => [row.resource, row.fresh_as_of as Timestamp | null]),
    );
    const resources: Partial<Record<ResourceName, { rows: number; fresh_as_of: Timestamp | null }>> = {};
    for (const name of resourceNames) {
      const rows =
        database
          .prepare<[], number>(`SELECT count(*) FROM ${quoteName(name)}`)
          .pluck()
          .get() ?? 0;
      resources[name] = { rows, fresh_as_of: fresh.get(name) ?? null };
    }
    const times = Object.values(resources).map((each) => each.fresh_as_of);
    return { bytes: sizeOf(copy), fresh_as_of: earliest(times), resources };
  });
}

interface SnapshotRequest {
  readonly isAnonymous: boolean;
  readonly thoroughness: Thoroughness;
}

/** Writes the copy in the place of an earlier one; gives what is in it. Throws a UsageError or a FileError. */
export async function makeSnapshot(
  mirror: MirrorCopySource,
  path: string,
  { isAnonymous, thoroughness }: SnapshotRequest,
  run: CopyRun,
) {
  const target = await targetOf(mirror, path);
  requireSpace('make a snapshot', dirname(target), mirror.size() ?? 0);
  const make = async (temporary: string) => {
    if (isAnonymous) await mirror.copyAnonymous(temporary, run, thoroughness);
    else await mirror.copy(temporary, run, thoroughness);
    return mirror.contents(temporary);
  };
  return placeDurableFile(target, make, run.signal);
}

async function targetOf(mirror: MirrorCopySource, path: string): Promise<string> {
  const found = await statOf(path);
  if (found === undefined) return path;
  if (found.isFile() && mirror.replaceable(path)) return realpath(path);
  throw new UsageError(`${path} is there already and is not a snapshot; it was left as it is`, {
    advice: found.isDirectory() ? 'Name a file in it.' : 'Name another file, or remove that one first.',
  });
}

export interface CopyRun {
  readonly signal: AbortSignal;
  /** Called with how much of the work is done, from 0 to 1. */
  readonly progress: (share: number) => void;
}

/** `opened`, and of the right length; `rows`, every page and row; `whole`, each index against its table as well. */
type Thoroughness = 'opened' | 'rows' | 'whole';

/** Bytes copied before signals are heard. */
const chunkBytes = 8 * 1024 * 1024;

/** The header of a log; its salts change whenever the log is begun anew (https://www.sqlite.org/fileformat.html#the_write_ahead_log). */
const logHeaderBytes = 32;

/**
 * Copies the file first, then its log, in a read transaction of the caller: meanwhile nothing gets from the log into the file but what
 * the log still holds, so both together are a state that there was. Only a log that was in the file already can be begun anew, once:
 * a copy that saw that could hold the old beginning alone, and is made again.
 */
async function copyBytes(source: string, target: string, { signal, progress }: CopyRun): Promise<void> {
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
 * Copies the file in a process of its own: there the system copies from cache to cache, in a quarter of the time. And with the first
 * close of a file, the system takes every lock of a process on it, those of open connections included
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

const logOf = (file: string): string => `${file}-wal`;

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
