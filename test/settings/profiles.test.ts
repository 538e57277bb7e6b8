import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { serverOf } from '../../src/settings/server.ts';
import { commandText } from '../../src/model/job.ts';
import { type FlagValue, readAllSettings, readSettings, settingsFrom } from '../../src/settings/settings.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const file = `
history:
  keep: 9d
bulk:
  concurrency: 2
profiles:
  production:
    api:
      base_url: https://panel.example.com
      key_file: keys/production
  staging:
    api:
      base_url: https://staging.example.com
    bulk:
      concurrency: 4
`;

interface Sources {
  readonly file?: string;
  readonly flags?: Readonly<Record<string, string>>;
  readonly environment?: Record<string, string>;
  readonly dotenv?: string;
  readonly folder?: string;
}

function read(sources: Sources) {
  const folder = sources.folder ?? temporaryFolder();
  mkdirSync(join(folder, 'config'), { recursive: true });
  writeFileSync(join(folder, 'config/admin-mirror.yaml'), sources.file ?? file);
  if (sources.dotenv !== undefined) writeFileSync(join(folder, '.env'), sources.dotenv);
  const keys = { '--profile': 'profile', '--base-url': 'api.base_url', '--db': 'store.mirror' } as const;
  const flags = Object.entries(sources.flags ?? {}).map(([flag, value]): FlagValue => ({
    flag,
    key: keys[flag as keyof typeof keys],
    value,
  }));
  const given = { flags, environment: sources.environment ?? {}, folder };
  const reading = readSettings(given);
  const origin = (key: string) => reading.readings.find((each) => each.key === key)?.origin;
  const problems = reading.problems.map(({ message, advice }) => `${message} ${advice}`);
  const server = () => serverOf(settingsFrom(reading));
  return { ...reading, problems, folder, origin, server, all: () => readAllSettings(given) };
}

const staging = { '--profile': 'staging' };
const production = { '--profile': 'production' };

describe('a profile', () => {
  test('overrides the common settings, and has its files in a folder with its name', () => {
    const { settings, folder, origin, problems } = read({ flags: staging });
    expect(problems).toEqual([]);
    expect(settings?.profile).toBe('staging');
    expect(settings).toMatchObject({
      api: { baseUrl: 'https://staging.example.com' },
      history: { keepMs: 9 * 86_400_000 },
      bulk: { concurrency: 4 },
    });
    expect(settings?.store).toMatchObject({
      mirror: join(folder, 'data/staging/mirror.db'),
      journal: join(folder, 'data/staging/journal.db'),
    });
    expect(origin('api.base_url')).toBe('config/admin-mirror.yaml:13, profile staging');
    expect(origin('history.keep')).toBe('config/admin-mirror.yaml:3');
    expect(origin('store.mirror')).toBe('default, profile staging');
  });

  test.each([
    [{ flags: staging, environment: { ADMIN_MIRROR_PROFILE: 'production' } }, 'staging', 'flag --profile'],
    [{ environment: { ADMIN_MIRROR_PROFILE: 'staging' } }, 'staging', 'environment ADMIN_MIRROR_PROFILE'],
    [{ file: `profile: production\n${file}` }, 'production', 'config/admin-mirror.yaml:1'],
    [{ file: `profile: production\n${file}`, flags: staging }, 'staging', 'flag --profile'],
  ])('is chosen by flag, environment or file, in this order: %j', (sources, name, from) => {
    const { settings, origin } = read(sources);
    expect(settings?.profile).toBe(name);
    expect(origin('profile')).toBe(from);
  });

  test('has its files in a folder next to those that are set for all', () => {
    const { settings, origin } = read({ file: `${file}store:\n  mirror: /srv/am/m.db\n`, flags: staging });
    expect(settings?.store.mirror).toBe('/srv/am/staging/m.db');
    expect(origin('store.mirror')).toBe('config/admin-mirror.yaml:17, profile staging');
  });

  test('has its own folders for backups and outputs of jobs', () => {
    const jobs = `
jobs:
  - { name: users, run: export, what: users, output: data/exports/users.csv, cron: "0 3 * * *" }
  - { name: copy, run: snapshot, file: copy.db, cron: "0 4 * * *" }
  - { name: backup, run: backup, folder: /mnt/more, keep: 3, cron: "0 5 * * *" }
