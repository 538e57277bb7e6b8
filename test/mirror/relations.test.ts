import { describe, expect, test } from 'vitest';
import { relationTables, resources } from '../../src/model/resources.ts';
import { inventory } from '../../src/data/inventory.ts';
import { eventsOf, expectMirrored, mirrored, newMirror, sync, underTriggers } from '../support/mirror.ts';
import { withSnapshot } from '../support/history.ts';
import { expectRelated } from '../support/relations.ts';
import { startSandbox } from '../support/sandbox.ts';
import { alter, rowsOf, valuesOf } from '../support/rows.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const some = { users: 120, packages: 12, emails: 80, coupons: 10 } as const;
const everything = {
  users: resources.users.includes,
  packages: resources.packages.includes,
  emails: resources.emails.includes,
} as const;

/** The columns of a table or view, in order. */
const columnsOf = (file: string, name: string) => valuesOf<string>(file, 'SELECT name FROM pragma_table_info(?)', name);

describe('related records', () => {
  test("of every kind in the reference are read with their parents, and leave nothing in the parents' own columns", async () => {
    const { sandbox, file } = await newMirror({ ...some, chaos: 'rough' });
    const { report, error } = await sync(sandbox, file, { includes: everything, pageSize: 25 });
    expect(error).toBeNull();
    expect(report.status).toBe('complete');
    expectMirrored(sandbox, file);
    let records = 0;
    for (const name of resources.users.includes) records += expectRelated(sandbox, file, 'users', name);
    for (const name of resources.packages.includes) records += expectRelated(sandbox, file, 'packages', name);
    expect(records).toBeGreaterThan(500);
    const users = rowsOf<{ email_id: number; id: string; owner: number }>(
      file,
      'SELECT email_id, email_user.id, emails.user_id AS owner FROM email_user JOIN emails ON emails.id = email_id',
    );
    expect(users).toHaveLength(80);
    expect(users.every(({ id, owner }) => id === String(owner))).toBe(true);
    const known = rowsOf<{ subject: string }>(file, `SELECT subject FROM mirror_events WHERE kind = 'unknown_field'`);
    const relations: readonly string[] = relationTables.map(({ relation }) => relation);
    expect(known.filter(({ subject }) => relations.includes(subject))).toEqual([]);
    for (const table of ['users', 'packages', 'emails']) {
      const extra = rowsOf<{ _extra: string }>(file, `SELECT _extra FROM ${table} WHERE _extra IS NOT NULL`);
      for (const { _extra } of extra) expect(relations).not.toContain(Object.keys(JSON.parse(_extra) as object)[0]);
    }
  });

  test('are written if they changed, left if they did not, and removed if they vanished', async () => {
    const { sandbox, file } = await newMirror(some);
    const includes = { users: ['orders', 'payments'] };
    sandbox.control.setRelated('users', 3, 'orders', [
      { id: 1, name: 'first' },
      { id: 2, name: 'second' },
    ]);
    sandbox.control.setRelated('users', 4, 'orders', [{ id: 3, name: 'third' }]);
    await sync(sandbox, file, { includes, resources: ['users'] });
    const before = rowsOf(file, 'SELECT rowid, * FROM user_orders WHERE user_id NOT IN (3, 4) ORDER BY rowid');
    expect(before.length).toBeGreaterThan(0);
    alter(file, 'CREATE TABLE written (user_id INTEGER, what TEXT)');
    const noting = `
      CREATE TRIGGER inserted AFTER INSERT ON user_orders BEGIN INSERT INTO written VALUES (NEW.user_id, 'insert'); END;
      CREATE TRIGGER changed AFTER UPDATE ON user_orders BEGIN INSERT INTO written VALUES (NEW.user_id, 'update'); END;
      CREATE TRIGGER removed AFTER DELETE ON user_orders BEGIN INSERT INTO written VALUES (OLD.user_id, 'delete'); END;`;
    sandbox.control.setRelated('users', 3, 'orders', [
      { id: 2, name: 'renamed' },
      { id: 5, name: 'fifth' },
    ]);
    sandbox.control.setRelated('users', 4, 'orders', []);
    const { report } = await sync(sandbox, file, { includes, resources: ['users'], ...underTriggers(file, noting) });
    expect(report.status).toBe('complete');
    expectRelated(sandbox, file, 'users', 'orders');
    expectRelated(sandbox, file, 'users', 'payments');
    expect(rowsOf(file, 'SELECT * FROM written ORDER BY user_id, what')).toEqual([
      { user_id: 3, what: 'delete' },
      { user_id: 3, what: 'insert' },
      { user_id: 3, what: 'update' },
      { user_id: 4, what: 'delete' },
    ]);
  });

  test('are removed with a deleted parent', async () => {
    const { sandbox, file } = await newMirror(some);
    const includes = { users: ['ips'], emails: ['user'] };
    await sync(sandbox, file, { includes });
    const owner = sandbox.control.get('emails', 7)?.['user_id'];
    sandbox.control.remove('users', 5);
    sandbox.control.remove('emails', 7);
    await sync(sandbox, file, { includes });
    expect(owner).toBeDefined();
    expect(rowsOf(file, 'SELECT * FROM user_ips WHERE user_id = 5')).toEqual([]);
    expect(rowsOf(file, 'SELECT * FROM email_user WHERE email_id = 7')).toEqual([]);
    expectRelated(sandbox, file, 'users', 'ips');
  });

  test('keep their ids as text, or get their place as key if they have none', async () => {
    const { sandbox, file } = await newMirror(some);
    const uuid = '0b5c3c1e-7a0d-4c55-9f5e-7d1c2a3b4c5d';
    sandbox.control.setRelated('users', 3, 'payments', [{ id: uuid, amount: '12.50' }]);
    sandbox.control.setRelated('users', 3, 'orders', [{ id: 7 }, { id: '7' }, { id: '7#2' }, { id: 7 }]);
    await sync(sandbox, file, { includes: { users: ['payments', 'orders'] }, resources: ['users'] });
    const payments = 'SELECT typeof(id) AS type, id, record FROM user_payments WHERE user_id = 3';
    expect(rowsOf(file, payments)).toEqual([{ type: 'text', id: uuid, record: `{"id":"${uuid}","amount":"12.50"}` }]);
    expect(rowsOf(file, 'SELECT id, _key FROM user_orders WHERE user_id = 3')).toEqual([
      { id: '7', _key: '7' },
      { id: '7', _key: '7#2' },
      { id: '7#2', _key: '7#2#2' },
      { id: '7', _key: '7#3' },
    ]);
    sandbox.control.setRelated('users', 3, 'orders', [
      { id: undefined, name: 'a' },
      { id: undefined, name: 'b' },
    ]);
    await sync(sandbox, file, { includes: { users: ['payments', 'orders'] }, resources: ['users'] });
    expect(rowsOf(file, 'SELECT id, _key, record FROM user_orders WHERE user_id = 3')).toEqual([
      { id: null, _key: '#1', record: '{"name":"a"}' },
      { id: null, _key: '#2', record: '{"name":"b"}' },
    ]);
  });
});

