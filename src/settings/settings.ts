/**
 * Settings: flag > environment > config file > default, read once, checked once, frozen and passed down. Nothing but
 * the command line frame reads flags, the environment or the config file.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { UsageError } from '../model/errors.ts';
import type { Job } from '../model/job.ts';
import { nearestNames, suggestion } from '../model/nearest.ts';
import type { Money } from '../model/money.ts';
import { Secret, SecretAddress } from '../model/secret.ts';
import { addressProblem } from './base-address.ts';
import { readConfigFile } from './config-file.ts';
import { readJobs } from './jobs.ts';
import {
  expectedOf,
  fromText,
  type ListenAddress,
  type LogLevel,
  namesIn,
  namesOf,
  settingsSchema,
  type SettingValues,
} from './kinds.ts';
import { allSettings, type IncludingResource, type Setting, type SettingKey, settingOf } from './table.ts';

/** What the rooms below are given. Durations are in ms, paths absolute. */
export interface Settings {
  readonly api: {
    /** Without its last slash; undefined until it is set. `serverOf` insists on it. */
    readonly baseUrl: string | undefined;
    /** From the environment; `serverOf` also looks into the key file. */
    readonly key: Secret | undefined;
    readonly keyFile: string | undefined;
    readonly insecureHttp: boolean;
    readonly timeoutMs: number;
    readonly concurrency: number;
    readonly attempts: number;
    /** undefined: no limit of ours. */
    readonly requestsPerSecond: number | undefined;
    readonly pageSize: number;
  };
  readonly store: { readonly mirror: string; readonly journal: string };
  readonly sync: { readonly requestsPerRun: number; readonly graceMs: number; readonly windowPages: number };
  readonly resources: {
    /** Related records to be mirrored with the resource, by the names that `include` knows. */
    readonly [R in IncludingResource]: { readonly include: readonly string[] };
  };
  readonly history: {
    /** Fields whose change alone makes no version; `_extra.name` for one that the reference does not know. */
    readonly ignore: readonly string[];
    readonly keepMs: number;
  };
  readonly bulk: {
    readonly decimals: number;
    readonly concurrency: number;
    readonly settleAfterMs: number;
    /** undefined: no bound. So are the next two. */
    readonly maxRow: Money | undefined;
    readonly maxTotal: Money | undefined;
    readonly maxRows: number | undefined;
  };
  readonly worker: {
    /** undefined: it does not. */
    readonly listen: ListenAddress | undefined;
    readonly maxStalenessMs: number;
  };
  readonly alerts: {
    readonly webhook: SecretAddress | undefined;
    /** A program and its arguments. */
    readonly command: readonly string[] | undefined;
    readonly ping: SecretAddress | undefined;
  };
  readonly log: { readonly level: LogLevel };
  /** What the worker does, in the order of the config file; from nowhere else. */
  readonly jobs: readonly Job[];
}

/** A value given on the command line: a flag's own text, or what a flag such as `--quiet` stands for. */
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
}

/** One setting with the text of its value and where it came from. */
export interface SettingReading {
  readonly setting: Setting;
  /** As it was given, a key masked; null where it is not set. */
  readonly value: string | number | boolean | null;
  /** `default`, `flag --db`, `environment ADMIN_MIRROR_DB`, `.env ADMIN_MIRROR_DB` or `config/admin-mirror.yaml:12`. */
  readonly origin: string;
}

export interface SettingsReading {
  /** Every row of the table, in its order. */
  readonly readings: readonly SettingReading[];
  readonly problems: readonly UsageError[];
  /** Variables that look like ours and are none, each with the nearest that is. */
  readonly warnings: readonly string[];
  /** undefined where there are problems. */
  readonly settings: Settings | undefined;
  /** The settings without the values that were refused: to be looked at by the doctor, never to be worked with. */
  readonly rest: Settings;
}

interface Given {
  readonly value: unknown;
  readonly origin: string;
}

export const defaultConfigFile = 'config/admin-mirror.yaml';

