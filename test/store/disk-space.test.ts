import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { bytesText } from '../../src/model/text.ts';
import { FileError } from '../../src/model/errors.ts';
import { freeSpace } from '../../src/model/files.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { requireSpace } from '../../src/store/files/durable-file.ts';
import { commandFile } from '../support/command-file.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

test('a disk that is too full is reported with what is needed, what is free and where', () => {
  const full = () => requireSpace('make a snapshot', '/data', 1e9, () => 300e6);
  expect(full).toThrow(FileError);
  expect(full).toThrow('no room to make a snapshot: it needs about 1.1 GB on the disk of /data, where 300 MB are free');
  expect(() => requireSpace('make a snapshot', '/data', 1e9, () => 1.1e9)).not.toThrow();
});

test('small writes are not checked, nor is a disk that does not report its space', () => {
  expect(() => requireSpace('sync', '/data', 20e6, () => 0)).not.toThrow();
  expect(() => requireSpace('sync', '/data', 1e12, () => undefined)).not.toThrow();
});

test('a folder that does not exist yet uses the disk of the nearest existing one', () => {
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

/** Runs shell commands in a folder whose `data/` is a private disk with a mirror. */
function onDisk(options: string, script: string): string {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'data'));
  openMirrorStore(join(folder, 'made/mirror.db')).close();
  copyFileSync(join(folder, 'made/mirror.db'), join(folder, 'mirror.db'));
  const mounted = `mount -t tmpfs -o ${options} none data && cp mirror.db data/ && ${script}`;
  const { stdout, stderr } = spawnSync('unshare', ['-rm', 'sh', '-c', mounted, process.execPath, commandFile], {
    cwd: folder,
    encoding: 'utf8',
    env: { PATH: process.env['PATH'], HOME: folder },
  });
  return stdout + stderr;
}

const canMount = spawnSync('unshare', ['-rm', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0;

describe.skipIf(!canMount)('if SQLite only says that it cannot open a file', () => {
  test.each([
    [
      'a read-only disk',
      'size=9m',
      'mount -o remount,ro data',
      /could not open the mirror \S+mirror\.db: the file system is read-only \(EROFS\)\nMount it/,
    ],
  ])('the error names the reason: %s', (_name, options, spoil, message) => {
    expect(onDisk(options, `${spoil}; "$0" "$1" status`)).toMatch(message);
  });

  test('doctor fails if nothing can be written to the disk', { tags: 'full' }, () => {
    const doctor = '"$0" "$1" doctor --json';
    expect(onDisk('size=2m', `cat /dev/zero > data/a; ${doctor}`)).toMatch(/"journal disk",\s+"state": "fail"/);
    expect(onDisk('size=9m', doctor)).toMatch(/"journal disk",\s+"state": "warn"/);
  });
});