describe('the flat view', () => {
  const odd = {
    id: 1,
    USER_ID: 'shouting',
    Name: 'upper',
    name: 'lower',
    "it's": 1,
    'say "x"': 2,
    'back\\slash': 3,
    'line\nbreak': 4,
    'a.b': 5,
    '[0]': 6,
    '': 7,
    größe: true,
    nested: { list: [1, 2] },
    nothing: null,
  };

  test('has a column for every key seen so far, the parent first, whatever the keys look like', async () => {
    const { sandbox, file } = await newMirror(some);
    const tried = { includes: { users: ['orders'] }, resources: ['users'] } as const;
    for (const { id } of sandbox.control.dump('users')) sandbox.control.setRelated('users', Number(id), 'orders', []);
    await sync(sandbox, file, tried);
    expect(columnsOf(file, 'user_orders_flat')).toEqual(['user_id']);
    sandbox.control.setRelated('users', 3, 'orders', [{ id: 1, status: 'paid' }]);
    await sync(sandbox, file, tried);
    expect(columnsOf(file, 'user_orders_flat')).toEqual(['user_id', 'id', 'status']);
    sandbox.control.setRelated('users', 4, 'orders', [odd]);
    await sync(sandbox, file, tried);
    expect(rowsOf(file, 'SELECT * FROM user_orders_flat WHERE user_id = 4')).toEqual([
      {
        user_id: 4,
        id: 1,
        status: null,
        USER_ID_2: 'shouting',
        Name: 'upper',
        name_2: 'lower',
        "it's": 1,
        'say "x"': 2,
        'back\\slash': 3,
        'line\nbreak': 4,
        'a.b': 5,
        '[0]': 6,
        empty: 7,
        größe: 1,
        nested: '{"list":[1,2]}',
        nothing: null,
      },
    ]);
    expect(rowsOf(file, 'SELECT user_id, id, status FROM user_orders_flat WHERE user_id = 3')).toEqual([
      { user_id: 3, id: 1, status: 'paid' },
    ]);
  });

  test('and its table are in the data dictionary, and can be exported and queried', async () => {
    const { file } = await mirrored(some, { includes: everything });
    withSnapshot(file, (snapshot) => {
      const described = inventory(snapshot.relations());
      for (const { table, view } of relationTables) {
        for (const [name, kind] of [
          [table, 'table'],
          [view, 'view'],
        ] as const) {
          const entry = described.find((each) => each.name === name);
          expect(entry).toMatchObject({ kind, in_file: true });
          // No column is in the file only.
          expect(entry?.columns.filter(({ source }) => source === 'file')).toEqual([]);
          expect(() => [...snapshot.query(entry?.example ?? '').batches(() => 10)]).not.toThrow();
        }
      }
    });
  });
});

