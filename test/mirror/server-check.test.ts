import { copyFileSync, readFileSync } from 'node:fs';
import SqliteDatabase from 'better-sqlite3';
import { describe, expect, onTestFinished, test } from 'vitest';
import { storedProfile } from '../../src/mirror/profile.ts';
import { probesOf } from '../../src/mirror/server-check.ts';
import { InterruptedError } from '../../src/model/errors.ts';
import { resourceNames } from '../../src/model/resources.ts';
import { openSandbox, type Sandbox, type SandboxOptions } from '../support/bent/sandbox.ts';
import { openMirrorStoreForReading } from '../../src/mirror/store/mirror-store.ts';
import { expectMirrored, newMirror, sync } from '../support/mirror.ts';
import { sandboxNow, startSandbox } from '../support/sandbox.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { sample } from '../support/part.ts';

const some = { users: 200, packages: 20, emails: 300, coupons: 30 } as const;

function portOf(sandbox: Sandbox): number {
  return Number(new URL(sandbox.url).port);
}

/** A sandbox over a file, and a mirror of it that was just synced. */
async function mirrored(options: SandboxOptions = {}) {
  const folder = temporaryFolder();
  const data = `${folder}/server.db`;
  const sandbox = await startSandbox({ ...some, file: data, ...options });
  const file = `${folder}/mirror.db`;
  expect((await sync(sandbox, file)).report.status).toBe('complete');
  return { sandbox, data, file, folder };
}

/** Replaces a sandbox by another one, a minute later, with the same address and key unless others are given. */
async function replaced(sandbox: Sandbox, options: SandboxOptions): Promise<Sandbox> {
  const port = portOf(sandbox);
  await sandbox.close();
  const other = await openSandbox({ ...some, now: sandboxNow + 60_000, key: sandbox.key, port, ...options });
  onTestFinished(() => other.close());
  return other;
}

function stored(file: string) {
  const store = openMirrorStoreForReading(file);
  try {
    return {
      server: store.server(),
      events: store.events(50).filter(({ kind }) => kind.startsWith('server_')),
      runs: store.runs(50).length,
      pageSize: storedProfile(store, 'users')?.profile.pageSize,
    };
  } finally {
    store.close();
  }
}

/** Everything that a run could have changed, except the lock and the epoch that begins with it. */
function contents(file: string): unknown {
  const database = new SqliteDatabase(file, { readonly: true });
  try {
    const tables = database
      .prepare<[], string>(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('mirror_locks', 'mirror_epochs', 'users_search')",
      )
      .pluck()
      .all();
    return tables.map((name) => [name, database.prepare(`SELECT * FROM "${name}"`).all()]);
  } finally {
    database.close();
  }
}

/** The message of a sync that is refused. Fails if it is not refused or changes anything. */
async function refusalOf(sandbox: Sandbox, file: string): Promise<string> {
  const before = contents(file);
  const error: unknown = await sync(sandbox, file).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({
    name: 'OtherServerError',
    exitCode: 2,
    advice: expect.stringContaining('--accept-new-server'),
  });
  expect(contents(file)).toEqual(before);
  return (error as Error).message;
}

test('at first contact, the address of the server is recorded, and nothing of the key', async () => {
  const { sandbox, file } = await mirrored();
  expect(stored(file).server).toBe(sandbox.url);
  expect(readFileSync(file).includes(sandbox.key)).toBe(false);
});

test('the requested records are the newest, further apart the further back', () => {
  const sampled = Array.from({ length: 20 }, (_, index) => ({ createdAt: `2026-03-${String(index + 10)}` }));
  expect(probesOf(sampled).map(({ createdAt }) => createdAt)).toEqual(
    ['29', '28', '26', '22'].map((day) => `2026-03-${day}`),
  );
  expect(probesOf(sampled.slice(0, 3))).toHaveLength(2);
});

