import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { formsOf } from '../../src/model/secret.ts';
import { startCli } from '../support/cli.ts';
import { echoManners, generatedPassword, startEchoingServer, storedPassword } from '../support/echoing-server.ts';
import { invoke } from '../support/invoke.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { listening } from '../support/listening.ts';

const key = 'sk-live/Zq81&kkW-0099';
const password = 'Corr3ct"horse/battery&staple';

/** Every file that a command left in the folder, names and bytes. */
function filesIn(folder: string): string {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile() && !['given.csv', 'key'].includes(each.name))
    .map(({ parentPath, name }) => `${name}\n${readFileSync(join(parentPath, name), 'latin1')}`)
    .join('\n');
}

/** The secrets in the text, in whatever form. */
function toldIn(text: string): string[] {
  const plain = text.toLowerCase();
  const secrets = [key, password, generatedPassword, storedPassword];
  return secrets.flatMap(formsOf).filter((form) => plain.includes(form.toLowerCase()));
}

const newUser = '--first-name Ann --last-name Lind --username ann2 --email ann2@example.com'.split(' ');
const commands: Readonly<Record<string, readonly string[]>> = {
  'users create with a password': ['users', 'create', ...newUser, '--password', password, '--yes'],
  'users create without one': ['users', 'create', ...newUser, '--yes'],
  'users update': ['users', 'update', '7', '--password', password],
  'bulk create': ['bulk', 'run', 'create', 'given.csv', '--yes'],
  'bulk create of a file with passwords': ['bulk', 'plan', 'create', 'wrong.csv'],
};

async function run(
  argv: readonly string[],
  url: string,
  more: readonly string[],
  level: 'debug' | 'info' | 'warn' | 'error',
) {
  const folder = temporaryFolder();
  const head = 'first_name,last_name,username,email';
  writeFileSync(join(folder, 'given.csv'), `${head}\nBo,Berg,bo,bo@example.com\n`);
  writeFileSync(join(folder, 'key'), key, { mode: 0o600 });
  // The sheet is the user's own file, so it may hold the password.
  const wrong = join(folder, 'given.csv');
  if (argv.includes('wrong.csv')) {
    writeFileSync(wrong, `${head},password\nBo,Berg,bo,bo@example.com,"${password.replaceAll('"', '""')}"\n`);
  }
  const environment = {
    ADMIN_MIRROR_BASE_URL: url,
    ADMIN_MIRROR_API_KEY_FILE: 'key',
  };
  const given = argv.map((each) => (each === 'wrong.csv' ? 'given.csv' : each));
  const { stdout, stderr, code } = await invoke([...given, ...more], {
    folder,
    environment,
    constants: { api: { attempts: 1 }, log: { level } },
  });
  return { all: `${stdout}\n${stderr}\n${filesIn(folder)}`, stdout, stderr, code, folder };
}

describe('with a server that echoes everything', () => {
  describe.each(Object.entries(commands))('%s', (_, argv) => {
    // proves: secrets
    test.each(echoManners)('prints no secret if the server %s', async (manner) => {
      const { url } = await startEchoingServer(manner);
      const plain = await run(argv, url, ['--verbose'], 'debug');
      expect(toldIn(plain.all)).toEqual([]);
      expect(plain.stderr).toContain('"path":"/api/v1/users');
      expect(toldIn((await run(argv, url, ['--json'], 'debug')).all)).toEqual([]);
    });
  });

  test.each(['debug', 'info', 'warn', 'error'] as const)('no secret is logged at level %s', async (level) => {
    const { url } = await startEchoingServer('refuses');
    expect(toldIn((await run(commands['users update'] ?? [], url, [], level)).all)).toEqual([]);
  });

  test('a sync brings no secret into the mirror, its events or its log', async () => {
    const { url } = await startEchoingServer('accepts');
    const { all, code, folder } = await run(['sync'], url, ['--json'], 'debug');
    expect(code).toBe(0);
    expect(toldIn(all)).toEqual([]);
    const seen = await invoke(['query', 'SELECT _extra FROM users', '--format', 'json'], { folder });
    // Fields that are not secret are kept.
    expect(seen.stdout).toContain('password_changed_at');
    expect(seen.stdout).toContain('2026-01-06T10:00:00.000000Z');
  });
});

