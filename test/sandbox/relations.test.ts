import { describe, expect, test } from 'vitest';
import { resources, userRelations } from '../../src/model/resources.ts';
import { startSandbox } from '../support/sandbox.ts';
import { call, type Json, json, page } from './call.ts';

const single = ['affiliate', 'address', 'category', 'user'];

describe('includes', () => {
  test.each(resources.users.includes)('attach %s to users', async (name) => {
    const sandbox = await startSandbox({ users: 200 });
    const { data } = await page(sandbox, `users?paginate=200&include=${name}`);
    for (const user of data) {
      expect(Object.keys(user).at(-1)).toBe(name);
      expect(Array.isArray(user[name])).toBe(!single.includes(name));
    }
    const some = data.flatMap((user) => user[name]).filter((each) => each !== null) as Json[];
    expect(some.length).toBeGreaterThan(0);
    for (const each of some) expect(each).toHaveProperty('id');
  });

  test.each(resources.packages.includes)('attach %s to packages', async (name) => {
    const sandbox = await startSandbox({ users: 200 });
    const { data } = await page(sandbox, `packages?include=${name}`);
    expect(data).toHaveLength(12);
    const some = data.flatMap((each) => each[name]).filter((each) => each !== null);
    expect(some.length).toBeGreaterThan(0);
    expect(Array.isArray(data[0]?.[name])).toBe(!single.includes(name));
  });

  test('attach the user to emails', async () => {
    const sandbox = await startSandbox();
    const { data } = await page(sandbox, 'emails?include=user');
    for (const email of data) {
      expect(email['user']).toEqual(sandbox.control.get('users', email['user_id'] as number));
      expect(email['receiver']).toBe((email['user'] as Json)['email']);
    }
  });

  test('refuse an unknown name', async () => {
    const sandbox = await startSandbox();
    for (const path of ['users?include=suborders', 'packages?include=user', 'coupons?include=users']) {
      expect((await call(sandbox, `/api/v1/${path}`)).status).toBe(400);
    }
    expect((await call(sandbox, '/api/v1/users?include[]=orders')).status).toBe(422);
  });

  test('of orders agree between users and packages', async () => {
    const sandbox = await startSandbox({ users: 300, packages: 7 });
    const ofUsers = (await page(sandbox, 'users?paginate=300&include=orders')).data.flatMap(
      (each) => each['orders'] as Json[],
    );
    const ofPackages = (await page(sandbox, 'packages?include=orders')).data.flatMap(
      (each) => each['orders'] as Json[],
    );
    const byId = (a: Json, b: Json): number => (a['id'] as number) - (b['id'] as number);
    expect(ofUsers.length).toBeGreaterThan(50);
    expect(ofPackages.toSorted(byId)).toEqual(ofUsers.toSorted(byId));
  });
});

describe('one user', () => {
  test.each(userRelations)('has %s if that is requested', async (name) => {
    const sandbox = await startSandbox();
    const { data } = (await json(sandbox, `/api/v1/users/3?${name}=1`)) as { data: Json };
    expect(data).toHaveProperty(name);
    for (const off of ['0', 'false']) {
      const without = (await json(sandbox, `/api/v1/users/3?${name}=${off}`)) as { data: Json };
      expect(without.data).not.toHaveProperty(name);
    }
  });

  test.each(['999', '0', 'x', '-1', '1.5', '99999999999999999999'])('with the id %s is not found', async (id) => {
    const sandbox = await startSandbox();
    const reply = await call(sandbox, `/api/v1/users/${id}`);
    expect(reply.status).toBe(404);
    expect(JSON.parse(reply.text)).toEqual({ message: `No query results for model [App\\Models\\User] ${id}` });
  });
});

describe('orders and payments of a user', () => {
  test('are the same as in the includes', async () => {
    const sandbox = await startSandbox();
    const users = (await page(sandbox, 'users?paginate=60&include=orders,payments')).data;
    const buyer = users.find((each) => (each['payments'] as Json[]).length > 1) ?? {};
    expect(await json(sandbox, `/api/v1/users/${String(buyer['id'])}/orders`)).toMatchObject({ data: buyer['orders'] });
    const payments = await json(sandbox, `/api/v1/users/${String(buyer['id'])}/payments`);
    expect(payments).toMatchObject({ data: buyer['payments'] });
    expect((payments['data'] as Json[])[0]).toMatchObject({
      id: expect.any(String),
      user_id: buyer['id'],
      currency: 'USD',
    });
  });

  test('are empty for a user without any, and 404 for an unknown user', async () => {
    const sandbox = await startSandbox();
    sandbox.control.setRelated('users', 3, 'orders', []);
    expect(await json(sandbox, '/api/v1/users/3/orders')).toEqual({ status: true, data: [] });
    expect((await call(sandbox, '/api/v1/users/99/orders')).status).toBe(404);
    expect((await call(sandbox, '/api/v1/users/99/payments')).status).toBe(404);
  });
});

test('the balance of every generated user is the sum of its transactions', async () => {
  const sandbox = await startSandbox({ users: 400 });
  const { data } = await page(sandbox, 'users?paginate=400&include=balance_transactions');
  let some = 0;
  for (const user of data) {
    let cents = 0;
    for (const each of user['balance_transactions'] as Json[]) {
      expect(Math.round((each['balance_before_transaction'] as number) * 100)).toBe(cents);
      cents += Math.round((each['amount'] as number) * 100) * (each['result'] === '+' ? 1 : -1);
      some += 1;
    }
    expect(Math.round((user['balance'] as number) * 100)).toBe(cents);
  }
  expect(some).toBeGreaterThan(100);
});
