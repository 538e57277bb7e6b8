/** Files that commands write: never over a file of our own, complete or not at all, with {date} in the name and --keep. */
import { existsSync, statSync } from 'node:fs';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { UsageError } from '../model/errors.ts';
import { escapedPattern } from '../model/text.ts';
import { dayOf, systemClock } from '../model/time.ts';
import { defaultConfigFile, type Settings } from '../settings/settings.ts';
import { workerFileOf } from '../worker/open-store.ts';
import { writeDurableFile } from '../store/files/durable-file.ts';
import type { CliContext } from './context.ts';
import { printJson, printNote, printOutcome, printWarning } from './output.ts';
import { lstat, readdir, rm } from 'node:fs/promises';
import { removeDurableFolder } from '../store/files/durable-folder.ts';
import { manifestBeside, readManifest } from '../store/files/manifest.ts';

/** Throws a UsageError for our own files: a typing mistake must not overwrite the mirror, settings, key or journal for good. */
export function refuseOwnFiles(context: CliContext, path: string): void {
  if (isOneOf(ownFiles(context), path)) {
    throw new UsageError(`${path} is one of admin-mirror's own files and would be overwritten`, {
      advice: 'Name another file.',
    });
  }
}

function isOneOf(files: ReadonlySet<string>, path: string): boolean {
  const wanted = resolve(path);
  if (files.has(wanted) || [...files].some((each) => wanted.startsWith(`${each}.owner-`))) return true;
  const target = statSync(path, { throwIfNoEntry: false });
  if (target === undefined) return false;
  // The path alone is not enough: a link may have another one.
  return [...files].some((each) => {
    const found = statSync(each, { throwIfNoEntry: false });
    return found !== undefined && target.ino === found.ino && target.dev === found.dev;
  });
}

/** Every file that belongs to the program, of all servers of the config file, whether it exists or not. */
function ownFiles(context: CliContext): ReadonlySet<string> {
  const readings = [context.reading(), ...context.serversOfConfig().map(({ reading }) => reading)];
  const named = readings.flatMap(({ readings: settings, rest: { store, api } }) => [
    ...settings.flatMap(({ files }) => files),
    api.keyFile,
    ...databasesOf(store),
  ]);
  const written = [defaultConfigFile, '.env', ...named].filter((each) => typeof each === 'string');
  return new Set(written.map((each) => resolve(context.folder, each)));
}

function databasesOf({ mirror, journal }: Settings['store']): string[] {
  const databases = [mirror, journal, workerFileOf(mirror)];
  return databases.flatMap((file) => ['', '-wal', '-shm', '-journal'].map((end) => `${file}${end}`));
}

/** Returns the absolute path. Throws a UsageError if the name ends as that of a folder, since the file would lose its extension. */
export function pathOfFile({ folder }: Pick<CliContext, 'folder'>, name: string): string {
  if (name !== '' && !/[\\/]$/.test(name)) return resolve(folder, name);
  throw new UsageError(name === '' ? 'the name of the file is empty' : `${name} is the name of a folder`, {
    advice: 'Name a file in it.',
  });
}

/** Returns the absolute path of a file to write. Throws a UsageError if it exists already or is one of our own files. */
export function newFile(context: CliContext, output: string, force: boolean): string {
  const path = pathOfFile(context, output);
  refuseOwnFiles(context, path);
  if (force || !existsSync(path)) return path;
  throw new UsageError(`${output} already exists`, { advice: 'Name another file, or replace it with --force.' });
}

export function checkPictureName(file: string): void {
  if (file.toLowerCase().endsWith('.svg')) return;
  throw new UsageError(`a picture is written as SVG, but "${file}" does not end in .svg`, {
    advice: 'Name a file such as out.svg.',
  });
}

/** Writes the SVG to the file and reports it. */
export async function writePicture(context: CliContext, file: string, svg: AsyncIterable<Uint8Array>): Promise<void> {
  const path = pathOfFile(context, file);
  refuseOwnFiles(context, path);
  const bytes = await writeDurableFile(path, svg, context.signal);
  if (context.json()) printJson(context, { file: path, format: 'svg', bytes });
  else printNote(context, `drawn to ${file}`);
}

interface ExportTarget {
  readonly path: string;
  /** The path as the user gave it, with the date filled in. */
  readonly shown: string;
  readonly pattern: string;
  readonly keep: number | undefined;
}