test('the password of an account is never shown, whether it is accepted or refused', async () => {
  const folder = temporaryFolder();
  const flags = ['--verbose', '--json'];
  const given = async (input: string, ...argv: readonly string[]) => {
    const { code, stdout, stderr } = await invoke(['people', ...argv, ...flags], { folder, input });
    expect(toldIn(`${stdout}\n${stderr}\n${filesIn(folder)}`)).toEqual([]);
    return code;
  };
  expect(await given(`${password}\n`, 'add', 'anna', '--role', 'maker')).toBe(0);
  expect(await given(`${password}\n${password}\n`, 'password', 'anna')).toBe(2);
  expect(await given(`${password} anna`, 'password', 'anna')).toBe(2);
  expect(await given(password, 'add', 'anna', '--role', 'maker')).toBe(2);
});

describe('the list of processes', () => {
  test.skipIf(!existsSync('/proc/self/cmdline')).for([
    [['--password', password], '--password ****'],
    [[`--password=${password}`], '--password=****'],
    [['--password', `--base-url=${password}`], '--password ****'],
  ] as const)('does not show a password that was given as a flag: %j', async ([flags, shown]) => {
    // The child waits for a response: the server accepts the connection and says nothing.
    const server = createServer();
    const taken = new Promise((resolve) => server.once('connection', resolve));
    const url = await listening(server);
    const child = startCli(['users', 'update', '7', ...flags], {
      folder: temporaryFolder(),
      environment: { ADMIN_MIRROR_BASE_URL: url, ADMIN_MIRROR_API_KEY: key },
    });
    await taken;
    const line = readFileSync(`/proc/${child.pid}/cmdline`, 'utf8');
    const name = readFileSync(`/proc/${child.pid}/comm`, 'utf8');
    child.kill('SIGKILL');
    server.close();
    expect(line).toContain(`admin-mirror users update 7 ${shown}`);
    // The name that killall and pgrep match.
    expect(name).toMatch(/^admin-mirror/);
    expect(toldIn(line)).toEqual([]);
  });
});

test('the journal that a command writes can be read only by its owner', async () => {
  const { url } = await startEchoingServer('accepts');
  const { folder } = await run(commands['users update'] ?? [], url, [], 'debug');
  expect(statSync(join(folder, 'data/journal.db')).mode & 0o777).toBe(0o600);
});

describe('an address with a user and a password in it', () => {
  const address = 'https://ann:s3cr3t-Pw/9@panel.example.com?api_key=s3cr3t-Pw/9';
  const commands = [['sync'], ['doctor'], ['config'], ['config', '--json'], ['status', '--verbose'], ['users', 'list']];

  // proves: address-password
  test.each(commands)('is refused by %s %s without showing either', async (...argv) => {
    const folder = temporaryFolder();
    const config = join(folder, 'config.yaml');
    writeFileSync(config, `api:\n  base_url: ${address}\n`);
    for (const given of [
      ['--base-url', address],
      ['--config', config],
    ]) {
      const { code, stdout, stderr } = await invoke([...argv, ...given], { folder });
      expect(code).toBe(2);
      expect(stdout + stderr).not.toMatch(/s3cr3t|ann:/);
      expect(stdout + stderr).toContain('****');
    }
  });

  test('is not shown if it is given as a flag of init', async () => {
    const flags = ['init', '--base-url', address, '--yes', '--json'];
    const { code, stdout, stderr } = await invoke(flags, { environment: { ADMIN_MIRROR_API_KEY: key } });
    expect(code).toBe(2);
    expect(stdout + stderr).not.toMatch(/s3cr3t|ann:/);
  });
});
