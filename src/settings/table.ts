/** The table of settings: the one source of the global flags, `admin-mirror config`, docs/settings.md and the test of the example file. */
import { dayMs, secondMs } from '../model/time.ts';
import type { SettingKind } from './kinds.ts';

export interface Setting {
  /** `section.name` in the config file. */
  readonly key: string;
  readonly kind: SettingKind;
  /** A few words for the help. */
  readonly meaning: string;
  /** As it would stand in the config file; null if there is none. */
  readonly default: string | number | boolean | null;
  /** As commander spells it, `--db <file>`; null if there is no flag. */
  readonly flag: string | null;
  readonly env: string;
  /** False if the config file must not hold it. */
  readonly inFile: boolean;
  /** The largest and smallest count, or duration in ms. The smallest is 1 by default. A timer of Node can wait 24 days at most. */
  readonly most?: number;
  readonly least?: number;
}

type Details = Partial<Pick<Setting, 'flag' | 'env' | 'inFile' | 'most' | 'least'>>;

/** Makes a row. The variable has the name of the key, unless `details` gives another. */
function setting<const K extends string, const Kind extends SettingKind, const D extends Setting['default']>(
  key: K,
  kind: Kind,
  meaning: string,
  preset: D,
  details: Details = {},
) {
  const env = `ADMIN_MIRROR_${key.toUpperCase().replaceAll('.', '_')}`;
  return { key, kind, meaning, default: preset, flag: null, env, inFile: true, ...details };
}

