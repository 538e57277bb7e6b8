import SqliteDatabase from 'better-sqlite3';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openJournal } from '../support/journal-file.ts';
import { anna } from '../support/journal.ts';
import { type MirrorStore, openMirrorStore, openMirrorStoreForReading } from '../../src/mirror/store/mirror-store.ts';
import { versionOf } from '../../src/store/file-kind.ts';
import { mirrorKind } from '../../src/store/open.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const script = fileURLToPath(new URL('../support/lock-child.ts', import.meta.url));

/** A process that takes, uses and releases the lock on request, and reports the result. */
function startOwner(file: string) {
  const child = spawn(process.execPath, [script, file]);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  onTestFinished(() => void child.kill('SIGKILL'));
  return {
    pid: child.pid ?? 0,
    tell: async (word: 'take' | 'write' | 'release'): Promise<string> => {
      child.stdin.write(`${word}\n`);
      return (await lines.next()).value as string;
    },
    kill: async (signal: NodeJS.Signals) => {
      child.kill(signal);
      if (signal === 'SIGKILL') await once(child, 'exit');
    },
  };
}

const mirror = () => join(temporaryFolder(), 'mirror.db');

const ownerFiles = (file: string) => readdirSync(dirname(file)).filter((name) => name.includes('.owner-'));

function opened(file: string): MirrorStore {
  const store = openMirrorStore(file);
  onTestFinished(() => store.close());
  return store;
}

const event = { resource: null, kind: 'test', subject: 'it', detail: null };

describe('two processes', () => {
  test('never own one lock; the second sees who the first is, and gets the lock when the first is killed', async () => {
    const file = mirror();
    const first = startOwner(file);
    const second = startOwner(file);
    expect(await first.tell('take')).toBe('take: done');
    expect(await second.tell('take')).toMatch(
      new RegExp(
        `^7 another sync holds the lock: process ${first.pid} on ${hostname()}, since 20\\S+Z \\(sync, run run-${first.pid}\\)$`,
      ),
    );
    await first.kill('SIGKILL');
    expect(await second.tell('take')).toBe('take: done');
    expect(await second.tell('write')).toBe('write: done');
    expect(ownerFiles(file)).toEqual([`mirror.db.owner-run-${second.pid}`]);
  });

  test('own it one after the other if the first releases it', { tags: 'full' }, async () => {
    const file = mirror();
    const first = startOwner(file);
    const second = startOwner(file);
    expect(await first.tell('take')).toBe('take: done');
    expect(await second.tell('take')).toMatch(/^7 /);
    expect(await first.tell('release')).toBe('release: done');
    expect(await second.tell('take')).toBe('take: done');
    expect(await first.tell('take')).toMatch(/^7 /);
  });

  test('leave the lock with an owner that is suspended, which then continues', { tags: 'full' }, async () => {
    const file = mirror();
    const first = startOwner(file);
    const second = startOwner(file);
    expect(await first.tell('take')).toBe('take: done');
    await first.kill('SIGSTOP');
    expect(await second.tell('take')).toMatch(/^7 another sync holds the lock/);
    await first.kill('SIGCONT');
    expect(await first.tell('write')).toBe('write: done');
  });
});

test.each([1, 2, 3, 4])(
  'a file that another process creates at this moment is not taken for a foreign one: at look %i',
  (look) => {
    const file = mirror();
    const database = new SqliteDatabase(file);
    onTestFinished(() => void database.close());
    let looks = 0;
    const watched = new Proxy(database, {
      get: (target, name) => {
        const found: unknown = Reflect.get(target, name);
        if (typeof found !== 'function') return found;
        return (...given: readonly unknown[]): unknown => {
          looks += 1;
          if (looks === look) openMirrorStore(file).close();
          return Reflect.apply(found, target, given);
        };
      },
    });
    expect([0, mirrorKind.version]).toContain(versionOf(mirrorKind, watched, file));
  },
);

describe('within one process', () => {
  test('two connections never own one lock', () => {
    const file = mirror();
    const [one, two] = [opened(file), opened(file)];
    one.acquireLock('sync', 'one');
    expect(() => two.acquireLock('sync', 'two')).toThrow(/another sync holds the lock/);
    one.releaseLock('sync', 'one');
    two.acquireLock('sync', 'two');
    expect(() => one.acquireLock('sync', 'one')).toThrow(/another sync holds the lock/);
  });

  test('a reader that closes the file does not release the lock', async () => {
    const file = mirror();
    opened(file).acquireLock('sync', 'one');
    for (let look = 0; look < 3; look += 1) {
      const reader = openMirrorStoreForReading(file);
      expect(reader.lockOwner('sync')).toMatchObject({ run: 'one', pid: process.pid });
      reader.close();
    }
    expect(await startOwner(file).tell('take')).toMatch(/^7 /);
  });

  test('an owner that closes its file without releasing the lock loses it', () => {
    const file = mirror();
    const one = openMirrorStore(file);
    one.acquireLock('sync', 'one');
    one.close();
    expect(opened(file).lockOwner('sync')).toBeUndefined();
    expect(ownerFiles(file)).toEqual([]);
  });
});

