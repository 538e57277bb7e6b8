/** Where `export` writes: the name that was given, with the day in its place, and what becomes of the older ones. */
import { basename, dirname, join, relative, resolve } from 'node:path';
import { UsageError } from '../model/errors.ts';
import { systemClock } from '../model/time.ts';
import { datedName, isDated } from '../data/dated-name.ts';
import type { KeptNames } from '../data/keep-newest.ts';
import type { CliContext } from './context.ts';
import { printNote, printWarning } from './output.ts';

export interface ExportTarget {
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
  if (keep !== undefined && !(isDated(basename(pattern)) && datedName(dirname(pattern), now) === dirname(pattern))) {
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
  const { keepNewest } = await import('../data/keep-newest.ts');
  const { removed, left } = await keepNewest({ pattern, written: path, keep, of });
  for (const each of removed) printNote(context, `removed ${relative(context.folder, each)}`);
  for (const each of left)
    printWarning(context, `${relative(context.folder, each)} is older, and could not be removed`);
  return { removed };
}
