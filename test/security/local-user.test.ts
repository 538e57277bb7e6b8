/** What another user of the same machine may try. Where the tests run as root, that user is one of its own. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { keyOf } from '../../src/sandbox/sandbox.ts';
import { runCli, startCli } from '../support/cli.ts';
import { invoke } from '../support/invoke.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';
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

describe('a rehearsal', () => {
  const userCount = 40;

  /** A mirror of users, and a folder with a file of a credit for each. */
  function stage() {
    const folder = temporaryFolder();
    const db = mirrorFile((database) => insertRows(database, 'users', madeUpUsers(userCount)));
    const rows = Array.from({ length: userCount }, (_, at) => `${at + 1},add,5\n`);
    writeFileSync(join(folder, 'rows.csv'), `user_id,type,amount\n${rows.join('')}`);
    return { folder, db, argv: ['bulk', 'run', 'balance', 'rows.csv', '--rehearse', '--db', db] };
  }

  test('shows its users to nobody who finds its port', async () => {
    const { folder, argv } = stage();
    const tries: Promise<{ path: string; status: number; text: string }>[] = [];
    const onRequest = (message: unknown): void => {
      const { url = '', headers } = (message as { readonly request: IncomingMessage }).request;
      if (tries.length > 0 || !url.startsWith('/api/v1/')) return;
      for (const path of ['/control/dump/users', '/control/ledger', '/api/v1/users', '/api/v1/users/1']) {
        for (const authorization of ['', `Bearer ${keyOf(7)}`, 'Bearer undefined']) {
          const options = { headers: { authorization, accept: 'application/json' } };
          tries.push(
            fetch(`http://${headers.host}${path}`, options).then(async (reply) => {
              return { path, status: reply.status, text: await reply.text() };
            }),
          );
        }
      }
    };
    subscribe('http.server.request.start', onRequest);
    onTestFinished(() => void unsubscribe('http.server.request.start', onRequest));
    expect(await invoke(argv, { folder })).toMatchObject({ code: 0 });
    const seen = await Promise.all(tries);
    expect(seen).toHaveLength(12);
    for (const { path, status, text } of seen) {
      expect(status).toBe(path.startsWith('/control') ? 404 : 401);
      expect(text).not.toContain('example.com');
    }
  });

  test('that is killed leaves nothing that others can read, and the next one clears it away', async () => {
    const { folder, db, argv } = stage();
    const temporary = temporaryFolder();
    const leftovers = () => readdirSync(dirname(db)).filter((name) => name.includes('rehearsal'));
    const child = startCli(argv, { folder, environment: { TMPDIR: temporary } });
    while (leftovers().length === 0 && child.exitCode === null) await setTimeout(5);
    child.kill('SIGKILL');
    await once(child, 'close');
    const [left = ''] = leftovers();
    expect(statSync(join(dirname(db), left)).mode & 0o777).toBe(0o700);
    expect(readdirSync(temporary)).toEqual([]);
    expect(await invoke(argv, { folder })).toMatchObject({ code: 0 });
    expect(leftovers()).toEqual([]);
  });
});
