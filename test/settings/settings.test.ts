import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { parse, parseDocument } from 'yaml';
import { resources } from '../../src/model/resources.ts';
import { type FlagValue, readSettings, settingsFrom } from '../../src/settings/settings.ts';
import { settingTable } from '../../src/settings/table.ts';
import { settingsDocument } from '../support/settings-document.ts';
import { configSchema, schemaDocument } from '../support/settings-schema.ts';
import { soonMs } from '../support/part.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

interface Sources {
  readonly flags?: readonly FlagValue[];
  readonly environment?: Record<string, string>;
  readonly dotenv?: string | Buffer;
  readonly file?: string | Buffer;
}

function read(sources: Sources) {
  const folder = temporaryFolder();
  if (sources.dotenv !== undefined) writeFileSync(join(folder, '.env'), sources.dotenv);
  if (sources.file !== undefined) {
    mkdirSync(join(folder, 'config'));
    writeFileSync(join(folder, 'config/admin-mirror.yaml'), sources.file);
  }
  const reading = readSettings({ flags: sources.flags ?? [], environment: sources.environment ?? {}, folder });
  const origin = (key: string) => reading.readings.find((each) => each.key === key)?.origin;
  const shown = (key: string) => reading.readings.find((each) => each.key === key)?.value;
  return { ...reading, folder, origin, shown };
}

/** The message and advice of the only problem. */
function problemOf(sources: Sources): string {
  const { problems } = read(sources);
  expect(problems).toHaveLength(1);
  return `${problems[0]?.message}\n${problems[0]?.advice}`;
}

const db = { key: 'store.mirror', flag: '--db' } as const;

describe('precedence', () => {
  const sources = {
    flags: [{ ...db, value: 'flag.db' }],
    environment: { ADMIN_MIRROR_DB: 'environment.db' },
    dotenv: 'ADMIN_MIRROR_DB=dotenv.db\n',
    file: 'store:\n  mirror: file.db\n',
  };

  test('a flag wins over everything', () => {
    const { settings, folder, origin } = read(sources);
    expect(settings?.store.mirror).toBe(join(folder, 'flag.db'));
    expect(origin('store.mirror')).toBe('flag --db');
  });

  test('the environment wins over .env, which wins over the config file, which wins over the default', () => {
    const environment = read({ ...sources, flags: [] });
    expect(environment.shown('store.mirror')).toBe('environment.db');
    expect(environment.origin('store.mirror')).toBe('environment ADMIN_MIRROR_DB');
    const dotenv = read({ dotenv: sources.dotenv, file: sources.file });
    expect(dotenv.shown('store.mirror')).toBe('dotenv.db');
    expect(dotenv.origin('store.mirror')).toBe('.env ADMIN_MIRROR_DB');
    const file = read({ file: sources.file });
    expect(file.shown('store.mirror')).toBe('file.db');
    expect(file.origin('store.mirror')).toBe('config/admin-mirror.yaml:2');
    const none = read({});
    expect(none.settings?.store.mirror).toBe(join(none.folder, 'data/mirror.db'));
    expect(none.origin('store.mirror')).toBe('default');
  });

  test('a key file in the real environment wins over a key in .env', () => {
    const { settings, folder } = read({
      environment: { ADMIN_MIRROR_API_KEY_FILE: 'key.txt' },
      dotenv: 'ADMIN_MIRROR_API_KEY=old-key-1234\n',
    });
    expect(settings?.api.key).toBeUndefined();
    expect(settings?.api.keyFile).toBe(join(folder, 'key.txt'));
  });
});

