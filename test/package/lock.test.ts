import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectFolder } from '../support/documents.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

interface Locked {
  readonly integrity?: string;
  readonly link?: boolean;
  readonly hasInstallScript?: boolean;
}

const readJson = (name: string): unknown => JSON.parse(readFileSync(join(projectFolder, name), 'utf8'));
const packagesOf = (lock: string) =>
  Object.entries((readJson(lock) as { readonly packages: Readonly<Record<string, Locked>> }).packages).filter(
    ([place, { link }]) => place.includes('node_modules/') && link !== true,
  );
const locked = new Map(packagesOf('package-lock.json'));

// proves: pinned-packages
test('every installed package is pinned by its hash', () => {
  const names = packagesOf('node_modules/.package-lock.json').map(([place]) => place);
  expect(names.length).toBeGreaterThan(100);
  expect(names.filter((place) => locked.get(place)?.integrity === undefined)).toEqual([]);
});

test('no package has an install script', () => {
  expect([...locked].filter(([, each]) => each.hasInstallScript === true).map(([place]) => place)).toEqual([]);
});

test('the Node of a clone is one exact version, from pinned packages', () => {
  const { optionalDependencies } = readJson('.ci/runtime/package.json') as {
    readonly optionalDependencies: Readonly<Record<string, string>>;
  };
  expect(new Set(Object.values(optionalDependencies))).toEqual(new Set([process.versions.node]));
  const unpinned = Object.keys(optionalDependencies).filter(
    (name) => locked.get(`node_modules/${name}`)?.integrity?.startsWith('sha512-') !== true,
  );
  expect(unpinned).toEqual([]);
});

test('without a pinned Node, an old Node of the machine is refused with one line', () => {
  const root = temporaryFolder();
  for (const name of ['.ci', 'node_modules']) mkdirSync(join(root, name));
  for (const name of ['package-lock.json', 'node_modules/.package-lock.json']) writeFileSync(join(root, name), '{}');
  copyFileSync(join(projectFolder, '.ci/set-up.mjs'), join(root, '.ci/set-up.mjs'));
  const setUp = (version: string) => {
    const pretend = `Object.defineProperty(process, 'versions', { value: { node: '${version}' } })`;
    const argv = ['--import', `data:text/javascript,${pretend}`, join(root, '.ci/set-up.mjs')];
    const { status, stderr } = spawnSync(process.execPath, argv, { encoding: 'utf8' });
    return { status, stderr };
  };
  expect(setUp('22.18.0')).toEqual({ status: 0, stderr: '' });
  for (const old of ['20.19.5', '22.17.9']) {
    expect(setUp(old)).toEqual({ status: 2, stderr: expect.stringMatching(/^this needs Node 22\.18 or newer, .*\n$/) });
  }
});