describe('a server that', () => {
  test('ignores the include leaves the tables alone, and is reported once', async () => {
    const { sandbox, file } = await newMirror(some);
    const tried = { includes: { users: ['orders', 'ips'] }, resources: ['users'] } as const;
    await sync(sandbox, file, tried);
    const before = rowsOf(file, 'SELECT * FROM user_orders');
    sandbox.control.setBehaviour({ includes_ignored: 'orders' });
    for (let run = 0; run < 2; run += 1) {
      expect((await sync(sandbox, file, tried)).report.status).toBe('complete');
    }
    expect(before.length).toBeGreaterThan(0);
    expect(rowsOf(file, 'SELECT * FROM user_orders')).toEqual(before);
    expect(eventsOf(file)).toMatchObject([{ resource: 'users', kind: 'relation_absent', subject: 'orders' }]);
    expectRelated(sandbox, file, 'users', 'ips');
  });

  test('refuses the include is mirrored without it, with a problem that names the setting, and read with it once it is granted', async () => {
    const { sandbox, file } = await newMirror({ ...some, behaviour: { includes_refused: 'orders' } });
    const tried = { includes: { users: ['orders', 'ips'] }, resources: ['users'] } as const;
    const plain = await sync(sandbox, `${temporaryFolder()}/mirror.db`, { resources: ['users'] });
    const { report, error } = await sync(sandbox, file, tried);
    expect(report.resources.users).toMatchObject({ status: 'partial', live: 120, server_total: 120 });
    expect(report.resources.users?.problem).toMatch(
      /users are mirrored without their orders, ips: .*\(400\).*; change the setting resources\.users\.include$/,
    );
    expect(error?.exitCode).toBe(5);
    expect(report.resources.users?.requests).toBe((plain.report.resources.users?.requests ?? 0) + 1);
    expectMirrored(sandbox, file, ['users']);
    sandbox.control.setBehaviour({ includes_refused: '' });
    const granted = await sync(sandbox, file, { ...tried, mode: 'quick' });
    expect(granted.report.resources.users).toMatchObject({ status: 'complete', problem: null, unchanged: 120 });
    expectRelated(sandbox, file, 'users', 'orders');
    expectRelated(sandbox, file, 'users', 'ips');
  });
});

describe('the setting', () => {
  test('costs nothing if it names nothing', async () => {
    const sandbox = await startSandbox(some);
    const asked = async (includes: object): Promise<number> => {
      sandbox.control.clearRequests();
      const { report } = await sync(sandbox, `${temporaryFolder()}/mirror.db`, { includes, resources: ['users'] });
      return report.requests;
    };
    expect(await asked({ users: [] })).toBe(await asked({}));
  });

  test('with a new name makes everything be read once with it, and not again', async () => {
    const { sandbox, file } = await newMirror(some);
    const tried = { resources: ['users'], mode: 'quick' } as const;
    sandbox.control.advanceClock(10 * 86_400_000);
    await sync(sandbox, file, tried);
    const first = await sync(sandbox, file, { ...tried, includes: { users: ['ips'] } });
    expect(first.report.resources.users).toMatchObject({ received: 120, unchanged: 120 });
    expectRelated(sandbox, file, 'users', 'ips');
    const more = await sync(sandbox, file, { ...tried, includes: { users: ['ips', 'devices'] } });
    expect(more.report.resources.users).toMatchObject({ received: 120, unchanged: 120 });
    expectRelated(sandbox, file, 'users', 'devices');
    const again = await sync(sandbox, file, { ...tried, includes: { users: ['devices', 'ips'] } });
    expect(again.report.resources.users).toMatchObject({ received: 0 });
  });

  test('with a name removed keeps what was read, marked as no longer included', async () => {
    const { sandbox, file } = await mirrored(some, { resources: ['users'], includes: { users: ['ips', 'devices'] } });
    const before = rowsOf(file, 'SELECT * FROM user_devices');
    await sync(sandbox, file, { resources: ['users'], includes: { users: ['ips'] } });
    expect(rowsOf(file, 'SELECT * FROM user_devices')).toEqual(before);
    expect(rowsOf(file, 'SELECT relation, included FROM mirror_relations ORDER BY relation')).toEqual([
      { relation: 'devices', included: 0 },
      { relation: 'ips', included: 1 },
    ]);
  });
});

test('a page whose related records cannot be stored is not stored at all', async () => {
  const { sandbox, file } = await newMirror(some);
  const tried = { includes: { users: ['ips'] }, resources: ['users'] } as const;
  await sync(sandbox, file, tried);
  const refusing = `CREATE TRIGGER no_room BEFORE INSERT ON user_ips BEGIN SELECT RAISE(ABORT, 'no room'); END`;
  const name = rowsOf<{ first_name: string }>(file, 'SELECT first_name FROM users WHERE id = 3')[0]?.first_name;
  sandbox.control.update('users', 3, { first_name: 'Changed' });
  sandbox.control.setRelated('users', 3, 'ips', [{ id: 1, ip_address: '192.0.2.1' }]);
  await expect(sync(sandbox, file, { ...tried, ...underTriggers(file, refusing) })).rejects.toThrow('no room');
  expect(rowsOf(file, 'SELECT first_name FROM users WHERE id = 3')).toEqual([{ first_name: name }]);
});
