import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { openSandbox, type Sandbox } from '../support/bent/sandbox.ts';
import { openMirrorStoreForReading } from '../../src/mirror/store/mirror-store.ts';
import type { RunReport } from '../../src/store/mirror-types.ts';
import { finished, startCli } from '../support/cli.ts';
import { freePort } from '../support/free-port.ts';
import { invoke } from '../support/invoke.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { temporaryFolder, temporaryFolderNow } from '../support/temporary-folder.ts';

const made = temporaryFolderNow();
const folder = made.path;
let first: Sandbox;
let second: Sandbox;

beforeAll(async () => {
  const small = { packages: 2, emails: 3, coupons: 2, now: sandboxNow };
  [first, second] = await Promise.all([
    openSandbox({ ...small, users: 9, key: 'key-of-the-first-1' }),
    openSandbox({ ...small, users: 5, key: 'key-of-the-second' }),
  ]);
  const nobody = `http://127.0.0.1:${await freePort()}`;
  const profiles = { east: first.url, lost: nobody, west: second.url };
  mkdirSync(join(folder, 'config'), { recursive: true });
  mkdirSync(join(folder, 'keys'));
  const listed = Object.entries(profiles).map(([name, url]) => `  ${name}: {api: {base_url: "${url}"}}\n`);
  writeFileSync(
    join(folder, 'config/admin-mirror.yaml'),
    `api:\n  key_file: keys/{profile}\nprofiles:\n${listed.join('')}`,
  );
  for (const [name, url] of Object.entries(profiles)) {
    const { key } = url === second.url ? second : first;
    writeFileSync(join(folder, `keys/${name}`), `${key}\n`, { mode: 0o600 });
  }
});

afterAll(async () => {
  await Promise.all([first.close(), second.close()]);
  made.remove();
});

const run = (...argv: readonly string[]) => invoke(argv, { folder, constants: { api: { attempts: 1 } } });

interface AllReport {
  readonly status: string;
  readonly profiles: readonly {
    readonly profile: string | null;
    readonly exit_code: number | null;
    readonly problem: string | null;
    readonly report: RunReport | null;
  }[];
}

describe('sync --all', () => {
  test(
    'runs one sync per server; a failed one stops no other, and the exit code is the worst',
    { tags: 'full' },
    async () => {
      const { code, stdout, stderr } = await run('sync', '--all', '--json');
      const { status, profiles } = JSON.parse(stdout) as AllReport;
      const ends = new Map(profiles.map((each) => [each.profile, each]));
      expect([code, status]).toEqual([4, 'partial']);
      expect([...ends.keys()]).toEqual(['east', 'lost', 'west']);
      expect(ends.get('east')).toMatchObject({ exit_code: 0, report: { resources: { users: { live: 9 } } } });
      expect(ends.get('west')).toMatchObject({ exit_code: 0, report: { resources: { users: { live: 5 } } } });
      expect(ends.get('lost')).toMatchObject({ exit_code: 4, problem: expect.stringContaining('127.0.0.1') as string });
      for (const name of ['east', 'west']) expect(existsSync(join(folder, 'data', name, 'mirror.db'))).toBe(true);
      // All servers write to one log, and each line names its server.
      expect(stderr).toMatch(/"profile":"west".*"msg":"ended"/);
    },
  );

  test('stops in order: running syncs end as interrupted, and no others start', { tags: ['full'] }, async () => {
    second.control.setBehaviour({ latency: 60_000 });
    const place = temporaryFolder();
    mkdirSync(join(place, 'config'));
    const profile = (name: string) => `  ${name}: {api: {base_url: "${second.url}", key_file: ${folder}/keys/west}}\n`;
    writeFileSync(
      join(place, 'config/admin-mirror.yaml'),
      `profiles:\n${['a', 'b', 'c', 'd', 'e'].map(profile).join('')}`,
    );
    onTestFinished(() => void second.control.setBehaviour({ latency: 0 }));
    const before = second.control.requests().total;
    const child = startCli(['sync', '--all', '--json'], { folder: place });
    // One sync may send several requests before another one has begun.
    const begun = () => ['a', 'b', 'c', 'd'].every((name) => existsSync(join(place, `data/${name}/mirror.db`)));
    await expect.poll(() => begun() && second.control.requests().total >= before + 4, { timeout: 20_000 }).toBe(true);
    child.kill('SIGINT');
    const { code, stdout } = await finished(child);
    expect(code).toBe(130);
    expect(JSON.parse(stdout)).toMatchObject({
      status: 'interrupted',
      profiles: [
        ...['a', 'b', 'c', 'd'].map((name) => ({ profile: name, exit_code: 130, report: { status: 'interrupted' } })),
        { profile: 'e', exit_code: null, problem: 'not started' },
      ],
    });
    const store = openMirrorStoreForReading(join(place, 'data/a/mirror.db'));
    expect([store.lockOwner('sync'), store.runs(1)[0]?.status]).toEqual([undefined, 'interrupted']);
    store.close();
  });
});

