/** Puts the files of a backup or a snapshot, or what is published, in the place of the mirror and the journal. Section "Copies" of docs/architecture.md. */
import SqliteDatabase from 'better-sqlite3';
import { chmodSync, constants, existsSync, linkSync, renameSync, statSync } from 'node:fs';
import { copyFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Head } from '../journal/chain.ts';
import type { Journal } from '../journal/port.ts';
import { journalKind } from '../journal/schema.ts';
import { firstFree } from '../model/files.ts';
import { FileError, LockHeldError, OperatorError, UsageError } from '../model/errors.ts';
import { type Releases, withReleases } from '../model/releases.ts';
import { counted } from '../model/text.ts';
import { type Clock, type Timestamp, timestampOf } from '../model/time.ts';
import type { FileKind } from '../store/file-kind.ts';
import { ownerAlone, placeDurableFile, requireSpace, syncFile } from '../store/files/durable-file.ts';
import { hashOfFile, readManifest } from '../store/files/manifest.ts';
import { MirrorsJournalMemory, type RememberedJournal } from '../store/journal-memory.ts';
import { mirrorKind, otherServer, readMirror, serverIn } from '../store/open.ts';
import { backupsIn } from './backup.ts';
import { checkCopy, isCopyOf } from './copy-source.ts';

export interface RestoreRequest {
  /** The folder of a backup, a file that `snapshot` or `backup` made, or what is published. */
  readonly from: string | Published;
  readonly isMirrorOnly: boolean;
  /** Whether the mirror may be one that was read from another server than the settings name. */
  readonly acceptsServer: boolean;
  /** Whether the journal may be replaced by one that lacks some of its steps. */
  readonly mayLoseSteps: boolean;
}

interface Published {
  readonly publishedAt: Timestamp | null;
  /** Makes a mirror of it. */
  readonly make: (target: string) => Promise<unknown>;
}

interface RestoredFile {
  readonly file: string;
  readonly bytes: number;
  /** Where the file that was there before is now; null if there was none. */
  readonly kept: string | null;
}

export interface RestoreReport {
  /** When the copy was made; null if nothing says that. */
  readonly made_at: string | null;
  readonly mirror: RestoredFile | null;
  readonly journal: RestoredFile | null;
  /** Whether the mirror knows steps that the restored journal lacks, so that nothing is sent until they are on record. */
  readonly journal_lacks_steps: boolean;
  /** Users who were forgotten after the copy was made: they are in the restored files. */
  readonly forgotten_since: readonly number[];
}

