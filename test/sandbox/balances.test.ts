import { describe, expect, test } from 'vitest';
import type { Sandbox } from '../support/bent/sandbox.ts';
import { sandboxNow, startSandbox } from '../support/sandbox.ts';
import { call, type Json, json, page } from './call.ts';

const now = '2026-03-11T10:20:30.000000Z';
const standing = { now: () => sandboxNow } as const;
const post = (sandbox: Sandbox, path: string, body: unknown) =>
  call(sandbox, `/api/v1/${path}`, { method: 'POST', body });
const put = (sandbox: Sandbox, path: string, body: unknown) =>
  call(sandbox, `/api/v1/${path}`, { method: 'PUT', body });
const errorsOf = (text: string): unknown => (JSON.parse(text) as Json)['errors'];

describe('changing a balance', () => {
  async function withBalance(balance: number, behaviour = {}): Promise<Sandbox> {
    const sandbox = await startSandbox({ ...standing, behaviour });
    sandbox.control.update('users', 5, { balance });
    sandbox.control.setRelated('users', 5, 'balance_transactions', []);
    return sandbox;
  }
  const change = (sandbox: Sandbox, body: Json) => put(sandbox, 'users/5/update-balance', body);
  const balance = (sandbox: Sandbox): unknown => sandbox.control.get('users', 5)?.['balance'];

  const cases = [
    ['add', 12.5, 100, 112.5, '+'],
    ['remove', 12.5, 100, 87.5, '-'],
    ['set', 12.5, 100, 12.5, '='],
    ['add', 0.2, 0.1, 0.3, '+'],
    ['remove', 0.1, 0.3, 0.2, '-'],
    ['remove', 200, 100, -100, '-'],
    ['add', '1.005', 1, 2.01, '+'],
    ['add', 0.01, 9_999_999_999.99, 10_000_000_000, '+'],
  ] as const;
  test.each(cases)('%s %s turns %s into %s', async (type, amount, before, after, result) => {
    const sandbox = await withBalance(before);
    const reply = await change(sandbox, { type, amount, description: 'Invoice 7 am:abcdefghijkl' });
    expect(reply.status).toBe(200);
    expect((JSON.parse(reply.text) as Json)['data']).toMatchObject({ id: 5, balance: after, updated_at: now });
    expect(balance(sandbox)).toBe(after);
    const { data } = (await json(sandbox, '/api/v1/users/5?balance_transactions=1')) as { data: Json };
    expect(data['balance_transactions']).toEqual([
      {
        id: expect.any(Number),
        user_id: 5,
        payment_id: null,
        result,
        amount: amount === '1.005' ? 1.01 : amount,
        balance_before_transaction: before,
        description: 'Invoice 7 am:abcdefghijkl',
        created_at: now,
        updated_at: now,
      },
    ]);
  });

  const wrong: [string, Json][] = [
    ['amount', { type: 'add' }],
    ['amount', { type: 'add', amount: 'much' }],
    ['amount', { type: 'add', amount: -5 }],
    ['amount', { type: 'add', amount: 1e20 }],
    ['type', { amount: 5 }],
    ['type', { type: 'double', amount: 5 }],
  ];
  test.each(wrong)('refuses a wrong %s in %o', async (field, body) => {
    const sandbox = await withBalance(10);
    const reply = await change(sandbox, body);
    expect(reply.status).toBe(422);
    expect(Object.keys(errorsOf(reply.text) as Json)).toEqual([field]);
    expect(balance(sandbox)).toBe(10);
  });

  test('responds with 404 for an unknown user', async () => {
    const sandbox = await startSandbox();
    expect((await put(sandbox, 'users/99/update-balance', { type: 'add', amount: 1 })).status).toBe(404);
  });
});

describe('writing to a user', () => {
  test('an email becomes a record of its own', async () => {
    const sandbox = await startSandbox(standing);
    const reply = await post(sandbox, 'users/5/send-email', { subject: 'Hello', content: '<p>How are you?</p>' });
    expect(reply.status).toBe(200);
    const { email } = sandbox.control.get('users', 5) ?? {};
    const expected = { user_id: 5, receiver: email, subject: 'Hello', content: '<p>How are you?</p>', created_at: now };
    expect((await page(sandbox, 'emails?filter[user_id]=5&sort[id]=desc')).data[0]).toMatchObject(expected);
    expect((await json(sandbox, '/api/v1/users/5?emails=1'))['data']).toMatchObject({
      emails: expect.arrayContaining([expect.objectContaining(expected)]),
    });
  });

  test('a notification becomes a relation of the user', async () => {
    const sandbox = await startSandbox(standing);
    const body = { type: 'warning', icon: '<svg/>', message: 'Look here', url: 'https://hosting.example/' };
    expect((await post(sandbox, 'users/5/send-notification', body)).status).toBe(200);
    const { data } = (await json(sandbox, '/api/v1/users/5?notifications=1')) as { data: { notifications: Json[] } };
    expect(data.notifications.at(-1)).toMatchObject({
      type: 'warning',
      icon: '<svg/>',
      message: 'Look here',
      user_id: 5,
    });
  });

  const wrong: [string, string[], Json][] = [
    ['send-email', ['subject', 'content'], {}],
    ['send-email', ['content'], { subject: 'x', content: '' }],
    ['send-notification', ['type', 'icon', 'message'], {}],
    ['send-notification', ['type'], { type: 'info', icon: 'bx-bell', message: 'x' }],
    ['send-notification', ['url'], { type: 'danger', icon: 'bx-bell', message: 'x', url: 'nowhere' }],
  ];
  test.each(wrong)('%s requires %o', async (path, fields, body) => {
    const sandbox = await startSandbox();
    const reply = await post(sandbox, `users/5/${path}`, body);
    expect(reply.status).toBe(422);
    expect(Object.keys(errorsOf(reply.text) as Json)).toEqual(fields);
  });
});
