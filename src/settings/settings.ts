/** The settings: flag > environment > `.env` > config file > default; read once, checked once, frozen and passed down. */
import { suggestion, UsageError } from '../model/errors.ts';
import type { Log } from '../model/log.ts';
import { withoutCredentials, withoutPassword, Secret } from '../model/secret.ts';
import { valueText } from '../model/text.ts';
import type { Clock } from '../model/time.ts';
import { type PlacedPolicy, readApproval } from './block.ts';
import { type FileProfile, readConfigFile } from './config-file.ts';
import { readJobs } from './jobs.ts';
import { relatedIn } from './kinds.ts';
import { chooseProfile, jobsOfProfile, rivalsOf, sharedFile } from './profiles.ts';
import { addressProblem, proxyIn, tokenProblem } from './server.ts';
import { filesIn, settingsOf } from './sections.ts';
import { type Given, givenFor, type Place, readDotenv, type Sources, strangers, textIn } from './sources.ts';
import {
  allSettings,
  isHidden,
  type OtherConstants,
  type Setting,
  type SettingKey,
  settingOf,
  type SettingValues,
} from './table.ts';

/** The settings that other rooms get. Durations are in ms, paths absolute; undefined means not set, or off. */
export type Settings = ReturnType<typeof settingsOf>;

export interface Surroundings {
  readonly settings: Settings;
  readonly log: Log;
  readonly clock: Clock;
  /** Aborted when the command must stop. */
  readonly signal: AbortSignal;
}

/** A value from the command line: the text of a flag, or what a flag such as `--insecure-http` stands for. */
export interface FlagValue {
  readonly key: SettingKey;
  readonly flag: string;
  readonly value: string | boolean;
}