describe('an unchanged server', () => {
  test('is recognised by one request for its newest record', async () => {
    const { sandbox, file } = await mirrored();
    sandbox.control.clearRequests();
    await sync(sandbox, file, { mode: 'quick' });
    const { recent } = sandbox.control.requests();
    const probes = recent.filter(({ url }) => /filter%5Bid%5D|users\/\d+/.test(url));
    expect(probes).toHaveLength(1);
  });

  test('is synced after deletions of its newest records', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    const newest = resourceNames
      .flatMap((resource) => sandbox.control.dump(resource).map((record) => ({ resource, record })))
      .sort((a, b) => String(b.record['created_at']).localeCompare(String(a.record['created_at'])));
    for (const { resource, record } of newest.slice(0, 7)) sandbox.control.remove(resource, Number(record['id']));
    const { report } = await sync(sandbox, file);
    expect(report.status).toBe('complete');
    expectMirrored(sandbox, file);
  });

  test('is synced if everything in a small mirror was deleted', async () => {
    const { sandbox, file } = await newMirror({ ...some, coupons: 5 });
    await sync(sandbox, file, { resources: ['coupons'] });
    for (let id = 1; id <= 5; id += 1) sandbox.control.remove('coupons', id);
    const { report } = await sync(sandbox, file, { resources: ['coupons'], allowDeletions: true });
    expect(report.resources.coupons).toMatchObject({ status: 'complete', deleted: 5 });
  });

  test.each(
    sample(
      [
        ['single users cannot be read', { forbidden: 'users.get' }],
        ['no record can be requested by its id', { forbidden: 'users.get', filter_errors: 'id' }],
      ],
      1,
    ),
  )('is synced if %s', async (_, behaviour) => {
    const { sandbox, file } = await mirrored();
    sandbox.control.setBehaviour(behaviour);
    expect((await sync(sandbox, file)).report.status).toBe('complete');
    expect((await sync(sandbox, file, { acceptNewServer: true })).report.status).toBe('complete');
    expect(stored(file).events).toEqual([]);
  });
});

describe('the same server', () => {
  test('at another address is accepted with an event', async () => {
    const { sandbox, data, file } = await mirrored();
    const before = sandbox.url;
    const moved = await replaced(sandbox, { file: data, port: 0 });
    moved.control.remove('users', 5);
    const { report } = await sync(moved, file);
    expect(report.status).toBe('complete');
    expect(report.resources.users).toMatchObject({ inserted: 0, updated: 0, deleted: 1 });
    expect(stored(file)).toMatchObject({
      server: moved.url,
      events: [{ kind: 'server_moved', subject: moved.url, detail: expect.stringContaining(before) }],
    });
  });

  test('is the same under another key', async () => {
    const { sandbox, data, file } = await mirrored();
    const other = await replaced(sandbox, { file: data, key: 'another-key' });
    expect((await sync(other, file)).report.status).toBe('complete');
    expect(stored(file).events).toEqual([]);
  });
});

describe('another server', () => {
  // proves: same-server
  test('behind the same address and key is refused without any change, and accepted with --accept-new-server', async () => {
    const { sandbox, file } = await mirrored();
    const other = await replaced(sandbox, { seed: 8 });
    expect(await refusalOf(other, file)).toMatch(/still the server.*none of the newest records/);
    const { report } = await sync(other, file, { acceptNewServer: true, allowDeletions: true });
    expect(report.status).toBe('complete');
    expectMirrored(other, file);
    expect(stored(file).events).toMatchObject([{ kind: 'server_accepted', subject: other.url }]);
    expect((await sync(other, file)).report.status).toBe('complete');
  });

  test('that has none of the ids is refused, too', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    const other = await replaced(sandbox, { seed: 8, users: 1, packages: 0, emails: 0, coupons: 0 });
    expect(await refusalOf(other, file)).toMatch(/none of the newest records/);
  });

  test('at another address is refused', async () => {
    const { sandbox, file } = await mirrored();
    const other = await replaced(sandbox, { seed: 8, port: 0 });
    expect(await refusalOf(other, file)).toMatch(/none of the newest records/);
    const cannotTell = await replaced(other, { seed: 8, behaviour: { forbidden: 'users.get', filter_errors: 'id' } });
    expect(await refusalOf(cannotTell, file)).toMatch(/stood at .*nothing shows/);
  });

  test('at another address is refused if it shares the records of some resources only', async () => {
    const { sandbox, file } = await mirrored();
    const others = await replaced(sandbox, { users: 2_000, now: sandboxNow, port: 0 });
    expect(await refusalOf(others, file)).toMatch(/none of the newest records/);
  });

  test('is accepted by a mirror without rows', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored({ users: 1, packages: 0, emails: 0, coupons: 0 });
    const empty = await replaced(sandbox, { users: 0, packages: 0, emails: 0, coupons: 0 });
    // The only user of such a small mirror may have been deleted.
    expect((await sync(empty, file)).report.resources.users).toMatchObject({ deleted: 0 });
    const allowed = await sync(empty, file, { allowDeletions: true });
    expect(allowed.report.resources.users).toMatchObject({ deleted: 1 });
    const other = await replaced(empty, { seed: 8, port: 0, key: 'another-key' });
    expect((await sync(other, file)).report.status).toBe('complete');
    expectMirrored(other, file);
  });

  test('is measured and read again once it is accepted', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    const other = await replaced(sandbox, { seed: 8, behaviour: { page_max: 40 } });
    const { report } = await sync(other, file, { acceptNewServer: true, allowDeletions: true });
    expect(report.status).toBe('complete');
    expectMirrored(other, file);
    expect(stored(file).pageSize).toBe(40);
  });

  test('that is accepted is still subject to the brake', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    const other = await replaced(sandbox, { seed: 8, users: 40 });
    const { report, error } = await sync(other, file, { acceptNewServer: true });
    expect(report.resources.users?.status).toBe('partial');
    expect(report.resources.users?.live).toBeGreaterThan(180);
    expect(error?.message).toContain('--allow-deletions');
  });
});

