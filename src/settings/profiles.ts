/** Profiles: several servers in one config file. No two share a file, and no profile gets the address or key of another by accident. */
import { withoutEndSlashes } from '../model/text.ts';
import { existsSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { suggestion, UsageError } from '../model/errors.ts';
import type { WrittenJob } from './jobs.ts';
import { type FileProfile, variableEnd } from './config-file.ts';
import { type SettingKey, settingOf } from './table.ts';

/** Settings that belong to one server. Only a variable that ends in the profile's name can set them for a profile. */
export const serverKeys = ['api.base_url', 'api.key', 'api.key_file', 'store.mirror', 'store.journal'] as const;
type ServerKey = (typeof serverKeys)[number];

export function isServerKey(key: SettingKey): key is ServerKey {
  return (serverKeys as readonly SettingKey[]).includes(key);
}

/** Returns the variable that sets it for a profile: `ADMIN_MIRROR_API_KEY_STAGING`. */
export function profileVariable(key: ServerKey, profile: string): string {
  return `${settingOf(key).env}_${variableEnd(profile)}`;
}

export function profileVariables(profiles: readonly FileProfile[]): string[] {
  return profiles.flatMap(({ name }) => serverKeys.map((key) => profileVariable(key, name)));
}

/** Returns the profile in force; undefined for the server outside of the profiles, if one is set there or there are no profiles. */
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

/** The problem of a variable that could send one server's key to another, or mix their files. */
export function strayVariable(key: ServerKey, origin: string, profile: string): UsageError {
  const inFile = settingOf(key).inFile ? `, write it into the profile as ${key}` : '';
  return new UsageError(`${origin} does not say for which profile it is, and ${profile} is in force`, {
    advice: `Call it ${profileVariable(key, profile)}${inFile}, or unset it.`,
  });
}

/** Paths that must differ between profiles. Unless a profile sets one, it gets the common path with its name in it. */
export const ownPaths = ['store.mirror', 'store.journal', 'backup.folder', 'log.file'] as const;

/** In a value outside of the profiles, stands for the name of each. */
const nameMark = '{profile}';

/** Whether the value holds `{profile}`, so that it counts for profiles alone. */
export function isPerProfile(value: unknown): value is string {
  return typeof value === 'string' && value.includes(nameMark);
}

export function forProfile(value: string, profile: string): string {
  return value.replaceAll(nameMark, profile);
}

type PathKind = 'file' | 'folder';

/**
 * Returns the common path for a profile: `data/mirror.db` becomes `data/staging/mirror.db`, and `data/backups` becomes
 * `data/backups/staging`. With `{profile}`, the path itself says where the name goes.
 */
function profilePath(path: string, profile: string, kind: PathKind): string {
  if (isPerProfile(path)) return forProfile(path, profile);
  return kind === 'folder' ? join(path, profile) : join(dirname(path), profile, basename(path));
}

/** The same for one of `ownPaths`. */
export function ownPath(key: OwnPath, path: string, profile: string): string {
  return profilePath(path, profile, key === 'backup.folder' ? 'folder' : 'file');
}

/** The paths that a job writes to. */
const jobPaths: Readonly<Record<string, PathKind>> = {
  output: 'file',
  chart: 'file',
  file: 'file',
  folder: 'folder',
};

/** Returns the common jobs for a profile: they write to a folder with its name. */
export function jobsOfProfile(jobs: readonly WrittenJob[], profile: string): WrittenJob[] {
  return jobs.map(({ origin, entries }) => ({
    origin,
    entries: new Map(
      [...entries].map(([key, placed]) => {
        const kind = jobPaths[key];
        if (kind === undefined || typeof placed.value !== 'string') return [key, placed];
        return [key, { ...placed, value: profilePath(placed.value, profile, kind) }];
      }),
    ),
  }));
}

type OwnPath = (typeof ownPaths)[number];

/** The files and folders that a server's settings and jobs name for writing. */
interface ProfileFiles {
  /** Null for the server outside of the profiles. */
  readonly profile: string | null;
  readonly files: readonly { readonly what: string; readonly path: string; readonly isOfJob: boolean }[];
}

/** Returns the files of a profile that is not in force, so its settings are not read. */
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
    return path === null ? '' : ownPath(key, path, profile.name);
  };
  return filesWritten(profile.name, Object.fromEntries(ownPaths.map((key) => [key, pathOf(key)])), jobs);
}

/** Returns the files of a server whose settings are known. */
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
  // `-` stands for standard output.
  return { profile, files: [...files, ...written].filter(({ path }) => path !== '' && path !== '-') };
}

/** Returns a problem if two servers, or two settings of one, name the same file or folder. */
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
    // Jobs of one profile may write the same file, one after the other.
    if (isOfJob || other.isOfJob) continue;
    return new UsageError(`${what} is the same ${thing} as ${other.what}: ${place}`, {
      advice: `Name a ${thing} of its own.`,
    });
  }
  return undefined;
}

/** What two ways to write one address have in common: no scheme, no default port, no slash at the end. Empty if it is no URL. */
function serverMark(address: unknown): string {
  const url = typeof address === 'string' && URL.canParse(address) ? new URL(address) : undefined;
  return url === undefined ? '' : url.host.replace(/\.(?=$|:)/, '') + withoutEndSlashes(url.pathname);
}

/** The profiles, each in words, whose address leads to the same server. Each has a journal of its own. */
export function rivalsOf(
  address: unknown,
  others: readonly { readonly profile: string | null; readonly address: unknown }[],
): readonly string[] {
  const mark = serverMark(address);
  return others
    .filter((each) => mark !== '' && serverMark(each.address) === mark)
    .map(({ profile }) => serverWords(profile));
}

function serverWords(profile: string | null): string {
  return profile === null ? 'the server outside of the profiles' : `the profile ${profile}`;
}

function realPath(path: string): string {
  if (existsSync(path)) return realpathSync(path);
  const folder = dirname(path);
  return folder === path ? path : join(realPath(folder), basename(path));
}