export const settingTable = [
  setting('config', 'path', 'the YAML file with the settings', null, { flag: '--config <file>', inFile: false }),
  setting('profile', 'name', 'the server to work with, if the config file has profiles', null, {
    flag: '--profile <name>',
  }),
  setting('api.base_url', 'address', "the server's address, without /api/v1; required", null, {
    flag: '--base-url <url>',
    env: 'ADMIN_MIRROR_BASE_URL',
  }),
  setting('api.key', 'secret', 'the API key; required, and never a flag or in the config file', null, {
    inFile: false,
  }),
  setting('api.key_file', 'path', 'a file that holds the key and nothing else', null),
  setting('api.insecure_http', 'switch', 'allow a base address that is neither https nor loopback', false, {
    flag: '--insecure-http',
    env: 'ADMIN_MIRROR_INSECURE_HTTP',
  }),
  setting('api.timeout', 'duration', 'how long one request may take', '30s', { most: dayMs }),
  setting('api.concurrency', 'count', 'requests under way at once, at most', 8, { most: 64 }),
  setting('api.attempts', 'count', 'how often a read is tried before it counts as failed', 5, { most: 100 }),
  setting('api.requests_per_second', 'rate', 'requests a second, at most; off leaves it to the server', 'off'),
  setting('api.page_size', 'count', 'records requested on a page; the server may give fewer', 1_000, { most: 10_000 }),
  setting('network.proxy', 'proxy', 'proxy for https addresses; its user and password are kept secret', null, {
    env: 'HTTPS_PROXY',
  }),
  setting('network.no_proxy', 'hosts', 'hosts that are reached without the proxy, as in NO_PROXY', null, {
    env: 'NO_PROXY',
  }),
  setting('network.ca_file', 'path', 'a file with certificates (PEM) to trust besides the usual ones', null, {
    env: 'ADMIN_MIRROR_CA_FILE',
  }),
  setting('store.mirror', 'path', 'the SQLite file of the mirror', 'data/mirror.db', {
    flag: '--db <file>',
    env: 'ADMIN_MIRROR_DB',
  }),
  setting('store.journal', 'path', 'the SQLite file that records every write sent', 'data/journal.db', {
    flag: '--journal <file>',
    env: 'ADMIN_MIRROR_JOURNAL',
  }),
  setting(
    'store.shared',
    'database',
    'a PostgreSQL database for journal, accounts, jobs and alerts, in place of their files, for several machines',
    null,
  ),
  setting('store.shared_password', 'secret', 'its password; never in the config file', null, { inFile: false }),
  setting('store.shared_password_file', 'path', 'a file that holds the password and nothing else', null),
  setting('store.shared_lease', 'duration', 'how long a machine may be silent before another takes its place', '45s', {
    least: secondMs,
    most: dayMs,
  }),
  setting('backup.folder', 'path', 'where backups are kept', 'data/backups'),
  setting('backup.keep', 'bound', 'backups that are kept, or off for all', 'off'),
  setting('sync.requests_per_run', 'count', 'requests that a run may spend on reading again', 1_000, {
    most: 10_000_000,
  }),
  setting('sync.window_pages', 'count', 'pages that a window holds, at most', 20, { most: 1_000 }),
  setting('sync.brake', 'brake', 'rows that a run may remove at once, as in emails=200; auto: 50 or a fifth', 'auto'),
  setting('resources.users.include', 'includes', 'related records of users to mirror, as in orders,payments', 'none'),
  setting(
    'resources.packages.include',
    'includes',
    'related records of packages to mirror, as in prices,features',
    'none',
  ),
  setting('resources.emails.include', 'includes', 'related records of emails to mirror: user', 'none'),
  setting(
    'history.ignore',
    'fields',
    'fields whose change alone makes no version in the history',
    'last_seen_at, last_login_at, updated_at',
  ),
  setting('history.keep', 'duration', 'how long a version is kept after it ended', '400d'),
  setting('bulk.decimals', 'count', 'decimal places that an amount may have, at most', 2, { least: 0, most: 8 }),
  setting('bulk.concurrency', 'count', 'users whose rows are sent at the same time', 1, { most: 64 }),
  setting('bulk.settle_after', 'wait', 'how long a write that cannot be found on the server stays unknown', '10m'),
  setting('bulk.max_row', 'money', 'largest change of a balance, in a row or by hand, or off', 1_000),
  setting('bulk.max_total', 'money', 'largest sum of changes, up and down, that a batch may make, or off', 25_000),
  setting('bulk.max_day', 'money', 'largest sum of all changes, up and down, within 24 hours, or off', 50_000),
  setting('bulk.max_rows', 'bound', 'rows that a batch may have, or off', 10_000),
  setting('bulk.again_within', 'duration', 'how long after a row was sent the same row needs --again', '30d'),
  setting('export.reports', 'path', 'the folder with saved reports of your own', 'config/reports'),
  setting('publish.url', 'database', 'the PostgreSQL database that `publish` writes to, without the password', null),
  setting('publish.password', 'secret', 'the password there; never in the config file', null, { inFile: false }),
  setting('publish.password_file', 'path', 'a file that holds the password and nothing else', null),
  setting('publish.schema', 'identifier', 'the schema there; without it the name of the profile, or mirror', null),
  setting('publish.reader', 'identifier', 'the role that may read it; without it SCHEMA_reader', null),
  setting('serve.listen', 'listen', 'where the console listens', '127.0.0.1:8080'),
  setting('serve.behind_proxy', 'address', 'the address, with its path, under which a proxy shows the console', null),
  setting('serve.tls_certificate', 'path', 'a PEM file with the certificate of the console and its chain', null),
  setting('serve.tls_key', 'path', 'the PEM file with its key', null),
  setting('serve.read_only', 'switch', 'the console shows everything and changes nothing', false),
  setting(
    'serve.oidc.issuer',
    'address',
    'a provider of OpenID Connect with which people can sign in to the console',
    null,
  ),
  setting('serve.oidc.client_id', 'text', 'the client id of the console at the provider', null),
  setting('serve.oidc.client_secret', 'secret', 'its secret at the provider; never in the config file', null, {
    inFile: false,
  }),
  setting('serve.oidc.client_secret_file', 'path', 'a file that holds the secret and nothing else', null),
  setting('serve.oidc.claim', 'text', 'the claim of the provider that is the name of the account here', 'email'),
  setting('worker.listen', 'listen', 'where the worker serves its health, or off', '127.0.0.1:9464'),
  setting(
    'worker.token',
    'secret',
    'the token that clients of the health address must send; required if other machines can connect, and never in the config file',
    null,
    { inFile: false },
  ),
  setting('worker.max_staleness', 'duration', 'how old the mirror may be before that is a problem', '26h'),
  setting('alerts.webhook', 'hook', 'https address that the worker posts its alerts to; kept secret', null),
  setting('alerts.command', 'program', 'program that the worker runs for each alert', null),
  setting('alerts.ping', 'hook', 'https address that is requested after each complete sync; kept secret', null),
  setting('log.level', 'level', 'the least important log lines that are still written', 'info'),
  setting('log.file', 'path', 'a file for the log lines, in place of standard error', null, {
    flag: '--log-file <file>',
  }),
] as const;

export type SettingKey = (typeof settingTable)[number]['key'];

/** The same rows with wider types, for code that treats all settings alike. */
export const allSettings: readonly (Setting & { readonly key: SettingKey })[] = settingTable;

export function settingOf(key: SettingKey): Setting {
  const found = allSettings.find((each) => each.key === key);
  if (found === undefined) throw new Error(`no setting is called ${key}`);
  return found;
}

/** Whether its value must never be shown. */
export function isSecret({ kind }: Setting): boolean {
  return kind === 'secret' || kind === 'hook' || kind === 'proxy';
}

/** `--db <file>` → `--db`. */
export function flagName(setting: Setting): string | undefined {
  return setting.flag?.split(' ')[0];
}
