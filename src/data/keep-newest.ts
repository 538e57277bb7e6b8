/** Removing what a dated name made before: the newest stay, and so does everything of any other name. */
import { lstat, readdir, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { readManifest, removeDurableFolder } from '../store/files/durable-folder.ts';
import { stampIn } from './dated-name.ts';

export interface KeptNames {
  /** The path that was given, the last part of which is dated. */
  readonly pattern: string;
  /** The path just written; it stays whatever its date. */
  readonly written: string;
  /** How many may stay, that one included. */
  readonly keep: number;
  /** What the pattern makes: files, or folders of this program. */
  readonly of: 'files' | { readonly foldersOf: string };
}

/** The paths removed, and those that could not be. To be called when what was written is on the disk. */
export async function keepNewest(names: KeptNames): Promise<{ readonly removed: string[]; readonly left: string[] }> {
  const removed: string[] = [];
  const left: string[] = [];
  for (const path of (await made(names)).slice(names.keep - 1)) {
    const isGone = await remove(path, names.of).catch(() => false);
    (isGone ? removed : left).push(path);
  }
  return { removed, left };
}

/** What the pattern made besides what was just written, the newest first. */
async function made({ pattern, written, of }: KeptNames): Promise<string[]> {
  const folder = dirname(pattern);
  const found: { readonly path: string; readonly stamp: string }[] = [];
  for (const name of await readdir(folder)) {
    const stamp = stampIn(basename(pattern), name);
    const path = join(folder, name);
    if (stamp === undefined || name === basename(written) || !(await isOurs(path, of))) continue;
    found.push({ path, stamp });
  }
  return found.sort((a, b) => (a.stamp < b.stamp ? 1 : -1)).map(({ path }) => path);
}

async function isOurs(path: string, of: KeptNames['of']): Promise<boolean> {
  // A link is none: what it stands for was not made by the pattern.
  const found = await lstat(path);
  if (of === 'files') return found.isFile();
  return found.isDirectory() && readManifest(path)?.program === of.foldersOf;
}

async function remove(path: string, of: KeptNames['of']): Promise<boolean> {
  if (of !== 'files') return removeDurableFolder(path, of.foldersOf);
  await rm(path);
  return true;
}
