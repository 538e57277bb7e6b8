/** Paths that are not regular files. Each command runs in its own process, so that one that hangs can be killed. */
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { finished, startCli } from '../support/cli.ts';
import { commandFile } from '../support/command-file.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const kinds = {
  pipe: (path: string) => execFileSync('mkfifo', [path]),
  endless: (path: string) => symlinkSync('/dev/zero', path),
  loop: (path: string) => {
    symlinkSync(path, `${path}.other`);
    symlinkSync(`${path}.other`, path);
  },
} as const;
const reasons = {
  pipe: 'it is a pipe, not a file',
  endless: 'it is a device, not a file',
  loop: 'its links lead in a circle (ELOOP)',
} as const;

/** Nothing listens there: a command that got past its files would end with 4. */
const server = { ADMIN_MIRROR_BASE_URL: 'http://127.0.0.1:9', ADMIN_MIRROR_API_KEY: 'key' };

async function run(args: readonly string[], folder: string, environment: Readonly<Record<string, string>> = server) {
  const child = startCli(args, { folder, environment });
  child.stdin.end();
  const stuck = setTimeout(() => child.kill('SIGKILL'), 40_000);
  const done = await finished(child);
  clearTimeout(stuck);
  return done;
}

const { ADMIN_MIRROR_BASE_URL } = server;
const keyFile = { ADMIN_MIRROR_BASE_URL, ADMIN_MIRROR_API_KEY_FILE: 'key' };
const readers: readonly (readonly [keyof typeof kinds, string, readonly string[], Readonly<Record<string, string>>])[] =
  [
    ['pipe', 'credit.csv', ['bulk', 'plan', 'balance', 'credit.csv'], server],
    ['endless', 'credit.xlsx', ['bulk', 'plan', 'balance', 'credit.xlsx'], server],
    ['loop', 'credit.jsonl', ['bulk', 'plan', 'balance', 'credit.jsonl'], server],
    ['pipe', 'config/admin-mirror.yaml', ['status'], server],
    ['endless', 'settings.yaml', ['status', '--config', 'settings.yaml'], server],
    ['pipe', '.env', ['status'], server],
    ['endless', 'key', ['sync'], keyFile],
    ['loop', 'key', ['sync'], keyFile],
    ['pipe', 'config/reports/mine.sql', ['export', 'report:mine'], server],
    ['pipe', 'data/mirror.db', ['status'], server],
    ['pipe', 'data/journal.db', ['bulk', 'status'], server],
  ];

test(
  'A sheet, a config file, a key, a report or a store that is a pipe, a device or a loop is refused at once',
  { timeout: 120_000, tags: 'full' },
  async () => {
    const parent = temporaryFolder();
    await Promise.all(
      readers.map(async ([kind, name, args, environment], at) => {
        const folder = join(parent, String(at));
        mkdirSync(dirname(join(folder, name)), { recursive: true });
        kinds[kind](join(folder, name));
        const { code, stderr } = await run(args, folder, environment);
        expect({ args, code, stderr }).toEqual({
          args,
          code: 2,
          stderr: expect.stringContaining(reasons[kind]) as string,
        });
        expect(stderr).not.toMatch(/\n +at /);
      }),
    );
  },
);

test('Endless standard input is refused before it fills the memory', async () => {
  const child = spawn('sh', ['-c', `exec "$0" "$@" < /dev/zero`, process.execPath, commandFile, 'query', '-'], {
    cwd: temporaryFolder(),
  });
  const { code, stderr } = await finished(child);
  expect(stderr).toContain('standard input is longer than 16 MiB');
  expect(code).toBe(2);
});
