/** Profiles: several servers in one config file. No two share a file, and no profile gets the address or key of another by accident. */
import { existsSync, realpathSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { suggestion, UsageError } from '../model/errors.ts';
import { valueText, withoutEndSlashes } from '../model/text.ts';
import { type FileProfile, variableEnd } from './config-file.ts';
import type { Placed } from './block.ts';
import { allSettings, type Setting, type SettingKey } from './table.ts';

/** Returns the variable that sets it for a profile: `ADMIN_MIRROR_API_KEY_STAGING`. */
export function profileVariable({ env }: Pick<Setting, 'env'>, profile: string): string {
  return `${env}_${variableEnd(profile)}`;
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
export function strayVariable({ key, kind }: Setting, origin: string, profile: string): UsageError {
  const env = origin.split(' ').at(-1) ?? '';
  return new UsageError(`${origin} does not say for which profile it is, and ${profile} is in force`, {
    advice:
      `Call it ${profileVariable({ env }, profile)}, write it into the profile as ` +
      `${kind.is === 'secret' ? `${key}_file` : key}, or unset it.`,
  });
}

/** In a value outside of the profiles, stands for the name of each. */
const nameMark = '{profile}';

/** Whether the value holds `{profile}`, so that it counts for profiles alone. The value of a secret is its file. */
export function isPerProfile(value: unknown): boolean {
  return valueText(value).includes(nameMark);
}

/** Puts the profile's name in the place of each `{profile}`. */
export function forProfile(value: unknown, profile: string): unknown {
  if (typeof value === 'string') return value.replaceAll(nameMark, profile);
  return isPerProfile(value) ? (JSON.parse(JSON.stringify(value).replaceAll(nameMark, profile)) as unknown) : value;
}

/**
 * Returns the common path of a file for a profile: `data/mirror.db` becomes `data/staging/mirror.db`. With `{profile}`, the path
 * itself says where the name goes.
 */
export function ownFile(path: string, profile: string): string {
  if (isPerProfile(path)) return path.replaceAll(nameMark, profile);
  return join(dirname(path), profile, basename(path));
}

function ownFolder(path: string, profile: string): string {
  return isPerProfile(path) ? path.replaceAll(nameMark, profile) : join(path, profile);
}

/** How the paths that a job writes to become those of a profile. */
const jobPaths: Readonly<Record<string, (path: string, profile: string) => string>> = {
  output: ownFile,
  chart: ownFile,
  file: ownFile,
  folder: ownFolder,
};

/** Returns the common jobs for a profile: they write to a folder with its name. */
export function jobsOfProfile(jobs: readonly Placed[], profile: string): Placed[] {
  return jobs.map((job) => ({
    ...job,
    entries: new Map(
      [...(job.entries ?? [])].map(([key, placed]) => {
        const own = jobPaths[key];
        if (own === undefined || typeof placed.value !== 'string') return [key, placed];
        return [key, { ...placed, value: own(placed.value, profile) }];
      }),
    ),
  }));
}

/** The paths of a server, by the settings that must name a file of its own; null for the server outside of the profiles. */
interface OwnFiles {
  readonly profile: string | null;
  readonly paths: Readonly<Partial<Record<SettingKey, unknown>>>;
}

/** Returns a problem if two servers, or two settings of one, name the same file. */
export function sharedFile(all: readonly OwnFiles[], folder: string): UsageError | undefined {
  const keys = allSettings.filter(({ isOwnFile }) => isOwnFile).map(({ key }) => key);
  const seen = new Map<string, { readonly key: SettingKey; readonly profile: string | null }>();
  for (const { profile, paths } of all) {
    for (const key of keys) {
      const path = paths[key];
      if (typeof path !== 'string' || path === '') continue;
      const place = realPath(resolve(folder, path));
      const other = seen.get(place);
      seen.set(place, { key, profile });
      if (other === undefined) continue;
      if (other.profile === profile) {
        return new UsageError(`${key} is the same file as ${other.key}: ${place}`, {
          advice: 'Name a file of its own.',
        });
      }
      const [one, two] = [serverWords(profile), serverWords(other.profile)];
      return new UsageError(`${key} of ${one} is the same file as ${other.key} of ${two}: ${place}`, {
        advice: 'Give each profile paths of its own, or leave them out: each then has a folder by its name.',
      });
    }
  }
  return undefined;
}

function realPath(path: string): string {
  if (existsSync(path)) return realpathSync(path);
  const folder = dirname(path);
  return folder === path ? path : join(realPath(folder), basename(path));
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
