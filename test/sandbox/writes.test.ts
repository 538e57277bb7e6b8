import { describe, expect, test } from 'vitest';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { sandboxNow, startSandbox } from '../support/sandbox.ts';
import { call, type Json, page } from './call.ts';

const now = '2026-03-11T10:20:30.000000Z';
const standing = { now: () => sandboxNow } as const;
const someone = {
  first_name: 'Ada',
  last_name: 'Lovelace',
  username: 'ada',
  email: 'ada@mail.example',
  password: 'secret-1',
};

const post = (sandbox: Sandbox, path: string, body: unknown) =>
  call(sandbox, `/api/v1/${path}`, { method: 'POST', body });
const put = (sandbox: Sandbox, path: string, body: unknown) =>
  call(sandbox, `/api/v1/${path}`, { method: 'PUT', body });
const errorsOf = (text: string): unknown => (JSON.parse(text) as Json)['errors'];

describe('creating a user', () => {
  test('responds with 201 and the user, who is then in the list', async () => {
    const sandbox = await startSandbox(standing);
    const reply = await post(sandbox, 'users', someone);
    expect(reply.status).toBe(201);
    const { data } = JSON.parse(reply.text) as { data: Json };
    expect(data).toMatchObject({
      id: 61,
      username: 'ada',
      balance: 0,
      status: 'active',
      language: 'en',
      created_at: now,
    });
    expect(data).toMatchObject({ email_verified_at: null, address: null });
    const listed = (await page(sandbox, 'users?filter[email]=ada@mail.example')).data;
    expect(listed).toEqual([sandbox.control.get('users', 61)]);
    expect(sandbox.control.count('emails')).toBe(90);
  });

  test.each([undefined, ''])('with the password %o sends a generated one by email', async (password) => {
    const sandbox = await startSandbox();
    await post(sandbox, 'users', { ...someone, password });
    const emails = (await page(sandbox, 'emails?filter[user_id]=61')).data;
    expect(emails).toHaveLength(1);
    expect(emails[0]).toMatchObject({ receiver: 'ada@mail.example', subject: 'Your account password', is_sent: 1 });
    expect(emails[0]?.['content']).toMatch(/Your password is <b>\w{8,}<\/b>/);
  });

  test('requires every required value', async () => {
    const sandbox = await startSandbox();
    const reply = await post(sandbox, 'users', {});
    expect(reply.status).toBe(422);
    expect(Object.keys(errorsOf(reply.text) as Json)).toEqual(['first_name', 'last_name', 'username', 'email']);
    expect((JSON.parse(reply.text) as Json)['message']).toBe('The first name field is required. (and 3 more errors)');
    expect(sandbox.control.count('users')).toBe(60);
  });

  test('refuses a username or email that is taken', async () => {
    const sandbox = await startSandbox();
    const { username, email } = sandbox.control.get('users', 4) ?? {};
    const reply = await post(sandbox, 'users', { ...someone, username, email });
    expect(errorsOf(reply.text)).toEqual({
      username: ['The username has already been taken.'],
      email: ['The email has already been taken.'],
    });
  });

  const wrong: [string, Json][] = [
    ['email', { email: 'nobody' }],
    ['first_name', { first_name: 7 }],
    ['language', { language: 'not a code' }],
    ['welcome_email', { welcome_email: 'perhaps' }],
    ['address', { address: 'Main Street' }],
    ['address.country', { address: { country: '??' } }],
  ];
  test.each(wrong)('refuses a wrong %s', async (field, values) => {
    const sandbox = await startSandbox();
    const reply = await post(sandbox, 'users', { ...someone, ...values });
    expect(reply.status).toBe(422);
    expect(Object.keys(errorsOf(reply.text) as Json)).toEqual([field]);
  });

  test('never reuses an id', async () => {
    const sandbox = await startSandbox();
    await post(sandbox, 'users', someone);
    sandbox.control.remove('users', 61);
    const again = JSON.parse((await post(sandbox, 'users', someone)).text) as { data: Json };
    expect(again.data['id']).toBe(62);
  });
});