describe('values', () => {
  test('amounts of the bulk runner stay exact text, off is no limit, and 0s is a valid wait', () => {
    const { settings } = read({
      file: 'bulk:\n  max_row: 99.50\n  max_total: off\n  max_rows: 500\n  settle_after: 0s\n',
      environment: { ADMIN_MIRROR_BULK_MAX_TOTAL: '1000.01' },
    });
    expect(settings?.bulk).toEqual({
      decimals: 2,
      concurrency: 1,
      settleAfterMs: 0,
      maxRow: '99.5',
      maxTotal: '1000.01',
      maxDay: '50000',
      maxRows: 500,
      againWithinMs: 30 * 86_400_000,
      approval: {},
    });
    expect(problemOf({ file: 'bulk:\n  max_row: -5\n' })).toContain('expected an amount above 0');
  });

  test('durations become milliseconds, off becomes no limit, and the settings are frozen', () => {
    const { settings } = read({ file: 'api:\n  requests_per_second: off\nhistory:\n  keep: 90s\n' });
    expect(settings?.api.requestsPerSecond).toBeUndefined();
    expect(settings?.history.keepMs).toBe(90_000);
    expect(Object.isFrozen(settings) && Object.isFrozen(settings?.api) && Object.isFrozen(settings?.sync)).toBe(true);
  });

  test('the environment gives numbers and switches as text', () => {
    const { settings } = read({
      environment: {
        ADMIN_MIRROR_API_REQUESTS_PER_SECOND: '0.5',
        ADMIN_MIRROR_BULK_CONCURRENCY: '4',
        ADMIN_MIRROR_INSECURE_HTTP: 'true',
      },
    });
    expect(settings?.api).toMatchObject({ requestsPerSecond: 0.5, insecureHttp: true });
    expect(settings?.bulk.concurrency).toBe(4);
  });

  test.each(['http://127.0.0.1:8080', 'http://localhost:1', 'http://[::1]:1', 'http://127.4.5.6'])(
    'plain http to this machine, %s, is accepted',
    (address) => expect(read({ environment: { ADMIN_MIRROR_BASE_URL: address } }).problems).toEqual([]),
  );

  // proves: https
  test('plain http to another machine is refused, and accepted with --insecure-http', () => {
    const environment = { ADMIN_MIRROR_BASE_URL: 'http://panel.example.com' };
    expect(problemOf({ environment })).toContain('--insecure-http');
    expect(
      read({ environment, flags: [{ key: 'api.insecure_http', flag: '--insecure-http', value: true }] }).problems,
    ).toEqual([]);
  });

  test('a base address that ends in /api/v1 is refused with the right one', () => {
    expect(problemOf({ environment: { ADMIN_MIRROR_BASE_URL: 'https://panel.example.com/api/v1/' } })).toContain(
      'Use https://panel.example.com:',
    );
  });

  test.each(['panel.example.com', 'ftp://panel.example.com', 'https://me:pw@panel.example.com', 'https://x/?a=1'])(
    'the base address %s is refused with what is expected',
    (address) =>
      expect(problemOf({ environment: { ADMIN_MIRROR_BASE_URL: address } })).toContain('such as https://panel.example'),
  );

  test('only the last four characters of the key are ever printed', () => {
    const { settings, shown } = read({ environment: { ADMIN_MIRROR_API_KEY: 'sk-live-0123456789' } });
    expect(shown('api.key')).toBe('****6789');
    expect(JSON.stringify(settings)).not.toContain('012345');
    expect(String(settings?.api.key)).toBe('****6789');
    expect(settings?.api.key?.reveal()).toBe('sk-live-0123456789');
  });
});

