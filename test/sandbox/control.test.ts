import { describe, expect, onTestFinished, test } from 'vitest';
import { resourceNames } from '../../src/model/resources.ts';
import { behaviourOf, chaosNames, defaultBehaviour, readBehaviour, switches } from '../../src/sandbox/behaviour.ts';
import { controlKey, sandboxNow } from '../support/sandbox.ts';
import { call, controlCall, ids, page } from './call.ts';
import { openSandbox, type Sandbox, type SandboxOptions } from '../../src/sandbox/sandbox.ts';

async function startSandbox(options: SandboxOptions = {}): Promise<Sandbox> {
  const sandbox = await openSandbox({ users: 60, packages: 12, emails: 90, coupons: 20, now: sandboxNow, ...options });
  onTestFinished(() => sandbox.close());
  return sandbox;
}

describe('switches', () => {
  test('have a name, a meaning and a valid default', () => {
    for (const [name, each] of Object.entries(switches)) {
      expect(name).toMatch(/^[a-z0-9_]+$/);
      expect(each.meaning).not.toBe('');
      expect(readBehaviour({ [name]: each.default })).toEqual({ [name]: each.default });
      expect(readBehaviour({ [name]: String(each.default) })).toEqual({ [name]: each.default });
    }
  });

  test('are read from text', () => {
    expect(readBehaviour({ page_max: '20', errors: '0.5', maintenance: 'on' })).toEqual({
      page_max: 20,
      errors: 0.5,
      maintenance: true,
    });
  });

  test('of every preset are known, and calm is the default', () => {
    for (const chaos of chaosNames) {
      const behaviour = behaviourOf(chaos);
      expect(Object.keys(behaviour)).toEqual(Object.keys(switches));
      expect(readBehaviour(behaviour)).toEqual(behaviour);
    }
    expect(behaviourOf('calm')).toEqual(defaultBehaviour);
  });
});

describe('the control', () => {
  test('sets some switches and keeps the others', async () => {
    const sandbox = await startSandbox({ behaviour: { page_max: 7 } });
    sandbox.control.setBehaviour({ maintenance: true });
    expect(sandbox.control.behaviour()).toMatchObject({ page_max: 7, maintenance: true });
    sandbox.control.setChaos('rough');
    expect(sandbox.control.behaviour()).toEqual(behaviourOf('rough'));
  });

  test('moves the clock, whether it runs or is frozen', async () => {
    const sandbox = await startSandbox({ now: () => sandboxNow });
    expect(sandbox.control.advanceClock(5_000)).toEqual({ now: sandboxNow + 5_000, frozen: false });
    expect(sandbox.control.setClock('2030-01-01', { frozen: true })).toEqual({
      now: Date.UTC(2030, 0, 1),
      frozen: true,
    });
    expect(sandbox.control.advanceClock(60_000).now).toBe(Date.UTC(2030, 0, 1) + 60_000);
    expect(() => sandbox.control.setClock('soon')).toThrow('not a time');
  });

  test.each(resourceNames)('adds, changes and removes %s, and the API serves it', async (resource) => {
    const sandbox = await startSandbox({ now: () => sandboxNow });
    const made = sandbox.control.insert(resource);
    const id = made['id'] as number;
    expect(made['created_at']).toBe('2026-03-11T10:20:30.000000Z');
    expect((await page(sandbox, `${resource}?paginate=500`)).data.at(-1)).toEqual(made);
    sandbox.control.advanceClock(1_000);
    const changed = sandbox.control.update(resource, id, { created_at: '2026-01-01T00:00:00.000000Z' });
    expect(changed['updated_at']).toBe('2026-03-11T10:20:31.000000Z');
    expect(await ids(sandbox, `${resource}?paginate=500&sort[created_at]=asc&date=2026-01-01,2026-01-01`)).toEqual([
      id,
    ]);
    expect(sandbox.control.remove(resource, id)).toBe(true);
    expect(sandbox.control.remove(resource, id)).toBe(false);
    expect(sandbox.control.get(resource, id)).toBeUndefined();
    expect(await ids(sandbox, `${resource}?date=2026-01-01,2026-01-01`)).toEqual([]);
  });

  test('refuses changes that are not possible', async () => {
    const sandbox = await startSandbox();
    expect(() => sandbox.control.insert('users', { id: 1 })).toThrow('already has');
    expect(() => sandbox.control.update('users', 99, {})).toThrow('no record 99');
    expect(() => sandbox.control.setRelated('users', 99, 'orders', [])).toThrow('no record 99');
  });

  test('counts requests by operation and status', async () => {
    const sandbox = await startSandbox();
    sandbox.control.setBehaviour({ maintenance: true });
    await call(sandbox, '/api/v1/users?page=2');
    sandbox.control.setBehaviour({ maintenance: false });
    await Promise.all(Array.from({ length: 4 }, () => call(sandbox, '/api/v1/packages')));
    const counts = sandbox.control.requests();
    expect(counts).toMatchObject({
      total: 5,
      byOperation: { 'users.list': 1, 'packages.list': 4 },
      byStatus: { 503: 1, 200: 4 },
    });
    expect(counts.mostAtOnce).toBeGreaterThan(0);
    expect(counts.recent[0]).toMatchObject({
      method: 'GET',
      url: '/api/v1/users?page=2',
      operation: 'users.list',
      status: 503,
      accept: 'application/json',
    });
    sandbox.control.clearRequests();
    expect(sandbox.control.requests()).toMatchObject({ total: 0, byOperation: {}, recent: [] });
  });
});

