/** Settings from flags and variables, and which of them count for a profile. */
import { nearestNames, UsageError } from '../model/errors.ts';
import { withoutEndSlashes } from '../model/text.ts';
import { type FileProfile, type FileValue } from './config-file.ts';
import { fromText, type SettingKind } from './kinds.ts';
import {
  forProfile,
  isPerProfile,
  isServerKey,
  ownPath,
  ownPaths,
  profileVariable,
  serverKeys,
  strayVariable,
} from './profiles.ts';
import { allSettings, type SettingKey, settingOf } from './table.ts';

export interface Given {
  readonly value: unknown;
  readonly origin: string;
  readonly variable?: string;
}

export type Variables = Readonly<Record<string, string | undefined>>;

export interface Place {
  readonly variables: Variables;
  readonly origin: 'environment' | '.env';
}

/** Adds the settings that variables give and `given` does not have yet. Earlier places outrank later ones. */
export function takeVariables<S extends { readonly key: SettingKey; readonly kind: SettingKind }>(
  given: Map<SettingKey, Given>,
  places: readonly Place[],
  settings: readonly S[],
  nameOf: (setting: S) => string,
): void {
  for (const { variables, origin } of places) {
    for (const setting of settings) {
      const { key, kind } = setting;
      const variable = nameOf(setting);
      // An empty variable counts as left out, because compose files and CI systems set such. HTTPS_PROXY is often in lower case.
      const spellings = variable.startsWith('ADMIN_MIRROR_') ? [variable] : [variable, variable.toLowerCase()];
      const text = spellings.map((each) => variables[each]).find((each) => (each ?? '').trim() !== '');
      if (text === undefined || given.has(key)) continue;
      // A key in the real environment, directly or as a file, outranks one in `.env`.
      if (key === 'api.key' && given.has('api.key_file')) continue;
      given.set(key, { value: fromText(kind, text), origin: `${origin} ${variable}`, variable });
    }
  }
}

/** Adds the profile's settings, and the common ones with its name in them. Returns problems: what was given but must not count for it. */
export function takeProfile(
  given: Map<SettingKey, Given>,
  places: readonly Place[],
  { name, values, origin }: FileProfile,
  common: Map<SettingKey, FileValue>,
): UsageError[] {
  const problems: UsageError[] = [];
  if (!given.has('profile')) given.set('profile', common.get('profile') ?? { value: name, origin });
  for (const key of serverKeys) {
    const stray = given.get(key);
    if (stray?.variable === undefined) continue;
    problems.push(strayVariable(key, stray.origin, name));
    given.delete(key);
  }
  const own = allSettings.flatMap(({ key, kind }) => (isServerKey(key) ? [{ key, kind }] : []));
  // The loop above has removed variables, so only a flag is left.
  const flag = given.get('api.base_url');
  given.delete('api.base_url');
  takeVariables(given, places, own, ({ key }) => profileVariable(key, name));
  for (const { key, value, origin } of values) if (!given.has(key)) given.set(key, { value, origin });
  const itsOwn = given.get('api.base_url');
  if (flag !== undefined) {
    const same =
      itsOwn === undefined || withoutEndSlashes(String(itsOwn.value)) === withoutEndSlashes(String(flag.value));
    if (same) given.set('api.base_url', flag);
    else {
      const message = `--base-url is another server than that of the profile ${name} (${itsOwn.origin})`;
      const advice = 'Leave it out, or choose the profile of that server: a key must not go to the wrong one.';
      problems.push(new UsageError(message, { advice }));
    }
  }
  // A key that was given for one server must not go to another.
  const isOther = given.has('api.base_url') || isPerProfile(common.get('api.base_url')?.value);
  if (isOther && !isPerProfile(common.get('api.key_file')?.value)) common.delete('api.key_file');
  for (const key of ownPaths) {
    const path = commonPath(common)(key);
    const from = common.get(key)?.origin ?? 'default';
    if (path === null || given.has(key)) continue;
    given.set(key, { value: ownPath(key, path, name), origin: `${from}, profile ${name}` });
  }
  for (const [key, { value, origin: from }] of common) {
    if (!isPerProfile(value) || given.has(key)) continue;
    given.set(key, { value: forProfile(value, name), origin: `${from}, profile ${name}` });
  }
  return problems;
}

/** Returns a function for the path outside of the profiles; null if there is none. */
export function commonPath(common: ReadonlyMap<SettingKey, FileValue>) {
  return (key: (typeof ownPaths)[number]): string | null => {
    const value = common.get(key)?.value ?? settingOf(key).default;
    return typeof value === 'string' ? value : null;
  };
}

export function variableIn(places: readonly Place[]) {
  return (name: string): string | undefined =>
    places.map(({ variables }) => variables[name]?.trim()).find((text) => text !== undefined && text !== '');
}

/** Returns a warning for each misspelt variable, which would otherwise silently change nothing. */
export function strangers(variables: Variables, origin: string, known: readonly string[]): string[] {
  return Object.keys(variables)
    .filter((name) => name.startsWith('ADMIN_MIRROR_') && !known.includes(name))
    .map((name) => {
      const near = nearestNames(name, known);
      const meant = near.length === 0 ? '' : ` Did you mean ${near.join(' or ')}?`;
      return `${name} (${origin}) is not a setting.${meant}`;
    });
}
