import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { openSandbox, type Sandbox } from '../support/bent/sandbox.ts';
import { enter, type Exchange } from '../support/dialogue.ts';
import { invoke } from '../support/invoke.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await openSandbox({ users: 40, packages: 5, emails: 30, coupons: 5, now: sandboxNow });
});

afterAll(() => sandbox.close());

const configFile = 'config/admin-mirror.yaml';
const erase = '\u{15}';

interface Config {
  readonly resources?: unknown;
  readonly api?: Readonly<Record<string, unknown>>;
  readonly profiles?: Readonly<Record<string, { readonly api: Readonly<Record<string, unknown>> }>>;
}

function configIn(folder: string): Config {
  return parse(readFileSync(join(folder, configFile), 'utf8')) as Config;
}

const given = () => ['init', '--yes', '--base-url', sandbox.url];

describe('init without a terminal', () => {
  test('checks the server, writes key and config, and begins with the lines that a newcomer needs', async () => {
    const folder = temporaryFolder();
    const argv = [...given(), '--key-file', 'secrets/key', '--json'];
    const { code, stdout, stderr } = await invoke(argv, { folder, input: `${sandbox.key}\n` });
    expect(code).toBe(0);
    const answer = JSON.parse(stdout) as {
      written: boolean;
      checks: readonly { name: string; state: string }[];
    };
    expect(answer).toMatchObject({ written: true, config: configFile, profile: null, key_file: 'secrets/key' });
    const states = new Map(answer.checks.map(({ name, state }) => [name, state]));
    expect(states.get('key on the server')).toBe('ok');
    expect(states.get('users list')).toBe('ok');

    const written = readFileSync(join(folder, configFile), 'utf8');
    const [first = '', ...lines] = written.trimEnd().split('\n');
    expect(lines.length).toBeLessThanOrEqual(10);
    expect(lines).toContain(`  base_url: ${sandbox.url}`);
    expect(lines).toContain('  key_file: secrets/key');
    const [, schema = ''] = /^# yaml-language-server: \$schema=(.*)$/.exec(first) ?? [];
    expect(existsSync(join(folder, configFile, '..', schema))).toBe(true);
    expect(statSync(join(folder, 'secrets/key')).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(folder, 'secrets/key'), 'utf8')).toBe(`${sandbox.key}\n`);
    expect(stdout + stderr + written).not.toContain(sandbox.key);
    // The next command uses what was written.
    expect((await invoke(['doctor'], { folder })).code).toBe(0);
  });

  test('takes the key from the environment without storing it, and runs the first sync', async () => {
    const folder = temporaryFolder();
    const environment = { ADMIN_MIRROR_API_KEY: sandbox.key };
    const { code, stdout } = await invoke([...given(), '--sync'], { folder, environment });
    expect(code).toBe(0);
    expect(stdout).toContain('set ADMIN_MIRROR_API_KEY where the commands run');
    expect(stdout).toMatch(/run .*: complete/);
    expect(configIn(folder).api).not.toHaveProperty('key_file');
    expect(existsSync(join(folder, 'data/mirror.db'))).toBe(true);
  });

  test('writes which related records of users are wanted, and keeps those of other resources', async () => {
    const folder = temporaryFolder();
    const environment = { ADMIN_MIRROR_API_KEY: sandbox.key };
    mkdirSync(join(folder, 'config'));
    writeFileSync(join(folder, configFile), 'resources: [users.emails, packages.prices]\n');
    const init = (...more: readonly string[]) => invoke([...given(), ...more], { folder, environment });
    expect((await init('--include', 'orders,payments')).code).toBe(0);
    const packages = { include: ['prices'] };
    expect(configIn(folder).resources).toEqual({ users: { include: ['orders', 'payments'] }, packages });
    expect((await init('--include', 'none')).code).toBe(0);
    expect(configIn(folder).resources).toEqual({ packages });
    const wrong = await init('--include', 'order');
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('"order"')]);
    await init();
    expect(configIn(folder).resources).toEqual({ packages });
  });

  test('says what is missing, and that there is no terminal', async () => {
    const alone = await invoke(['init']);
    expect(alone.code).toBe(2);
    expect(alone.stderr).toMatch(/there is no terminal[^]*--yes, --base-url URL and --key-file/);
    expect((await invoke(['init', '--yes'])).stderr).toMatch(/no base address was given[^]*--base-url/);
    expect((await invoke(given())).stderr).toMatch(/no key was given[^]*--key-file FILE/);
    const noKey = await invoke([...given(), '--key-file', 'k']);
    expect(noKey.stderr).toMatch(/there is no file k, and no key to write into it/);
  });

  test.each([
    [3, () => sandbox.url, 'wrong-key-0123', /refused \(401\)/],
    [4, () => 'http://127.0.0.1:9', 'some-key-0123', /cannot be reached/],
  ])('writes nothing and ends with %i if the server or the key does not work', async (wanted, url, key, words) => {
    const folder = temporaryFolder();
    const argv = ['init', '--yes', '--base-url', url(), '--key-file', 'k'];
    const { code, stderr } = await invoke(argv, { folder, input: key });
    expect(code).toBe(wanted);
    expect(stderr).toMatch(words);
    expect(stderr).toContain('Nothing was written.');
    expect([existsSync(join(folder, 'k')), existsSync(join(folder, 'config'))]).toEqual([false, false]);
  });

  test('replaces another server only with --replace, and never the key', async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'config'));
    const text = '# mine\napi:\n  base_url: https://old.example.com # old\n  requests_per_second: 90 # slow\n';
    writeFileSync(join(folder, configFile), text);
    writeFileSync(join(folder, 'k'), sandbox.key, { mode: 0o600 });
    const argv = [...given(), '--key-file', 'k'];
    const refused = await invoke(argv, { folder });
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(/names another server, https:\/\/old\.example\.com[^]*--replace/);
    expect(readFileSync(join(folder, configFile), 'utf8')).toBe(text);
    expect((await invoke([...argv, '--replace'], { folder })).code).toBe(0);
    const replaced = readFileSync(join(folder, configFile), 'utf8');
    expect(replaced).toContain(`# mine\napi:\n  base_url: ${sandbox.url} # old\n  requests_per_second: 90 # slow\n`);
    expect(readFileSync(join(folder, 'k'), 'utf8')).toBe(sandbox.key);
  });

  test('adds servers as profiles under their names', async () => {
    const folder = temporaryFolder();
    const add = (name: string) =>
      invoke([...given(), '--profile', name, '--key-file', `secrets/${name}`], { folder, input: sandbox.key });
    expect((await add('production')).code).toBe(0);
    const { code, stderr } = await add('staging');
    expect(code).toBe(0);
    expect(stderr).toContain(
      'Next: npx admin-mirror --profile staging sync, then npx admin-mirror --profile staging status\n',
    );
    expect(configIn(folder).profiles).toEqual({
      production: { api: { base_url: sandbox.url, key_file: 'secrets/production' } },
      staging: { api: { base_url: sandbox.url, key_file: 'secrets/staging' } },
    });
    expect(readFileSync(join(folder, configFile), 'utf8')).toContain('# A flag or an environment');
    expect((await invoke(['doctor', '--profile', 'staging'], { folder })).code).toBe(0);
  });

  test('adds a profile without breaking the server that was set up before', { tags: 'full' }, async () => {
    const folder = temporaryFolder();
    const first = await invoke([...given(), '--key-file', 'secrets/key', '--sync'], { folder, input: sandbox.key });
    expect(first.code).toBe(0);
    const second = [
      'init',
      '--yes',
      '--base-url',
      sandbox.url,
      '--profile',
      'staging',
      '--key-file',
      'secrets/staging',
    ];
    const added = await invoke(second, { folder, input: sandbox.key });
    expect(added.stdout).toContain(`without --profile, the server is ${sandbox.url} as before`);
    expect(await invoke(['sync', '--quick'], { folder })).toMatchObject({ code: 0 });
    expect((await invoke(['status'], { folder })).stdout).toMatch(/users +40 /);
    expect((await invoke(['sync', '--profile', 'staging'], { folder })).code).toBe(0);
    expect(existsSync(join(folder, 'data/staging/mirror.db'))).toBe(true);
  });
});