describe('the control routes', () => {
  const controlled = async (sandbox: Sandbox, name: string, ...given: unknown[]): Promise<unknown> =>
    JSON.parse((await controlCall(sandbox, name, given)).text);

  const refused = [
    ['without a key', {}, 401],
    ['with the key of the API', { authorization: 'Bearer key-of-the-api' }, 401],
    ['with half of the control key', { authorization: `Bearer ${controlKey.slice(0, 16)}` }, 401],
    ['from a page of another site', { authorization: `Bearer ${controlKey}`, host: 'rebound.example' }, 403],
    ['to another port', { authorization: `Bearer ${controlKey}`, host: '127.0.0.1:1' }, 403],
  ] as const;
  // proves: sandbox-control
  test.each(refused)('refuse every call %s', async (_, headers, status) => {
    const sandbox = await startSandbox({ controlKey, key: 'key-of-the-api' });
    for (const name of Object.keys(sandbox.control)) {
      const given = name === 'setBehaviour' ? [{ forbidden: 'users' }] : ['users'];
      expect((await controlCall(sandbox, name, given, { headers })).status).toBe(status);
    }
    expect(sandbox.control.behaviour().forbidden).toBe('');
  });

  test('do not exist without a control key', async () => {
    const sandbox = await startSandbox();
    expect((await controlCall(sandbox, 'dump', ['users'])).status).toBe(404);
    const headers = { authorization: 'Bearer undefined' };
    expect((await controlCall(sandbox, 'dump', ['users'], { headers })).status).toBe(404);
  });

  test('change records and their relations', async () => {
    const sandbox = await startSandbox({ controlKey });
    const { id } = (await controlled(sandbox, 'insert', 'coupons', { code: 'NEW' })) as { readonly id: number };
    expect(await controlled(sandbox, 'update', 'coupons', id, { code: 'NEWER' })).toMatchObject({ code: 'NEWER' });
    expect(await controlled(sandbox, 'get', 'coupons', id)).toMatchObject({ code: 'NEWER' });
    expect(await controlled(sandbox, 'remove', 'coupons', id)).toBe(true);
    await controlled(sandbox, 'setRelated', 'users', 3, 'orders', [{ status: 'active' }]);
    expect(await controlled(sandbox, 'related', 'users', 3, 'orders')).toMatchObject([{ status: 'active' }]);
    expect(await controlled(sandbox, 'churn', 'users', { inserts: 2 })).toBe(2);
    expect(sandbox.control.count('users')).toBe(62);
  });

  const wrong = [
    ['setBehaviour', { nonsense: 1 }],
    ['setChaos', 'mild'],
    ['setClock', 'soon'],
    ['update', 'users', 'x', {}],
    ['update', 'invoices', 1, {}],
    ['setRelated', 'emails', 1, 'orders', []],
    ['setRelated', 'users', 1, 'orders'],
    ['dump', 'invoices'],
    ['count'],
  ] as const;
  test.each(wrong)('%s %o responds with 400 and a reason', async (name, ...given) => {
    const sandbox = await startSandbox({ controlKey });
    const reply = await controlCall(sandbox, name, given);
    expect(reply.status).toBe(400);
    expect(reply.text).not.toContain('Cannot read');
    expect(JSON.parse(reply.text)).toHaveProperty('message');
  });
});