interface RestorePorts {
  readonly mirror: string;
  readonly journal: string;
  /** Whether the journal is not a file, but in a shared store. Then it is left alone. */
  readonly isShared: boolean;
  /** The address of the server; undefined if none is set. */
  readonly address: string | undefined;
  readonly profile: string | null;
  readonly backups: string;
  /** Opens a file of a journal for reading. */
  readonly openJournal: (file: string, releases: Releases) => Promise<Journal | undefined>;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** What takes the place of a file. */
interface Source {
  /** Makes the file, which must not exist. */
  readonly make: (temporary: string) => Promise<unknown>;
  /** The file that is copied; undefined if it is made of something else. */
  readonly file?: string;
  /** What its manifest says; undefined if it has none. */
  readonly sha256?: unknown;
}

interface Sources {
  readonly madeAt: string | null;
  readonly mirror?: Source | undefined;
  readonly journal?: Source | undefined;
}

/**
 * Restores each file whole or not at all. What was there is kept beside it under another name. Nothing is changed if a copy is damaged, or
 * if the journal in place has steps that the copy lacks. Throws a UsageError, a FileError or a LockHeldError.
 */
export async function restoreFiles(ports: RestorePorts, request: RestoreRequest): Promise<RestoreReport> {
  const { clock, signal } = ports;
  const { from } = request;
  const { madeAt, mirror, ...others } =
    typeof from === 'string' ? copiesIn(from, ports) : { madeAt: from.publishedAt, mirror: { make: from.make } };
  const journal = request.isMirrorOnly || ports.isShared ? undefined : others.journal;
  if (mirror === undefined && journal === undefined) {
    throw new UsageError('this copy has no mirror to restore', { advice: 'Name another backup.' });
  }
  for (const source of [mirror, journal]) if (source !== undefined) await checkHash(source);
  const lost = journal?.file === undefined ? null : await stepsLostBy(ports, journal.file);
  if (lost !== null && !request.mayLoseSteps) throw wouldLose(lost.words);
  const known = recalled(ports.mirror) ?? lost?.head ?? null;
  const forgotten = forgottenIn(ports.mirror);
  const stamp = `before-${timestampOf(clock.now()).slice(0, 19).replaceAll(/[-:]/g, '')}Z`;
  if (mirror !== undefined) foldLog(mirrorKind, ports.mirror);
  if (journal !== undefined) foldLog(journalKind, ports.journal);
  // Before any file takes its place: if this is killed in between, no journal may be there whose newest steps nothing knows.
  let knowsMore = mirror === undefined && remember(ports.mirror, known);
  const making = async (temporary: string): Promise<void> => {
    await mirror?.make(temporary);
    const other = otherServer('to restore', readMirror(temporary, serverIn), ports.address);
    if (other !== undefined && !request.acceptsServer) {
      const advice = 'If the server has moved, say --accept-new-server; the next sync makes sure that it is the same.';
      throw new UsageError(other.message, { advice });
    }
    chmodSync(temporary, ownerAlone);
    knowsMore = remember(temporary, known);
    foldLog(mirrorKind, temporary);
  };
  const restored = {
    mirror:
      mirror === undefined ? null : await place(mirrorKind, ports.mirror, stamp, { ...mirror, make: making }, signal),
    journal: journal === undefined ? null : await place(journalKind, ports.journal, stamp, journal, signal),
  };
  const lacksSteps = knowsMore || lost !== null;
  const still = new Set(forgottenIn(ports.mirror));
  return {
    made_at: madeAt,
    ...restored,
    journal_lacks_steps: journal !== undefined && lacksSteps,
    forgotten_since: forgotten.filter((user) => !still.has(user)),
  };
}

function copiesIn(from: string, { profile, backups }: RestorePorts): Sources {
  const found = statSync(from, { throwIfNoEntry: false });
  const newest = backupsIn(backups).at(-1);
  const known = newest === undefined ? '' : ` The newest one in ${backups} is ${newest}.`;
  if (found === undefined) throw new UsageError(`there is no backup at ${from}`, { advice: `Check the path.${known}` });
  const manifest = found.isDirectory() ? readManifest(from) : undefined;
  const of = manifest?.['of'] as { readonly profile?: string | null } | undefined;
  if (manifest !== undefined && of !== undefined) {
    if ((of.profile ?? null) !== profile) {
      throw new UsageError(
        `${from} is a backup of the profile ${of.profile ?? '(none)'}, not of ${profile ?? '(none)'}`,
        {
          advice: 'Name its profile with --profile, or another backup.',
        },
      );
    }
    const listed = (name: 'mirror' | 'journal') => {
      const file = manifest[name] as { readonly sha256: string } | null | undefined;
      return file ? copyOf(join(from, `${name}.db`), file.sha256) : undefined;
    };
    return { madeAt: String(manifest['made_at']), mirror: listed('mirror'), journal: listed('journal') };
  }
  if (found.isFile() && found.size > 0) {
    if (isCopyOf(mirrorKind, from)) return { madeAt: null, mirror: copyOf(from) };
    if (isCopyOf(journalKind, from)) return { madeAt: null, journal: copyOf(from) };
  }
  throw new UsageError(`${from} is neither the folder of a backup nor a snapshot`, {
    advice: `A file that is in use, with a log beside it, is no copy.${known}`,
  });
}

function copyOf(file: string, sha256?: string): Source {
  const make = (temporary: string) => copyFile(file, temporary, constants.COPYFILE_EXCL);
  return { file, sha256, make };
}

async function checkHash({ file, sha256 }: Source): Promise<void> {
  if (file === undefined || sha256 === undefined || (existsSync(file) && (await hashOfFile(file)) === sha256)) return;
  throw new FileError(`${file} is not what its manifest says: it was changed, cut or lost since the backup was made`, {
    advice: 'Nothing was restored. Use another backup.',
  });
}

/** Says what the journal in place has that the copy lacks; null if nothing. */
async function stepsLostBy({ journal: file, openJournal, clock }: RestorePorts, copy: string) {
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0) return null;
  return withReleases(async (releases) => {
    const ours = await openJournal(copy, releases);
    let theirs: Journal | undefined;
    try {
      theirs = await openJournal(file, releases);
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      return {
        words: `the journal in place cannot be read, so nobody knows what it has: ${error.message}`,
        head: null,
      };
    }
    const head = await theirs?.head();
    if (theirs === undefined || ours === undefined || head === undefined) return null;
    const remembered = rememberedOf(theirs.id, head, clock);
    if (theirs.id !== ours.id)
      return { words: `the journal ${file} is another one than that of the copy`, head: remembered };
    if (await ours.hasStep(head)) return null;
    const since = head.step - ((await ours.head())?.step ?? 0);
    const steps = since > 0 ? counted(since, 'step') : 'steps';
    return { words: `the journal ${file} has ${steps} that the copy lacks`, head: remembered };
  });
}