describe('init on a terminal', () => {
  const ask = (answers: readonly Exchange[], folder: string, argv: readonly string[] = ['init']) =>
    invoke(argv, { folder, terminal: 100, answers });

  test('asks for address, file and key, and explains errors', async () => {
    const folder = temporaryFolder();
    const { code, stderr, stdout } = await ask(
      [
        ['Where is the server', `ftp://x${enter}`],
        ['is not an address that begins with https:// or http://', `${erase}${sandbox.url}${enter}`],
        ['Which file holds the key', enter],
        ['The key, to be written to secrets/api-key', `${sandbox.key}${enter}`],
        ['orders, payments and balance transactions', `y${enter}`],
        ['Read everything from the server now', `n${enter}`],
      ],
      folder,
    );
    expect(code).toBe(0);
    expect(stderr).toMatch(/users list .*pages of 1000/);
    expect(stdout).toContain('written: secrets/api-key; only its owner can read it');
    expect(configIn(folder).api).toMatchObject({ base_url: sandbox.url, key_file: 'secrets/api-key' });
    expect(stderr + stdout).not.toContain(sandbox.key);
    expect(configIn(folder).resources).toEqual({
      users: { include: ['orders', 'payments', 'balance_transactions'] },
    });
    // It asks about them once: what the file says stays.
    const again = await ask(
      [
        ['Where is the server', enter],
        ['Which file holds the key', enter],
        ['Read everything from the server now', `n${enter}`],
      ],
      folder,
    );
    expect([again.code, again.stderr]).toEqual([0, expect.not.stringContaining('balance transactions')]);
    expect(configIn(folder).resources).toMatchObject({
      users: { include: ['orders', 'payments', 'balance_transactions'] },
    });
  });

  test('keeps a config file that names another server unless confirmed', async () => {
    const folder = temporaryFolder();
    mkdirSync(join(folder, 'config'));
    const text = 'api:\n  base_url: https://old.example.com\n';
    writeFileSync(join(folder, configFile), text);
    const { code } = await ask(
      [
        ['Where is the server', `${erase}${sandbox.url}${enter}`],
        ['Which file holds the key', enter],
        ['The key, to be written to', `${sandbox.key}${enter}`],
        ['names the server https:', enter],
      ],
      folder,
    );
    expect(code).toBe(2);
    expect(readFileSync(join(folder, configFile), 'utf8')).toBe(text);
  });

  test.each(['\u{3}', '\u{4}'])('writes nothing and ends with 130 if it is interrupted by %j', async (keys) => {
    const folder = temporaryFolder();
    const { code } = await ask([['Where is the server', keys]], folder);
    expect(code).toBe(130);
    expect(existsSync(join(folder, 'config'))).toBe(false);
  });
});