describe('a value that is written in more than one way', () => {
  const day = 86_400_000;
  const preset = ['last_seen_at', 'last_login_at', 'updated_at'];

  test.each([
    ['history.ignore', '[updated_at, order]', ['updated_at', 'order']],
    ['history.ignore', 'updated_at, order', ['updated_at', 'order']],
    ['history.ignore', '[_extra.last_ip]', ['_extra.last_ip']],
    ['history.ignore', '[]', []],
    ['history.ignore', 'none', []],
    ['history.ignore', '', preset],
    ['history.keep', '', 400 * day],
    ['history.keep', '30d', 30 * day],
    ['sync.brake', 'auto', {}],
    ['sync.brake', 'emails=90', { emails: 90 }],
    ['sync.brake', 'emails=90, coupons=5', { emails: 90, coupons: 5 }],
  ] as const)('%s: %s is read, from the config file and from its variable', (key, written, value) => {
    const [section = '', name = ''] = key.split('.');
    const valueIn = (sources: Sources) => {
      const { history, sync } = read(sources).settings ?? {};
      return { 'history.ignore': history?.ignore, 'history.keep': history?.keepMs, 'sync.brake': sync?.brake }[key];
    };
    expect(valueIn({ file: `${section}:\n  ${name}: ${written}\n` })).toEqual(value);
    if (written.startsWith('[')) return;
    expect(valueIn({ environment: { [`ADMIN_MIRROR_${section}_${name}`.toUpperCase()]: written } })).toEqual(value);
  });

  test.each([
    ['history.ignore', '[updatd_at]', 'is ["updatd_at"] (config/admin-mirror.yaml:2): expected names of fields'],
    ['history.ignore', 'updated_at, balnce', 'Did you mean "balance"?'],
    // The id of a record cannot change.
    ['history.ignore', 'id', 'expected names of fields'],
    ['history.ignore', '_extra', 'expected names of fields'],
    ['history.ignore', '5', 'expected names of fields'],
    ['sync.brake', 'emails', 'is "emails"'],
    ['sync.brake', 'emails=0', 'is "emails=0"'],
    ['sync.brake', 'emails=-1', 'is "emails=-1"'],
    ['sync.brake', 'mails=90', 'is "mails=90"'],
    ['sync.brake', 'emails=20%', 'is "emails=20%"'],
    ['sync.brake', '90', 'is 90'],
  ])('%s: %s is refused', (key, written, words) => {
    const [section = '', name = ''] = key.split('.');
    expect(problemOf({ file: `${section}:\n  ${name}: ${written}\n` })).toContain(words);
  });
});

describe('the settings of the worker', () => {
  test('set an address and a port, with brackets for IPv6, or off', () => {
    const listen = (text: string) =>
      read({ environment: { ADMIN_MIRROR_WORKER_LISTEN: text } }).settings?.worker.listen;
    expect(listen('')).toEqual({ host: '127.0.0.1', port: 9464 });
    expect(listen('[::1]:80')).toEqual({ host: '::1', port: 80 });
    expect(listen('localhost:0')).toEqual({ host: 'localhost', port: 0 });
    expect(listen('off')).toBeUndefined();
    expect(read({ file: 'worker:\n  listen: off\n' }).settings?.worker.listen).toBeUndefined();
  });

  test.each(['9464', ':9464', '127.0.0.1', '127.0.0.1:99999', '::1:80', 'http://x:1'])(
    'refuse to listen on %s',
    (text) =>
      expect(problemOf({ environment: { ADMIN_MIRROR_WORKER_LISTEN: text } })).toContain(
        'such as 127.0.0.1:9464, or off',
      ),
  );

  const hook = 'https://hooks.example.com/services/T0/hidden-path?token=hidden-too';

  test.each([
    ['alerts.webhook', 'ADMIN_MIRROR_ALERTS_WEBHOOK'],
    ['alerts.ping', 'ADMIN_MIRROR_ALERTS_PING'],
  ] as const)('show only the host of %s when they are printed', (key, variable) => {
    const { settings, shown } = read({ environment: { [variable]: hook } });
    expect(shown(key)).toBe('https://hooks.example.com/****');
    expect(JSON.stringify(settings) + inspect(settings, { depth: 9 })).not.toContain('hidden');
    const { webhook, ping } = settings?.alerts ?? {};
    expect((key === 'alerts.webhook' ? webhook : ping)?.reveal()).toBe(hook);
    const words = problemOf({ environment: { [variable]: hook.replace('https', 'http') } });
    expect(words).toContain(
      `${key} is a value that is not shown (environment ${variable}): expected an address that begins with https`,
    );
    expect(words).not.toContain('hidden');
  });

  test('accept plain http for an alert to this machine', () => {
    const address = 'http://127.0.0.1:9093/alert';
    expect(read({ environment: { ADMIN_MIRROR_ALERTS_WEBHOOK: address } }).settings?.alerts.webhook?.reveal()).toBe(
      address,
    );
  });
});