describe('the file of an owner', () => {
  test('is readable by its user alone whatever the umask, and is removed with the lock', () => {
    const umask = process.umask(0);
    onTestFinished(() => void process.umask(umask));
    const file = mirror();
    const store = opened(file);
    store.acquireLock('sync', 'one/../two');
    expect(ownerFiles(file)).toEqual(['mirror.db.owner-one%2F..%2Ftwo']);
    expect(statSync(join(dirname(file), 'mirror.db.owner-one%2F..%2Ftwo')).mode & 0o777).toBe(0o600);
    store.releaseLock('sync', 'one/../two');
    expect(ownerFiles(file)).toEqual([]);
  });

  test('that a dead owner left is not a lock, even while it is read, and the next owner removes it', () => {
    const file = mirror();
    const store = opened(file);
    for (const run of ['dead', 'older']) writeFileSync(`${file}.owner-${run}`, '');
    const database = new SqliteDatabase(file);
    database.exec("INSERT INTO mirror_locks VALUES ('sync', 'dead', 'sync', 1, 'host', '2026-03-11T02:00:00.000000Z')");
    database.close();
    const looking = new SqliteDatabase(`${file}.owner-dead`, { readonly: true });
    onTestFinished(() => void looking.close());
    looking.exec('BEGIN; SELECT count(*) FROM sqlite_schema');
    expect(store.lockOwner('sync')).toBeUndefined();
    store.acquireLock('sync', 'one');
    expect(ownerFiles(file)).toEqual(['mirror.db.owner-one']);
  });

  test('that cannot be read counts as locked', () => {
    const file = mirror();
    const store = opened(file);
    mkdirSync(`${file}.owner-unreadable`);
    const database = new SqliteDatabase(file);
    database.exec(
      "INSERT INTO mirror_locks VALUES ('sync', 'unreadable', 'forget', 5, 'here', '2026-03-11T02:00:00Z')",
    );
    database.close();
    expect(() => store.acquireLock('sync', 'one')).toThrow(
      /another forget holds the lock: process 5 on here, since 2026/,
    );
  });
});

describe('an owner whose file was removed', () => {
  // proves: lost-lock
  test('notices before a write that another one has the lock, and does not release it', () => {
    const file = mirror();
    const [one, two] = [opened(file), opened(file)];
    one.acquireLock('sync', 'one');
    one.recordEvent('one', event);
    rmSync(`${file}.owner-one`);
    two.acquireLock('sync', 'two');
    expect(() => one.recordEvent('one', event)).toThrow(
      /^the lock of the mirror was lost to process \d+ on .*run two\); nothing was written since$/,
    );
    one.releaseLock('sync', 'one');
    two.recordEvent('two', event);
    expect(two.lockOwner('sync')).toMatchObject({ run: 'two' });
  });

  test('writes nothing more even if nobody else has the lock yet', () => {
    const file = mirror();
    const one = opened(file);
    one.acquireLock('sync', 'one');
    rmSync(`${file}.owner-one`);
    expect(() => one.recordEvent('one', event)).toThrow(
      /^the lock of the mirror was lost: \S+\.owner-one was removed or replaced; nothing was written since$/,
    );
  });

  test.each([
    ['file', (file: string) => renameSync(file, `${file}.away`), (file: string) => copyFileSync(`${file}.away`, file)],
    [
      'folder',
      (file: string) => renameSync(dirname(file), `${dirname(file)}.away`),
      (file: string) => mkdirSync(dirname(file)),
    ],
  ])('writes nothing more if its %s was moved away, and if another is in its place', (_what, moveAway, putThere) => {
    const file = join(temporaryFolder(), 'data', 'mirror.db');
    const one = opened(file);
    one.acquireLock('sync', 'one');
    moveAway(file);
    const gone = /^the lock of the mirror was lost: \S+mirror\.db was removed or replaced; nothing was written since$/;
    expect(() => one.recordEvent('one', event)).toThrow(gone);
    putThere(file);
    expect(() => one.recordEvent('one', event)).toThrow(gone);
  });

  test('notices it before the next step of a batch', async () => {
    const file = join(temporaryFolder(), 'journal.db');
    const [here, there] = [await openJournal(file, anna), await openJournal(file, anna)];
    await here.acquireLock('one');
    for (const name of ownerFiles(file)) rmSync(join(dirname(file), name));
    await there.acquireLock('one');
    await expect(here.setBatchState('one', 'stopped')).rejects.toThrow(
      /^the lock of batch one was lost to process \d+ on /,
    );
    await here.releaseLock('one');
    expect(await here.lockOwner('one')).toBeDefined();
    await here.close();
    await there.close();
  });
});
