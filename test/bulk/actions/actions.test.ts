import { describe, expect, test } from 'vitest';
import { actions } from '../../../src/bulk/actions.ts';
import type { Sandbox, SandboxOptions } from '../../support/bent/sandbox.ts';
import { behindProxy } from '../../support/altering-proxy.ts';
import { type Bench, benchOf, type Cells } from '../../support/bulk-actions.ts';
import { startSandbox } from '../../support/sandbox.ts';

async function start(options: SandboxOptions = {}): Promise<{ sandbox: Sandbox; bench: Bench; user: number }> {
  const sandbox = await startSandbox({ users: 5, ...options });
  const bench = await benchOf(sandbox);
  const user = Number(sandbox.control.insert('users', { first_name: 'Anna', language: 'en', balance: 12.5 })['id']);
  return { sandbox, bench, user };
}

const bodies = ({ control }: Sandbox): unknown[] => control.ledger().map(({ body }) => body);
const newUser = { first_name: 'Anna', last_name: 'Lind', username: 'anna.lind', email: 'anna@new.example' };
const letter = { subject: 'Hello', content: '<p>Hello</p>' };
const note = { type: 'success', icon: 'bx bx-gift', message: 'Hello' };

test.each(actions.map(({ name }) => name))('the example rows of %s are valid if their users exist', async (name) => {
  const { sandbox, bench } = await start();
  const action = actions.find((each) => each.name === name);
  for (const { user_id: id } of action?.examples ?? []) {
    if (id !== undefined) sandbox.control.insert('users', { id: Number(id) });
  }
  const batch = await bench.plan(name, action?.examples ?? []);
  expect(batch.problems).toEqual([]);
});

test.each<[string, Cells]>([
  ['balance', { type: 'add', amount: '5' }],
  ['notify', note],
  ['email', letter],
  ['update', { first_name: 'Bea' }],
  ['delete', { force: '' }],
])('a row of %s is skipped if the server shows another user in place of its own', async (name, cells) => {
  const sandbox = await startSandbox({ users: 5 });
  const body = JSON.stringify(sandbox.control.get('users', 2));
  let isMixedUp = false;
  const server = await behindProxy(sandbox, ({ method, path }) =>
    isMixedUp && method === 'GET' && /users\/1\b/.test(path) ? { body } : {},
  );
  const bench = await benchOf(server);
  const batch = await bench.plan(name, [{ user_id: 1, ...cells }]);
  isMixedUp = true;
  expect(await bench.send(batch)).toBe(5);
  expect(bodies(sandbox)).toEqual([]);
  const problem = 'the server shows another user in place of this one';
  expect(await bench.row(batch)).toMatchObject({ state: 'skipped', problem });
});

test('a lost response is not settled by another user that the server shows in place of the row’s own', async () => {
  const sandbox = await startSandbox({ users: 5 });
  sandbox.control.update('users', 1, { language: null });
  const body = JSON.stringify(sandbox.control.get('users', 2));
  const server = await behindProxy(sandbox, ({ method, path }) =>
    sandbox.control.ledger().length > 0 && method === 'GET' && /users\/1\b/.test(path) ? { body } : {},
  );
  const bench = await benchOf(server);
  const batch = await bench.plan('update', [{ user_id: 1, language: 'de' }]);
  sandbox.control.faultNext({ fault: 'commit_reset', match: { method: 'PUT' } });
  expect([await bench.send(batch), await bench.send(batch, 0)]).toEqual([8, 8]);
  expect((await bench.row(batch)).state).toBe('needs_human');
});

