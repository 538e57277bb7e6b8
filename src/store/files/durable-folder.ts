/** Folders of files with a manifest that appear whole or not at all. Section "Exports" of docs/architecture.md. */
import { chmod, readdir, rename, rm, rmdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { FileError } from '../../model/errors.ts';
import { inFolder, makeNewFolder } from '../../model/files.ts';
import { isRecord } from '../../model/records.ts';
import { manifestName, type ManifestFile, readManifest, writeManifest } from './manifest.ts';
import { explaining, partialName, removeStale, statOf, syncFolder } from './durable-file.ts';

/** What every manifest has; each program adds its own fields. */
interface FolderManifest {
  readonly program: string;
  readonly files: readonly Pick<ManifestFile, 'file'>[];
}

/**
 * Makes the folder from the files that `fill` writes to a staging folder, and the manifest that it returns. A new folder belongs to its
 * owner alone and appears in one step. In an existing folder, the older manifest goes first and the new one comes last, so a manifest
 * never names a missing file. Throws a FileError if the folder cannot be written, or has a manifest of another program.
 */
export async function writeDurableFolder<T extends FolderManifest>(
  path: string,
  program: T['program'],
  fill: (stage: string) => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  return explaining(path, async () => {
    const isThere = await isFolder(path);
    const outer = isThere ? path : dirname(path);
    return inFolder(outer, async () => {
      await removeStale(outer, path);
      const older = isThere ? ownManifest(path) : undefined;
      if (older !== undefined && older.program !== program) {
        throw new FileError(`${join(path, manifestName)} does not belong to ${program}, and would be replaced`, {
          advice: 'Name another folder with -o.',
        });
      }
      const stage = join(outer, partialName(path));
      makeNewFolder(stage);
      try {
        const manifest = await fill(stage);
        await writeManifest(join(stage, manifestName), manifest, signal);
        await syncFolder(stage);
        // The last moment at which nothing has changed yet.
        signal.throwIfAborted();
        if (isThere) await move(stage, path, manifest, older);
        else await rename(stage, path);
        await syncFolder(outer);
        return manifest;
      } catch (error) {
        await rm(stage, { force: true, recursive: true });
        throw error;
      }
    });
  });
}

/** Moves the files into place. While old and new files are mixed, there is no manifest. */
async function move(
  stage: string,
  path: string,
  manifest: FolderManifest,
  older: FolderManifest | undefined,
): Promise<void> {
  const names = manifest.files.map(({ file }) => file);
  if (older !== undefined) {
    await rm(join(path, manifestName), { force: true });
    await syncFolder(path);
  }
  for (const name of names) {
    const there = await stat(join(path, name)).catch(() => undefined);
    // Whoever could read the older file can read the new one.
    if (there !== undefined) await chmod(join(stage, name), there.mode & 0o777);
    await rename(join(stage, name), join(path, name));
  }
  for (const { file } of older?.files ?? []) {
    if (!names.includes(file)) await rm(join(path, file), { force: true });
  }
  await syncFolder(path);
  await rename(join(stage, manifestName), join(path, manifestName));
  await rmdir(stage);
}

async function isFolder(path: string): Promise<boolean> {
  const found = await statOf(path);
  if (found === undefined || found.isDirectory()) return found !== undefined;
  throw new FileError(`could not write ${path}: it is a file`, { advice: 'Name a folder with -o.' });
}

/** Whose folder it is, and what it says is in there; undefined if it has no manifest. No program of ours writes another form. */
function ownManifest(folder: string): FolderManifest | undefined {
  const found = readManifest(folder);
  if (found === undefined) return undefined;
  const { program, files } = found;
  const names = Array.isArray(files) ? files.map((each: unknown) => (isRecord(each) ? each['file'] : undefined)) : [];
  // A name that leads out of the folder was not written by this program.
  const isPlain = (name: unknown): name is string =>
    typeof name === 'string' && /^[^/\\]+$/.test(name) && name !== '..';
  const isOurs = typeof program === 'string' && Array.isArray(files) && names.every(isPlain);
  return isOurs ? { program, files: names.map((file) => ({ file })) } : { program: '', files: [] };
}

/** Removes the manifest, the files that it names, and then the folder, unless it holds anything else. Returns whether the folder is gone. */
export async function removeDurableFolder(path: string, program: string): Promise<boolean> {
  const manifest = ownManifest(path);
  if (manifest?.program !== program) return false;
  const names = [manifestName, ...manifest.files.map(({ file }) => file)];
  for (const name of names) await rm(join(path, name), { force: true });
  if ((await readdir(path)).length > 0) return false;
  await rmdir(path);
  return true;
}