`;
    const { settings, folder, problems } = read({ file: `${file}${jobs}`, flags: staging });
    expect(problems).toEqual([]);
    expect(settings?.backup.folder).toBe(join(folder, 'data/backups/staging'));
    expect(settings?.jobs.map(({ call }) => commandText(call))).toEqual([
      'admin-mirror export users --output data/exports/staging/users.csv',
      'admin-mirror snapshot staging/copy.db',
      'admin-mirror backup /mnt/more/staging --keep 3',
    ]);
  });

  test('that is unknown is refused with the nearest name', () => {
    expect(read({ flags: { '--profile': 'prodution' } }).problems).toEqual([
      'there is no profile "prodution" (flag --profile) Did you mean "production"?',
    ]);
    expect(read({ file: '', flags: staging }).problems[0]).toContain('has no profiles');
  });

  test('must be chosen if there are several', () => {
    expect(read({}).problems[0]).toMatch(/has profiles, and none was chosen Say --profile production or staging/);
  });

  test.each([
    ['profiles:\n  a b:\n    api: {}\n', 'needs a name of up to 32 letters'],
    ['profiles:\n  ../up:\n    api: {}\n', 'needs a name of up to 32 letters'],
    ['profiles:\n  file:\n    api: {}\n', 'needs another name'],
    ['profiles:\n  a-b: {}\n  a_b: {}\n', 'too similar to "a-b"'],
    ['profiles:\n  a:\n    history:\n      kep: 5s\n', 'Did you mean "history.keep"?'],
    ['profiles:\n  a:\n    profile: b\n', 'unknown setting "profile"'],
    ['profiles:\n  a:\n    api:\n      key: x\n', 'does not belong in the config file'],
    ['profiles: [a]\n', '"profiles" must hold settings'],
    ['profiles:\n  a: 5\n', 'the profile "a" must hold settings'],
    ['proflies:\n  a: {}\n', 'Did you mean "profiles"'],
  ])('with a mistake is refused with what to do: %j', (text, words) => {
    expect(read({ file: text, flags: { '--profile': 'a' } }).problems.join('\n')).toContain(words);
  });

  test('with a mistake does not affect the other profiles', () => {
    const wrong = `${file}  wrong:\n    nonsense: 1\n    jobs: 5\n  worse: 5\n`;
    expect(read({ file: wrong, flags: staging }).problems).toEqual([]);
    expect(read({ file: wrong, flags: { '--profile': 'wrong' } }).problems).toHaveLength(2);
  });
});

describe('the key of a profile', () => {
  test('comes from a variable that names the profile, and is not used by another', () => {
    const environment = { ADMIN_MIRROR_API_KEY_STAGING: 'staging-key-1234', ADMIN_MIRROR_API_KEY_PRODUCTION: 'p-key' };
    const { settings, warnings } = read({ flags: staging, environment });
    expect(settings?.api.key?.reveal()).toBe('staging-key-1234');
    expect(warnings).toEqual([]);
    expect(read({ flags: staging, environment: { ADMIN_MIRROR_API_KEY_STAGNG: 'x' } }).warnings[0]).toContain(
      'Did you mean ADMIN_MIRROR_API_KEY_STAGING',
    );
  });

  test.each(['ADMIN_MIRROR_API_KEY', 'ADMIN_MIRROR_API_KEY_FILE', 'ADMIN_MIRROR_BASE_URL', 'ADMIN_MIRROR_DB'])(
    'and its server are never taken from %s, which names no profile, and an error says so',
    (variable) => {
      for (const sources of [{ environment: { [variable]: 'https://x' } }, { dotenv: `${variable}=https://x\n` }]) {
        const { problems, settings, rest } = read({ ...sources, flags: production });
        expect(problems).toHaveLength(1);
        expect(problems[0]).toContain(`${variable} does not say for which profile it is, and production is in force`);
        expect(problems[0]).toContain(`${variable}_PRODUCTION`);
        expect(settings).toBeUndefined();
        // The doctor continues with the profile's own address and without a key.
        expect(rest.api).toMatchObject({ baseUrl: 'https://panel.example.com', key: undefined });
      }
    },
  );

  test('is not sent to the address of a flag', () => {
    const elsewhere = { ...production, '--base-url': 'https://elsewhere.example.com' };
    const { problems, rest } = read({ flags: elsewhere });
    expect(problems[0]).toContain('--base-url is another server than that of the profile production');
    expect(rest.api.baseUrl).toBe('https://panel.example.com');
    expect(read({ flags: { ...production, '--base-url': 'https://panel.example.com/' } }).problems).toEqual([]);
  });
});

