import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeFolder } from '../../src/model/folder.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

test('a folder is made with those that lead to it, for its owner alone; one that is there stays as it is', () => {
  const place = temporaryFolder();
  const folder = join(place, 'a/b/c');
  makeFolder(folder);
  makeFolder(folder);
  for (const each of ['a', 'a/b', 'a/b/c']) expect(statSync(join(place, each)).mode & 0o777).toBe(0o700);
});

test('a folder that cannot be made is an error at once, also where the system makes none', () => {
  expect(() => makeFolder('/proc/nowhere/deeper')).toThrow('ENOENT');
  const file = join(temporaryFolder(), 'file');
  writeFileSync(file, '');
  expect(() => makeFolder(file)).toThrow('EEXIST');
  expect(() => makeFolder(join(file, 'below'))).toThrow('ENOTDIR');
});
