/**
 * Settings: flag > environment > config file > default, read once, checked once, frozen and passed down. Nothing but
 * the command line frame reads flags, the environment or the config file.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseEnv } from 'node:util';
import { UsageError } from '../model/errors.ts';
import type { Secret } from '../model/secret.ts';
import { readConfigFile } from './config-file.ts';
import { expectedOf, fromText, type LogLevel, settingsSchema, type SettingValues } from './kinds.ts';
import { allSettings, type Setting, type SettingKey } from './table.ts';

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
  readonly log: { readonly level: LogLevel };
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
  /** undefined where there are problems. */
  readonly settings: Settings | undefined;
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
    const kind = kindOf(key);
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
  if (file !== undefined) {
    problems.push(...file.problems);
    if (config === undefined) given.set('config', { value: name, origin: 'default' });
    for (const { key, value, origin } of file.values) if (!given.has(key)) given.set(key, { value, origin });
  }

  const input = Object.fromEntries(
    allSettings.map((each) => [each.key, given.get(each.key)?.value ?? each.default ?? undefined]),
  );
  const parsed = settingsSchema.safeParse(input);
  for (const issue of parsed.error?.issues ?? []) {
    const key = issue.path[0] as SettingKey;
    problems.push(wrongValue(key, input[key], given.get(key)?.origin ?? 'default'));
  }
  if (parsed.success) problems.push(...addressProblems(parsed.data, given.get('api.base_url')?.origin ?? ''));
  return {
    readings: allSettings.map((setting) => readingOf(setting, given.get(setting.key), parsed.data)),
    problems,
    settings: parsed.success && problems.length === 0 ? settingsOf(parsed.data, sources.folder) : undefined,
  };
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

function kindOf(key: SettingKey) {
  return allSettings.find((each) => each.key === key)?.kind ?? 'path';
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
  const shown = key === 'api.key' ? 'the value' : JSON.stringify(value);
  return new UsageError(`${key} is ${shown} (${origin}): expected ${expectedOf(key)}`, {
    advice: `Correct it there, or leave it out for the default${defaultWords(key)}.`,
  });
}

function defaultWords(key: SettingKey): string {
  const value = allSettings.find((each) => each.key === key)?.default ?? null;
  return value === null ? '' : ` (${value})`;
}

/** What the schema of one value cannot see: the path of the address, and http to another machine. */
function addressProblems(values: SettingValues, origin: string): UsageError[] {
  const address = values['api.base_url'];
  if (address === undefined) return [];
  const url = new URL(address);
  if (/\/api(\/v1)?$/.test(url.pathname)) {
    return [
      new UsageError(`the base address ${address} (${origin}) must not end in ${url.pathname}`, {
        advice: `Use ${address.replace(/\/api(\/v1)?$/, '')}: /api/v1 is added to it.`,
      }),
    ];
  }
  if (url.protocol === 'https:' || values['api.insecure_http'] || isLoopback(url.hostname)) return [];
  return [
    new UsageError(`the base address ${address} (${origin}) is not https: the key would cross the network in clear`, {
      advice: `Use https://${url.host}${url.pathname === '/' ? '' : url.pathname}, or accept it with --insecure-http.`,
    }),
  ];
}

function isLoopback(host: string): boolean {
  return host === 'localhost' || host.endsWith('.localhost') || host === '[::1]' || /^127(?:\.\d+){3}$/.test(host);
}

function readingOf(setting: Setting, given: Given | undefined, values: SettingValues | undefined): SettingReading {
  const raw = given?.value ?? setting.default;
  const masked = setting.kind === 'secret' && raw !== null ? String(values?.['api.key'] ?? '****') : raw;
  const plain = typeof masked === 'object' && masked !== null ? JSON.stringify(masked) : masked;
  return {
    setting,
    value: plain as SettingReading['value'],
    origin: given?.origin ?? (raw === null ? 'not set' : 'default'),
  };
}

function settingsOf(values: SettingValues, folder: string): Settings {
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
    log: Object.freeze({ level: values['log.level'] }),
  });
}
