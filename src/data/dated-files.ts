/** Names with the day and the time of day in them: `users-{date}.csv` is `users-2026-03-11.csv`. Both in UTC. */
import { lstat, readdir, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { dayOf, parseDay } from '../model/time.ts';
import { readManifest, removeDurableFolder } from '../store/files/durable-folder.ts';

const timePattern = String.raw`(?:[01]\d|2[0-3])[0-5]\d[0-5]\d`;

/** Whether the name says when it was written. */
export function isDated(pattern: string): boolean {
  return pattern.includes('{date}');
}

/** The name at that moment, in ms since 1970. */
export function datedName(pattern: string, moment: number): string {
  const time = new Date(moment).toISOString().slice(11, 19).replaceAll(':', '');
  return pattern.replaceAll('{date}', dayOf(moment)).replaceAll('{time}', time);
}

/** When a name of the pattern was made, as text that sorts; undefined of one that it does not make. */
export function stampIn(pattern: string, name: string): string | undefined {
  const parts = pattern.split(/(\{date\}|\{time\})/);
  const source = parts.map((part) => {
    if (part === '{date}') return String.raw`(\d{4}-\d{2}-\d{2})`;
    return part === '{time}' ? `(${timePattern})` : part.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
  });
  const found = new RegExp(`^${source.join('')}$`).exec(name);
  if (found === null) return undefined;
  const marks = parts.filter((part) => part === '{date}' || part === '{time}');
  const values = found.slice(1);
  const date = values[marks.indexOf('{date}')];
  const time = values[marks.indexOf('{time}')] ?? '';
  const isMade = values.every((value, index) => value === (marks[index] === '{date}' ? date : time));
  return isMade && date !== undefined && parseDay(date) !== undefined ? `${date} ${time}` : undefined;
}

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
