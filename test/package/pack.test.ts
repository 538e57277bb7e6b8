import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../support/temporary-folder.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };

/** The tests' own environment without what npm told them, and with the Node that runs them first. */
const environment = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.toLowerCase().startsWith('npm_'))),
  PATH: [dirname(process.execPath), process.env['PATH']].join(delimiter),
};

async function run(folder: string, command: string, ...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(command, args, { cwd: folder, env: environment });
  return stdout;
}

test('the packed package, installed elsewhere, runs from dist and can be imported with its types', async () => {
  const folder = temporaryFolder();
  const packed = await run(root, 'npm', 'pack', '--silent', '--pack-destination', folder);
  const tarball = packed.trim().split('\n').at(-1) ?? '';
  const files = await run(folder, 'tar', 'tzf', tarball);
  expect(files).toContain('package/dist/main.js\n');
  expect(files).toContain('package/config/admin-mirror.yaml\n');
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
});