describe('another command with --all', () => {
  test.each([
    [
      ['verify', 'users'],
      5,
      /^3 servers: 1 not compared, 2 equal\nlost +not compared .*\n(?:east|west) +equal +\d+ requests?\n/,
    ],
    [['backup'], 0, /^3 servers: 3 complete\n(?:.*\n)*west +complete +\S+data\/backups\/west\/\S+$/m],
    [['doctor'], 4, /^3 servers: 1 with problems, 2 good\nlost +with problems +server: /],
  ])(
    '%j runs once per server, says first how they are, and ends with the worst code',
    { tags: 'full' },
    async (argv, worst, line) => {
      const { code, stdout } = await run(...argv, '--all');
      expect(stdout).toMatch(line);
      expect(code).toBe(worst);
    },
  );
});

describe('--all', () => {
  test.each(['--profile', '--db', '--journal', '--base-url'])(
    'is refused with %s, which is for one server',
    async (flag) => {
      const { code, stderr } = await run('sync', '--all', flag, 'https://x.example.com');
      expect([code, stderr]).toEqual([2, expect.stringContaining(`${flag} is for one server`)]);
    },
  );

  test('is refused without profiles, and with a backup folder', async () => {
    const { code, stderr } = await invoke(['sync', '--all'], { folder: temporaryFolder() });
    expect([code, stderr]).toEqual([2, expect.stringContaining('the config file has no profiles')]);
    expect((await run('backup', 'copies', '--all')).stderr).toContain('a backup folder is for one server');
  });
});

describe('the status of all servers', () => {
  const place = temporaryFolderNow();
  const see = (...argv: readonly string[]) => invoke(argv, { folder: place.path });
  const profile = (name: string, more: string) => `  ${name}: {${more}}\n`;
  const others = Array.from({ length: 7 }, (_, at) => profile(`shop-${at}`, ''));

  beforeAll(async () => {
    mkdirSync(join(place.path, 'config'));
    const server = `api: {base_url: "${second.url}", key_file: ${folder}/keys/west}`;
    const shown = [
      profile('good', server),
      profile('stale', `${server}, worker: {max_staleness: 1ms}`),
      profile('wrong', 'bulk: {concurrency: none}'),
    ];
    writeFileSync(
      join(place.path, 'config/admin-mirror.yaml'),
      `worker: {max_staleness: 9999d}\nprofiles:\n${[...shown, ...others].join('')}`,
    );
    for (const name of ['good', 'stale']) await see('sync', '--quiet', '--profile', name);
  });

  afterAll(() => place.remove());

  test('is shown by status if no server is chosen: worst first, with what to do', async () => {
    const { code, stdout } = await see('status');
    const lines = stdout.trimEnd().split('\n');
    expect(code).toBe(0);
    expect(lines[0]).toBe('10 servers: 9 with problems, 1 good');
    expect(lines[1]).toMatch(/^wrong +1 problem +not complete yet$/);
    expect(lines[2]).toContain('bulk.concurrency is "none" (config/admin-mirror.yaml:');
    expect(lines[5]).toContain('there is no mirror at');
    expect(lines[6]).toContain('admin-mirror --profile shop-0 sync');
    expect(lines.at(-4)).toMatch(/^stale +1 problem +20/);
    expect(lines.at(-3)).toContain('the mirror is older than the 1ms');
    expect(lines.at(-1)).toMatch(/^good +good +20/);
  });

  test('is one document with --json, and exits with the worst code with --check', async () => {
    const { code, stdout } = await see('status', '--all', '--check', '--json');
    const { profiles } = JSON.parse(stdout) as { profiles: readonly { profile: string; check: number }[] };
    expect(code).toBe(2);
    expect(profiles).toHaveLength(10);
    expect(profiles[0]).toMatchObject({ profile: 'wrong', check: 2, problems: [{ code: 'settings' }] });
    expect(profiles[1]).toMatchObject({ check: 2, problems: [{ code: 'no_mirror' }] });
    expect(profiles.slice(-2)).toMatchObject([
      { profile: 'stale', check: 5, problems: [{ code: 'stale' }], is_running: false, has_worker: false },
      { profile: 'good', check: 0, problems: [] },
    ]);
    const checked = await see('status', '--check');
    expect(checked.stdout).not.toMatch(/^good/m);
  });
});
