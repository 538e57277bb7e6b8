/** Profiles: several servers in one config file. No two share a file, and what makes a server never comes to one by accident. */
import { existsSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { suggestion, UsageError } from '../model/errors.ts';
import type { WrittenJob } from './jobs.ts';
import { type FileProfile, variableEnd } from './config-file.ts';
import { type SettingKey, settingOf } from './table.ts';

/** What belongs to one server: a variable that does not say of which profile it is cannot set it for a profile. */
export const serverKeys = ['api.base_url', 'api.key', 'api.key_file', 'store.mirror', 'store.journal'] as const;
type ServerKey = (typeof serverKeys)[number];

export function isServerKey(key: SettingKey): key is ServerKey {
  return (serverKeys as readonly SettingKey[]).includes(key);
}

/** `ADMIN_MIRROR_API_KEY_STAGING`: the variable that sets it for a profile. */
export function profileVariable(key: ServerKey, profile: string): string {
  return `${settingOf(key).env}_${variableEnd(profile)}`;
}

export function profileVariables(profiles: readonly FileProfile[]): string[] {
  return profiles.flatMap(({ name }) => serverKeys.map((key) => profileVariable(key, name)));
}

/** Undefined for the server outside of any profile: where one is named there, or where there are no profiles. */
export function chooseProfile(
  chosen: { readonly value: unknown; readonly origin: string } | undefined,
  profiles: readonly FileProfile[],
  { file, hasServer }: { readonly file: string; readonly hasServer: boolean },
): FileProfile | UsageError | undefined {
  const names = profiles.map(({ name }) => name);
  if (chosen !== undefined) {
    const found = profiles.find(({ name }) => name === chosen.value);
    if (found !== undefined) return found;
    const advice =
      names.length === 0
        ? `The config file (${file}) has no profiles: write them under "profiles:", or leave this out.`
        : suggestion(String(chosen.value), names);
    return new UsageError(`there is no profile "${String(chosen.value)}" (${chosen.origin})`, { advice });
  }
  if (names.length === 0 || hasServer) return undefined;
  const some = names.length > 5 ? [...names.slice(0, 4), `one of ${names.length - 4} more`] : names;
  return new UsageError(`${file} has profiles, and none was chosen`, {
    advice: `Say --profile ${some.join(' or ')}, or set ADMIN_MIRROR_PROFILE or "profile:" in the config file.`,
  });
}

/** A variable that would send one server's key to another, or mix their files. */
export function strayVariable(key: ServerKey, origin: string, profile: string): UsageError {
  const inFile = settingOf(key).inFile ? `, write it into the profile as ${key}` : '';
  return new UsageError(`${origin} does not say for which profile it is, and ${profile} is in force`, {
    advice: `Call it ${profileVariable(key, profile)}${inFile}, or unset it.`,
  });
}

/** What each profile has of its own, by its name, where nothing names it for the profile. */
export const ownPaths = ['store.mirror', 'store.journal', 'backup.folder', 'log.file'] as const;

/** Stands in a value outside of the profiles for the name of each. */
const nameMark = '{profile}';

/** Whether the value is of profiles alone: it has their name in it. */
export function isPerProfile(value: unknown): value is string {
  return typeof value === 'string' && value.includes(nameMark);
}

export function forProfile(value: string, profile: string): string {
  return value.replaceAll(nameMark, profile);
}

/** `data/mirror.db` becomes `data/staging/mirror.db`, `data/backups` `data/backups/staging`; a path may say where the name goes. */
export function profilePath(path: string, profile: string, of: 'file' | 'folder'): string {
  if (isPerProfile(path)) return forProfile(path, profile);
  return of === 'folder' ? join(path, profile) : join(dirname(path), profile, basename(path));
}

const jobPaths: Readonly<Record<string, 'file' | 'folder'>> = {
  output: 'file',
  chart: 'file',
  file: 'file',
  folder: 'folder',
};

/** The common jobs as those of a profile: what they write lies in a folder by its name. */
export function jobsOfProfile(jobs: readonly WrittenJob[], profile: string): WrittenJob[] {
  return jobs.map(({ origin, entries }) => ({
    origin,
    entries: new Map(
      [...entries].map(([key, placed]) => {
        const of = jobPaths[key];
        if (of === undefined || typeof placed.value !== 'string') return [key, placed];
        return [key, { ...placed, value: profilePath(placed.value, profile, of) }];
      }),
    ),
  }));
}

type OwnPath = (typeof ownPaths)[number];

/** What a profile writes, each path with what it is. */
interface ProfileFiles {
  /** null: outside of any. */
  readonly profile: string | null;
  readonly files: readonly { readonly what: string; readonly path: string; readonly isOfJob: boolean }[];
}

export function filesOf(
  profile: FileProfile,
  common: (key: OwnPath) => string | null,
  variable: (name: string) => string | undefined,
  jobs: readonly WrittenJob[],
): ProfileFiles {
  const pathOf = (key: OwnPath): string => {
    const own = profile.values.find((each) => each.key === key)?.value;
    const set = (isServerKey(key) ? variable(profileVariable(key, profile.name)) : undefined) ?? own;
    if (typeof set === 'string' && set !== '') return set;
    const path = common(key);
    return path === null ? '' : profilePath(path, profile.name, key === 'backup.folder' ? 'folder' : 'file');
  };
  return filesWritten(profile.name, Object.fromEntries(ownPaths.map((key) => [key, pathOf(key)])), jobs);
}

/** The files of a server whose settings are known. */
export function filesWritten(
  profile: string | null,
  values: Readonly<Partial<Record<OwnPath, string | null | undefined>>>,
  jobs: readonly WrittenJob[],
): ProfileFiles {
  const files = ownPaths.map((key) => ({ what: key, path: values[key] ?? '', isOfJob: false }));
  const written = jobs.flatMap(({ entries }) =>
    [...entries]
      .filter(([key]) => jobPaths[key] !== undefined)
      .map(([key, { value, origin }]) => ({
        what: `${key} of a job (${origin})`,
        path: typeof value === 'string' ? value : '',
        isOfJob: true,
      })),
  );
  // `-` is no file but the job's own log.
  return { profile, files: [...files, ...written].filter(({ path }) => path !== '' && path !== '-') };
}

/** Why two profiles must not be used side by side: one file or folder of both; undefined where there is none. */
export function sharedFile(all: readonly ProfileFiles[], folder: string): UsageError | undefined {
  const seen = new Map<string, { readonly what: string; readonly profile: string | null; readonly isOfJob: boolean }>();
  for (const file of all.flatMap(({ profile, files }) => files.map((each) => ({ ...each, profile })))) {
    const place = realPath(resolve(folder, file.path));
    const other = seen.get(place);
    seen.set(place, file);
    if (other === undefined) continue;
    const { what, profile, isOfJob } = file;
    const thing = what.startsWith('backup.folder') || what.startsWith('folder') ? 'folder' : 'file';
    if (other.profile !== profile) {
      const [one, two] = [serverWords(profile), serverWords(other.profile)];
      return new UsageError(`${what} of ${one} is the same ${thing} as ${other.what} of ${two}: ${place}`, {
        advice: 'Give each profile paths of its own, or leave them out: each then has a folder by its name.',
      });
    }
    // Jobs of one profile may well write one file, one after the other.
    if (isOfJob || other.isOfJob) continue;
    return new UsageError(`${what} is the same ${thing} as ${other.what}: ${place}`, {
      advice: `Name a ${thing} of its own.`,
    });
  }
  return undefined;
}

function serverWords(profile: string | null): string {
  return profile === null ? 'the server outside of the profiles' : `the profile ${profile}`;
}

function realPath(path: string): string {
  if (existsSync(path)) return realpathSync(path);
  const folder = dirname(path);
  return folder === path ? path : join(realPath(folder), basename(path));
}
