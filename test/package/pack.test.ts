// @module-tag full
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };

/** The tests' own environment without the variables of npm, and with the Node that runs them first in PATH. */
const environment = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.toLowerCase().startsWith('npm_'))),
  PATH: [dirname(process.execPath), process.env['PATH']].join(delimiter),
};

async function run(folder: string, command: string, ...args: string[]): Promise<string> {
  try {
    const { stdout } = await promisify(execFile)(command, args, { cwd: folder, env: environment });
    return stdout;
  } catch (error) {
    // A compiler reports errors on standard output, which the error's own message leaves out.
    const said = error instanceof Error && 'stdout' in error ? String(error.stdout) : '';
    throw new Error(`${command} ${args.join(' ')} failed: ${said}`, { cause: error });
  }
}

function variables(values: Readonly<Record<string, string>>): string[] {
  return Object.entries(values).map(([name, value]) => `${name}=${value}`);
}

/** A program of a user of the library. */
const program = `
import { openClient, openSandbox, resources, silentLog, systemClock, type User } from 'admin-mirror';

const sandbox = await openSandbox({ users: 3, packages: 1, emails: 0, coupons: 0 });
const client = openClient({
  baseUrl: sandbox.url, key: sandbox.key, timeoutMs: 10_000, concurrency: 2, attempts: 2, pageSize: 2,
  userAgent: 'example', log: silentLog, clock: systemClock,
});
const page = await client.list('users', { paginate: 2, sorts: [{ key: 'created_at', direction: 'asc' }] });
const first = page.records[0] as unknown as User;
const typed: string = first.username;
const known = resources.users.fields.every((field) => field.name in first);
console.log(page.total + ' users at most ' + page.records.length + ' a page, the first of them ' + (known && typed !== '' ? 'typed' : 'not'));
await client.close();
await sandbox.close();
`;

const strictly =
  `--noEmit --strict --target es2024 --module nodenext --lib es2024 --skipLibCheck --types node --typeRoots`
    .split(' ')
    .concat(join(root, 'node_modules/@types'));

test('the packed package, installed elsewhere, runs from dist and can be imported with its types', async () => {
  const folder = temporaryFolder();
  const packed = await run(root, 'npm', 'pack', '--silent', '--pack-destination', folder);
  const tarball = packed.trim().split('\n').at(-1) ?? '';
  const files = await run(folder, 'tar', 'tzf', tarball);
  expect(files).toContain('package/dist/command/main.js\n');
  expect(files).toContain('package/config/admin-mirror.example.yaml\n');
  expect(files).not.toMatch(/package\/(src\/(?!admin-mirror\.js)|test|bench|data|\.ci)/);

  const home = join(folder, 'home');
  mkdirSync(home);
  writeFileSync(join(home, 'package.json'), '{"private":true,"type":"module"}');
  const quick = ['--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error'];
  await run(home, 'npm', 'install', ...quick, join('..', tarball));

  const command = join(home, 'node_modules/.bin/admin-mirror');
  expect(await run(home, command, '--version')).toBe(`${version}\n`);
  const { settings } = JSON.parse(await run(home, command, 'config', '--json', '--db', 'here.db')) as {
    settings: Record<string, { value: unknown }>;
  };
  expect(settings['store.mirror']?.value).toBe('here.db');
  const { reports } = JSON.parse(await run(home, command, 'reports', '--json')) as { reports: unknown[] };
  expect(reports.length).toBeGreaterThan(15);

  const sandbox = await startSandbox({ users: 21_000 });
  const server = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
  const synced = await run(home, 'env', ...variables(server), command, 'sync', 'users', '--json', '--quiet');
  expect(JSON.parse(synced)).toMatchObject({ status: 'complete' });
  const csv = await run(home, command, 'export', 'users', '--columns', 'id');
  expect(csv.trim().split('\n')).toHaveLength(21_001);

  writeFileSync(join(home, 'use.ts'), program);
  await run(home, join(root, 'node_modules/.bin/tsc'), ...strictly, 'use.ts');
  expect(await run(home, process.execPath, 'use.ts')).toBe('3 users at most 2 a page, the first of them typed\n');
});