describe('the files of two profiles', () => {
  const withFiles = (productions: string, stagings: string) =>
    `${file}    store:\n      mirror: ${stagings}\n`.replace('  staging:', `    store: ${productions}\n  staging:`);

  test.each([
    ['{mirror: data/m.db}', 'data/m.db', 'store.mirror of the profile'],
    ['{mirror: data/m.db}', 'data/../data/m.db', 'store.mirror of the profile'],
    ['{journal: data/m.db}', 'data/m.db', 'store.journal of the profile'],
    ['{mirror: data/staging/journal.db}', 'data/m.db', 'is the same file as'],
  ])('must not be the same: %s and %s', (productions, stagings, words) => {
    for (const flags of [production, staging]) {
      const { problems } = read({ file: withFiles(productions, stagings), flags });
      expect(problems).toHaveLength(1);
      expect(problems[0]).toContain(words);
    }
  });
});

describe('a credential of systemd', () => {
  test('is found in the folder that systemd names, and may be readable by others', () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'key'), 'key-of-the-service\n', { mode: 0o644 });
    const named = 'api:\n  base_url: https://x.example.com\n  key_file: ${CREDENTIALS_DIRECTORY}/key\n';
    const inService = read({ file: named, environment: { CREDENTIALS_DIRECTORY: folder } });
    const { key, warnings } = inService.server();
    expect([key.reveal(), warnings]).toEqual(['key-of-the-service', []]);
    const outside = read({ file: named });
    expect(outside.server).toThrow('cannot be read: it does not exist');
  });
});

describe('a value with {profile} in it', () => {
  const common = `
api:
  base_url: https://{profile}.example.com
  key_file: secrets/{profile}.key
store:
  mirror: /srv/{profile}/m.db
jobs:
  - { name: users, run: export, what: users, output: "out/{profile}-users.csv", cron: "0 3 * * *" }
profiles:
  production:
  staging:
`;

  test('applies to every profile, with its name', () => {
    const { settings, origin, problems, folder } = read({ file: common, flags: staging });
    expect(problems).toEqual([]);
    expect(settings).toMatchObject({
      api: { baseUrl: 'https://staging.example.com', keyFile: join(folder, 'secrets/staging.key') },
      store: { mirror: '/srv/staging/m.db', journal: join(folder, 'data/staging/journal.db') },
    });
    expect(settings?.jobs[0]?.call.options['output']).toBe('out/staging-users.csv');
    expect(origin('api.key')).toBe('config/admin-mirror.yaml:4, profile staging');
  });

  // proves: own-server
  test('gives no server the key of another', () => {
    const oneKey = common.replace('secrets/{profile}.key', 'secrets/key');
    const { settings, server } = read({ file: oneKey, flags: staging });
    expect(settings?.api.keyFile).toBeUndefined();
    expect(server).toThrow('no API key is set for the profile staging');
    // A profile with its own address still has the key file of its name.
    const moved = read({
      file: common.replace('staging:\n', 'staging: {api: {base_url: "https://x.test"}}\n'),
      flags: staging,
    });
    expect(moved.settings?.api).toMatchObject({
      baseUrl: 'https://x.test',
      keyFile: join(moved.folder, 'secrets/staging.key'),
    });
  });
});

describe('all servers of a config file', () => {
  const names = Array.from({ length: 100 }, (_, at) => `shop-${at}`);
  const many = `api:\n  base_url: https://{profile}.example.com\nprofiles:\n${names.map((name) => `  ${name}:\n`).join('')}`;

  test('are read at once, even a hundred, each with its own settings', () => {
    const all = read({ file: many }).all();
    expect(all.map(({ profile }) => profile)).toEqual(names);
    expect(new Set(all.map(({ reading }) => reading.settings?.store.mirror)).size).toBe(100);
    expect(all[7]?.reading.settings).toMatchObject({
      profile: 'shop-7',
      api: { baseUrl: 'https://shop-7.example.com' },
    });
  });

  test('fail one by one if one has a mistake, and all if two share a file', () => {
    const wrong = file.replace('concurrency: 4', 'concurrency: none');
    const problemsOf = (text: string) =>
      read({ file: text })
        .all()
        .map(({ reading }) => reading.problems.map(({ message }) => message));
    expect(problemsOf(wrong)).toEqual([[], [expect.stringContaining('bulk.concurrency is "none"')]]);
    const same = expect.stringContaining('is the same file as') as string;
    expect(problemsOf(`${file}store:\n  mirror: data/{profile}-m.db\n  journal: data/{profile}-m.db\n`)).toEqual([
      [same],
      [same],
    ]);
  });
});