function rememberedOf(journal: string, head: Head, clock: Clock): RememberedJournal {
  return { journal, ...head, batch: null, at: timestampOf(clock.now()), seen: true };
}

function wouldLose(words: string): FileError {
  return new FileError(`${words}; nothing was restored`, {
    advice:
      'What was sent since would not be on record, and could be sent again. Restore the mirror alone with --mirror-only. If that ' +
      'journal cannot be used any more, --older-journal puts the copy in its place; `bulk reconcile --adopt` then records what it lacks.',
  });
}

/** What the mirror knows of the journal; null if nothing, or if it cannot be read, which may be why it is restored. */
function recalled(mirror: string): RememberedJournal | null {
  return ifReadable(mirror, null, () => {
    const memory = new MirrorsJournalMemory(mirror);
    try {
      return memory.recall();
    } finally {
      memory.close();
    }
  });
}

/** Keeps in this mirror what the one before it knew of the journal. Returns whether that is more than it knows itself. */
function remember(mirror: string, known: RememberedJournal | null): boolean {
  if (known === null || !existsSync(mirror)) return false;
  const memory = new MirrorsJournalMemory(mirror);
  try {
    const own = memory.recall();
    if (own !== null && own.journal === known.journal && own.step >= known.step) return false;
    memory.remember(known, own);
    return true;
  } finally {
    memory.close();
  }
}

function forgottenIn(mirror: string): number[] {
  const read = () =>
    readMirror(mirror, (file) =>
      file.prepare<[], number>('SELECT DISTINCT user_id FROM mirror_suppressions').pluck().all(),
    );
  return ifReadable(mirror, [], read);
}

function ifReadable<T>(file: string, otherwise: T, read: () => T): T {
  if (!existsSync(file)) return otherwise;
  try {
    return read();
  } catch (error) {
    if (error instanceof OperatorError) return otherwise;
    throw error;
  }
}

async function place(
  kind: FileKind,
  target: string,
  stamp: string,
  { file, make }: Source,
  signal: AbortSignal,
): Promise<RestoredFile> {
  const kept = firstFree(existsSync, (number) => `${target}.${stamp}${number === null ? '' : `-${number}`}`);
  if (file !== undefined) requireSpace(`restore the ${kind.name}`, dirname(target), statSync(file).size);
  const making = async (temporary: string) => {
    await make(temporary);
    chmodSync(temporary, ownerAlone);
    checkCopy(kind, temporary, 'whole');
    await syncFile(temporary);
    signal.throwIfAborted();
    return setAside(kind, target, kept);
  };
  const isKept = await placeDurableFile(target, making, signal);
  return { file: target, bytes: statSync(target).size, kept: isKept ? kept : null };
}

/** Gives the file that is there a second name, under which it stays. Returns false if there is none. */
function setAside(kind: FileKind, target: string, kept: string): boolean {
  if ((statSync(target, { throwIfNoEntry: false })?.size ?? 0) === 0) return false;
  // Once more: somebody may have opened it meanwhile.
  foldLog(kind, target);
  // Only a damaged file still has them. Beside another file, they would damage that one.
  for (const end of ['-wal', '-shm']) if (existsSync(target + end)) renameSync(target + end, kept + end);
  linkSync(target, kept);
  return true;
}

/** Folds the file's log into it, unless it is damaged or not there. SQLite refuses that while any other process has it open. */
function foldLog(kind: FileKind, file: string): void {
  if ((statSync(file, { throwIfNoEntry: false })?.size ?? 0) === 0) return;
  try {
    const database = new SqliteDatabase(file, { timeout: 0 });
    try {
      database.pragma('journal_mode = DELETE');
    } finally {
      database.close();
    }
  } catch (error) {
    if (!(error instanceof SqliteDatabase.SqliteError)) throw error;
    if (!error.code.startsWith('SQLITE_BUSY')) return;
    throw new LockHeldError(`the ${kind.name} ${file} is in use by another process`, {
      advice: 'Stop the worker, the console and whatever else uses it; then run this again.',
    });
  }
}
