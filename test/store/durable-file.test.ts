import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { writeDurableFile } from '../../src/store/files/durable-file.ts';
import { writeDurableFolder } from '../../src/store/files/durable-folder.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const never = new AbortController().signal;

async function* chunks(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield Buffer.from(text);
}

async function* failing(error: Error): AsyncGenerator<Uint8Array> {
  yield Buffer.from('half of ');
  throw error;
}

test('a file has all chunks in order, and the number of their bytes is returned', async () => {
  const folder = temporaryFolder();
  expect(await writeDurableFile(join(folder, 'a.csv'), chunks('één', '', ' two'), never)).toBe(9);
  expect(readFileSync(join(folder, 'a.csv'), 'utf8')).toBe('één two');
  expect(readdirSync(folder)).toEqual(['a.csv']);
});

// proves: whole-files
test('nothing exists under the final name until the file is complete', async () => {
  const folder = temporaryFolder();
  const seen: string[][] = [];
  async function* watching() {
    yield Buffer.from('one');
    seen.push(readdirSync(folder));
    yield Buffer.from('two');
  }
  await writeDurableFile(join(folder, 'a.csv'), watching(), never);
  expect(seen).toHaveLength(1);
  expect(seen[0]).toEqual([expect.stringMatching(/^\.a\.csv\..*\.partial$/)]);
});

test('a failure leaves the old file, and nothing else', async () => {
  const folder = temporaryFolder();
  const file = join(folder, 'a.csv');
  writeFileSync(file, 'old');
  await expect(writeDurableFile(file, failing(new Error('broken')), never)).rejects.toThrow('broken');
  expect(readFileSync(file, 'utf8')).toBe('old');
  expect(readdirSync(folder)).toEqual(['a.csv']);
});

test('an abort leaves nothing, even after the last chunk', async () => {
  const folder = temporaryFolder();
  const stop = new AbortController();
  async function* stopped() {
    yield Buffer.from('all of it');
    stop.abort(new Error('stopped'));
  }
  await expect(writeDurableFile(join(folder, 'a.csv'), stopped(), stop.signal)).rejects.toThrow('stopped');
  expect(readdirSync(folder)).toEqual([]);
});

test('a new file is readable by its owner alone, whatever the umask, and a replaced one keeps its mode', async () => {
  const folder = temporaryFolder();
  const file = join(folder, 'a.csv');
  const umask = process.umask(0);
  onTestFinished(() => void process.umask(umask));
  await writeDurableFile(file, chunks('one'), never);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  chmodSync(file, 0o640);
  await writeDurableFile(file, chunks('two'), never);
  expect(statSync(file).mode & 0o777).toBe(0o640);
  expect(readFileSync(file, 'utf8')).toBe('two');
});

test('a symbolic link is kept, and its target is replaced', async () => {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'real'));
  writeFileSync(join(folder, 'real', 'a.csv'), 'old');
  symlinkSync(join('real', 'a.csv'), join(folder, 'link.csv'));
  await writeDurableFile(join(folder, 'link.csv'), chunks('new'), never);
  expect(readFileSync(join(folder, 'real', 'a.csv'), 'utf8')).toBe('new');
  expect(readdirSync(folder).sort()).toEqual(['link.csv', 'real']);
});

test('leftovers of a killed process for the same file are removed, others are kept', async () => {
  const folder = temporaryFolder();
  const host = hostname()
    .replaceAll(/[^\w-]/g, '-')
    .slice(0, 40);
  const gone = spawnSync(process.execPath, ['-e', '']).pid;
  const dead = `.a.csv.${host}.${gone}.0123abcd.partial`;
  const living = `.a.csv.${host}.${process.pid}.0123abcd.partial`;
  const other = `.b.csv.${host}.${gone}.0123abcd.partial`;
  for (const name of [dead, living, other]) writeFileSync(join(folder, name), '');
  await writeDurableFile(join(folder, 'a.csv'), chunks('x'), never);
  expect(readdirSync(folder).sort()).toEqual([living, other, 'a.csv'].sort());
});

test('a pipe is refused by name, since nobody could stop the wait for its reader', async () => {
  const pipe = join(temporaryFolder(), 'pipe');
  execFileSync('mkfifo', [pipe]);
  await expect(writeDurableFile(pipe, chunks('one'), never)).rejects.toMatchObject({
    exitCode: 2,
    message: `could not write ${pipe}: it is a pipe`,
  });
});

test.skipIf(!existsSync('/dev/full'))('a full disk is reported as full', async () => {
  await expect(writeDurableFile('/dev/full', chunks('x'), never)).rejects.toMatchObject({
    exitCode: 2,
    message: 'could not write /dev/full: the disk is full (ENOSPC)',
  });
});

test('a folder is refused by name', async () => {
  const folder = temporaryFolder();
  await expect(writeDurableFile(folder, chunks('x'), never)).rejects.toMatchObject({
    exitCode: 2,
    message: `could not write ${folder}: it is a folder`,
  });
});

test.skipIf(process.getuid?.() === 0)('a folder that cannot be written to is refused', async () => {
  const folder = temporaryFolder();
  chmodSync(folder, 0o555);
  await expect(writeDurableFile(join(folder, 'a.csv'), chunks('x'), never)).rejects.toMatchObject({
    exitCode: 2,
    message: expect.stringContaining('permission is denied'),
  });
});

test('a failure removes the folders created for the file, and no other', async () => {
  const folder = temporaryFolder();
  const broken = new Error('broken');
  const write = () => writeDurableFile(join(folder, 'a', 'b', 'file.csv'), failing(broken), never);
  await expect(write()).rejects.toThrow('broken');
  expect(readdirSync(folder)).toEqual([]);
  mkdirSync(join(folder, 'a'));
  await expect(write()).rejects.toThrow('broken');
  const fill = () => Promise.reject<{ program: string; files: [] }>(broken);
  await expect(writeDurableFolder(join(folder, 'a', 'b', 'set'), 'test', fill, never)).rejects.toThrow('broken');
  expect(readdirSync(folder, { recursive: true })).toEqual(['a']);
});

test('missing parent folders are created, for their owner alone', async () => {
  const folder = temporaryFolder();
  const umask = process.umask(0);
  onTestFinished(() => void process.umask(umask));
  await writeDurableFile(join(folder, 'new', 'deep', 'a.csv'), chunks('one'), never);
  for (const made of ['new', 'new/deep']) expect(statSync(join(folder, made)).mode & 0o777).toBe(0o700);
});
