/** Where settings come from: flags, variables, `.env` and the config file; and which of them count for a profile. */
import { resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { nearestNames, UsageError } from '../model/errors.ts';
import { fileReason, notUtf8, readTrustedFile } from '../model/files.ts';
import { withoutEndSlashes } from '../model/text.ts';
import type { ConfigFile, FileProfile } from './config-file.ts';
import { forProfile, isPerProfile, ownFile, profileVariable, strayVariable } from './profiles.ts';
import { allSettings, type Setting, type SettingKey } from './table.ts';

/** A value as it was written, and where. The value of a secret in a file is `{ file }`. */
export interface Given {
  readonly value: unknown;
  /** `flag --db`, `environment ADMIN_MIRROR_DB`, `.env ADMIN_MIRROR_DB` or `config/admin-mirror.yaml:12` */
  readonly origin: string;
}

type Variables = Readonly<Record<string, string | undefined>>;

export interface Place {
  readonly variables: Variables;
  readonly origin: 'environment' | '.env';
}

/** What every source says, before the profile is chosen. */
export interface Sources {
  readonly flags: ReadonlyMap<SettingKey, Given>;
  /** The first one wins. */
  readonly places: readonly Place[];
  readonly file: ConfigFile | undefined;
}

/** Returns what the source that counts for a profile says of each setting, and problems: what was given but must not count. */
export function givenFor({ flags, places, file }: Sources, profile: FileProfile | undefined) {
  const given = new Map<SettingKey, Given>();
  const problems: UsageError[] = [];
  const name = profile?.name;
  for (const setting of allSettings) {
    const { key, isServers } = setting;
    const variable = inVariables(places, setting, isServers ? name : undefined);
    const stray = isServers && name !== undefined ? inVariables(places, setting) : undefined;
    if (stray !== undefined && name !== undefined) problems.push(strayVariable(setting, stray.origin, name));
    const own = variable ?? profile?.values.get(key);
    const flag = flags.get(key);
    if (key === 'api.base_url' && flag !== undefined && own !== undefined && name !== undefined) {
      const isSame = withoutEndSlashes(String(own.value)) === withoutEndSlashes(String(flag.value));
      if (!isSame) problems.push(otherServer(name, own));
      given.set(key, isSame ? flag : own);
      continue;
    }
    const found = flag ?? own ?? commonValue(setting, file, profile, given.get('api.base_url'));
    if (found !== undefined) given.set(key, found);
  }
  return { given, problems };
}

function otherServer(profile: string, { origin }: Given): UsageError {
  return new UsageError(`--base-url is another server than that of the profile ${profile} (${origin})`, {
    advice: 'Leave it out, or choose the profile of that server: a key must not go to the wrong one.',
  });
}

/**
 * Returns what stands outside of the profiles, or the default if a profile changes it; undefined if neither counts.
 * @param address that of the server, which decides whether the common key is its key
 */
function commonValue(
  { key, isOwnFile, default: preset }: Setting<SettingKey>,
  file: ConfigFile | undefined,
  profile: FileProfile | undefined,
  address: Given | undefined,
): Given | undefined {
  const common = file?.values.get(key);
  if (profile === undefined) return common === undefined || isPerProfile(common.value) ? undefined : common;
  if (key === 'profile') return common ?? { value: profile.name, origin: profile.origin };
  const placed = (value: unknown) => ({ value, origin: `${common?.origin ?? 'default'}, profile ${profile.name}` });
  const path = common?.value ?? preset;
  if (isOwnFile && typeof path === 'string') return placed(ownFile(path, profile.name));
  if (common === undefined) return undefined;
  if (isPerProfile(common.value)) return placed(forProfile(common.value, profile.name));
  // A key that was given for one server must not go to another.
  const isOfAnother = address !== undefined && address !== file?.values.get('api.base_url');
  return key === 'api.key' && isOfAnother ? undefined : common;
}

/** Returns the value of the setting's variable, or for a secret that of NAME_FILE. @param profile whose variable it must be */
function inVariables(places: readonly Place[], setting: Setting<SettingKey>, profile?: string): Given | undefined {
  const { kind, env } = setting;
  for (const { variables, origin } of places) {
    const name = profile === undefined ? env : profileVariable(setting, profile);
    const text = textIn(variables, name);
    const fromText = kind.fromText ?? ((given: string) => given.trim());
    if (text !== undefined) return { value: fromText(text), origin: `${origin} ${name}` };
    if (kind.is !== 'secret') continue;
    const fileName = profile === undefined ? `${env}_FILE` : profileVariable({ env: `${env}_FILE` }, profile);
    const file = textIn(variables, fileName);
    if (file !== undefined) return { value: { file }, origin: `${origin} ${fileName}` };
  }
  return undefined;
}

/** An empty variable counts as left out, because compose files and CI systems set such. HTTPS_PROXY is often in lower case. */
export function textIn(variables: Variables, name: string): string | undefined {
  const spellings = name.startsWith('ADMIN_MIRROR_') ? [name] : [name, name.toLowerCase()];
  return spellings.map((each) => variables[each]).find((text) => (text ?? '').trim() !== '');
}

/** Returns the names of all variables of ours, of these profiles, too. */
function knownVariables(profiles: readonly FileProfile[]): string[] {
  return allSettings.flatMap(({ env, kind, isServers }) => {
    const names = kind.is === 'secret' ? [env, `${env}_FILE`] : [env];
    if (!isServers) return names;
    return names.flatMap((each) => [each, ...profiles.map(({ name }) => profileVariable({ env: each }, name))]);
  });
}

/** Returns a warning for each misspelt variable, which would otherwise silently change nothing. */
export function strangers(places: readonly Place[], profiles: readonly FileProfile[]): string[] {
  const known = knownVariables(profiles);
  return places.flatMap(({ variables, origin }) =>
    Object.keys(variables)
      .filter((name) => name.startsWith('ADMIN_MIRROR_') && !known.includes(name))
      .map((name) => {
        const near = nearestNames(name, known);
        const meant = near.length === 0 ? '' : ` Did you mean ${near.join(' or ')}?`;
        return `${name} (${origin}) is not a setting.${meant}`;
      }),
  );
}

/** Reads the file `.env` of the folder. There are no variables if it is missing or must not be trusted. */
export function readDotenv(folder: string) {
  const none: { variables: Variables; problems: UsageError[]; isOpen: boolean } = {
    variables: {},
    problems: [],
    isOpen: false,
  };
  const what = 'the file .env in the working folder';
  try {
    const file = readTrustedFile(resolve(folder, '.env'), what);
    const problem = notUtf8(file.bytes, '.env');
    if (problem !== undefined) return { ...none, problems: [problem] };
    const text = file.bytes.toString('utf8').replace(/^\uFEFF/, '');
    return { ...none, variables: parseEnv(text), isOpen: (file.mode & 0o044) !== 0 };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'EISDIR') return none;
    const cannot = () => new UsageError(`${what} cannot be read: ${fileReason(error)}`);
    return { ...none, problems: [error instanceof UsageError ? error : cannot()] };
  }
}
