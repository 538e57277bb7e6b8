/** The settings: flag > environment > `.env` > config file > default; read once, checked once, frozen and passed down. */
import { resolve } from 'node:path';
import type { ApprovalPolicies } from '../model/approval.ts';
import { suggestion, UsageError } from '../model/errors.ts';
import type { Job } from '../model/job.ts';
import type { Log } from '../model/log.ts';
import type { Clock } from '../model/time.ts';
import { valueText } from '../model/text.ts';
import { withoutCredentials, withoutPassword, Secret } from '../model/secret.ts';
import { type PlacedPolicy, readApproval } from './approval.ts';
import { type ConfigFile, type FileProfile, type FileValue, readConfigFile, wholeConfig } from './config-file.ts';
import { isLoopback } from '../model/address.ts';
import { readJobs, type WrittenJob } from './jobs.ts';
import {
  addressProblem,
  expectedOf,
  fromText,
  namesIn,
  namesOf,
  readValue,
  sectionOf,
  type SettingValues,
} from './kinds.ts';
import {
  chooseProfile,
  filesOf,
  filesWritten,
  forProfile,
  isPerProfile,
  jobsOfProfile,
  profileVariable,
  profileVariables,
  rivalsOf,
  sharedFile,
} from './profiles.ts';
import {
  commonPath,
  type Given,
  type Place,
  strangers,
  takeProfile,
  takeVariables,
  variableIn,
  type Variables,
} from './sources.ts';
import { readDotenv } from './dotenv.ts';
import { allSettings, isSecret, type Setting, type SettingKey, settingOf } from './table.ts';

/** The settings that other rooms get. Durations are in ms, paths absolute; undefined means not set, or off. */
export type Settings = ReturnType<typeof settingsOf>;

export interface Surroundings {
  readonly settings: Settings;
  readonly log: Log;
  readonly clock: Clock;
  /** Aborted when the command must stop. */
  readonly signal: AbortSignal;
}

/** A value from the command line: the text of a flag, or what a flag such as `--quiet` stands for. */
export interface FlagValue {
  readonly key: SettingKey;
  readonly flag: string;
  readonly value: string | boolean;
}