describe('email', () => {
  const email = (user: number): Cells => ({ user_id: user, ...letter });

  test('carries its token at the end of the content, where readers do not see it', async () => {
    const { sandbox, bench, user } = await start();
    const batch = await bench.plan('email', [email(user)]);
    await bench.send(batch);
    expect(bodies(sandbox)).toEqual([
      { subject: 'Hello', content: `<p>Hello</p>\n<!-- ${(await bench.row(batch)).token} -->` },
    ]);
  });

  test('stops the batch if a proxy sent it twice', async () => {
    const { sandbox, bench, user } = await start();
    const batch = await bench.plan('email', [email(user), email(1)]);
    sandbox.control.faultNext({ fault: 'commit_twice', match: { method: 'POST' } });
    expect(await bench.send(batch)).toBe(8);
    expect((await bench.row(batch)).problem).toContain('over-applied: 2 emails carry am:');
    expect((await bench.row(batch, 3)).state).toBe('planned');
  });

  test('is not confused with an earlier email of the same text', async () => {
    const { sandbox, bench, user } = await start();
    sandbox.control.insert('emails', { user_id: user, ...letter });
    const batch = await bench.plan('email', [email(user)]);
    sandbox.control.faultNext({ fault: 'reset_before', match: { method: 'POST' } });
    expect(await bench.send(batch)).toBe(8);
    expect(await bench.send(batch, 0)).toBe(5);
  });

  test('needs a person if its response is lost and the user got other emails meanwhile', async () => {
    const { sandbox, bench, user } = await start();
    const batch = await bench.plan('email', [email(user)]);
    sandbox.control.faultNext({ fault: 'reset_before', match: { method: 'POST' } });
    expect(await bench.send(batch)).toBe(8);
    sandbox.control.insert('emails', { user_id: user, subject: 'Hello there', content: 'x' });
    expect(await bench.send(batch, 0)).toBe(8);
    expect((await bench.row(batch)).state).toBe('needs_human');
  });

  test('gets a warning in the plan if the server shows no emails', async () => {
    const { bench, user } = await start({ behaviour: { forbidden: 'emails' } });
    const batch = await bench.plan('email', [email(user)]);
    expect(batch.warnings).toContainEqual(expect.stringContaining("does not show a user's emails"));
    expect(await bench.send(batch)).toBe(0);
    expect(await bench.row(batch)).toMatchObject({ state: 'applied', evidence: 'answer' });
  });
});

describe('notify', () => {
  const hidden = { behaviour: { includes_ignored: 'notifications' } } as const;

  test('gets a warning in the plan if the server shows no notifications, and needs a person if its response is lost', async () => {
    const { sandbox, bench, user } = await start(hidden);
    const batch = await bench.plan('notify', [{ user_id: user, ...note }]);
    expect(batch.warnings).toContainEqual(expect.stringContaining('a person must find out'));
    sandbox.control.faultNext({ fault: 'commit_reset', match: { method: 'POST' } });
    expect(await bench.send(batch)).toBe(8);
    expect(await bench.send(batch, 0)).toBe(8);
    expect(await bench.row(batch)).toMatchObject({ state: 'needs_human', evidence: null });
  });

  test('stops the batch if two new notifications are seen', async () => {
    const { sandbox, bench, user } = await start();
    const batch = await bench.plan('notify', [{ user_id: user, ...note }]);
    sandbox.control.faultNext({ fault: 'commit_twice', match: { method: 'POST' } });
    expect(await bench.send(batch)).toBe(8);
    expect(await bench.row(batch)).toMatchObject({ state: 'needs_human', evidence: 'record' });
    expect((await bench.row(batch)).problem).toContain('2 new notifications');
  });

  test.each([
    [{ ...note, type: 'shiny' }, 'type'],
    [{ ...note, url: 'status page' }, 'url'],
    [{ ...note, message: '' }, 'message'],
  ])('refuses %o', async (cells, column) => {
    const { bench, user } = await start();
    const batch = await bench.plan('notify', [{ user_id: user, ...cells }]);
    expect(batch.problems).toEqual([expect.objectContaining({ row: 2, column })]);
  });
});

