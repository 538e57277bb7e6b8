/** Backups of mirror and journal, in a folder named by the time. Section "Copies" of docs/architecture.md. */
import { existsSync, readdirSync } from 'node:fs';
import { readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { FileError, IncompleteError, OperatorError } from '../model/errors.ts';
import { firstFree } from '../model/files.ts';
import { timestampOf, type Clock, type Timestamp } from '../model/time.ts';
import { partialName, removeStale, requireSpace, syncFile } from '../store/files/durable-file.ts';
import { hashOfFile, manifestHead, readManifest } from '../store/files/manifest.ts';
import { writeDurableFolder } from '../store/files/durable-folder.ts';
import type { CopySource, CopyRun } from './copy-source.ts';

/** Whose backup it is. Several installations may share a folder, and each removes only its own backups. */
interface BackupOwner {
  /** Null if the settings have no profile. */
  readonly profile: string | null;
  /** The files that were copied, as absolute paths. */
  readonly mirror: string;
  readonly journal: string;
}

interface BackupRequest {
  readonly folder: string;
  readonly profile: string | null;
  /** How many backups to keep, including this one; undefined: all. */
  readonly keep: number | undefined;
  /** Whether the journal is not a file, but in a shared store. */
  readonly isShared?: boolean;
  /** Why the journal is not the one that knows what was sent, so that older backups must stay; null if nothing speaks against it. */
  readonly doubt?: Doubt | null;
  /** How fresh the mirror is, and the head of the journal's chain, for the manifest. */
  readonly about?: Readonly<Record<string, unknown>>;
}

interface Doubt {
  readonly problem: string;
  /** What to do, as full sentences. */
  readonly advice: string;
}

interface BackedUpFile {
  readonly file: string;
  readonly bytes: number;
  readonly sha256: string;
}

export interface BackupReport {
  readonly folder: string;
  readonly made_at: Timestamp;
  readonly mirror: BackedUpFile | null;
  readonly journal: BackedUpFile | null;
  readonly of: BackupOwner;
  /** Names of this owner's older backups that were removed. */
  readonly removed: readonly string[];
  /** Names of folders that look like older backups but are not known to be this owner's. */
  readonly not_ours: readonly string[];
  readonly problems: readonly string[];
}

interface BackupPorts {
  readonly mirror: CopySource;
  readonly journal: CopySource;
  readonly clock: Clock;
  readonly run: CopyRun;
}

/**
 * Makes a backup. If one of the two files is lost or cannot be copied, it has the other one, and no older backup is removed. Throws a
 * FileError.
 */
export async function makeBackup(
  ports: BackupPorts,
  { folder, keep, profile, isShared = false, doubt = null, about = {} }: BackupRequest,
): Promise<{ readonly report: BackupReport; readonly error: OperatorError | null }> {
  const { clock, run } = ports;
  const sources = [ports.mirror, ports.journal].filter((source) => source.size() !== undefined);
  if (sources.length === 0) {
    throw new FileError(
      `there is nothing to back up: neither ${ports.mirror.file} nor ${ports.journal.file} is there`,
      { advice: 'Check the paths; `admin-mirror config` shows where they come from.' },
    );
  }
  const of: BackupOwner = { profile, mirror: ports.mirror.file, journal: ports.journal.file };
  const madeAt = timestampOf(clock.now());
  // `20261121T021500Z`, in UTC, sorts by time. A second backup in the same second gets a number.
  const stamp = `${madeAt.slice(0, 19).replaceAll(/[-:]/g, '')}Z`;
  const name = firstFree(
    (tried) => existsSync(join(folder, tried)),
    (number) => (number === null ? stamp : `${stamp}-${number}`),
  );
  const final = join(folder, name);
  const lost = lostFiles(folder, of, isShared ? [ports.mirror] : [ports.mirror, ports.journal]);
  const fill = async (stage: string) => {
    // First the remains of killed backups, which take space.
    for (const entry of await readdir(folder)) {
      const stale = partialBackupName.exec(entry)?.[1];
      if (stale !== undefined) await removeStale(folder, stale);
    }
    requireSpace('make a backup', folder, totalSize(sources));
    const { files, problems: failures } = await copyAll(sources, stage, run);
    const problems = [...failures, ...lost, ...(doubt === null ? [] : [doubt.problem])];
    const made = [files.mirror, files.journal].filter((file) => file !== null);
    return { ...manifestHead(manifestProgram, clock), made_at: madeAt, of, ...about, ...files, problems, files: made };
  };
  const { mirror, journal, problems } = await writeDurableFolder(final, manifestProgram, fill, run.signal);
  const report = { folder: final, made_at: madeAt, of, mirror, journal, removed: [], not_ours: [], problems };
  if (problems.length > 0) {
    const what = mirror === null || journal === null ? 'is not complete' : 'was made, but something is wrong';
    const remedy =
      doubt?.advice ?? (lost.length === 0 ? '' : 'Put the lost file back, from wherever it is or from that backup.');
    const error = new IncompleteError(`the backup ${final} ${what}: ${problems.join('; ')}`, {
      advice: `No older backup was removed. ${remedy}`.trim(),
    });
    return { report, error };
  }
  const older = keep === undefined ? {} : await removeOlder(folder, { name, of, keep });
  return { report: { ...report, ...older }, error: null };
}

/** Returns the names of the backups in the folder, oldest first. */
export function backupsIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => backupName.test(name))
    .sort();
}

