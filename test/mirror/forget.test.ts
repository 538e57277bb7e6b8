import SqliteDatabase, { type Database } from 'better-sqlite3';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { findUser, type ForgetPorts, forgetUser, openForgetStore, undoForget } from '../../src/mirror/forget.ts';
import { systemClock, timestampOf } from '../../src/model/time.ts';
import type { Sandbox } from '../support/bent/sandbox.ts';
import type { Person } from '../../src/model/identity.ts';
import { openMirrorStore } from '../../src/mirror/store/mirror-store.ts';
import { changePerson, helper, person, personalTexts, placePerson, textsIn } from '../support/forget.ts';
import { expectMirrored, mirrored, newMirror, sync } from '../support/mirror.ts';
import { expectRelated } from '../support/relations.ts';
import { alter, rowsOf } from '../support/rows.ts';

const some = { users: 60, packages: 12, emails: 80, coupons: 10 } as const;
const includes = { users: ['orders', 'payments', 'address'], packages: ['orders'], emails: ['user'] };

interface Mirrored {
  readonly sandbox: Sandbox;
  readonly file: string;
}

/** A mirror with the person, now and before, in every table that can hold people. */
async function mirrorWithPerson(): Promise<Mirrored> {
  const { sandbox, file } = await newMirror(some);
  const emails = placePerson(sandbox);
  await sync(sandbox, file, { includes });
  changePerson(sandbox, emails);
  await sync(sandbox, file, { includes });
  alter(
    file,
    `INSERT INTO mirror_events (at, resource, kind, subject, detail) VALUES
      ('now', 'users', 'unusable_id', 'null', '{"first_name":"Zephyrine"}'),
      ('now', 'users', 'test', 'zephyrine.quillfeather', NULL),
      ('now', 'users', 'test', 'kept', 'nobody in particular');
    UPDATE mirror_runs SET problem = 'no user zephyrine%40quill-feather.example';
    UPDATE mirror_run_resources SET problem = 'refused: Quillfeather' WHERE resource = 'users';
    UPDATE mirror_windows SET problem = 'seen: ZEPHORA'`,
  );
  return { sandbox, file };
}

function open(file: string, journal: ForgetPorts['journal'] = 'none', waitMs = 50): ForgetPorts {
  const store = openForgetStore(file, systemClock, waitMs);
  onTestFinished(() => store.close());
  return { store, journal, clock: systemClock };
}

/** Does the work with the mirror and closes it. */
async function closing<T>(file: string, work: (ports: ForgetPorts) => Promise<T>): Promise<T> {
  const ports = open(file);
  return work(ports).finally(() => ports.store.close());
}

const forget = (file: string) => closing(file, (ports) => forgetUser(ports, person));
const undo = (file: string) => closing(file, (ports) => undoForget(ports, String(person)));

test('a person is removed even if the disk is too full to overwrite what is left, and the error says so', async () => {
  const { file } = await mirrorWithPerson();
  const real = Object.getOwnPropertyDescriptor(SqliteDatabase.prototype, 'exec')?.value as (sql: string) => Database;
  const full = vi.spyOn(SqliteDatabase.prototype, 'exec').mockImplementation(function (this: Database, sql) {
    if (sql === 'VACUUM') throw new SqliteDatabase.SqliteError('database or disk is full', 'SQLITE_FULL');
    return Reflect.apply(real, this, [sql]);
  });
  await expect(forget(file)).rejects.toThrow(
    /^could not overwrite what a person, who is removed, has left in the mirror/,
  );
  full.mockRestore();
  expect(rowsOf(file, `SELECT id FROM users WHERE id = ${person}`)).toEqual([]);
  expect(await forget(file)).toMatchObject({ scrubbed: true });
  expect(textsIn(file)).toEqual([]);
});