describe('create', () => {
  test('sends the fields of the API, with the address as an object', async () => {
    const { sandbox, bench } = await start();
    const batch = await bench.plan('create', [{ ...newUser, welcome_email: 'no', 'address[city]': 'Uppsala' }]);
    expect(await bench.send(batch)).toBe(0);
    expect(bodies(sandbox)).toEqual([{ ...newUser, welcome_email: false, address: { city: 'Uppsala' } }]);
  });

  test('refuses a user that exists already or stands in the file twice', async () => {
    const { sandbox, bench } = await start();
    const there = sandbox.control.insert('users', { email: 'bo@new.example' });
    const batch = await bench.plan('create', [
      newUser,
      { ...newUser, username: 'other' },
      { ...newUser, username: 'bo', email: 'bo@new.example' },
    ]);
    expect(batch.problems).toEqual([
      { row: 3, column: 'email', problem: 'row 2 makes a user with the same' },
      { row: 4, column: 'email', problem: `user ${String(there['id'])} has the email "bo@new.example" already` },
    ]);
  });

  test('of many users does not look each of them up in the plan, and says so', async () => {
    const { sandbox, bench } = await start();
    const rows = Array.from({ length: 101 }, (_, at) => ({
      ...newUser,
      username: `u${at}`,
      email: `u${at}@new.example`,
    }));
    sandbox.control.clearRequests();
    const batch = await bench.plan('create', rows);
    expect(batch.warnings).toContainEqual(expect.stringContaining('for 202 emails and user names'));
    expect(sandbox.control.requests().total).toBeLessThan(10);
  });

  test('takes no password from a file', async () => {
    const { bench } = await start();
    const batch = await bench.plan('create', [{ ...newUser, password: 'secret' }]);
    expect(batch.problems).toEqual([
      { row: 2, column: 'password', problem: expect.stringContaining('does not belong in a file') },
    ]);
  });

  test('needs a person if its response is lost and another user took the email meanwhile', async () => {
    const { sandbox, bench } = await start();
    const batch = await bench.plan('create', [newUser]);
    sandbox.control.faultNext({ fault: 'reset_before', match: { method: 'POST' } });
    expect(await bench.send(batch)).toBe(8);
    sandbox.control.insert('users', { email: newUser.email, username: 'somebody' });
    expect(await bench.send(batch, 0)).toBe(8);
    expect((await bench.row(batch)).state).toBe('needs_human');
  });
});

describe('update', () => {
  test('changes the cells that are filled in, shows the change in the plan, and can be undone', async () => {
    const { sandbox, bench, user } = await start();
    const batch = await bench.plan('update', [{ user_id: user, first_name: 'Åsa', last_name: '', language: 'fr' }]);
    expect(await bench.row(batch)).toMatchObject({
      plannedBefore: '{"first_name":"Anna","language":"en"}',
      plannedAfter: '{"first_name":"Åsa","language":"fr"}',
    });
    expect(await bench.send(batch)).toBe(0);
    expect(bodies(sandbox)).toEqual([{ first_name: 'Åsa', language: 'fr' }]);
    expect(await bench.send(await bench.undo(batch))).toBe(0);
    expect(sandbox.control.get('users', user)).toMatchObject({ first_name: 'Anna', language: 'en' });
  });

  test('is not undone if the user was changed since', async () => {
    const { sandbox, bench, user } = await start();
    const batch = await bench.plan('update', [{ user_id: user, first_name: 'Åsa' }]);
    await bench.send(batch);
    sandbox.control.update('users', user, { first_name: 'Eva' });
    expect((await bench.undo(batch)).problems).toEqual([
      { row: 2, column: null, problem: `user ${user} was changed since: {"first_name":"Eva"}` },
    ]);
  });

  test('is not sent if the user was changed since the plan', async () => {
    const { sandbox, bench, user } = await start();
    const batch = await bench.plan('update', [{ user_id: user, first_name: 'Åsa' }]);
    sandbox.control.update('users', user, { first_name: 'Eva' });
    expect(await bench.send(batch)).toBe(5);
    expect(await bench.row(batch)).toMatchObject({ state: 'skipped', problem: expect.stringContaining('"Eva"') });
  });

  test('finds users by id or email only, because it may set the user name', async () => {
    const { sandbox, bench, user } = await start();
    const email = String(sandbox.control.get('users', user)?.['email']);
    const batch = await bench.plan('update', [{ email, username: 'new.name' }]);
    expect(await bench.send(batch)).toBe(0);
    expect(sandbox.control.get('users', user)).toMatchObject({ username: 'new.name' });
    const nobody = await bench.plan('update', [{ username: 'new.name', first_name: 'Åsa' }]);
    expect(nobody.problems[0]?.problem).toContain('one of the columns "user_id", "email" is needed');
  });

  test('refuses a row that changes nothing', async () => {
    const { bench, user } = await start();
    const batch = await bench.plan('update', [{ user_id: user, first_name: '' }]);
    expect(batch.problems).toEqual([{ row: 2, column: null, problem: expect.stringContaining('changes nothing') }]);
  });
});