describe('a server that was restored from an old backup', { tags: 'full' }, () => {
  test('is refused, and accepted with --accept-new-server', async () => {
    const { sandbox, data, file, folder } = await mirrored();
    copyFileSync(data, `${folder}/backup.db`);
    for (let count = 0; count < 12; count += 1) {
      sandbox.control.insert('emails');
      sandbox.control.insert('users');
    }
    sandbox.control.update('users', 3, { balance: 12.5 });
    await sync(sandbox, file);
    const restored = await replaced(sandbox, { file: `${folder}/backup.db` });
    expect(await refusalOf(restored, file)).toMatch(/none of the newest records.*old backup/);
    // What was read of the later state must be read again, even by a quick run.
    const accepted = await sync(restored, file, { acceptNewServer: true, mode: 'quick' });
    expect(accepted.report.status).toBe('complete');
    expectMirrored(restored, file);
  });

  test('is refused, too, if it gave the ids to new records since', { tags: 'full' }, async () => {
    const { sandbox, data, file, folder } = await mirrored();
    copyFileSync(data, `${folder}/backup.db`);
    for (let count = 0; count < 12; count += 1) sandbox.control.insert('emails');
    await sync(sandbox, file);
    const restored = await replaced(sandbox, { file: `${folder}/backup.db` });
    restored.control.advanceClock(60_000);
    for (let count = 0; count < 20; count += 1) restored.control.insert('emails');
    expect(await refusalOf(restored, file)).toMatch(/old backup/);
  });
});

describe('a server that stops responding', () => {
  test('ends the run as usual: unreachable, or with the key refused', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrored();
    const wrongKey = await replaced(sandbox, { key: 'the-only-key-that-is-right' });
    const refused = await sync({ ...wrongKey, key: 'a-wrong-key' }, file);
    expect(refused.error?.exitCode).toBe(3);
    expect(refused.report.resources.users).toMatchObject({ status: 'failed', problem: expect.stringMatching(/401/) });
    await wrongKey.close();
    const lost = await sync(wrongKey, file);
    expect(lost.error?.exitCode).toBe(4);
    expect(stored(file).runs).toBe(3);
  });

  test('after most pages were read makes the run partial, not failed', async () => {
    const { sandbox, file } = await newMirror({ users: 200 });
    let pages = 0;
    const { report, error } = await sync(sandbox, file, {
      resources: ['users'],
      pageSize: 10,
      onEvent: ({ kind }) => {
        pages += Number(kind === 'page');
        if (pages === 15) sandbox.control.setBehaviour({ read_error_500: 1 });
      },
    });
    expect(report.resources.users).toMatchObject({ status: 'partial', live: expect.any(Number) });
    expect([error?.name, error?.exitCode]).toEqual(['IncompleteError', 5]);
  });

  test('does not hide that the run was stopped', async () => {
    const { sandbox, file } = await mirrored();
    const { report, error } = await sync(sandbox, file, { signal: AbortSignal.abort(new InterruptedError('SIGTERM')) });
    expect(report.status).toBe('interrupted');
    expect(error?.exitCode).toBe(143);
  });
});