describe('a person who is forgotten', () => {
  // proves: forgotten
  test('leaves no byte in the files, then or after further syncs, and no text in the receipt', async () => {
    const { sandbox, file } = await mirrorWithPerson();
    expect(textsIn(file)).toEqual(personalTexts);
    const counts = (table: string, where: string) => rowsOf(file, `SELECT * FROM ${table} WHERE ${where}`).length;
    const owned = counts('emails', `user_id = ${person}`);

    const { store } = open(file);
    const receipt = await forgetUser({ store, journal: 'none', clock: { now: () => sandbox.control.now() } }, person);
    // Also before the file is closed, because its log is empty by now.
    expect(textsIn(file)).toEqual([]);
    store.close();
    expect(textsIn(file)).toEqual([]);
    expect(receipt).toMatchObject({ action: 'forget', user: person, journal: 'none', scrubbed: true });
    expect(receipt.removed).toEqual({
      users: 1,
      user_orders: 1,
      user_payments: 1,
      user_address: 1,
      package_orders: 1,
      emails: owned + 2,
      email_user: owned + 1,
      users_history: 1,
      emails_history: expect.any(Number) as number,
      mirror_events: 2,
      mirror_runs: 2,
      mirror_run_resources: 2,
      mirror_windows: expect.any(Number) as number,
    });
    expect(receipt.suppressed).toEqual({ users: 1, emails: owned + 3 });
    for (const text of personalTexts) expect(JSON.stringify(receipt)).not.toContain(text);
    expect(rowsOf(file, `SELECT detail FROM mirror_events WHERE subject = 'kept'`)).toEqual([
      { detail: 'nobody in particular' },
    ]);

    for (const mode of ['default', 'full', 'quick'] as const) {
      // Pages that changed are not skipped.
      for (const resource of ['users', 'emails', 'packages'] as const) sandbox.control.churn(resource, { updates: 3 });
      const { report, error } = await sync(sandbox, file, { includes, mode });
      expect(error).toBeNull();
      expect(report.resources.users).toMatchObject({ status: 'complete', live: 59, server_total: 60, deleted: 0 });
      expect(report.resources.emails).toMatchObject({ status: 'complete', deleted: 0 });
      expect(textsIn(file)).toEqual([]);
    }
    expect(rowsOf(file, `SELECT * FROM users WHERE id = ${person}`)).toEqual([]);
    expect(rowsOf(file, `SELECT * FROM package_orders WHERE package_id = 3`)).toHaveLength(1);
  });

  test('does not affect other people', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrorWithPerson();
    await forget(file);
    sandbox.control.update('users', helper, { first_name: 'Changed' });
    sandbox.control.remove('users', 9);
    sandbox.control.insert('users');
    await sync(sandbox, file, { includes });
    const ids = (rows: readonly Record<string, unknown>[]) => rows.map(({ id }) => id);
    expect(ids(rowsOf(file, 'SELECT id FROM users ORDER BY id'))).toEqual(
      ids(sandbox.control.dump('users')).filter((id) => id !== person),
    );
    expect(rowsOf(file, `SELECT first_name FROM users WHERE id = ${helper}`)).toEqual([{ first_name: 'Changed' }]);
  });

  test('is part of the total only while the server has the person', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrorWithPerson();
    await forget(file);
    const tried = { includes, mode: 'quick' } as const;
    const record = sandbox.control.get('users', person) ?? {};
    sandbox.control.remove('users', person);
    const gone = await sync(sandbox, file, tried);
    expect(gone.report.resources.users).toMatchObject({ status: 'complete', live: 59, server_total: 59, deleted: 0 });
    sandbox.control.insert('users', record);
    const back = await sync(sandbox, file, tried);
    expect(back.report.resources.users).toMatchObject({ status: 'complete', live: 59, server_total: 60 });
    expect(textsIn(file)).toEqual([]);
  });

  test('keeps out emails that come later or become the person’s', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrorWithPerson();
    await forget(file);
    sandbox.control.insert('emails', { user_id: person, subject: 'zq-mail-by-user' });
    const other = Number(sandbox.control.dump('emails').find(({ user_id }) => user_id === helper)?.['id']);
    expect(rowsOf(file, 'SELECT id FROM emails WHERE id = ?', other)).toHaveLength(1);
    sandbox.control.update('emails', other, { user_id: person });
    const { report } = await sync(sandbox, file, { includes });
    expect(report.resources.emails).toMatchObject({ status: 'complete', inserted: 0 });
    expect(rowsOf(file, 'SELECT id FROM emails WHERE id = ?', other)).toEqual([]);
    expect(rowsOf(file, `SELECT id FROM emails WHERE user_id = ${person}`)).toEqual([]);
    expect(textsIn(file)).toEqual([]);
  });

  test('comes back completely with the sync after the undo', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrorWithPerson();
    const { suppressed } = await forget(file);
    await sync(sandbox, file, { includes });
    // Emails that the server no longer has cannot come back.
    expect((await undo(file)).released).toEqual(suppressed);
    const { report, error } = await sync(sandbox, file, { includes, mode: 'quick' });
    expect(error).toBeNull();
    expect(report.resources.users).toMatchObject({ status: 'complete', inserted: 1, live: 60 });
    expectMirrored(sandbox, file);
    expectRelated(sandbox, file, 'users', 'orders');
    expectRelated(sandbox, file, 'packages', 'orders');
    expect(rowsOf(file, 'SELECT * FROM mirror_suppressions')).toEqual([]);
    await expect(undo(file)).rejects.toThrow(`user ${person} is not kept out`);
  });

  test('is overwritten in place even if the file is not rewritten', { tags: 'full' }, async () => {
    const { file } = await mirrorWithPerson();
    const { store } = open(file);
    store.forget(store.person(person), timestampOf(systemClock.now()));
    store.close();
    expect(textsIn(file, ['Zq Lane 77'])).toEqual([]);
  });

  test('can be forgotten again, which finishes what was left over', { tags: 'full' }, async () => {
    const { sandbox, file } = await mirrorWithPerson();
    const reader = new SqliteDatabase(file, { readonly: true });
    onTestFinished(() => void reader.close());
    const rows = reader.prepare('SELECT * FROM users').iterate();
    rows.next();
    expect(await forget(file)).toMatchObject({ scrubbed: false });
    expect(textsIn(file)).not.toEqual([]);
    rows.return?.();
    const since = rowsOf(file, 'SELECT * FROM mirror_suppressions');
    expect(await forget(file)).toMatchObject({ scrubbed: true, removed: {} });
    expect(rowsOf(file, 'SELECT * FROM mirror_suppressions')).toEqual(since);
    expect(textsIn(file)).toEqual([]);
    expect((await sync(sandbox, file, { includes })).report.status).toBe('complete');
  });
});

