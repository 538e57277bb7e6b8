/** The table of settings: the one source of the global flags, `admin-mirror config`, docs/settings.md and the JSON Schema of the config file. */
import { dayMs, secondMs } from '../model/time.ts';
import * as kinds from './kinds.ts';

export interface Setting<
  Key extends string = string,
  Kind = kinds.Kind<unknown>,
  Preset = string | number | boolean | null,
> {
  /** `section.name` in the config file. A secret is not written there, but `section.name_file` may name its file. */
  readonly key: Key;
  readonly kind: Kind;
  /** A few words for the help. */
  readonly meaning: string;
  /** As it would stand in the config file; null if there is none. */
  readonly default: Preset;
  /** As commander spells it, `--db <file>`; null if there is no flag. */
  readonly flag: string | null;
  readonly env: string;
  /** False if the config file must not hold it. */
  readonly inFile: boolean;
  /** It belongs to one server: only a variable that ends in the profile's name can set it for a profile. */
  readonly isServers: boolean;
  /** The file must be another one for each profile. */
  readonly isOwnFile: boolean;
}

type Details = Partial<Pick<Setting, 'flag' | 'env' | 'inFile' | 'isServers' | 'isOwnFile'>>;

/** Makes a row. The variable has the name of the key, unless `details` gives another. */
function setting<const K extends string, Kind, const D extends Setting['default']>(
  key: K,
  kind: Kind,
  meaning: string,
  preset: D,
  details: Details = {},
): Setting<K, Kind, D> {
  const env = `ADMIN_MIRROR_${key.toUpperCase().replaceAll('.', '_')}`;
  const usual = { flag: null, env, inFile: true, isServers: false, isOwnFile: false };
  return { key, kind, meaning, default: preset, ...usual, ...details };
}

const { address, database, duration, hook, listen, money, path, secret, words } = kinds;

export const settingTable = [
  setting('config', path, 'the YAML file with the settings', null, { flag: '--config <file>', inFile: false }),
  setting('profile', kinds.name, 'the server to work with, if the config file has profiles', null, {
    flag: '--profile <name>',
  }),
  setting(
    'environment',
    kinds.environment,
    'what this server is, on every page of the console and in each question before something is sent: production red',
    null,
  ),
  setting('api.base_url', address, "the server's address, without /api/v1; required", null, {
    flag: '--base-url <url>',
    env: 'ADMIN_MIRROR_BASE_URL',
    isServers: true,
  }),
  setting('api.key', secret, 'the API key; required, and never a flag', null, { isServers: true }),
  setting('api.insecure_http', kinds.onOff, 'allow a base address that is neither https nor loopback', false, {
    flag: '--insecure-http',
    env: 'ADMIN_MIRROR_INSECURE_HTTP',
  }),
  setting('api.requests_per_second', kinds.rate, 'requests a second, at most; off leaves it to the server', 'off'),
  setting('network.ca_file', path, 'a file with certificates (PEM) to trust besides the usual ones', null, {
    env: 'ADMIN_MIRROR_CA_FILE',
  }),
  setting('store.mirror', path, 'the SQLite file of the mirror', 'data/mirror.db', {
    flag: '--db <file>',
    env: 'ADMIN_MIRROR_DB',
    isServers: true,
    isOwnFile: true,
  }),
  setting('store.journal', path, 'the SQLite file that records every write sent', 'data/journal.db', {
    flag: '--journal <file>',
    env: 'ADMIN_MIRROR_JOURNAL',
    isServers: true,
    isOwnFile: true,
  }),
  setting(
    'store.shared',
    database,
    'a PostgreSQL database for journal, accounts, jobs and alerts, in place of their files, for several machines',
    null,
  ),
  setting('store.shared_password', secret, 'its password', null),
  setting(
    'store.shared_lease',
    duration({ least: secondMs, most: dayMs }),
    'how long a machine may be silent before another takes its place',
    '45s',
  ),
  setting(
    'sync.requests_per_run',
    kinds.count({ most: 10_000_000 }),
    'requests that a run may spend on reading again',
    1_000,
  ),
  setting(
    'sync.brake',
    kinds.brake,
    'rows that a run may remove at once, as in emails=200; auto: 50 or a fifth',
    'auto',
  ),
  setting('resources', kinds.related, 'related records to mirror, by resource: users.orders,packages.prices', 'none'),
  setting(
    'history.ignore',
    kinds.fields,
    'fields whose change alone makes no version in the history',
    'last_seen_at, last_login_at, updated_at',
  ),
  setting('history.keep', duration(), 'how long a version is kept after it ended', '400d'),
  setting('bulk.concurrency', kinds.count({ most: 64 }), 'users whose rows are sent at the same time', 1),
  setting(
    'bulk.settle_after',
    duration({ least: 0 }),
    'how long a write that cannot be found on the server stays unknown',
    '10m',
  ),
  setting('bulk.max_row', money, 'largest change of a balance, in a row or by hand, or off', 1_000),
  setting('bulk.max_total', money, 'largest sum of changes, up and down, that a batch may make, or off', 25_000),
  setting('bulk.max_day', money, 'largest sum of all changes, up and down, within 24 hours, or off', 50_000),
  setting('bulk.max_rows', kinds.bound, 'rows that a batch may have, or off', 10_000),
  setting('bulk.currency', kinds.text, 'what all amounts are in, as in EUR; shown with each of them', null),
  setting('bulk.again_within', duration(), 'how long after a row was sent the same row needs --again', '30d'),
  setting('publish.url', database, 'the PostgreSQL database that `publish` writes to, without the password', null),
  setting('publish.password', secret, 'the password there', null),
  setting('serve.listen', listen, 'where the console listens', '127.0.0.1:8080'),
  setting('serve.behind_proxy', address, 'the address, with its path, under which a proxy shows the console', null),
  setting(
    'serve.tls',
    kinds.pem,
    'PEM files with the certificate of the console, its chain and its key: one or two',
    null,
  ),
  setting(
    'serve.oidc.issuer',
    address,
    'a provider of OpenID Connect with which people can sign in to the console',
    null,
  ),
  setting('serve.oidc.client_id', words, 'the client id of the console at the provider', null),
  setting('serve.oidc.client_secret', secret, 'its secret at the provider', null),
  setting('serve.oidc.claim', words, 'the claim of the provider that is the name of the account here', 'email'),
  setting('worker.listen', listen, 'where the worker serves its health, or off', '127.0.0.1:9464'),
  setting(
    'worker.token',
    secret,
    'the token that clients of the health address must send; required if other machines can connect',
    null,
  ),
  setting('worker.max_staleness', duration(), 'how old the mirror may be before that is a problem', '26h'),
  setting('alerts.webhook', hook, 'https address that the worker posts its alerts to; kept secret', null),
  setting('alerts.command', kinds.program, 'program that the worker runs for each alert', null),
  setting('alerts.ping', hook, 'https address that is requested after each complete sync; kept secret', null),
] as const;