describe('updating a user', () => {
  test('changes only what is sent', async () => {
    const sandbox = await startSandbox(standing);
    const before = sandbox.control.get('users', 5) ?? {};
    const reply = await put(sandbox, 'users/5', { first_name: 'Zoë', language: 'fr' });
    expect(reply.status).toBe(200);
    const expected = { ...before, first_name: 'Zoë', language: 'fr', updated_at: now };
    expect((JSON.parse(reply.text) as Json)['data']).toEqual(expected);
    expect(sandbox.control.get('users', 5)).toEqual(expected);
  });

  test('refuses a username that is taken, and a value that is not text', async () => {
    const sandbox = await startSandbox();
    const { username } = sandbox.control.get('users', 4) ?? {};
    expect((await put(sandbox, 'users/5', { username })).status).toBe(422);
    expect((await put(sandbox, 'users/5', { first_name: null })).status).toBe(422);
    expect((await put(sandbox, 'users/5', { last_name: ['x'] })).status).toBe(422);
    expect((await put(sandbox, 'users/4', { username })).status).toBe(200);
  });
});

describe('deleting a user', () => {
  const remove = (sandbox: Sandbox, body?: Json) =>
    call(sandbox, '/api/v1/users/9', { method: 'DELETE', ...(body === undefined ? {} : { body }) });
  async function withParts(parts: Readonly<Record<string, readonly Json[]>>): Promise<Sandbox> {
    const sandbox = await startSandbox();
    for (const kind of ['orders', 'punishments']) sandbox.control.setRelated('users', 9, kind, parts[kind] ?? []);
    return sandbox;
  }

  test('is permanent', async () => {
    const sandbox = await withParts({});
    expect((await remove(sandbox)).status).toBe(200);
    expect((await call(sandbox, '/api/v1/users/9')).status).toBe(404);
    expect((await remove(sandbox)).status).toBe(404);
  });

  test.each(['active', 'suspended'])('is refused while there is an order that is %s, unless forced', async (status) => {
    const sandbox = await withParts({ orders: [{ status: 'cancelled' }, { status }] });
    const reply = await remove(sandbox);
    expect(reply.status).toBe(422);
    expect(JSON.parse(reply.text)).toEqual({
      success: false,
      errors: ['The user has 1 active or suspended order(s) and cannot be deleted.'],
    });
    expect(sandbox.control.get('users', 9)).toBeDefined();
    expect((await remove(sandbox, { force: false })).status).toBe(422);
    expect((await remove(sandbox, { force: true })).status).toBe(200);
  });

  test('keeps the emails of the user', async () => {
    const sandbox = await withParts({});
    const emails = (): Json[] => sandbox.control.dump('emails').filter((each) => each['user_id'] === 9);
    sandbox.control.insert('emails', { user_id: 9 });
    await remove(sandbox);
    expect(emails().length).toBeGreaterThan(0);
  });
});

test('the ledger has every write that was made, and none that was refused', async () => {
  const sandbox = await startSandbox(standing);
  await post(sandbox, 'users', someone);
  await post(sandbox, 'users', someone);
  await put(sandbox, 'users/61/update-balance', { type: 'add', amount: 5, description: 'x' });
  await put(sandbox, 'users/61/update-balance', { type: 'add', amount: -5 });
  await call(sandbox, '/api/v1/users/61', { method: 'DELETE' });
  const ledger = sandbox.control.ledger();
  expect(ledger.map((each) => [each.operation, each.user_id])).toEqual([
    ['users.create', 61],
    ['users.update-balance', 61],
    ['users.delete', 61],
  ]);
  expect(ledger[0]?.body).toMatchObject({ username: 'ada', password: '****' });
  expect(ledger[1]?.effect).toMatchObject({ before_cents: 0, after_cents: 500 });
});
