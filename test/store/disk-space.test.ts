import { join } from 'node:path';
import { expect, test } from 'vitest';
import { bytesText } from '../../src/model/text.ts';
import { FileError } from '../../src/model/errors.ts';
import { freeSpace } from '../../src/model/files.ts';
import { requireSpace } from '../../src/store/files/durable-file.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

test('a disk that is too full is reported with what is needed, what is there and where', () => {
  const full = () => requireSpace('make a snapshot', '/data', 1e9, () => 300e6);
  expect(full).toThrow(FileError);
  expect(full).toThrow('no room to make a snapshot: it needs about 1.1 GB on the disk of /data, where 300 MB are free');
  expect(() => requireSpace('make a snapshot', '/data', 1e9, () => 1.1e9)).not.toThrow();
});

test('what is small is not checked, and neither is a disk that does not say', () => {
  expect(() => requireSpace('sync', '/data', 20e6, () => 0)).not.toThrow();
  expect(() => requireSpace('sync', '/data', 1e12, () => undefined)).not.toThrow();
});

test('of a folder that is not there yet, the disk of the nearest one counts', () => {
  const folder = temporaryFolder();
  const free = freeSpace(join(folder, 'not/yet/there'));
  expect(free).toBeGreaterThan(0);
  expect(() => requireSpace('sync', join(folder, 'not/yet'), 1e18)).toThrow(/are free/);
});

test.each([
  [0, '0 bytes'],
  [980, '980 bytes'],
  [999_600, '1.0 MB'],
  [1_234_567, '1.2 MB'],
  [340_000_000, '340 MB'],
  [4_000_000_000, '4.0 GB'],
])('%d bytes read as %s', (bytes, text) => {
  expect(bytesText(bytes)).toBe(text);
});