/** Reads every source and reports every problem at once; throws nothing. */
export function readSettings(sources: SettingsSources): SettingsReading {
  const dotenv = readDotenv(sources.folder);
  const problems: UsageError[] = [...dotenv.problems];
  const given = new Map<SettingKey, Given>();
  for (const { key, flag, value } of sources.flags) {
    const { kind } = settingOf(key);
    given.set(key, { value: typeof value === 'string' ? fromText(kind, value) : value, origin: `flag ${flag}` });
  }
  for (const [variables, origin] of [
    [sources.environment, 'environment'],
    [dotenv.variables, '.env'],
  ] as const) {
    for (const { key, kind, env } of allSettings) {
      const text = variables[env];
      // An empty variable is one that was left out: compose files and CI systems set them so.
      if (text === undefined || text.trim() === '' || given.has(key)) continue;
      // A key in the real environment, directly or as a file, outranks one in `.env`.
      if (key === 'api.key' && given.has('api.key_file')) continue;
      given.set(key, { value: fromText(kind, text), origin: `${origin} ${env}` });
    }
  }

  const config = given.get('config');
  const name = typeof config?.value === 'string' ? config.value : defaultConfigFile;
  const file = readConfigFile(resolve(sources.folder, name), name, config !== undefined);
  const jobs = readJobs(file?.jobs ?? []);
  if (file !== undefined) {
    problems.push(...file.problems, ...jobs.problems);
    if (config === undefined) given.set('config', { value: name, origin: 'default' });
    for (const { key, value, origin } of file.values) if (!given.has(key)) given.set(key, { value, origin });
  }

  const input = Object.fromEntries(
    allSettings.map((each) => [each.key, given.get(each.key)?.value ?? each.default ?? undefined]),
  );
  const parsed = settingsSchema.safeParse(input);
  const refused = new Set(parsed.error?.issues.map((issue) => issue.path[0] as SettingKey));
  for (const key of refused) problems.push(wrongValue(key, input[key], given.get(key)?.origin ?? 'default'));
  // With the refused values left out, the others can still be looked at.
  const defaults = Object.fromEntries([...refused].map((key) => [key, settingOf(key).default ?? undefined]));
  const values = parsed.success ? parsed.data : settingsSchema.parse({ ...input, ...defaults });
  const address = addressProblem(values, given.get('api.base_url')?.origin ?? '');
  if (address !== undefined) problems.push(address);
  const rest = settingsOf(
    { ...values, ...(address !== undefined && { 'api.base_url': undefined }) },
    jobs.jobs,
    sources.folder,
  );
  return {
    readings: allSettings.map((setting) => readingOf(setting, given.get(setting.key), values)),
    problems,
    warnings: [...strangers(sources.environment, 'environment'), ...strangers(dotenv.variables, '.env')],
    settings: problems.length === 0 ? rest : undefined,
    rest,
  };
}

/** One setting's value and origin. */
export function valueOf(reading: SettingsReading, key: SettingKey): SettingReading {
  const found = reading.readings.find((each) => each.setting.key === key);
  if (found === undefined) throw new Error(`no setting is called ${key}`);
  return found;
}

/** The settings, or a UsageError for the first problem that says how many more there are. */
export function settingsFrom(reading: SettingsReading): Settings {
  if (reading.settings !== undefined) return reading.settings;
  const [first, ...others] = reading.problems;
  if (first === undefined) throw new Error('settings were refused without a reason');
  if (others.length === 0) throw first;
  const more = `\`admin-mirror doctor\` lists ${others.length} more of the kind.`;
  throw new UsageError(first.message, { advice: first.advice === undefined ? more : `${first.advice} ${more}` });
}

/** A misspelt variable changes nothing and says nothing: it is worth a line. */
function strangers(variables: Readonly<Record<string, string | undefined>>, origin: string): string[] {
  const known = allSettings.map((each) => each.env);
  return Object.keys(variables)
    .filter((name) => name.startsWith('ADMIN_MIRROR_') && !known.includes(name))
    .map((name) => {
      const near = nearestNames(name, known);
      const meant = near.length === 0 ? '' : ` Did you mean ${near.join(' or ')}?`;
      return `${name} (${origin}) is not a setting.${meant}`;
    });
}