describe('delete', () => {
  test('shows what is lost with the user', async () => {
    const { sandbox, bench, user } = await start();
    const email = String(sandbox.control.get('users', user)?.['email']);
    const batch = await bench.plan('delete', [{ user_id: user }]);
    expect(await bench.row(batch)).toMatchObject({ plannedBefore: `${email}, balance 12.50`, plannedAfter: 'deleted' });
    expect(batch.warnings).toContainEqual(expect.stringContaining('a balance of 12.50, which will be lost'));
    expect(await bench.send(batch)).toBe(0);
    expect(sandbox.control.get('users', user)).toBeUndefined();
  });

  test('is not forced unless the row and the flag say so', async () => {
    const { sandbox, bench, user } = await start();
    sandbox.control.setRelated('users', user, 'punishments', [{ reason: 'spam' }]);
    const gentle = await bench.plan('delete', [{ user_id: user, force: 'no' }], { allowForce: true });
    expect(await bench.send(gentle)).toBe(5);
    expect(await bench.row(gentle)).toMatchObject({ state: 'rejected', body: '{}' });

    const unheard = await bench.plan('delete', [{ user_id: user, force: 'yes' }]);
    expect(unheard.problems[0]?.problem).toContain('--allow-force');

    const forced = await bench.plan('delete', [{ user_id: user, force: 'yes' }], { allowForce: true });
    expect(await bench.send(forced)).toBe(0);
    expect(bodies(sandbox)).toEqual([{ force: true }]);
  });

  test('is rejected at once if the server refuses it with a conflict, and the other rows are sent', async () => {
    const { sandbox, bench, user } = await start();
    sandbox.control.setBehaviour({ refusal_status: 409 });
    sandbox.control.setRelated('users', user, 'punishments', [{ reason: 'spam' }]);
    const other = Number(sandbox.control.insert('users')['id']);
    const batch = await bench.plan('delete', [{ user_id: user }, { user_id: other }]);
    expect(await bench.send(batch)).toBe(5);
    expect(await bench.row(batch)).toMatchObject({ state: 'rejected', httpStatus: 409, evidence: 'record' });
    expect(await bench.row(batch, 3)).toMatchObject({ state: 'applied' });
    expect(sandbox.control.get('users', other)).toBeUndefined();
  });

  test.each([
    ['lists show users', ''],
    ['lists show nobody', 'users'],
  ])(
    'does not count as made if its response is lost and the server finds nobody for a while, though %s',
    async (_, empty_lists) => {
      const sandbox = await startSandbox({ users: 5 });
      const { control } = sandbox;
      const server = await behindProxy(sandbox, ({ method }) => {
        if (method === 'DELETE') control.setBehaviour({ missing_users: true, empty_lists });
        return {};
      });
      const bench = await benchOf(server);
      const batch = await bench.plan('delete', [{ user_id: 3 }, { user_id: 4 }]);
      control.faultNext({ fault: 'error_500', match: { method: 'DELETE' } });
      expect(await bench.send(batch)).toBe(8);
      expect(await bench.row(batch)).toMatchObject({ state: 'unknown' });
      control.setBehaviour({ missing_users: false, empty_lists: '' });
      expect(await bench.send(batch, 0)).toBe(5);
      expect(await bench.row(batch)).toMatchObject({ state: 'not_applied' });
      expect(control.get('users', 3)).toBeDefined();
    },
  );

  test('cannot be undone, and says so', async () => {
    const { bench, user } = await start();
    const batch = await bench.plan('delete', [{ user_id: user }]);
    await bench.send(batch);
    await expect(bench.undo(batch)).rejects.toThrow('nothing of batch');
  });
});
