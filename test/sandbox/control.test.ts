import { describe, expect, onTestFinished, test } from 'vitest';
import { resourceNames } from '../../src/model/resources.ts';
import { behaviourOf, chaosNames, defaultBehaviour, readBehaviour, switches } from '../../src/sandbox/behaviour.ts';
import { sandboxNow } from '../support/sandbox.ts';
import { call, ids, page } from './call.ts';
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

  test('moves the clock', async () => {
    const sandbox = await startSandbox({ now: () => sandboxNow });
    sandbox.control.advanceClock(5_000);
    expect(sandbox.control.now()).toBe(sandboxNow + 5_000);
    sandbox.control.setClock(Date.UTC(2030, 0, 1));
    expect(sandbox.control.now()).toBe(Date.UTC(2030, 0, 1));
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
