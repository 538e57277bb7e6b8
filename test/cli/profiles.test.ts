import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openSandbox, type Sandbox } from '../support/bent/sandbox.ts';
import { type Exchange } from '../support/dialogue.ts';
import { invoke } from '../support/invoke.ts';
import { sandboxNow, startSandbox } from '../support/sandbox.ts';
import { temporaryFolder, temporaryFolderNow } from '../support/temporary-folder.ts';

const made = temporaryFolderNow();
const folder = made.path;
let production: Sandbox;
let staging: Sandbox;

beforeAll(async () => {
  const small = { packages: 3, emails: 5, coupons: 3, now: sandboxNow };
  [production, staging] = await Promise.all([
    openSandbox({ ...small, users: 9, key: 'key-of-production-1' }),
    openSandbox({ ...small, users: 5, key: 'key-of-staging-22' }),
  ]);
  mkdirSync(join(folder, 'config'));
  writeFileSync(
    join(folder, 'config/admin-mirror.yaml'),
    `profile: staging\nprofiles:\n  production:\n    api:\n      base_url: ${production.url}\n` +
      `  staging:\n    api:\n      base_url: ${staging.url}\n`,
  );
  writeFileSync(join(folder, 'credit.csv'), 'user_id,type,amount\n2,add,5\n');
});

afterAll(async () => {
  await Promise.all([production.close(), staging.close()]);
  made.remove();
});

const environment = {
  ADMIN_MIRROR_API_KEY_PRODUCTION: 'key-of-production-1',
  ADMIN_MIRROR_API_KEY_STAGING: 'key-of-staging-22',
};

const run = (...argv: readonly string[]) => invoke(argv, { folder, environment });
const onTerminal = (answers: readonly Exchange[], ...argv: readonly string[]) =>
  invoke(argv, { folder, environment, terminal: 400, answers });

describe('two profiles with one server', () => {
  test.each([
    ['', ''],
    ['http://LOCALHOST:', '/'],
  ])('send nothing, and doctor warns of them (%s)', async (begin, end) => {
    const own = temporaryFolder();
    const sandbox = await startSandbox({ users: 5, emails: 5 });
    const [here, there] = [
      sandbox.url,
      (begin === '' ? sandbox.url : sandbox.url.replace('http://127.0.0.1:', begin)) + end,
    ];
    const first = begin === '' ? here : here.replace('127.0.0.1', 'localhost');
    mkdirSync(join(own, 'config'));
    writeFileSync(
      join(own, 'config/admin-mirror.yaml'),
      `profiles:\n  one:\n    api:\n      base_url: ${first}\n  two:\n    api:\n      base_url: ${there}\n`,
    );
    writeFileSync(join(own, 'credit.csv'), 'user_id,type,amount\n2,add,5\n3,add,5\n');
    const keys = { ADMIN_MIRROR_API_KEY_ONE: sandbox.key, ADMIN_MIRROR_API_KEY_TWO: sandbox.key };
    const at = (profile: string, ...argv: string[]) =>
      invoke([...argv, '--profile', profile], { folder: own, environment: keys });
    for (const profile of ['one', 'two']) {
      const planned = await at(profile, 'bulk', 'plan', 'balance', 'credit.csv', '--json');
      const { batch, hash } = JSON.parse(planned.stdout) as { batch: string; hash: string };
      for (const argv of [
        ['bulk', 'apply', batch, '--approve', hash],
        ['bulk', 'run', 'balance', 'credit.csv', '--yes'],
        ['users', 'update-balance', '2', '--type', 'add', '--amount', '5', '--yes'],
        ['users', 'update', '2', '--first-name', 'Zoe'],
      ]) {
        const { code, stderr } = await at(profile, ...argv);
        expect([code, stderr]).toEqual([2, expect.stringMatching(/has the same server, .*nothing was sent/)]);
      }
      expect((await at(profile, 'doctor')).stdout).toMatch(/warn +profile +the profile (one|two) has the same server/);
    }
    expect(sandbox.control.ledger()).toEqual([]);
  });
});

describe('with two servers in one config file', () => {
  test('each has its own mirror, and names itself', async () => {
    const first = await run('sync');
    expect(first.code).toBe(0);
    expect(JSON.parse(first.stderr.split('\n')[0] ?? '')).toMatchObject({ profile: 'staging' });
    expect((await run('sync', '--profile', 'production')).code).toBe(0);
    for (const name of ['production', 'staging']) {
      expect(existsSync(join(folder, 'data', name, 'mirror.db'))).toBe(true);
    }
    const [ours, theirs] = [await run('status'), await run('status', '--profile', 'production')];
    expect(ours.stdout).toMatch(/^profile staging\n/);
    expect(ours.stdout).toMatch(/users +5 /);
    expect(theirs.stdout).toMatch(/^profile production\n[^]*users +9 /);
    expect(JSON.parse((await run('status', '--json')).stdout)).toMatchObject({ profile: 'staging' });
    expect((await run('config', '--profile', 'production')).stdout).toMatch(/profile +production +flag --profile/);
    expect((await run('doctor')).stdout).toMatch(/ok +profile +staging \(config\/admin-mirror.yaml:1\)/);
  });

  test.each([
    [['users', 'update-balance', '2', '--type', 'add', '--amount', '5'], 'add 5 to the balance of user 2'],
    [['users', 'send-email', '2', '--subject', 'Hi', '--content', 'Hi'], 'email user 2'],
    [['users', 'delete', '2'], 'delete user 2 for good'],
    [['forget', '2'], 'forget user 2'],
    [['bulk', 'run', 'balance', 'credit.csv'], 'send 1 row with a net total of 5.00'],
  ])('the question before %j names the profile', async (argv, doing) => {
    const words = '(profile production)';
    const { code, stderr } = await onTerminal([[words, `\u{3}`]], ...argv, '--profile', 'production');
    expect(code).toBe(130);
    const question = stderr.split('\n').find((line) => line.includes(words)) ?? stderr;
    expect(question).toContain(doing);
  });

  test('the question before something is sent names the environment', async () => {
    const argv = ['users', 'delete', '2', '--profile', 'production'];
    const asking = { folder, environment: { ...environment, ADMIN_MIRROR_ENVIRONMENT: 'live red' }, terminal: 400 };
    const { stderr } = await invoke(argv, { ...asking, answers: [['(live, profile production)', `\u{3}`]] });
    expect(stderr).toContain('(live, profile production)');
    const wrong = { folder, environment: { ...environment, ADMIN_MIRROR_ENVIRONMENT: 'live pink' } };
    expect((await invoke(argv, wrong)).stderr).toMatch(/live pink.*ADMIN_MIRROR_ENVIRONMENT.*red, orange/);
  });

  test('a key without a profile is not used for one', async () => {
    const before = production.control.requests().total;
    const { code, stderr } = await invoke(['sync', '--profile', 'production'], {
      folder,
      environment: { ADMIN_MIRROR_API_KEY: 'key-of-staging-22' },
    });
    expect(code).toBe(2);
    expect(stderr).toContain('ADMIN_MIRROR_API_KEY_PRODUCTION');
    expect(production.control.requests().total).toBe(before);
  });
});