describe('related records', () => {
  const none = { users: { include: [] }, packages: { include: [] }, emails: { include: [] }, coupons: { include: [] } };
  const included = (sources: Sources) => read(sources).settings?.resources;

  test('are set by resource in the config file or with commas in the environment, and used once each', () => {
    const file = 'resources:\n  users:\n    include: [orders, payments, orders]\n  packages:\n    include: none\n';
    const { settings, shown, origin } = read({ file });
    expect(settings?.resources).toEqual({ ...none, users: { include: ['orders', 'payments'] } });
    expect(shown('resources')).toBe('users.orders,users.payments,users.orders');
    expect(origin('resources')).toBe('config/admin-mirror.yaml:1');
    const environment = { ADMIN_MIRROR_RESOURCES: ' emails.user ,users.oauth' };
    expect(included({ file, environment })).toEqual({
      ...none,
      users: { include: ['oauth'] },
      emails: { include: ['user'] },
    });
  });

  test.each([
    {},
    { file: 'resources: none\n' },
    { file: 'resources:\n  users:\n' },
    { file: 'resources:\n  users: {include: []}\n' },
    { file: 'resources: {users: {include: [orders]}}\n', environment: { ADMIN_MIRROR_RESOURCES: 'none' } },
  ])('are none: %j', (sources) => expect(included(sources)).toEqual(none));

  test.each(['users', 'packages', 'emails'] as const)('of %s may have every name of the reference', (resource) => {
    const names = resources[resource].includes;
    const file = `resources:\n  ${resource}:\n    include: [${names.join(', ')}]\n`;
    expect(included({ file })?.[resource].include).toEqual(names);
  });

  test('of an unknown name are refused with the nearest name', () => {
    const file = 'resources:\n  users:\n    include: [orders, paymnts]\n';
    expect(problemOf({ file })).toMatch(
      /^resources is .* \(config\/admin-mirror\.yaml:1\): .*\n.* Did you mean "users\.payments"/,
    );
    expect(problemOf({ environment: { ADMIN_MIRROR_RESOURCES: 'packages.price' } })).toContain(
      'Did you mean "packages.prices"',
    );
    for (const wrong of ['coupons:\n    include: [a]', 'users:\n    includes: [orders]', 'user: {include: [a]}']) {
      expect(problemOf({ file: `resources:\n  ${wrong}\n` })).toContain('expected related records by resource');
    }
  });
});

