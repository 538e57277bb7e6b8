import { describe, expect, test } from 'vitest';
import { operations } from '../../src/model/operations.ts';
import { startSandbox } from '../support/sandbox.ts';
import { call, json } from './call.ts';

const accept = { accept: 'application/json' };

describe('the key', () => {
  const wrong = [{}, { authorization: 'Bearer no' }, { authorization: 'Basic x' }, { authorization: 'Bearer ' }];
  test.each(wrong)('is required: %o', async (headers) => {
    const sandbox = await startSandbox();
    const reply = await call(sandbox, '/api/v1/users', { headers: { ...headers, ...accept } });
    expect(reply.status).toBe(401);
    expect(JSON.parse(reply.text)).toEqual({ message: 'Unauthenticated.' });
  });

  test.each(operations)('is required by $name', async ({ method, path }) => {
    const sandbox = await startSandbox();
    const reply = await call(sandbox, path.replace('{user}', '1'), { method, headers: accept });
    expect(reply.status).toBe(401);
    expect(sandbox.control.ledger()).toEqual([]);
  });

  test('can be chosen, and otherwise follows from the seed', async () => {
    expect((await startSandbox({ key: 'my-key' })).key).toBe('my-key');
    const [one, two] = [await startSandbox({ seed: 3 }), await startSandbox({ seed: 3 })];
    expect(one.key).toBe(two.key);
    expect((await startSandbox({ seed: 4 })).key).not.toBe(one.key);
  });
});

describe('an unknown route', () => {
  test('gets 404', async () => {
    const sandbox = await startSandbox();
    for (const path of ['/api/v1/invoices', '/api/v2/users', '/', '/api/v1/users/1/cars']) {
      expect((await call(sandbox, path)).status).toBe(404);
    }
    expect(await json(sandbox, '/api/v1/invoices')).toEqual({
      message: 'The route api/v1/invoices could not be found.',
    });
  });
});

describe('permissions', () => {
  test('can be missing for a resource', async () => {
    const sandbox = await startSandbox({ behaviour: { forbidden: 'packages, coupons' } });
    expect((await call(sandbox, '/api/v1/packages')).status).toBe(403);
    expect((await call(sandbox, '/api/v1/coupons')).status).toBe(403);
    expect((await call(sandbox, '/api/v1/users')).status).toBe(200);
  });

  test('can be missing for an operation', async () => {
    const sandbox = await startSandbox({ behaviour: { forbidden: 'users.delete' } });
    expect((await call(sandbox, '/api/v1/users/1', { method: 'DELETE' })).status).toBe(403);
    expect((await call(sandbox, '/api/v1/users/1')).status).toBe(200);
  });
});

describe('bodies', () => {
  test('can be sent as a form', async () => {
    const sandbox = await startSandbox({ key: 'k' });
    const headers = { authorization: 'Bearer k', accept: 'application/json' };
    const body = new URLSearchParams({
      'address[city]': 'Lyon',
      first_name: 'A',
      last_name: 'B',
      username: 'ab',
      email: 'a@b.example',
    });
    expect((await fetch(`${sandbox.url}/api/v1/users`, { method: 'POST', headers, body })).status).toBe(201);
    expect(sandbox.control.related('users', 61, 'address')).toMatchObject([{ city: 'Lyon' }]);
  });
});

test('maintenance gets 503 and Retry-After', async () => {
  const sandbox = await startSandbox({ behaviour: { maintenance: true } });
  const reply = await call(sandbox, '/api/v1/users');
  expect(reply.status).toBe(503);
  expect(reply.headers['retry-after']).toBe('1');
});
