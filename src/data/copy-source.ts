/** Copies of the mirror and the journal, for backups; and snapshots, which appear whole or not at all. */
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { closeSync, openSync, readSync, rmSync, statSync, chmodSync, existsSync } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { dirname } from 'node:path';
import { journalKind } from '../journal/schema.ts';
import { FileError, UsageError } from '../model/errors.ts';
import { explainFileError } from '../model/files.ts';
import { type ResourceName, resourceNames } from '../model/resources.ts';
import { earliest, type Timestamp } from '../model/time.ts';
import { type FileKind, openForReading, versionOf } from '../store/file-kind.ts';
import { ownerAlone, placeDurableFile, requireSpace, statOf, syncFile } from '../store/files/durable-file.ts';
import { hashOfFile } from '../store/files/manifest.ts';
import { mirrorKind, readMirror } from '../store/open.ts';
import { quoteName } from '../store/schema.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { moduleBeside } from '../model/program.ts';

/**
 * Copies the current state of the file to `target`, which must not exist, and checks the copy. It is private and has no log beside it.
 * Throws a FileError; the caller then removes what there is of the copy.
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

/** Begins a read transaction: from here on, the connection sees this state, whatever others commit. */
function holdState(database: Database): void {
  database.exec('BEGIN');
  // The state is fixed by the first read, not by BEGIN.
  database.prepare('SELECT count(*) FROM sqlite_schema').get();
}

/** Folds the log into the copy, so that it can be read on a disk without write access. */
function detach(kind: FileKind, target: string): void {
  const database = new SqliteDatabase(target);
  try {
    database.pragma('journal_mode = DELETE');
    // The copy must not inherit the lock of the original.
    database.exec(`DELETE FROM ${kind.lockTable}`);
  } finally {
    database.close();
  }
}

/** Throws a FileError if the copy is not a sound file of its kind. */
export function checkCopy(kind: FileKind, target: string, thoroughness: Thoroughness): void {
  const database = new SqliteDatabase(target, { readonly: true });
  try {
    versionOf(kind, database, target);
    const pages = Number(database.pragma('page_count', { simple: true }));
    const bytes = pages * Number(database.pragma('page_size', { simple: true }));
    const { size } = statSync(target);
    if (size !== bytes) throw unsound(kind, `it has ${size} bytes instead of ${bytes}`);
    if (thoroughness === 'opened') return;
    const found = database.pragma('integrity_check', { simple: true });
    if (found !== 'ok') throw unsound(kind, String(found).split('\n')[0] ?? '');
  } catch (error) {
    throw error instanceof SqliteDatabase.SqliteError ? unsound(kind, error.message) : error;
  } finally {
    database.close();
  }
}

function unsound(kind: FileKind, finding: string): FileError {
  return new FileError(`the copy of the ${kind.name} is not sound: ${finding}`, {
    advice: `Check the disk. \`PRAGMA integrity_check\` on the ${kind.name} itself shows whether it is damaged, too.`,
  });
}

export function mirrorToCopy(file: string): MirrorCopySource {
  return { ...toCopy(mirrorKind, file), contents };
}

export function journalToCopy(file: string): CopySource {
  return toCopy(journalKind, file);
}

export interface CopySource {
  /** `mirror` or `journal`. */
  readonly name: string;
  readonly file: string;
  /** How many bytes a copy may take on the disk while it is made; undefined if there is no file. */
  readonly size: () => number | undefined;
  /** Whether a file may be replaced by a copy: an earlier copy that nothing writes to, or an empty file. */
  readonly replaceable: (path: string) => boolean;
  /** Copies the current state to `target`, which must not exist, and checks the copy. Throws a FileError. */
  readonly copy: (target: string, run: CopyRun, thoroughness: Thoroughness) => Promise<void>;
}

interface MirrorCopySource extends CopySource {
  readonly contents: (copy: string) => CopyContents;
}

function toCopy(kind: FileKind, file: string): CopySource {
  return {
    name: kind.name,
    file,
    size: () => {
      const bytes = sizeOf(file);
      // The log counts twice: the copy has it beside the file first, then inside.
      return bytes === 0 ? undefined : bytes + 2 * sizeOf(logOf(file));
    },
    replaceable: (path) => isCopyOf(kind, path),
    copy: (target, run, thoroughness) => copyFile(kind, file, target, run, thoroughness),
  };
}

/** The header of an SQLite file: offsets of its fields (https://www.sqlite.org/fileformat.html). */
const header = { magic: 'SQLite format 3\0', writeVersion: 18, applicationId: 68, length: 100 } as const;
const withoutLog = 1;