describe('mistakes', () => {
  test.each([
    [
      'zzzzzz:\n  x: 1\n',
      'config/admin-mirror.yaml:1: unknown setting "zzzzzz"\nconfig/admin-mirror.example.yaml shows every setting.',
    ],
    [
      'history:\n  # comment\n  kep: 5s\n',
      'config/admin-mirror.yaml:3: unknown setting "history.kep"\nDid you mean "history.keep"?',
    ],
    ['apo:\n  insecure_http: true\n', 'config/admin-mirror.yaml:1: unknown setting "apo"\nDid you mean "api"?'],
    ['base_url: https://x\n', 'config/admin-mirror.yaml:1: unknown setting "base_url"\nDid you mean "api.base_url"?'],
    [
      'api:\n  key: abc\n',
      'config/admin-mirror.yaml:2: a secret does not belong in the config file\nSet ADMIN_MIRROR_API_KEY, or write it into a file of its own and name that in api.key_file.',
    ],
    ['publish:\n  password: abc\n', 'config/admin-mirror.yaml:2: a secret does not belong in the config file'],
    ['api: 5\n', 'config/admin-mirror.yaml:1: "api" must hold settings as "name: value"'],
    ['- a\n', 'config/admin-mirror.yaml:1: the file must hold settings as "name: value"'],
    ['history:\n  keep: 5s\n  keep: 6s\n', 'config/admin-mirror.yaml:3: Map keys must be unique'],
    [
      'bulk:\n  concurrency: 100\n',
      'bulk.concurrency is 100 (config/admin-mirror.yaml:2): expected a whole number from 1 to 64',
    ],
    ['bulk:\n  concurrency: "8"\n', 'bulk.concurrency is "8" (config/admin-mirror.yaml:2): expected a whole number'],
    ['bulk:\n  concurrency: .nan\n', 'bulk.concurrency is NaN (config/admin-mirror.yaml:2): expected a whole number'],
    ['bulk:\n  concurrency: 1e999\n', 'bulk.concurrency is Infinity (config/admin-mirror.yaml:2): expected a whole'],
    ['store:\n  mirror: [.nan]\n', 'store.mirror is [NaN] (config/admin-mirror.yaml:2): expected the path of a file'],
    ['history:\n  keep: 30\n', 'history.keep is 30 (config/admin-mirror.yaml:2): expected a duration above 0'],
    ['history:\n  keep: 0d\n', 'history.keep is "0d" (config/admin-mirror.yaml:2): expected a duration above 0'],
    [
      'api:\n  insecure_http: maybe\n',
      'api.insecure_http is "maybe" (config/admin-mirror.yaml:2): expected true or false',
    ],
    [
      'store:\n  mirror: "a\\0b"\n',
      'store.mirror is "a\\u0000b" (config/admin-mirror.yaml:2): expected the path of a file',
    ],
    ['store:\n  mirror: [a]\n', 'store.mirror is ["a"] (config/admin-mirror.yaml:2): expected the path of a file'],
  ])('the config file %j is refused with the line and what to do', (file, words) => {
    expect(problemOf({ file })).toContain(words);
  });

  test('a config file set by a flag must exist, the default one need not', () => {
    expect(problemOf({ flags: [{ key: 'config', flag: '--config', value: 'none.yaml' }] })).toContain(
      'none.yaml cannot be read: it does not exist',
    );
    expect(read({}).problems).toEqual([]);
  });

  test('a wrong value in the environment is refused with the name of its variable', () => {
    expect(problemOf({ environment: { ADMIN_MIRROR_HISTORY_KEEP: 'long' } })).toContain(
      'history.keep is "long" (environment ADMIN_MIRROR_HISTORY_KEEP)',
    );
  });

  test('all problems are found at once, and the first one says how many more there are', () => {
    const reading = read({ file: 'history:\n  keep: 5\nbulk:\n  concurrency: none\nlogs:\n  file: x\n' });
    expect(reading.problems).toHaveLength(3);
    expect(() => settingsFrom(reading)).toThrow(expect.objectContaining({ advice: expect.stringMatching(/2 more/) }));
  });

  test('a variable that looks like a setting gets a warning with the nearest name', () => {
    const { warnings } = read({ environment: { ADMIN_MIRROR_BASEURL: 'https://x' }, dotenv: 'ADMIN_MIRROR_KEY=1\n' });
    expect(warnings).toEqual([
      expect.stringMatching(/^ADMIN_MIRROR_BASEURL \(environment\).*ADMIN_MIRROR_BASE_URL/),
      expect.stringMatching(/^ADMIN_MIRROR_KEY \(\.env\).*ADMIN_MIRROR_API_KEY/),
    ]);
  });
});

