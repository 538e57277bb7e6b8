/** Files that commands write: never over one of our own, named by the time, so many of them kept, whole or not at all. */
import { existsSync, statSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { keyFiles } from '../journal/signing-key.ts';
import { UsageError } from '../model/errors.ts';
import { escapedPattern } from '../model/text.ts';
import { dayOf, parseDay, systemClock } from '../model/time.ts';
import { defaultConfigFile, valueOf } from '../settings/settings.ts';
import { writeDurableFile } from '../store/files/durable-file.ts';
import type { CliContext } from './context.ts';
import { printJson, printNote, printOutcome, printWarning } from './output.ts';
import { lstat, readdir, rm } from 'node:fs/promises';
import { readManifest, removeDurableFolder } from '../store/files/durable-folder.ts';

/** A slip of the hand must not write over the mirror, the settings, the key or the journal, which nothing can rebuild. */
export function refuseOwnFiles(context: CliContext, path: string): void {
  const { store, api, log } = context.settings();
  const target = statSync(path, { throwIfNoEntry: false });
  const databases = [store.mirror, store.journal].flatMap((each) => [each, `${each}-wal`, `${each}-shm`]);
  const config = String(valueOf(context.reading(), 'config').value ?? defaultConfigFile);
  const settings = [config, '.env', api.keyFile, log.file].flatMap((each) =>
    each === undefined ? [] : [resolve(context.folder, each)],
  );
  for (const own of [...databases, ...settings, ...Object.values(keyFiles(store.journal))]) {
    const found = statSync(own, { throwIfNoEntry: false });
    const same = target !== undefined && found !== undefined && target.ino === found.ino && target.dev === found.dev;
    // Also one that is not there yet, such as the journal before the first write.
    if (!same && resolve(path) !== resolve(own)) continue;
    throw new UsageError(`${path} is a file of admin-mirror itself, and would be replaced`, {
      advice: 'Name another file.',
    });
  }
}

/** Throws a UsageError where the name is that of a folder: what is written there would be a file without an ending. */
export function pathOfFile({ folder }: Pick<CliContext, 'folder'>, name: string): string {
  if (name !== '' && !/[\\/]$/.test(name)) return resolve(folder, name);
  throw new UsageError(name === '' ? 'the name of the file is empty' : `${name} names a folder`, {
    advice: 'Name a file in it.',
  });
}

/** The path of a file that may be written. Throws a UsageError where it is there already, or is one of ours. */
export function newFile(context: CliContext, output: string, force: boolean): string {
  const path = pathOfFile(context, output);
  refuseOwnFiles(context, path);
  if (force || !existsSync(path)) return path;
  throw new UsageError(`${output} is there already`, { advice: 'Name another file, or replace it with --force.' });
}

/** Writes a picture, whose chunks are an SVG, and says so. */
export async function writePicture(context: CliContext, file: string, svg: AsyncIterable<Uint8Array>): Promise<void> {
  const path = pathOfFile(context, file);
  refuseOwnFiles(context, path);
  const bytes = await writeDurableFile(path, svg, context.signal);
  if (context.json()) printJson(context, { file: path, format: 'svg', bytes });
  else printNote(context, `drawn to ${file}`);
}

interface ExportTarget {
  readonly path: string;
  /** As a person sees it. */
  readonly shown: string;
  readonly pattern: string;
  readonly keep: number | undefined;
}

/** Throws a UsageError where older ones are to go and the name does not tell which those are, or whose. */
export function targetOf(context: CliContext, output: string, keep: number | undefined): ExportTarget {
  const now = systemClock.now();
  const pattern = resolve(context.folder, output);
  if (
    keep !== undefined &&
    !(basename(pattern).includes('{date}') && datedName(dirname(pattern), now) === dirname(pattern))
  ) {
    throw new UsageError('--keep removes what {date} in the last part of the name tells apart, and there alone', {
      advice: 'Give a name such as -o users-{date}.csv.',
    });
  }
  const { profile } = context.settings();
  if (keep !== undefined && profile !== undefined && !namesProfile(output, profile)) {
    throw new UsageError(`--keep removes older files, and "${output}" does not say that they are of ${profile}`, {
      advice: `Name the profile in it, such as -o ${join(dirname(output), profile, basename(output))}.`,
    });
  }
  return { path: datedName(pattern, now), shown: datedName(output, now), pattern, keep };
}

/** Whether the profile is a word of the path: files of another profile are then of another pattern. */
function namesProfile(path: string, profile: string): boolean {
  return new RegExp(`(?:^|[^A-Za-z0-9])${profile}(?:[^A-Za-z0-9]|$)`).test(path);
}

/** Removes the older ones, once the new one is on the disk; gives the paths that are gone, where --keep was given. */
export async function removeOlder(
  context: CliContext,
  { path, pattern, keep }: ExportTarget,
  of: KeptNames['of'],
): Promise<{ readonly removed?: readonly string[] }> {
  if (keep === undefined) return {};
  const { removed, left } = await keepNewest({ pattern, written: path, keep, of });
  for (const each of removed) printOutcome(context, `removed ${relative(context.folder, each)}`);
  for (const each of left)
    printWarning(context, `${relative(context.folder, each)} is older, and could not be removed`);
  return { removed };
}

/** The name at that moment, in ms since 1970. */
export function datedName(pattern: string, moment: number): string {
  const time = new Date(moment).toISOString().slice(11, 19).replaceAll(':', '');
  return pattern.replaceAll('{date}', dayOf(moment)).replaceAll('{time}', time);
}

/** When a name of the pattern was made, as text that sorts; undefined of one that it does not make. */
export function stampIn(pattern: string, name: string): string | undefined {
  const source = pattern.split(/(\{date\}|\{time\})/).map((part, index, parts) => {
    if (part !== '{date}' && part !== '{time}') return escapedPattern(part);
    // Where it stands a second time, it must be the same.
    return parts.indexOf(part) === index ? moments[part] : `\\k<${part.slice(1, -1)}>`;
  });
  const { date, time = '' } = new RegExp(`^${source.join('')}$`).exec(name)?.groups ?? {};
  return date !== undefined && parseDay(date) !== undefined ? `${date} ${time}` : undefined;
}

const moments = {
  '{date}': String.raw`(?<date>\d{4}-\d{2}-\d{2})`,
  '{time}': String.raw`(?<time>(?:[01]\d|2[0-3])[0-5]\d[0-5]\d)`,
} as const;

interface KeptNames {
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