/** Judges by the header alone, because opening a file with SQLite may change it. A file with a log or a rollback journal is in use. */
export function isCopyOf(kind: FileKind, path: string): boolean {
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

/** What a copy holds. `fresh_as_of` is that of its stalest resource; null if one was never read whole. */
interface CopyContents {
  readonly bytes: number;
  readonly fresh_as_of: Timestamp | null;
  readonly resources: Readonly<
    Partial<Record<ResourceName, { readonly rows: number; readonly fresh_as_of: Timestamp | null }>>
  >;
}

function contents(copy: string): CopyContents {
  return readMirror(copy, (database) => {
    const fresh = new Map(
      database
        .prepare<[], [ResourceName, Timestamp | null]>('SELECT resource, fresh_as_of FROM mirror_freshness')
        .raw(true)
        .all(),
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

/** Writes a snapshot, which may replace an earlier one, and returns its contents and hash. Throws a UsageError or a FileError. */
export async function makeSnapshot(mirror: MirrorCopySource, path: string, run: CopyRun) {
  const target = await targetOf(mirror, path);
  requireSpace('make a snapshot', dirname(target), mirror.size() ?? 0);
  const make = async (temporary: string) => {
    await mirror.copy(temporary, run, 'opened');
    // The disk and the processor work side by side.
    const [sha256] = await Promise.all([hashOfFile(temporary), syncFile(temporary)]);
    return { contents: mirror.contents(temporary), sha256 };
  };
  return placeDurableFile(target, make, run.signal);
}

async function targetOf(mirror: MirrorCopySource, path: string): Promise<string> {
  const found = await statOf(path);
  if (found === undefined) return path;
  if (found.isFile() && mirror.replaceable(path)) return realpath(path);
  throw new UsageError(`${path} already exists and is not a snapshot; it was left as it is`, {
    advice: found.isDirectory() ? 'Name a file in it.' : 'Name another file, or remove that one first.',
  });
}

export interface CopyRun {
  readonly signal: AbortSignal;
  /** Called with the share of the work that is done, from 0 to 1. */
  readonly progress: (share: number) => void;
}

/** What a check covers: `opened`, that it opens and has the right length; `whole`, every page, row and index. */
type Thoroughness = 'opened' | 'whole';

/** A log's header has salts that change when SQLite restarts the log (https://www.sqlite.org/fileformat.html#the_write_ahead_log). */
const logHeaderBytes = 32;

/**
 * Copies the file, then its log. The caller holds a read transaction: meanwhile SQLite moves nothing into the file that the log does
 * not still hold, so both together are a real state. A log that was already moved whole can be restarted, once; then its copy may mix
 * old and new, and is made again.
 */
async function copyBytes(source: string, target: string, { signal, progress }: CopyRun): Promise<void> {
  const [sourceLog, targetLog] = [logOf(source), logOf(target)];
  const bytes = sizeOf(source) + sizeOf(sourceLog);
  const onProgress = () => progress(Math.min(1, (sizeOf(target) + sizeOf(targetLog)) / bytes));
  await copyInProcess(source, target, signal, onProgress);
  if (!existsSync(sourceLog)) return;
  const log = openSync(sourceLog, 'r');
  try {
    for (let header: Buffer | undefined; header?.equals(logHeader(log)) !== true;) {
      header = logHeader(log);
      rmSync(targetLog, { force: true });
      await copyInProcess(sourceLog, targetLog, signal, onProgress);
    }
  } finally {
    closeSync(log);
  }
}

function logHeader(log: number): Buffer {
  const header = Buffer.alloc(logHeaderBytes);
  return header.subarray(0, readSync(log, header, 0, logHeaderBytes, 0));
}

const progressEveryMs = 100;

/**
 * Copies the file in a process of its own. The system can then copy from cache to cache, in a quarter of the time; and closing the file
 * here would drop all locks of this process on it, including those of open connections
 * (https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_).
 */
async function copyInProcess(
  source: string,
  target: string,
  signal: AbortSignal,
  onProgress: () => void,
): Promise<void> {
  const timer = setInterval(onProgress, progressEveryMs);
  try {
    closeSync(openSync(target, 'wx', ownerAlone));
    const child = spawn(process.execPath, [fileURLToPath(moduleBeside('./copy-child', import.meta.url))], {
      stdio: ['pipe', 'pipe', 'inherit'],
      signal,
      killSignal: 'SIGKILL',
    });
    // If it has ended before it read this, its exit code says enough.
    child.stdin.on('error', () => {}).end(JSON.stringify({ source, target }));
    const [failure, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
    if (failure !== '') throw Object.assign(new Error(), JSON.parse(failure));
    if (code !== 0) throw new Error(`the process that copied the file ended with ${String(code)}`);
    chmodSync(target, ownerAlone);
    onProgress();
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    clearInterval(timer);
  }
}

const logOf = (file: string): string => `${file}-wal`;

function sizeOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
