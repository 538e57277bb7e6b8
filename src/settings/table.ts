/**
 * Every setting, once: its key in the config file, flag, environment variable, default and meaning. The schema, the
 * global flags, `admin-mirror config`, the example file's test and README's table all come from here.
 */

/** How a setting's text is read; src/settings/kinds.ts has the rule of each. */
export type SettingKind =
  | 'address'
  | 'secret'
  | 'path'
  | 'duration'
  | 'bytes'
  | 'count'
  | 'rate'
  | 'bound'
  | 'money'
  | 'wait'
  | 'level'
  | 'switch'
  | 'includes'
  | 'name'
  | 'fields'
  | 'brake'
  | 'listen'
  | 'hook'
  | 'proxy'
  | 'hosts'
  | 'program';

export interface Setting {
  /** `section.name` in the config file. */
  readonly key: string;
  readonly kind: SettingKind;
  /** What a person calls it. */
  readonly title: string;
  /** In a few words, as the help prints it. */
  readonly meaning: string;
  /** As commander spells it, `--db <file>`; null where there is no flag. */
  readonly flag: string | null;
  readonly env: string;
  /** False where the config file must not hold it. */
  readonly inFile: boolean;
  /** As it would stand in the config file; null where there is none. */
  readonly default: string | number | boolean | null;
  /** Smallest count accepted; 1 where it is left out. */
  readonly least?: number;
  /** Largest count accepted. */
  readonly most?: number;
}

function setting<const K extends string>(
  key: K,
  kind: SettingKind,
  title: string,
  meaning: string,
  more: {
    flag?: string;
    env: string;
    inFile?: boolean;
    default?: string | number | boolean;
    least?: number;
    most?: number;
  },
) {
  return {
    key,
    kind,
    title,
    meaning,
    flag: more.flag ?? null,
    env: more.env,
    inFile: more.inFile ?? true,
    default: more.default ?? null,
    ...(more.least === undefined ? {} : { least: more.least }),
    ...(more.most === undefined ? {} : { most: more.most }),
  } satisfies Setting;
}

/** Resources whose related records can be asked for. */
export type IncludingResource = 'users' | 'packages' | 'emails';

function includeSetting<const R extends IncludingResource>(resource: R, meaning: string) {
  return setting(`resources.${resource}.include`, 'includes', `${resource} include`, meaning, {
    env: `ADMIN_MIRROR_RESOURCES_${resource.toUpperCase()}_INCLUDE`,
    default: 'none',
  });
}

