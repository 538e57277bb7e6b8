/** Snapshots: a copy of the mirror as it is now, made while others write, that appears whole or not at all. */
import { realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { UsageError } from '../model/errors.ts';
import { placeDurableFile } from '../store/files/durable-file.ts';
import { requireSpace } from '../store/files/disk-space.ts';
import type { CopyContents, CopyRun, MirrorCopySource, Thoroughness } from './copy.ts';

interface SnapshotRequest {
  /** Whether personal data is left out. */
  readonly isAnonymous: boolean;
  readonly thoroughness: Thoroughness;
}

/**
 * Writes the copy in the place of an earlier one, and gives what is in it. Throws a UsageError where something else
 * stands there, and a FileError where there is no mirror, no room, or the copy is not sound.
 */
export async function makeSnapshot(
  mirror: MirrorCopySource,
  path: string,
  { isAnonymous, thoroughness }: SnapshotRequest,
  run: CopyRun,
): Promise<CopyContents> {
  const target = await targetOf(mirror, path);
  requireSpace('make a snapshot', dirname(target), mirror.size() ?? 0);
  let contents: CopyContents | undefined;
  await placeDurableFile(
    target,
    async (temporary) => {
      if (isAnonymous) await mirror.copyAnonymous(temporary, run, thoroughness);
      else await mirror.copy(temporary, run, thoroughness);
      contents = mirror.contents(temporary);
    },
    run.signal,
  );
  if (contents === undefined) throw new Error('a snapshot was placed and never made');
  return contents;
}

async function targetOf(mirror: MirrorCopySource, path: string): Promise<string> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (found === undefined) return path;
  if (found.isFile() && mirror.replaceable(path)) return realpath(path);
  throw new UsageError(`${path} is there already, and is no snapshot; it was left as it is`, {
    advice: found.isDirectory() ? 'Name a file in it.' : 'Name another file, or remove that one first.',
  });
}