function readDotenv(folder: string): { variables: Record<string, string | undefined>; problems: UsageError[] } {
  try {
    return { variables: parseEnv(readFileSync(resolve(folder, '.env'), 'utf8')), problems: [] };
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? String(error);
    if (code === 'ENOENT' || code === 'EISDIR') return { variables: {}, problems: [] };
    return { variables: {}, problems: [new UsageError(`the file .env in the working folder cannot be read: ${code}`)] };
  }
}

function wrongValue(key: SettingKey, value: unknown, origin: string): UsageError {
  const shown = isSecret(settingOf(key)) ? 'the value' : JSON.stringify(value);
  const known = namesOf(key);
  const given = typeof value === 'string' || Array.isArray(value) ? namesIn(value) : [];
  const stranger = given.find((name) => !known.includes(name));
  const hint = known.length === 0 || stranger === undefined ? '' : ` ${suggestion(stranger, known)}`;
  return new UsageError(`${key} is ${shown} (${origin}): expected ${expectedOf(key)}`, {
    advice: `Correct it there, or leave it out for the default${defaultWords(key)}.${hint}`,
  });
}

function defaultWords(key: SettingKey): string {
  const value = settingOf(key).default;
  return value === null ? '' : ` (${value})`;
}

function readingOf(setting: Setting, given: Given | undefined, values: SettingValues): SettingReading {
  const raw = given?.value ?? setting.default;
  const masked = isSecret(setting) && raw !== null ? maskedText(values[setting.key as SettingKey]) : raw;
  const plain = typeof masked === 'object' && masked !== null ? textOf(masked) : masked;
  return {
    setting,
    value: plain as SettingReading['value'],
    origin: given?.origin ?? (raw === null ? 'not set' : 'default'),
  };
}

/** As a secret shows itself; nothing of a value that was refused. */
function maskedText(value: unknown): string {
  return value instanceof Secret || value instanceof SecretAddress ? String(value) : '****';
}

function isSecret({ kind }: Setting): boolean {
  return kind === 'secret' || kind === 'hook';
}

/** A list as a variable would give it. */
function textOf(value: object): string {
  return Array.isArray(value) ? value.join(',') || 'none' : JSON.stringify(value);
}

function settingsOf(values: SettingValues, jobs: readonly Job[], folder: string): Settings {
  const absolute = (path: string) => resolve(folder, path);
  const keyFile = values['api.key_file'];
  return Object.freeze({
    api: Object.freeze({
      baseUrl: values['api.base_url'],
      key: values['api.key'],
      keyFile: keyFile === undefined ? undefined : absolute(keyFile),
      insecureHttp: values['api.insecure_http'],
      timeoutMs: values['api.timeout'],
      concurrency: values['api.concurrency'],
      attempts: values['api.attempts'],
      requestsPerSecond: values['api.requests_per_second'],
      pageSize: values['api.page_size'],
    }),
    store: Object.freeze({ mirror: absolute(values['store.mirror']), journal: absolute(values['store.journal']) }),
    sync: Object.freeze({
      requestsPerRun: values['sync.requests_per_run'],
      graceMs: values['sync.grace'],
      windowPages: values['sync.window_pages'],
    }),
    resources: Object.freeze({
      users: Object.freeze({ include: values['resources.users.include'] }),
      packages: Object.freeze({ include: values['resources.packages.include'] }),
      emails: Object.freeze({ include: values['resources.emails.include'] }),
    }),
    history: Object.freeze({ ignore: values['history.ignore'], keepMs: values['history.keep'] }),
    bulk: Object.freeze({
      decimals: values['bulk.decimals'],
      concurrency: values['bulk.concurrency'],
      settleAfterMs: values['bulk.settle_after'],
      maxRow: values['bulk.max_row'],
      maxTotal: values['bulk.max_total'],
      maxRows: values['bulk.max_rows'],
    }),
    worker: Object.freeze({ listen: values['worker.listen'], maxStalenessMs: values['worker.max_staleness'] }),
    alerts: Object.freeze({
      webhook: values['alerts.webhook'],
      command: values['alerts.command'],
      ping: values['alerts.ping'],
    }),
    log: Object.freeze({ level: values['log.level'] }),
    jobs: Object.freeze(jobs),
  });
}