export const settingTable = [
  setting('config', 'path', 'config file', 'the YAML file with the settings', {
    flag: '--config <file>',
    env: 'ADMIN_MIRROR_CONFIG',
    inFile: false,
  }),
  setting('profile', 'name', 'profile', 'the server to work with, where the config file has profiles', {
    flag: '--profile <name>',
    env: 'ADMIN_MIRROR_PROFILE',
  }),
  setting('api.base_url', 'address', 'base address', "the server's address, without /api/v1; required", {
    flag: '--base-url <url>',
    env: 'ADMIN_MIRROR_BASE_URL',
  }),
  setting('api.key', 'secret', 'key', 'the API key; required, and never a flag or in the config file', {
    env: 'ADMIN_MIRROR_API_KEY',
    inFile: false,
  }),
  setting('api.key_file', 'path', 'key file', 'a file that holds the key and nothing else', {
    env: 'ADMIN_MIRROR_API_KEY_FILE',
  }),
  setting('api.insecure_http', 'switch', 'insecure http', 'allow a base address that is neither https nor loopback', {
    flag: '--insecure-http',
    env: 'ADMIN_MIRROR_INSECURE_HTTP',
    default: false,
  }),
  setting('api.timeout', 'duration', 'timeout', 'how long one request may take', {
    env: 'ADMIN_MIRROR_API_TIMEOUT',
    default: '30s',
  }),
  setting('api.concurrency', 'count', 'concurrency', 'requests under way at once, at most', {
    env: 'ADMIN_MIRROR_API_CONCURRENCY',
    default: 8,
    most: 64,
  }),
  setting('api.attempts', 'count', 'attempts', 'how often a read is tried before it counts as failed', {
    env: 'ADMIN_MIRROR_API_ATTEMPTS',
    default: 5,
    most: 100,
  }),
  setting('api.requests_per_second', 'rate', 'rate', 'requests a second, at most; off leaves it to the server', {
    env: 'ADMIN_MIRROR_API_REQUESTS_PER_SECOND',
    default: 'off',
  }),
  setting('api.page_size', 'count', 'page size', 'records asked for on a page; the server may give fewer', {
    env: 'ADMIN_MIRROR_API_PAGE_SIZE',
    default: 1_000,
    most: 10_000,
  }),
  setting('network.proxy', 'proxy', 'proxy', 'proxy for https addresses; its user and password are kept secret', {
    env: 'HTTPS_PROXY',
  }),
  setting('network.no_proxy', 'hosts', 'no proxy', 'hosts that are reached without the proxy, as in NO_PROXY', {
    env: 'NO_PROXY',
  }),
  setting('network.ca_file', 'path', 'certificates', 'a file with certificates (PEM) to trust besides the usual ones', {
    env: 'ADMIN_MIRROR_CA_FILE',
  }),
  setting('store.mirror', 'path', 'mirror file', 'the SQLite file of the mirror', {
    flag: '--db <file>',
    env: 'ADMIN_MIRROR_DB',
    default: 'data/mirror.db',
  }),
  setting('store.journal', 'path', 'journal file', 'the SQLite file that records every write sent', {
    flag: '--journal <file>',
    env: 'ADMIN_MIRROR_JOURNAL',
    default: 'data/journal.db',
  }),
  setting('store.keep_runs', 'duration', 'keep runs', 'how long the record of a run is kept', {
    env: 'ADMIN_MIRROR_STORE_KEEP_RUNS',
    default: '400d',
  }),
  setting('store.keep_events', 'duration', 'keep events', 'how long an event of a run is kept', {
    env: 'ADMIN_MIRROR_STORE_KEEP_EVENTS',
    default: '400d',
  }),
  setting('store.max_log', 'bytes', 'largest log', "how large the mirror's log may grow while somebody reads", {
    env: 'ADMIN_MIRROR_STORE_MAX_LOG',
    default: '4GB',
  }),
  setting('backup.folder', 'path', 'backup folder', 'where backups are kept', {
    env: 'ADMIN_MIRROR_BACKUP_FOLDER',
    default: 'data/backups',
  }),
  setting('backup.keep', 'bound', 'backup keep', 'backups that are kept, or off for all', {
    env: 'ADMIN_MIRROR_BACKUP_KEEP',
    default: 'off',
  }),
  setting('sync.requests_per_run', 'count', 'requests a run', 'requests that a run may spend on reading again', {
    env: 'ADMIN_MIRROR_SYNC_REQUESTS_PER_RUN',
    default: 1_000,
    most: 10_000_000,
  }),
  setting('sync.grace', 'duration', 'grace', 'how long a window stays open to new records after its end', {
    env: 'ADMIN_MIRROR_SYNC_GRACE',
    default: '48h',
  }),
  setting('sync.window_pages', 'count', 'window size', 'pages that a window holds, at most', {
    env: 'ADMIN_MIRROR_SYNC_WINDOW_PAGES',
    default: 20,
    most: 1_000,
  }),
  setting('sync.brake', 'brake', 'brake', 'rows that may go at once, as in emails=200; auto: 50 or a fifth', {
    env: 'ADMIN_MIRROR_SYNC_BRAKE',
    default: 'auto',
  }),
  includeSetting('users', 'related records of users to mirror, as in orders,payments'),
  includeSetting('packages', 'related records of packages to mirror, as in prices,features'),
  includeSetting('emails', 'related records of emails to mirror: user'),
  setting('history.ignore', 'fields', 'history ignore', 'fields whose change alone makes no version in the history', {
    env: 'ADMIN_MIRROR_HISTORY_IGNORE',
    default: 'last_seen_at, last_login_at, updated_at',
  }),
  setting('history.keep', 'duration', 'history keep', 'how long a version is kept after it ended', {
    env: 'ADMIN_MIRROR_HISTORY_KEEP',
    default: '400d',
  }),
  setting('bulk.decimals', 'count', 'bulk decimals', 'places that an amount may have, at most', {
    env: 'ADMIN_MIRROR_BULK_DECIMALS',
    default: 2,
    least: 0,
    most: 8,
  }),
  setting('bulk.concurrency', 'count', 'bulk concurrency', 'users that rows are sent for at once', {
    env: 'ADMIN_MIRROR_BULK_CONCURRENCY',
    default: 1,
    most: 64,
  }),
  setting('bulk.settle_after', 'wait', 'settle after', 'how long a write that is nowhere to be seen stays unknown', {
    env: 'ADMIN_MIRROR_BULK_SETTLE_AFTER',
    default: '10m',
  }),
  setting('bulk.max_row', 'money', 'largest row', 'largest change of a balance that a row may make, or off', {
    env: 'ADMIN_MIRROR_BULK_MAX_ROW',
    default: 1_000,
  }),
  setting(
    'bulk.max_total',
    'money',
    'largest total',
    'largest sum of changes, up and down, that a batch may make, or off',
    {
      env: 'ADMIN_MIRROR_BULK_MAX_TOTAL',
      default: 25_000,
    },
  ),
  setting(
    'bulk.max_day',
    'money',
    'largest day',
    'largest sum of changes, up and down, that all batches may make within 24 hours, or off',
    {
      env: 'ADMIN_MIRROR_BULK_MAX_DAY',
      default: 50_000,
    },
  ),
  setting('bulk.max_rows', 'bound', 'most rows', 'rows that a batch may have, or off', {
    env: 'ADMIN_MIRROR_BULK_MAX_ROWS',
    default: 10_000,
  }),
  setting(
    'bulk.again_within',
    'duration',
    'again within',
    'how long a row that was sent keeps the same row from going out unasked',
    {
      env: 'ADMIN_MIRROR_BULK_AGAIN_WITHIN',
      default: '30d',
    },
  ),
  setting('export.reports', 'path', 'reports folder', 'the folder with saved reports of your own', {
    env: 'ADMIN_MIRROR_EXPORT_REPORTS',
    default: 'config/reports',
  }),
  setting('worker.listen', 'listen', 'listen', 'where the worker answers on its health, or off', {
    env: 'ADMIN_MIRROR_WORKER_LISTEN',
    default: '127.0.0.1:9464',
  }),
  setting(
    'worker.token',
    'secret',
    'health token',
    'what must be sent to ask about health; required where others than this machine can, and never in the config file',
    {
      env: 'ADMIN_MIRROR_WORKER_TOKEN',
      inFile: false,
    },
  ),
  setting(
    'worker.max_staleness',
    'duration',
    'largest staleness',
    'how old the mirror may be before that is a problem',
    {
      env: 'ADMIN_MIRROR_WORKER_MAX_STALENESS',
      default: '26h',
    },
  ),
  setting('alerts.webhook', 'hook', 'alert webhook', 'https address that the worker posts its alerts to; kept secret', {
    env: 'ADMIN_MIRROR_ALERTS_WEBHOOK',
  }),
  setting('alerts.command', 'program', 'alert command', 'program that the worker runs for each alert', {
    env: 'ADMIN_MIRROR_ALERTS_COMMAND',
  }),
  setting('alerts.ping', 'hook', 'ping', 'https address that is asked after each complete sync; kept secret', {
    env: 'ADMIN_MIRROR_ALERTS_PING',
  }),
  setting('log.level', 'level', 'log level', 'the least important log lines that are still written', {
    env: 'ADMIN_MIRROR_LOG_LEVEL',
    default: 'info',
  }),
  setting('log.file', 'path', 'log file', 'a file for the log lines, in place of standard error', {
    flag: '--log-file <file>',
    env: 'ADMIN_MIRROR_LOG_FILE',
  }),
] as const;

export type SettingKey = (typeof settingTable)[number]['key'];

/** The rows with their types widened, for code that treats all alike. */
export const allSettings: readonly (Setting & { readonly key: SettingKey })[] = settingTable;

/** The row of one key. */
export function settingOf(key: SettingKey): Setting {
  const found = allSettings.find((each) => each.key === key);
  if (found === undefined) throw new Error(`no setting is called ${key}`);
  return found;
}

/** Whether its value is shown to nobody. */
export function isSecret({ kind }: Setting): boolean {
  return kind === 'secret' || kind === 'hook' || kind === 'proxy';
}

/** `--db <file>` → `--db`. */
export function flagName(setting: Setting): string | undefined {
  return setting.flag?.split(' ')[0];
}