test('a process that keeps the mirror open sees with its next run who was forgotten', async () => {
  const { file } = await mirrorWithPerson();
  const store = openMirrorStore(file);
  onTestFinished(() => store.close());
  expect([...store.suppressedIds('users')]).toEqual([]);
  await forget(file);
  store.acquireLock('sync', 'next');
  expect([...store.suppressedIds('users')]).toEqual([person]);
});

describe('the journal', () => {
  test('is searched before the mirror forgets the person', async () => {
    const { file } = await mirrorWithPerson();
    let asked: Person | undefined;
    const ports = open(file, {
      forget: (who) => {
        asked = who;
        expect(rowsOf(file, `SELECT id FROM users WHERE id = ${person}`)).toHaveLength(1);
        return Promise.resolve({ intents: 3 });
      },
    });
    const receipt = await forgetUser(ports, person);
    expect(receipt).toMatchObject({ journal: 'searched', removed: { intents: 3 } });
    expect(asked?.id).toBe(person);
    expect([...(asked?.texts ?? [])].sort()).toEqual([
      'Quillfeather',
      'Zephora',
      'Zephyrine',
      'zephyrine.quillfeather',
      'zephyrine@quill-feather.example',
      'zq-before@quill-feather.example',
    ]);
  });
});

describe('the person', () => {
  test('is found by id, and by current and former email and user name in any case', async () => {
    const { file } = await mirrorWithPerson();
    const { store } = open(file);
    for (const name of ['7', ' 7 ', 'zephyrine.quillfeather', 'ZEPHYRINE@quill-feather.example', personalTexts[4]]) {
      expect(findUser(store, name)).toBe(person);
    }
  });

  test('is refused if unknown or ambiguous, without repeating an unknown name', async () => {
    const { sandbox, file } = await mirrorWithPerson();
    sandbox.control.update('users', 11, { username: 'twice' });
    sandbox.control.update('users', 12, { email: 'twice' });
    await sync(sandbox, file, { resources: ['users'] });
    const { store } = open(file);
    expect(() => findUser(store, '4711')).toThrow('nothing about a user 4711');
    expect(() => findUser(store, 'twice')).toThrow(/of several users: 11, 12$/);
    expect(() => findUser(store, 'nobody@nowhere.example')).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('nobody') as string, exitCode: 2 }),
    );
  });
});

test('nobody is forgotten while a sync is running', { tags: 'full' }, async () => {
  const { sandbox, file } = await mirrored(some);
  let refused: Promise<unknown> | undefined;
  await sync(sandbox, file, {
    onEvent: () => {
      refused ??= forget(file).catch((error: unknown) => error);
    },
  });
  expect(await refused).toMatchObject({ name: 'LockHeldError', exitCode: 7 });
  expect(rowsOf(file, `SELECT id FROM users WHERE id = ${person}`)).toHaveLength(1);
});
