/** What another user of the same machine may try. If the tests run as root, they act as that user too. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { chmodSync, chownSync, copyFileSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { dirname, join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { loadReports, reportNamed } from '../../src/data/reports/reports.ts';
import { keyOf as sandboxKeyOf } from '../support/bent/sandbox.ts';
import { keyOf } from '../../src/settings/server.ts';

import { spawnCli, startCli } from '../support/cli.ts';
import { operator } from '../support/people.ts';
import { withoutServer } from '../../src/settings/passed.ts';
import { readSettings } from '../../src/settings/settings.ts';
import { invoke } from '../support/invoke.ts';
import { insertRows, madeUpUsers, mirrorFile } from '../support/mirror-file.ts';
import { startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { sample } from '../support/part.ts';

const isRoot = process.getuid?.() === 0;
/** The user nobody on Linux. */
const stranger = 65_534;

/** Makes a folder that anyone may write to; it belongs to another user if the tests run as root. */
function foreignFolder(path: string): string {
  mkdirSync(path, { recursive: true });
  chmodSync(path, 0o777);
  if (isRoot) chownSync(path, stranger, stranger);
  return path;
}

describe('compiled code', () => {
  const run = (environment: Readonly<Record<string, string>>) =>
    spawnCli(['--version'], { folder: temporaryFolder(), environment: { NODE_COMPILE_CACHE: '', ...environment } });

  // proves: planted-code
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

  test.each(sample(['the folder itself', 'a folder above it'], 1))(
    'is not cached if others can write to %s',
    async (which) => {
      const caches = temporaryFolder();
      const own = join(caches, 'a', 'admin-mirror');
      mkdirSync(own, { recursive: true, mode: 0o700 });
      foreignFolder(which === 'the folder itself' ? own : join(caches, 'a'));
      expect((await run({ XDG_CACHE_HOME: join(caches, 'a') })).code).toBe(0);
      expect(readdirSync(own)).toEqual([]);
    },
  );

  test.each(sample(['/proc', '/nonexistent', 'relative'], 1))(
    'is not cached if the home is %s, and the command works',
    async (HOME) => {
      expect((await run({ HOME, XDG_CACHE_HOME: '' })).code).toBe(0);
    },
  );

  test.runIf(isRoot)('is not cached in a folder of another user, whatever its mode', async () => {
    const caches = temporaryFolder();
    const own = foreignFolder(join(caches, 'admin-mirror'));
    chmodSync(own, 0o700);
    expect((await run({ XDG_CACHE_HOME: caches })).code).toBe(0);
    expect(readdirSync(own)).toEqual([]);
  });
});

describe('a rehearsal', () => {
  const userCount = 40;

  /** A mirror of users, and a folder with a sheet that credits each user. */
  function stage() {
    const folder = temporaryFolder();
    const db = mirrorFile((database) => insertRows(database, 'users', madeUpUsers(userCount)));
    const rows = Array.from({ length: userCount }, (_, at) => `${at + 1},add,5\n`);
    writeFileSync(join(folder, 'rows.csv'), `user_id,type,amount\n${rows.join('')}`);
    return { folder, db, argv: ['bulk', 'run', 'balance', 'rows.csv', '--rehearse', '--db', db] };
  }

  // proves: rehearsal-users
  test('does not show its users to another process that finds its port', { tags: 'full' }, async () => {
    const { folder, db } = stage();
    const tries: Promise<{ status: number; text: string }>[] = [];
    const onRequest = (message: unknown): void => {
      const { url = '', headers } = (message as { readonly request: IncomingMessage }).request;
      if (tries.length > 0 || !url.startsWith('/api/v1/')) return;
      for (const path of ['/api/v1/users', '/api/v1/users/1']) {
        for (const authorization of ['', `Bearer ${sandboxKeyOf(7)}`, 'Bearer undefined']) {
          const options = { headers: { authorization, accept: 'application/json' } };
          tries.push(
            fetch(`http://${headers.host}${path}`, options).then(async (reply) => {
              return { status: reply.status, text: await reply.text() };
            }),
          );
        }
      }
    };
    subscribe('http.server.request.start', onRequest);
    onTestFinished(() => void unsubscribe('http.server.request.start', onRequest));
    // As the child does it that rehearses, with the settings that it gets.
    const flags = [{ key: 'store.mirror', flag: '--db', value: db }] as const;
    const settings = withoutServer({ reading: readSettings({ flags, environment: {}, folder }), servers: [] });
    const output = { kind: 'terminal', json: false, quiet: false, color: false } as const;
    const call = { path: ['bulk', 'run'], operands: ['balance', 'rows.csv'], options: { rehearse: true } } as const;
    const given = { ...settings, actor: operator, run: null, output };
    expect(await invoke(call, { folder, given })).toMatchObject({ code: 0 });
    const seen = await Promise.all(tries);
    expect(seen).toHaveLength(6);
    for (const { status, text } of seen) {
      expect(status).toBe(401);
      expect(text).not.toContain('example.com');
    }
  });

  test(
    'that is killed leaves nothing that others can read, and the next one removes it',
    { tags: 'full' },
    async () => {
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
    },
  );
});

