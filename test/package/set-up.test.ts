import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, readFileSync, utimesSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { sourceCommandFile } from '../support/command-file.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const setUp = fileURLToPath(new URL('../../.ci/set-up.mjs', import.meta.url));

/** A clone with only a lock file, and an `npm` that logs its calls and installs as given. */
function clone(npm: string) {
  const folder = temporaryFolder();
  for (const name of ['.ci', 'bin']) mkdirSync(join(folder, name));
  copyFileSync(setUp, join(folder, '.ci/set-up.mjs'));
  writeFileSync(join(folder, 'package-lock.json'), '{}');
  writeFileSync(join(folder, 'bin/npm'), `#!/bin/sh\necho "$@" >> "${folder}/calls"\n${npm}\n`);
  chmodSync(join(folder, 'bin/npm'), 0o755);
  const run = () =>
    spawnSync(process.execPath, ['.ci/set-up.mjs'], {
      cwd: folder,
      encoding: 'utf8',
      env: { ...process.env, PATH: `${join(folder, 'bin')}${delimiter}${process.env['PATH']}` },
    });
  const calls = () => readFileSync(join(folder, 'calls'), 'utf8').trim().split('\n').length;
  return { folder, run, calls };
}

const installs = 'mkdir -p node_modules && touch node_modules/.package-lock.json; echo noise; echo noise >&2';

describe('the set-up of a clone', () => {
  test('installs with one line of output, and only if something is missing', () => {
    const { run, calls } = clone(installs);
    const first = run();
    expect(first.status).toBe(0);
    expect(first.stdout + first.stderr).toBe('installing packages (npm ci) …\n');
    const second = run();
    expect(second.status).toBe(0);
    expect(second.stdout + second.stderr).toBe('');
    expect(calls()).toBe(1);
  });

  test('installs again if the lock file is newer than the installed packages', () => {
    const { folder, run, calls } = clone(installs);
    run();
    const later = Date.now() / 1_000 + 60;
    utimesSync(join(folder, 'package-lock.json'), later, later);
    run();
    expect(calls()).toBe(2);
  });

  test("shows npm's own message if it fails", () => {
    const { status, stderr } = clone('echo "npm error nothing there" >&2; exit 1').run();
    expect(status).toBe(1);
    expect(stderr).toContain('npm error nothing there');
    expect(stderr).toContain('npm ci failed');
  });
});

test('a Node that is too old is reported in one line and ends with 2', () => {
  const pretend = 'data:text/javascript,Object.defineProperty(process, "versions", { value: { node: "20.11.0" } })';
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--import', pretend, sourceCommandFile, 'help'], {
    encoding: 'utf8',
  });
  expect(status).toBe(2);
  expect(stdout).toBe('');
  expect(stderr).toMatch(/^admin-mirror needs Node 22\.18 or newer; this is 20\.11\.0\..*\n$/);
});
