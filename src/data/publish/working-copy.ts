/** The mirror as a working copy of what is published, where several machines work for one server in turn. */
import { existsSync, renameSync, rmSync, statSync } from 'node:fs';
import { LockHeldError } from '../../model/errors.ts';
import { CursorError, seqOf } from '../../store/changed-rows.ts';
import { mirrorLocks, ownerWords } from '../../store/lock.ts';
import { openMirrorForReading } from '../../store/open.ts';
import type { Destination } from './database.ts';
import { publishedIn, restore, type RestorePorts, type RestoreReport } from './restore.ts';

/**
 * `current`: it has everything that is published. `behind`: something is published that it lacks; `other`: by another mirror.
 * `absent`: there is none. `unpublished`: nothing is published, and there is none.
 */
export type WorkingCopy = 'current' | 'behind' | 'other' | 'absent' | 'unpublished';

/** Throws an UnreachableError, and a UsageError where the database refuses. */
export async function workingCopyOf(file: string, destination: Destination, signal: AbortSignal): Promise<WorkingCopy> {
  const cursor = (await publishedIn(destination, signal))?.cursor ?? null;
  const isThere = existsSync(file) && statSync(file).size > 0;
  if (!isThere) return cursor === null ? 'unpublished' : 'absent';
  if (cursor === null) return 'current';
  const mirror = openMirrorForReading(file);
  try {
    seqOf(mirror, file, cursor);
    return 'current';
  } catch (error) {
    if (!(error instanceof CursorError)) throw error;
    // It has gone on so long that it no longer knows the deletions since.
    if (error.reason === 'too old') return 'current';
    return error.reason === 'other copy' ? 'behind' : 'other';
  } finally {
    mirror.close();
  }
}

/** Beside the database itself. */
const endings = ['', '-wal', '-shm'];

/**
 * Makes the mirror anew from what is published. One of another origin is kept beside it, as `NAME.replaced`. Throws a LockHeldError
 * where somebody on this machine writes to it, and what `restore` throws.
 */
export async function renewWorkingCopy(ports: RestorePorts): Promise<RestoreReport> {
  const { file, destination, signal } = ports;
  const made = `${file}.restoring`;
  for (const ending of endings) rmSync(made + ending, { force: true });
  const report = await restore({ ...ports, file: made });
  const isOther = (await workingCopyOf(file, destination, signal)) === 'other';
  refuseWriter(file, ports);
  for (const ending of endings) {
    if (existsSync(file + ending)) renameSync(file + ending, `${file}.replaced${ending}`);
  }
  renameSync(made, file);
  if (!isOther) for (const ending of endings) rmSync(`${file}.replaced${ending}`, { force: true });
  return { ...report, file };
}

function refuseWriter(file: string, { clock }: Pick<RestorePorts, 'clock'>): void {
  if (!existsSync(file) || statSync(file).size === 0) return;
  const mirror = openMirrorForReading(file);
  try {
    const owner = mirrorLocks(mirror, clock).owner('sync');
    if (owner !== undefined) throw new LockHeldError(`the mirror ${file} is being written: ${ownerWords(owner)}`);
  } finally {
    mirror.close();
  }
}