interface SettingsSources {
  readonly flags: readonly FlagValue[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The working folder: `.env`, the config file and relative paths start here. */
  readonly folder: string;
}

interface SettingReading {
  readonly setting: Setting;
  /** As it was given, with secrets masked; null if it is not set. */
  readonly value: string | number | boolean | null;
  /** `default`, `flag --db`, `environment ADMIN_MIRROR_DB`, `.env ADMIN_MIRROR_DB` or `config/admin-mirror.yaml:12`. */
  readonly origin: string;
}

export interface SettingsReading {
  /** One for each row of the table of settings, in its order. */
  readonly readings: readonly SettingReading[];
  /** `bulk.approval` of the config file, for this profile. */
  readonly approval: readonly PlacedPolicy[];
  readonly problems: readonly UsageError[];
  /** The config file has profiles, none is chosen, and no server is set outside of them. */
  readonly isUndecided: boolean;
  /** About misspelt variables, and lines of `.env` that are no variable. */
  readonly warnings: readonly string[];
  /** Returns the config file for safekeeping; undefined if there is none. */
  readonly config: () => Buffer | undefined;
  /** Undefined if there are problems. */
  readonly settings: Settings | undefined;
  /** The settings without refused values: for the doctor to inspect, never to work with. */
  readonly rest: Settings;
}

export const defaultConfigFile = 'config/admin-mirror.yaml';

/** What all sources say, before the profile is chosen. */
interface Found {
  readonly given: ReadonlyMap<SettingKey, Given>;
  readonly places: readonly Place[];
  readonly file: ConfigFile | undefined;
  readonly common: ReadonlyMap<SettingKey, FileValue>;
  readonly problems: readonly UsageError[];
  readonly warnings: readonly string[];
  readonly dotenvIsOpen: boolean;
  readonly sources: SettingsSources;
}

/** Reads every source and reports every problem at once; throws nothing. */
export function readSettings(sources: SettingsSources): SettingsReading {
  const found = findSettings(sources);
  const profile = chosenOf(found);
  const others = found.file?.profiles.filter((each) => each !== profile) ?? [];
  return readingFor(found, profile, (inForce) =>
    sharedFile([...others.map((each) => filesIn(found, each)), ...inForce], sources.folder),
  );
}

export interface ServerReading {
  /** Null for the server outside of the profiles. */
  readonly profile: string | null;
  readonly reading: SettingsReading;
}

/** Reads the settings of each profile, and those of the server outside of them, if one is set and no profile is chosen. Throws nothing. */
export function readAllSettings(sources: SettingsSources): readonly ServerReading[] {
  const found = findSettings(sources);
  const profiles = found.file?.profiles ?? [];
  const shared = sharedFile(
    profiles.map((each) => filesIn(found, each)),
    sources.folder,
  );
  const outside = chosenOf(found) === undefined ? [{ profile: null, reading: readSettings(sources) }] : [];
  return [
    ...outside,
    ...profiles.map((profile) => {
      const given = new Map(found.given).set('profile', { value: profile.name, origin: profile.origin });
      return { profile: profile.name, reading: readingFor({ ...found, given }, profile, () => shared) };
    }),
  ];
}

/** Returns the profile in force; undefined for the server outside of the profiles; or the problem, if neither can be chosen. */
function chosenOf({ given, common, file }: Found): FileProfile | UsageError | undefined {
  const { value: name = defaultConfigFile } = given.get('config') ?? {};
  const address = common.get('api.base_url')?.value;
  const hasServer = (address !== undefined && !isPerProfile(address)) || given.has('api.base_url');
  const from = { file: file === undefined ? `${String(name)}, which is not there` : String(name), hasServer };
  return chooseProfile(given.get('profile') ?? common.get('profile'), file?.profiles ?? [], from);
}

/** Returns the address of a profile that is not in force. */
function addressIn({ common, places }: Found, { name, values }: FileProfile): unknown {
  const shared = common.get('api.base_url')?.value;
  return (
    variableIn(places)(profileVariable('api.base_url', name)) ??
    values.find(({ key }) => key === 'api.base_url')?.value ??
    (isPerProfile(shared) ? forProfile(shared, name) : shared)
  );
}

function filesIn({ common, places, file }: Found, profile: FileProfile): ReturnType<typeof filesOf> {
  return filesOf(profile, commonPath(common), variableIn(places), jobsWritten(file, profile));
}

function findSettings(sources: SettingsSources): Found {
  const dotenv = readDotenv(sources.folder);
  const given = new Map<SettingKey, Given>();
  for (const { key, flag, value } of sources.flags) {
    const { kind } = settingOf(key);
    given.set(key, { value: typeof value === 'string' ? fromText(kind, value) : value, origin: `flag ${flag}` });
  }
  const places: readonly Place[] = [
    { variables: sources.environment, origin: 'environment' },
    { variables: dotenv.variables, origin: '.env' },
  ];
  takeVariables(given, places, allSettings, ({ env }) => env);

  const config = given.get('config');
  const name = typeof config?.value === 'string' ? config.value : defaultConfigFile;
  const file = readConfigFile(sources.folder, name, config !== undefined);
  if (file !== undefined && config === undefined) given.set('config', { value: name, origin: 'default' });
  return {
    given,
    places,
    file,
    common: new Map(file?.values.map((each) => [each.key, each])),
    problems: [...dotenv.problems, ...(file?.problems ?? [])],
    warnings: dotenv.warnings,
    dotenvIsOpen: dotenv.isOpen,
    sources,
  };
}

/** @param sharedWith returns a problem if the files of the server in force are also those of another server */
function readingFor(
  found: Found,
  profile: FileProfile | UsageError | undefined,
  sharedWith: (inForce: readonly ReturnType<typeof filesWritten>[]) => UsageError | undefined,
): SettingsReading {
  const { places, file, sources } = found;
  const [given, common] = [new Map(found.given), new Map(found.common)];
  const problems: UsageError[] = [...found.problems];
  if (profile instanceof UsageError) problems.push(profile);
  else if (profile !== undefined) problems.push(...profile.problems, ...takeProfile(given, places, profile, common));
  for (const { key, value, origin } of common.values()) {
    if (!given.has(key) && !isPerProfile(value)) given.set(key, { value, origin });
  }
  const known = profile instanceof UsageError ? undefined : profile;
  const written = jobsWritten(file, known);
  const jobs = readJobs(written, known?.name, sources.environment['TZ']);
  const approval = readApproval([...(file?.approval ?? []), ...(known?.approval ?? [])]);
  const { values, refused } = readValues(given);
  const address = addressProblem(values, given.get('api.base_url')?.origin ?? '');
  const shared = sharedWith(profile instanceof UsageError ? [] : [filesWritten(known?.name ?? null, values, written)]);
  const named = (file?.profiles ?? []).filter((each) => each !== known);
  const others = [
    ...named.map((each) => ({ profile: each.name, address: addressIn(found, each) })),
    ...(known === undefined ? [] : [{ profile: null, address: found.common.get('api.base_url')?.value }]),
  ];
  const rest = settingsOf(
    { ...values, ...(address !== undefined && { 'api.base_url': undefined }) },
    jobs.jobs,
    Object.freeze(Object.fromEntries(approval.policies.map(({ subject, policy }) => [subject, policy]))),
    sources,
    found.dotenvIsOpen && given.get('api.key')?.origin.startsWith('.env') === true,
    rivalsOf(values['api.base_url'], others),
  );
  const unfit = [address, shared, logFileProblem(rest), tokenProblem(rest)].filter((each) => each !== undefined);
  problems.push(...jobs.problems, ...approval.problems, ...refused, ...unfit);
  const variables = [...allSettings.map((each) => each.env), ...profileVariables(file?.profiles ?? [])];
  return {
    readings: allSettings.map((setting) => readingOf(setting, given.get(setting.key), values)),
    approval: approval.policies,
    problems,
    isUndecided: profile instanceof UsageError && !found.given.has('profile') && !found.common.has('profile'),
    warnings: [
      ...found.warnings,
      ...places.flatMap(({ variables: given, origin }) => strangers(given, origin, variables)),
    ],
    config: () => (file === undefined ? undefined : wholeConfig(file, known)),
    settings: problems.length === 0 ? rest : undefined,
    rest,
  };
}

/** Reads the values. A refused one is replaced by its default, so that the doctor can still inspect the others. */
function readValues(given: ReadonlyMap<SettingKey, Given>) {
  const refused: UsageError[] = [];
  const values = allSettings.map(({ key, default: preset }) => {
    const { value: text = preset, origin = 'default' } = given.get(key) ?? {};
    if (text === null) return [key, undefined];
    const read = readValue(key, text);
    if (read === undefined) refused.push(wrongValue(key, text, origin));
    return [key, (read ?? (preset === null ? undefined : readValue(key, preset)))?.value];
  });
  return { values: Object.fromEntries(values) as SettingValues, refused };
}

/** Returns the profile's own jobs, or else the common ones. */
function jobsWritten(file: ConfigFile | undefined, profile: FileProfile | undefined): readonly WrittenJob[] {
  const common = file?.jobs ?? [];
  if (profile === undefined) return common;
  return profile.jobs ?? jobsOfProfile(common, profile.name);
}

/** A shorter token could be guessed. */
const minTokenLength = 16;

/** The health says how many users there are and what fails, so other machines need a token to read it. */
function tokenProblem({ worker: { listen, token } }: Settings): UsageError | undefined {
  const advice =
    `Set ADMIN_MIRROR_WORKER_TOKEN to at least ${minTokenLength} random characters, or listen on 127.0.0.1 alone; ` +
    'a client sends it as "Authorization: Bearer …".';
  const { length } = token?.reveal() ?? '';
  if (token !== undefined && length < minTokenLength) return new UsageError('worker.token is too short', { advice });
  if (token !== undefined || listen === undefined || isLoopback(listen.host)) return undefined;
  return new UsageError(`worker.listen is ${listen.host}, where other machines can connect, so it needs a token`, {
    advice,
  });
}

function logFileProblem({ log, api }: Settings): UsageError | undefined {
  if (log.file === undefined || log.file !== api.keyFile) return undefined;
  return new UsageError(`log.file is ${log.file}, which holds the key`, { advice: 'Name a file of its own.' });
}

export function valueOf(reading: SettingsReading, key: SettingKey): SettingReading {
  const found = reading.readings.find((each) => each.setting.key === key);
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
  const shown = isSecret(settingOf(key)) ? 'a value that is not shown' : valueText(shownOf(settingOf(key), value));
  const { default: preset } = settingOf(key);
  const known = namesOf(key);
  const given = typeof value === 'string' || Array.isArray(value) ? namesIn(value) : [];
  const stranger = given.find((name) => !known.includes(name));
  const hint = known.length === 0 || stranger === undefined ? '' : ` ${suggestion(stranger, known)}`;
  return new UsageError(`${key} is ${shown} (${origin}): expected ${expectedOf(key)}`, {
    advice: `Correct it there, or leave it out for the default${preset === null ? '' : ` (${preset})`}.${hint}`,
  });
}

function readingOf(setting: Setting, given: Given | undefined, values: SettingValues): SettingReading {
  const raw = given?.value ?? setting.default;
  // A refused secret is masked completely.
  const secret: unknown = values[setting.key as SettingKey];
  const masked = isSecret(setting) && raw !== null ? (secret instanceof Secret ? String(secret) : '****') : raw;
  const plain = typeof masked === 'object' && masked !== null ? textOf(masked) : shownOf(setting, masked);
  return {
    setting,
    value: plain as SettingReading['value'],
    origin: given?.origin ?? (raw === null ? 'not set' : 'default'),
  };
}

/** Hides a password in an address, also in one that was refused. */
function shownOf({ kind }: Pick<Setting, 'kind'>, value: unknown): unknown {
  if (typeof value !== 'string') return value;
  if (kind === 'database') return withoutPassword(value);
  return kind === 'address' ? withoutCredentials(value) : value;
}

/** Writes a list as a variable would hold it. */
function textOf(value: object): string {
  return Array.isArray(value) ? value.join(',') || 'none' : JSON.stringify(value);
}

/** The beginning of a path that leads to a systemd credential. */
export const credentialsWord = '${CREDENTIALS_DIRECTORY}';

/** Replaces it by the folder in which systemd puts a service's credentials; leaves the path as it is if there is no such folder. */
function withCredentials(path: string, { CREDENTIALS_DIRECTORY: credentials }: Variables): string {
  return credentials === undefined ? path : path.replace(credentialsWord, () => credentials);
}

function isCredential(path: string, { CREDENTIALS_DIRECTORY: credentials }: Variables): boolean {
  return credentials !== undefined && credentials !== '' && path.startsWith(`${resolve(credentials)}/`);
}

function settingsOf(
  values: SettingValues,
  jobs: readonly Job[],
  approval: ApprovalPolicies,
  { folder, environment }: SettingsSources,
  keyIsOpen: boolean,
  rivals: readonly string[],
) {
  const { profile, 'api.key_file': written } = values;
  const known = { ...values, 'api.key_file': written && withCredentials(written, environment) };
  const section = <Name extends string>(name: Name) => sectionOf(known, name, folder);
  const [api, publish] = [section('api'), section('publish')];
  const schema = publish.schema ?? profile ?? 'mirror';
  return Object.freeze({
    /** Undefined for the server outside of the profiles. */
    profile,
    /** Other profiles with the same server and a journal of their own, in words. */
    rivals,
    /** Use `serverOf` for the address and the key: it checks both, and reads the key file. */
    api: Object.freeze({
      ...api,
      /** The key is in a `.env` that other users can read. */
      keyIsOpen,
      /** The key file is a systemd credential, whose permissions are systemd's business. */
      keyIsCredential: api.keyFile !== undefined && isCredential(api.keyFile, environment),
    }),
    network: Object.freeze({
      ...section('network'),
      /** The environment asks Node not to verify certificates. The program verifies them all the same. */
      asksNotToVerify: environment['NODE_TLS_REJECT_UNAUTHORIZED'] === '0',
    }),
    /** Use `sharedStoreOf` for the shared store: it reads the password file. */
    store: section('store'),
    backup: section('backup'),
    sync: section('sync'),
    resources: Object.freeze({
      users: section('resources.users'),
      packages: section('resources.packages'),
      emails: section('resources.emails'),
    }),
    history: section('history'),
    /** `approval` comes from the config file alone. */
    bulk: Object.freeze({ ...section('bulk'), approval }),
    export: section('export'),
    /** By default, each profile has a schema of its own. */
    publish: Object.freeze({ ...publish, schema, reader: publish.reader ?? `${schema}_reader` }),
    serve: Object.freeze({ ...section('serve'), oidc: section('serve.oidc') }),
    worker: section('worker'),
    alerts: section('alerts'),
    log: section('log'),
    /** The worker's jobs in the order of the config file, the only place for them. */
    jobs: Object.freeze(jobs),
  });
}