describe('settings', () => {
  const config = 'config/admin-mirror.yaml';
  /** A working folder with a settings file that sends the key elsewhere. */
  function stage(name: string): { readonly folder: string; readonly file: string } {
    const folder = temporaryFolder();
    const file = join(folder, name);
    mkdirSync(dirname(file), { recursive: true });
    const text =
      name === '.env' ? 'ADMIN_MIRROR_BASE_URL=https://evil.example\n' : 'api:\n  base_url: https://evil.example\n';
    writeFileSync(file, text, { mode: 0o600 });
    return { folder, file };
  }
  const read = (folder: string) => readSettings({ flags: [], environment: {}, folder });

  // proves: others-config
  test.each([config, '.env'])('are not read from a file %s that others can write to', (name) => {
    const { folder, file } = stage(name);
    expect(read(folder).rest.api.baseUrl).toBe('https://evil.example');
    for (const mode of [0o602, 0o666, ...(isRoot ? [0o660] : [])]) {
      if (isRoot) chownSync(file, 0, stranger);
      chmodSync(file, mode);
      const { rest, problems } = read(folder);
      expect(rest.api.baseUrl).toBeUndefined();
      expect(problems.map(({ message }) => message).join()).toMatch(/can be changed by other users/);
    }
  });

  test.runIf(isRoot).each([config, '.env'])('are not read from a file %s of another user', (name) => {
    const { folder, file } = stage(name);
    chownSync(file, stranger, stranger);
    const { rest, problems } = read(folder);
    expect(rest.api.baseUrl).toBeUndefined();
    expect(problems.map(({ message }) => message).join()).toMatch(/belongs to another user \(65534\)/);
  });

  test.runIf(isRoot)('are read from root’s files, and from those that only the user’s own group can write', () => {
    const { folder, file } = stage(config);
    for (const mode of [0o644, 0o664]) {
      chmodSync(file, mode);
      expect(read(folder).rest.api.baseUrl).toBe('https://evil.example');
    }
  });

  // proves: key-in-env
  test('with the key in a .env that others can read get a warning', () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, '.env'), 'ADMIN_MIRROR_API_KEY=key-of-env-1234\n', { mode: 0o644 });
    expect(keyOf(read(folder).rest).warnings).toEqual([expect.stringContaining('chmod 600 .env')]);
    chmodSync(join(folder, '.env'), 0o600);
    expect(keyOf(read(folder).rest).warnings).toEqual([]);
  });
});

describe('a saved report', () => {
  const shipped = join(import.meta.dirname, '../../reports');

  // proves: others-report
  test.each(['can be changed by other users', ...(isRoot ? ['belongs to another user'] : [])])(
    'that %s is not run, nor is the shipped one that it replaces',
    (why) => {
      const own = temporaryFolder();
      const name = 'signups-by-month';
      const file = join(own, `${name}.sql`);
      copyFileSync(join(shipped, `${name}.sql`), file);
      chmodSync(file, 0o644);
      expect(reportNamed(loadReports({ shipped, own }), name).file).toBe(file);
      if (why.startsWith('can')) chmodSync(file, 0o646);
      else chownSync(file, stranger, stranger);
      expect(() => reportNamed(loadReports({ shipped, own }), name)).toThrow(why);
    },
  );
});

describe('an output file', () => {
  // proves: private-files
  test(
    'is readable by its owner alone, whatever the umask: exports, pictures, results, templates, copies and folders',
    { tags: 'full' },
    async () => {
      const umask = process.umask(0);
      onTestFinished(() => void process.umask(umask));
      const { environment, folder } = await batchOf('user_id,type,amount\n1,add,5\n');
      const written: readonly (readonly string[])[] = [
        ['export', 'users', '-o', 'out/users.csv'],
        ['export', 'users', '-o', 'out/users.xlsx'],
        ['export', '--all', '-o', 'out/all'],
        ['query', 'SELECT status, count(*) AS n FROM users GROUP BY status', '--chart', 'out/users.svg'],
        ['export', '--sql', 'SELECT id FROM users', '-o', 'out/query.csv'],
        ['bulk', 'results', 'last', '-o', 'out/results'],
        ['bulk', 'template', 'balance', '-o', 'out/template.csv'],
        ['snapshot', 'out/copy.db'],
        ['backup', 'out/backups'],
      ];
      for (const argv of written) expect((await invoke(argv, { folder, environment })).code).toBe(0);
      const made = readdirSync(folder, { recursive: true, withFileTypes: true });
      const files = made.filter((each) => each.isFile());
      expect(made.filter((each) => each.isDirectory()).map(({ name }) => name)).toEqual(
        expect.arrayContaining(['data', 'out', 'all', 'results', 'backups']),
      );
      const names = files.map(({ name }) => name);
      for (const name of [
        'users.csv',
        'users.svg',
        'applied.csv',
        'manifest.json',
        'copy.db',
        'template.csv',
        'users.xlsx',
      ]) {
        expect(names).toContain(name);
      }
      const given = new Set(['rows.csv']);
      const open = made.filter(
        ({ parentPath, name }) => !given.has(name) && (statSync(join(parentPath, name)).mode & 0o077) !== 0,
      );
      expect(open.map(({ name }) => name)).toEqual([]);
    },
  );
});

/** A folder with a mirror, and a journal with a sent batch of these rows. */
async function batchOf(rows: string) {
  const folder = temporaryFolder();
  const sandbox = await startSandbox({ users: 5, packages: 1, emails: 2, coupons: 1 });
  const environment = { ADMIN_MIRROR_BASE_URL: sandbox.url, ADMIN_MIRROR_API_KEY: sandbox.key };
  writeFileSync(join(folder, 'rows.csv'), rows);
  await invoke(['sync'], { folder, environment });
  await invoke(['bulk', 'run', 'balance', 'rows.csv', '--yes'], { folder, environment });
  return { folder, environment };
}
