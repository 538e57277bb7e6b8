import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
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
  for (const name of ['set-up.mjs', 'newest-source.mjs'])
    copyFileSync(join(setUp, '..', name), join(folder, '.ci', name));
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

describe('the command of a clone', () => {
  /** A clone whose sources and bundle say which of them runs. The bundle is a minute newer. */
  function bundled() {
    const folder = temporaryFolder();
    const write = (name: string, text: string) => {
      mkdirSync(join(folder, name, '..'), { recursive: true });
      writeFileSync(join(folder, name), text);
    };
    const says = (word: string) => `export const main = async () => console.log('${word}');`;
    write('package.json', '{ "type": "module" }');
    write('package-lock.json', '{}');
    write('src/main.ts', says('sources'));
    write('src/cli/other.ts', '');
    write('dist/command/main.js', says('bundle'));
    write('dist/command/made', '');
    mkdirSync(join(folder, '.ci'));
    copyFileSync(sourceCommandFile, join(folder, 'src/admin-mirror.js'));
    copyFileSync(join(setUp, '../newest-source.mjs'), join(folder, '.ci/newest-source.mjs'));
    const touch = (name: string, inSeconds: number) => {
      const at = Date.now() / 1_000 + inSeconds;
      utimesSync(join(folder, name), at, at);
    };
    touch('dist/command/made', 60);
    const run = () =>
      spawnSync(process.execPath, ['src/admin-mirror.js', 'status'], { cwd: folder, encoding: 'utf8' }).stdout.trim();
    return { folder, touch, run };
  }

  test('runs the bundle that its set-up made', () => {
    expect(bundled().run()).toBe('bundle');
  });

  test.each(['src/main.ts', 'src/cli/other.ts', 'src/cli', 'package-lock.json', '.ci/newest-source.mjs'])(
    'runs the sources once %s has changed',
    (name) => {
      const { touch, run } = bundled();
      touch(name, 120);
      expect(run()).toBe('sources');
    },
  );

  test('runs the sources while there is no whole bundle', () => {
    const { folder, run } = bundled();
    rmSync(join(folder, 'dist/command/made'));
    expect(run()).toBe('sources');
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
