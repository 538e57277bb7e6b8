/** What another user of the same machine may try. Where the tests run as root, that user is one of its own. */
import { chmodSync, chownSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const isRoot = process.getuid?.() === 0;
/** Nobody, on every Linux. */
const stranger = 65_534;

/** Makes a folder that anybody may write to; of another user where the tests run as root. */
function foreignFolder(path: string): string {
  mkdirSync(path, { recursive: true });
  chmodSync(path, 0o777);
  if (isRoot) chownSync(path, stranger, stranger);
  return path;
}

describe('compiled code', () => {
  const run = (environment: Readonly<Record<string, string>>) =>
    runCli(['--version'], { folder: temporaryFolder(), environment: { NODE_COMPILE_CACHE: '', ...environment } });

  test('is neither read from nor written to the folder for temporary files', async () => {
    const shared = temporaryFolder();
    const planted = foreignFolder(join(shared, 'node-compile-cache'));
    const caches = temporaryFolder();
    expect((await run({ TMPDIR: shared, XDG_CACHE_HOME: caches })).code).toBe(0);
    expect(readdirSync(planted)).toEqual([]);
    const own = join(caches, 'admin-mirror');
    expect(statSync(own).mode & 0o777).toBe(0o700);
    expect(readdirSync(own)).not.toEqual([]);
  });

  test.each(['the folder itself', 'a folder above it'])('is not kept where others can write to %s', async (which) => {
    const caches = temporaryFolder();
    const own = join(caches, 'a', 'admin-mirror');
    mkdirSync(own, { recursive: true, mode: 0o700 });
    foreignFolder(which === 'the folder itself' ? own : join(caches, 'a'));
    expect((await run({ XDG_CACHE_HOME: join(caches, 'a') })).code).toBe(0);
    expect(readdirSync(own)).toEqual([]);
  });

  test.runIf(isRoot)('is not kept in a folder of another user, however it is protected', async () => {
    const caches = temporaryFolder();
    const own = foreignFolder(join(caches, 'admin-mirror'));
    chmodSync(own, 0o700);
    expect((await run({ XDG_CACHE_HOME: caches })).code).toBe(0);
    expect(readdirSync(own)).toEqual([]);
  });
});
