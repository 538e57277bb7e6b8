import { appendFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeFolder, readRegularFile } from '../../src/model/files.ts';
import { filesUnder, textOf } from '../support/documents.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const reading = (path: string, most?: number) => (): string => readRegularFile(path, most).bytes.toString('latin1');

test('a file is read completely, up to a limit that does not rely on its reported size', () => {
  const file = join(temporaryFolder(), 'file');
  writeFileSync(file, '');
  expect(reading(file)()).toBe('');
  const text = 'x'.repeat(10_000);
  appendFileSync(file, text);
  expect(reading(file, 10_000)()).toBe(text);
  expect(reading(file, 9_999)).toThrow('it has more than');
  // Reports a size of zero, as all files of /proc do.
  expect(reading('/proc/self/status')()).toContain('VmRSS');
  expect(reading('/proc/self/status', 100)).toThrow('it has more than');
  truncateSync(file, 1e12);
  expect(reading(file)).toThrow('it has more than 1 MiB');
});

test.each([
  ['/dev/null', 'it is a device, not a file'],
  ['/proc/self/fd', 'it is a folder'],
  ['/nowhere', 'ENOENT'],
])('%s is not read: %s', (path, reason) => {
  expect(reading(path)).toThrow(reason);
});

test('every folder in src is made by one function', () => {
  const others = filesUnder('src').filter((path) => path.endsWith('.ts') && path !== 'src/model/files.ts');
  expect(others.filter((path) => /\bmkdir/.test(textOf(path)))).toEqual([]);
});

test('everything in src that reads whole files does it here, except for our own files', () => {
  const own = /^src\/(?:sandbox\/|cli\/demo|model\/(?:program|files)\.ts$)/;
  const direct = /\b(?:readFileSync|readFile)\b[^;]*from 'node:fs/;
  const others = filesUnder('src').filter((path) => path.endsWith('.ts') && !own.test(path));
  expect(others.length).toBeGreaterThan(100);
  expect(others.filter((path) => direct.test(textOf(path)))).toEqual([]);
});

test('a folder is made with its parents, for its owner only', () => {
  const place = temporaryFolder();
  const folder = join(place, 'a/b/c');
  makeFolder(folder);
  makeFolder(folder);
  for (const each of ['a', 'a/b', 'a/b/c']) expect(statSync(join(place, each)).mode & 0o777).toBe(0o700);
});

test('a folder that cannot be made is an error at once', () => {
  expect(() => makeFolder('/proc/nowhere/deeper')).toThrow('ENOENT');
  const file = join(temporaryFolder(), 'file');
  writeFileSync(file, '');
  expect(() => makeFolder(file)).toThrow('EEXIST');
  expect(() => makeFolder(join(file, 'below'))).toThrow('ENOTDIR');
});