export interface SettingsSources {
  readonly flags: readonly FlagValue[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The working folder: `.env`, the config file and relative paths start here. */
  readonly folder: string;
  /** In the place of those of the program. */
  readonly constants?: OtherConstants;
}

interface SettingReading {
  readonly key: SettingKey;
  /** As it was given, with secrets masked; null if it is not set. */
  readonly value: string | number | boolean | null;
  /** `default`, `flag --db`, `environment ADMIN_MIRROR_DB`, `.env ADMIN_MIRROR_DB` or `config/admin-mirror.yaml:12`. */
  readonly origin: string;
  /** The files that it names, as they were given. */
  readonly files: readonly string[];
}

export interface SettingsReading {
  /** One for each row of the table of settings, in its order. */
  readonly readings: readonly SettingReading[];
  /** `bulk.approval` of the config file, for this profile. */
  readonly approval: readonly PlacedPolicy[];
  readonly problems: readonly UsageError[];
  /** The config file has profiles, none is chosen, and no server is set outside of them. */
  readonly isUndecided: boolean;
  /** About misspelt variables. */
  readonly warnings: readonly string[];
  /** Undefined if there are problems. */
  readonly settings: Settings | undefined;
  /** The settings without refused values: for the doctor to inspect, never to work with. */
  readonly rest: Settings;
}

export interface ServerReading {
  /** Null for the server outside of the profiles. */
  readonly profile: string | null;
  readonly reading: SettingsReading;
}

export const defaultConfigFile = 'config/admin-mirror.yaml';

interface Found extends Sources {
  readonly flags: Map<SettingKey, Given>;
  readonly problems: readonly UsageError[];
  readonly warnings: readonly string[];
  readonly dotenvIsOpen: boolean;
  readonly from: SettingsSources;
}

/** Reads every source and reports every problem at once; throws nothing. */
export function readSettings(sources: SettingsSources): SettingsReading {
  const found = findSettings(sources);
  return readingFor(found, chosenOf(found));
}

/** Reads the settings of each profile, and those of the server outside of them, if one is set and no profile is chosen. Throws nothing. */
export function readAllSettings(sources: SettingsSources): readonly ServerReading[] {
  const found = findSettings(sources);
  const outside = chosenOf(found) === undefined ? [{ profile: null, reading: readingFor(found, undefined) }] : [];
  const ofProfiles = (found.file?.profiles ?? []).map((profile) => {
    const flags = new Map(found.flags).set('profile', { value: profile.name, origin: profile.origin });
    return { profile: profile.name, reading: readingFor({ ...found, flags }, profile) };
  });
  return [...outside, ...ofProfiles];
}

function findSettings(sources: SettingsSources): Found {
  const dotenv = readDotenv(sources.folder);
  const flags = new Map<SettingKey, Given>();
  for (const { key, flag, value } of sources.flags) {
    const { fromText } = settingOf(key).kind;
    const given = typeof value === 'string' && fromText !== undefined ? fromText(value) : value;
    flags.set(key, { value: given, origin: `flag ${flag}` });
  }
  const places: readonly Place[] = [
    { variables: sources.environment, origin: 'environment' },
    { variables: dotenv.variables, origin: '.env' },
  ];
  const config = givenFor({ flags, places, file: undefined }, undefined).given.get('config');
  const name = typeof config?.value === 'string' ? config.value : defaultConfigFile;
  const file = readConfigFile(sources.folder, name, config !== undefined);
  if (file !== undefined && config === undefined) flags.set('config', { value: name, origin: 'default' });
  return {
    flags,
    places,
    file,
    problems: [...dotenv.problems, ...(file?.problems ?? [])],
    warnings: strangers(places, file?.profiles ?? []),
    dotenvIsOpen: dotenv.isOpen,
    from: sources,
  };
}

/** Returns the profile in force; undefined for the server outside of the profiles; or the problem, if neither can be chosen. */
function chosenOf(found: Found): FileProfile | UsageError | undefined {
  const { given } = givenFor(found, undefined);
  const { value: name = defaultConfigFile } = given.get('config') ?? {};
  const file = found.file === undefined ? `${String(name)}, which is not there` : String(name);
  return chooseProfile(given.get('profile'), found.file?.profiles ?? [], {
    file,
    hasServer: given.has('api.base_url'),
  });
}

function readingFor(found: Found, chosen: FileProfile | UsageError | undefined): SettingsReading {
  const { places, file, from } = found;
  const profile = chosen instanceof UsageError ? undefined : chosen;
  const { given, problems: misplaced } = givenFor(found, profile);
  const written = profile === undefined ? file?.jobs : (profile.jobs ?? jobsOfProfile(file?.jobs ?? [], profile.name));
  const jobs = readJobs(written ?? [], from.environment['TZ']);
  // A block of the profile replaces the common one for the same action.
  const approval = readApproval(new Map([...(file?.approval ?? []), ...(profile?.approval ?? [])]));
  const { values, problems: wrong } = readValues(given);
  const address = addressProblem(values, given.get('api.base_url')?.origin ?? '');
  const others = othersOf(found, profile);
  const own = { profile: profile?.name ?? null, paths: values };
  const shared = sharedFile([...others, ...(chosen instanceof UsageError ? [] : [own])], from.folder);
  const variable = (name: string) => places.map(({ variables }) => textIn(variables, name)).find(Boolean);
  const proxy = proxyIn(variable('HTTPS_PROXY'));
  const rest = settingsOf({ ...values, ...(address !== undefined && { 'api.base_url': undefined }) }, from, {
    jobs: jobs.jobs,
    approval: Object.freeze(Object.fromEntries(approval.policies.map(({ subject, policy }) => [subject, policy]))),
    keyIsOpen: found.dotenvIsOpen && given.get('api.key')?.origin.startsWith('.env') === true,
    rivals: rivalsOf(
      values['api.base_url'],
      others.map((each) => ({ ...each, address: each.paths['api.base_url'] })),
    ),
    proxy: proxy instanceof UsageError ? undefined : proxy,
    noProxy: variable('NO_PROXY'),
  });
  const problems = [
    ...found.problems,
    ...[chosen].filter((each) => each instanceof UsageError),
    ...(profile?.problems ?? []),
    ...misplaced,
    ...jobs.problems,
    ...approval.problems,
    ...wrong,
    ...[address, shared, tokenProblem(rest), proxy].filter((each) => each instanceof UsageError),
  ];
  return {
    readings: allSettings.map((setting) => readingOf(setting, given.get(setting.key), values)),
    approval: approval.policies,
    problems,
    isUndecided: chosen instanceof UsageError && !given.has('profile'),
    warnings: found.warnings,
    settings: problems.length === 0 ? rest : undefined,
    rest,
  };
}

/** Returns what the other servers of the config file name, unchecked. */
function othersOf(found: Found, profile: FileProfile | undefined) {
  const profiles = found.file?.profiles.filter((each) => each !== profile) ?? [];
  // The flags are those of the server in force.
  const sources = { ...found, flags: new Map<SettingKey, Given>() };
  const named = (other: FileProfile | undefined) => {
    const { given } = givenFor(sources, other);
    return {
      profile: other?.name ?? null,
      paths: Object.fromEntries([...given].map(([key, { value }]) => [key, value])),
    };
  };
  const common = found.file?.values.get('api.base_url')?.value;
  const outside =
    profile === undefined || common === undefined ? [] : [{ profile: null, paths: { 'api.base_url': common } }];
  return [...profiles.map(named), ...outside];
}

/** Reads the values. A refused one is replaced by its default, so that the doctor can still inspect the others. */
function readValues(given: ReadonlyMap<SettingKey, Given>) {
  const problems: UsageError[] = [];
  const values = allSettings.map(({ key, kind, default: preset }) => {
    const { value: written = preset, origin = 'default' } = given.get(key) ?? {};
    if (written === null) return [key, undefined];
    const { success, data } = kind.type.safeParse(written);
    if (success) return [key, data];
    problems.push(wrongValue(key, written, origin));
    return [key, preset === null ? undefined : kind.type.parse(preset)];
  });
  return { values: Object.fromEntries(values) as SettingValues, problems };
}

/** Reads a value as that of the setting. Returns undefined if it is refused. */
export function readValue<K extends SettingKey>(key: K, given: unknown): SettingValues[K] | undefined {
  return settingOf(key).kind.type.safeParse(given).data as SettingValues[K] | undefined;
}

/** Returns a typed address without its last slash. Throws a UsageError if it is no address, or must not be used. */
export function checkedAddress(text: string, insecureHttp: boolean): string {
  const address = readValue('api.base_url', text.trim());
  if (address === undefined) {
    const { expected } = settingOf('api.base_url').kind;
    throw new UsageError(`"${withoutCredentials(text.trim())}" is not ${expected}`);
  }
  const problem = addressProblem({ 'api.base_url': address, 'api.insecure_http': insecureHttp }, 'as given');
  if (problem !== undefined) throw problem;
  return address;
}

export function valueOf(reading: SettingsReading, key: SettingKey): SettingReading {
  const found = reading.readings.find((each) => each.key === key);
  if (found === undefined) throw new Error(`no setting is called ${key}`);
  return found;
}

/** Returns the settings. If there are problems, throws the first one, which then says how many more there are. */
export function settingsFrom(reading: SettingsReading): Settings {
  if (reading.settings !== undefined) return reading.settings;
  const [first, ...others] = reading.problems;
  if (first === undefined) throw new Error('settings were refused without a reason');
  if (others.length === 0) throw first;
  const more = `\`admin-mirror doctor\` lists ${others.length} more.`;
  throw new UsageError(first.message, { advice: first.advice === undefined ? more : `${first.advice} ${more}` });
}

function wrongValue(key: SettingKey, value: unknown, origin: string): UsageError {
  const setting = settingOf(key);
  const { kind, default: preset } = setting;
  const shown = isHidden(setting) ? 'a value that is not shown' : valueText(shownOf(setting, value));
  const known = kind.names ?? [];
  const stranger = relatedIn(value).find((name) => !known.includes(name));
  const hint = known.length === 0 || stranger === undefined ? '' : ` ${suggestion(stranger, known)}`;
  return new UsageError(`${key} is ${shown} (${origin}): expected ${kind.expected}`, {
    advice: `Correct it there, or leave it out for the default${preset === null ? '' : ` (${preset})`}.${hint}`,
  });
}

function readingOf(setting: Setting<SettingKey>, given: Given | undefined, values: SettingValues): SettingReading {
  const raw = given?.value ?? setting.default;
  const origin = given?.origin ?? (raw === null ? 'not set' : 'default');
  const { key } = setting;
  return { key, value: shownValue(setting, raw, values), origin, files: filesIn(values[key], setting) };
}

function shownValue(setting: Setting<SettingKey>, raw: unknown, values: SettingValues): SettingReading['value'] {
  const value: unknown = values[setting.key];
  // A refused secret is masked completely.
  if (isHidden(setting) && raw !== null) return value instanceof Secret ? String(value) : '****';
  const plain = typeof raw === 'object' && raw !== null ? textOf(raw) : shownOf(setting, raw);
  return plain as SettingReading['value'];
}

/** Hides a password in an address, also in one that was refused. */
function shownOf({ kind }: Pick<Setting, 'kind'>, value: unknown): unknown {
  if (typeof value !== 'string') return value;
  if (kind.is === 'database') return withoutPassword(value);
  return kind.is === 'address' ? withoutCredentials(value) : value;
}

/** Writes a list as a variable would hold it. */
function textOf(value: object): string {
  const list = Array.isArray(value) ? value : relatedIn(value);
  return list.map((each) => (typeof each === 'object' ? JSON.stringify(each) : String(each))).join(',') || 'none';
}