describe('the table of settings', () => {
  test('is what docs/settings.md shows', async () => {
    await expect(settingsDocument()).toMatchFileSnapshot('../../docs/settings.md');
  });

  test('is what editors check a config file by', async () => {
    await expect(schemaDocument()).toMatchFileSnapshot('../../config/admin-mirror.schema.json');
  });

  const example = readFileSync(new URL('../../config/admin-mirror.example.yaml', import.meta.url), 'utf8');
  const inFile = settingTable.filter((each) => each.inFile);

  test.each(inFile.filter((each) => each.default !== null))('the example file has $key with its default', (setting) => {
    expect(parseDocument(example).getIn(setting.key.split('.'))).toBe(setting.default);
  });

  test.each(inFile.filter((each) => each.default === null))('the example file shows $key in a comment', (setting) => {
    expect(parseDocument(example).getIn(setting.key.split('.'))).toBeUndefined();
    expect(example).toContain(`# ${setting.key.split('.').at(-1)}${setting.kind.is === 'secret' ? '_file' : ''}: `);
  });

  test.each(inFile)('the example file names the flag and the variable of $key', ({ flag, env }) => {
    const missing = [env, flag?.split(' ')[0] ?? env].filter((name) => !example.includes(name));
    expect(missing, 'what config/admin-mirror.example.yaml lacks').toEqual([]);
  });

  test('the example file is accepted, also if uncommented', () => {
    expect(read({ file: example }).problems).toEqual([]);
    const opened = example.replaceAll(/# (base_url|key_file|file|webhook|command|ping):/g, '$1:');
    expect(read({ file: opened }).problems).toEqual([]);
    const { problems, settings } = read({ file: example.replaceAll(/^# (profile:|profiles:|jobs:| {2,}\S)/gm, '$1') });
    expect(problems).toEqual([]);
    expect(settings?.profile).toBe('production');
    expect(settings?.jobs.map(({ name }) => name)).toEqual(['sync', 'users', 'check']);
  });

  test('the example file names the schema, which accepts it, also if uncommented', () => {
    expect(example.split('\n')[0]).toBe('# yaml-language-server: $schema=admin-mirror.schema.json');
    const opened = example
      .replaceAll(/# (base_url|key_file|file|webhook|command|ping):/g, '$1:')
      .replaceAll(/^# (profile:|profiles:|jobs:| {2,}\S)/gm, '$1');
    for (const text of [example, opened]) expect(configSchema.safeParse(parse(text)).error).toBeUndefined();
    expect(Object.keys(parse(opened) as object)).toEqual(expect.arrayContaining(['profile', 'profiles', 'jobs']));
  });

  test.each([
    ['an unknown section', 'apis: {}'],
    ['an unknown setting', 'history: { kep: 5s }'],
    ['a wrong value', 'bulk: { concurrency: many }'],
    ['a key in the file', 'api: { key: secret }'],
    ['an option of another kind of job', 'jobs: [{ name: a, run: verify, cron: "0 0 * * *", full: true }]'],
    ['a threshold of money where none moves', 'bulk: { approval: { delete: { net: 5 } } }'],
    ['a profile in a profile', 'profiles: { shop: { profiles: {} } }'],
  ])('the schema refuses %s, as the program does', (_, file) => {
    expect(configSchema.safeParse(parse(file)).success).toBe(false);
    expect(read({ file }).problems).not.toEqual([]);
  });
});

describe('a file that is not UTF-8 is refused with its line', () => {
  const latin1 = (text: string) => Buffer.from(text, 'latin1');

  test.each([
    ['the config file', { file: latin1('# é\napi:\n') }, 'config/admin-mirror.yaml:1: it is not UTF-8'],
    ['.env', { dotenv: latin1('A=1\nADMIN_MIRROR_DB=caf\u00e9.db') }, '.env:2: it is not UTF-8'],
    ['UTF-16', { file: Buffer.from('\ufeffapi:\n', 'utf16le') }, 'config/admin-mirror.yaml:1: it is not UTF-8'],
  ])('%s', (_, sources, message) => {
    expect(problemOf(sources)).toBe(`${message}\nSave the file as UTF-8.`);
  });
});

// proves: config-bomb
test.each([
  [
    `jobs:\n- name: x\n  after:\n    a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefg'
      .split('')
      .map((name, at) => `    ${name}: &${name} [${`*${'abcdef'[at]},`.repeat(9)}]\n`)
      .join('')}`,
  ],
  [`jobs: ${'['.repeat(5_000)}${']'.repeat(5_000)}`],
])('a config file that never ends is refused at once', (file) => {
  const started = performance.now();
  expect(read({ file }).problems).not.toEqual([]);
  expect(performance.now() - started).toBeLessThan(soonMs);
});