type Row = (typeof settingTable)[number];
export type SettingKey = Row['key'];

/** All values by key; undefined only if the setting has no default, or can be off. */
export type SettingValues = {
  readonly [R in Row as R['key']]: R extends Setting<string, kinds.Kind<infer Value>, infer Preset>
    ? Value | (Preset extends null ? undefined : never)
    : never;
};

/** The settings whose values are times in ms. */
export type TimeKey = Extract<Row, { readonly kind: { readonly is: 'duration' } }>['key'];

/** The same rows with wider types, for code that treats all settings alike. */
export const allSettings: readonly Setting<SettingKey>[] = settingTable;

export function settingOf(key: SettingKey): Setting<SettingKey> {
  const found = allSettings.find((each) => each.key === key);
  if (found === undefined) throw new Error(`no setting is called ${key}`);
  return found;
}

/** Whether its value must never be shown. */
export function isHidden({ kind }: Setting): boolean {
  return kind.is === 'secret' || kind.is === 'hook';
}

/** `--db <file>` → `--db`. */
export function flagName(setting: Pick<Setting, 'flag'>): string | undefined {
  return setting.flag?.split(' ')[0];
}

/**
 * What nobody has a reason to change. They are part of the settings so that what needs them finds them there, and so that a test can
 * be given others.
 */
export const constants = {
  api: {
    /** A page that takes longer is not made by waiting: the sync then asks for a smaller one. */
    timeoutMs: 30 * secondMs,
    /** A read that failed this often fails an hour later, too. A write is sent once. */
    attempts: 5,
    /** Requests under way at once, at most. The client uses fewer while the server is slow or refuses. */
    concurrency: 8,
    /** Larger pages save no requests that count: servers give fewer, and most of the time is theirs. */
    pageSize: 1_000,
  },
  sync: {
    /** A window that changes is read again whole, so it is no more than a quarter of a minute of requests. */
    windowPages: 20,
  },
  bulk: {
    /** More decimal places than money has are a slip of the keyboard, and an error of the row. */
    decimals: 2,
  },
  log: {
    /** `--quiet` is warn, `--verbose` is debug. */
    level: 'info' as LogLevel,
  },
};

type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** Others in the place of the constants, some or all. */
export type OtherConstants = { readonly [S in keyof typeof constants]?: Partial<(typeof constants)[S]> };