/** Throws a UsageError if --keep is given, but the name does not show which files are older ones, or whose they are. */
export function targetOf(context: CliContext, output: string, keep: number | undefined): ExportTarget {
  const now = systemClock.now();
  const pattern = resolve(context.folder, output);
  if (
    keep !== undefined &&
    !(basename(pattern).includes('{date}') && datedName(dirname(pattern), now) === dirname(pattern))
  ) {
    throw new UsageError('--keep needs {date} in the last part of the name, and nowhere before it', {
      advice: 'Use a name such as -o users-{date}.csv.',
    });
  }
  const { profile } = context.settings();
  if (keep !== undefined && profile !== undefined && !namesProfile(output, profile)) {
    throw new UsageError(`--keep removes older files, but "${output}" does not show that they belong to ${profile}`, {
      advice: `Put the profile in the name, such as -o ${join(dirname(output), profile, basename(output))}.`,
    });
  }
  return { path: datedName(pattern, now), shown: datedName(output, now), pattern, keep };
}

/** Whether the profile is a word of the path. If so, files of another profile never match the pattern. */
function namesProfile(path: string, profile: string): boolean {
  return new RegExp(`(?:^|[^A-Za-z0-9])${profile}(?:[^A-Za-z0-9]|$)`).test(path);
}

/** Removes older files if --keep was given, and returns their paths. Must be called after the new file is on the disk. */
export async function removeOlder(
  context: CliContext,
  { path, pattern, keep }: ExportTarget,
  of: KeptNames['of'],
): Promise<{ readonly removed?: readonly string[] }> {
  if (keep === undefined) return {};
  const { removed, failed } = await keepNewest({ pattern, written: path, keep, of });
  for (const each of removed) printOutcome(context, `removed ${relative(context.folder, each)}`);
  for (const each of failed)
    printWarning(context, `${relative(context.folder, each)} is older, but could not be removed`);
  return { removed };
}

/** Fills {date} and {time} in the pattern. @param moment in ms since 1970 */
export function datedName(pattern: string, moment: number): string {
  const time = new Date(moment).toISOString().slice(11, 19).replaceAll(':', '');
  return pattern.replaceAll('{date}', dayOf(moment)).replaceAll('{time}', time);
}

/** Whether the name is one of the pattern, with some date and time in it. */
function isOfPattern(pattern: string, name: string): boolean {
  const parts = pattern.split(/(\{date\}|\{time\})/);
  const source = parts.map((part) =>
    part === '{date}' ? String.raw`\d{4}-\d{2}-\d{2}` : part === '{time}' ? String.raw`\d{6}` : escapedPattern(part),
  );
  return new RegExp(`^${source.join('')}$`).test(name);
}

interface KeptNames {
  /** The absolute path, with {date} in its last part. */
  readonly pattern: string;
  /** The path just written. It stays, whatever its date. */
  readonly written: string;
  /** How many to keep, including the one just written. */
  readonly keep: number;
  /** What the pattern names: files, or folders that this program wrote. */
  readonly of: 'files' | { readonly foldersOf: string };
}

/** Removes all but the newest. Returns the paths that were removed and those that could not be. */
export async function keepNewest(names: KeptNames): Promise<{ readonly removed: string[]; readonly failed: string[] }> {
  const removed: string[] = [];
  const failed: string[] = [];
  for (const path of (await othersNewestFirst(names)).slice(names.keep - 1)) {
    const isGone = await remove(path, names.of).catch(() => false);
    (isGone ? removed : failed).push(path);
  }
  return { removed, failed };
}

async function othersNewestFirst({ pattern, written, of }: KeptNames): Promise<string[]> {
  const folder = dirname(pattern);
  const found: string[] = [];
  for (const name of await readdir(folder)) {
    const isOther = name !== basename(written) && isOfPattern(basename(pattern), name);
    if (isOther && (await isOurs(join(folder, name), of))) found.push(join(folder, name));
  }
  // In names that differ only in their dates, the newest is the last.
  return found.sort().reverse();
}

async function isOurs(path: string, of: KeptNames['of']): Promise<boolean> {
  // A symbolic link does not count: its target was not made by the pattern.
  const found = await lstat(path);
  if (of === 'files') return found.isFile();
  return found.isDirectory() && readManifest(path)?.['program'] === of.foldersOf;
}

async function remove(path: string, of: KeptNames['of']): Promise<boolean> {
  if (of !== 'files') return removeDurableFolder(path, of.foldersOf);
  await rm(path);
  await rm(manifestBeside(path), { force: true });
  return true;
}