/** Says which files are gone although an older backup of this owner has them. A file that never was is not lost. */
function lostFiles(folder: string, of: BackupOwner, sources: readonly CopySource[]): string[] {
  const gone = sources.filter((source) => source.size() === undefined);
  if (gone.length === 0) return [];
  const older = backupsIn(folder).reverse();
  const manifests = older.map((name) => [name, readManifest(join(folder, name))] as const);
  return gone.flatMap(({ name: kind, file }) => {
    const found = manifests.find(([, manifest]) => isSameOwner(manifest?.['of'], of) && manifest?.[kind]);
    return found === undefined ? [] : [`the ${kind} ${file} is gone; the newest backup that has it is ${found[0]}`];
  });
}

function totalSize(sources: readonly CopySource[]): number {
  return sources.reduce((sum, source) => sum + (source.size() ?? 0), 0);
}

/** Copies one after the other, in the order given: a later copy is never older than an earlier one. */
async function copyAll(sources: readonly CopySource[], stage: string, run: CopyRun) {
  const files: Record<'mirror' | 'journal', BackedUpFile | null> = { mirror: null, journal: null };
  const problems: string[] = [];
  let firstError: unknown;
  const total = totalSize(sources);
  let before = 0;
  for (const source of sources) {
    const size = source.size() ?? 0;
    const from = before;
    const progress = (share: number): void => run.progress((from + share * size) / Math.max(1, total));
    try {
      const file = join(stage, `${source.name}.db`);
      await source.copy(file, { signal: run.signal, progress }, 'whole');
      await syncFile(file);
      const name = source.name === 'journal' ? 'journal' : 'mirror';
      files[name] = { file: `${source.name}.db`, bytes: (await stat(file)).size, sha256: await hashOfFile(file) };
    } catch (error) {
      run.signal.throwIfAborted();
      if (!(error instanceof OperatorError)) throw error;
      firstError ??= error;
      problems.push(error.message);
      await rm(join(stage, `${source.name}.db`), { force: true });
    }
    before += size;
  }
  if (files.mirror === null && files.journal === null) throw firstError;
  return { files, problems };
}

const manifestProgram = 'admin-mirror backup';

const backupName = /^\d{8}T\d{6}Z(?:-\d+)?$/;
const partialBackupName = /^\.(\d{8}T\d{6}Z(?:-\d+)?)\./;

/** Removes the owner's oldest backups. Each is renamed first, so that one that is half removed does not look like a backup. */
async function removeOlder(
  folder: string,
  { name: made, of, keep }: { readonly name: string; readonly of: BackupOwner; readonly keep: number },
): Promise<Pick<BackupReport, 'removed' | 'not_ours'>> {
  // The new one is excluded by name, not by age: if the clock was set back, it looks like the oldest.
  const others = backupsIn(folder).filter((name) => name !== made);
  const isOurs = others.map((name) => isSameOwner(readManifest(join(folder, name))?.['of'], of));
  const ours = others.filter((_, index) => isOurs[index]);
  const removed = ours.slice(0, Math.max(0, ours.length - (keep - 1)));
  for (const name of removed) {
    const leaving = join(folder, partialName(name));
    await rename(join(folder, name), leaving);
    await rm(leaving, { recursive: true, force: true });
  }
  return { removed, not_ours: others.filter((_, index) => !isOurs[index]) };
}

function isSameOwner(owner: unknown, { profile, mirror, journal }: BackupOwner): boolean {
  const found = (owner ?? {}) as Partial<BackupOwner>;
  return found.profile === profile && found.mirror === mirror && found.journal === journal;
}
