import { describe, expect, test } from 'vitest';
import { resourceNames } from '../../src/model/resources.ts';
import type { Behaviour } from '../support/bent/sandbox.ts';
import { sandboxNow, startSandbox } from '../support/sandbox.ts';
import { call, page } from './call.ts';

describe('churn between requests', () => {
  test.each(resourceNames)('adds, changes and deletes %s before a list is read', async (resource) => {
    const sandbox = await startSandbox({ coupons: 60, packages: 40 });
    const total = async (): Promise<number> => (await page(sandbox, resource)).total;
    const start = await total();
    sandbox.control.setBehaviour({ churn_inserts: 2 });
    expect(await total()).toBe(start + 2);
    sandbox.control.setBehaviour({ churn_inserts: 0, churn_deletes: 3 });
    expect(await total()).toBe(start - 1);
    const before = sandbox.control.dump(resource);
    sandbox.control.setBehaviour({ churn_deletes: 0, churn_updates: 5 });
    expect(await total()).toBe(start - 1);
    const after = sandbox.control.dump(resource);
    expect(after.map((each) => each['id'])).toEqual(before.map((each) => each['id']));
    expect(after).not.toEqual(before);
  });

  test('reaches its averages, and repeats itself with its seed', async () => {
    const behaviour: Partial<Behaviour> = { churn_inserts: 0.5, churn_updates: 0.25, churn_deletes: 0.25 };
    const run = async (): Promise<{ total: number; dump: unknown }> => {
      const sandbox = await startSandbox({ now: () => sandboxNow, behaviour });
      for (let at = 0; at < 80; at += 1) await page(sandbox, 'coupons');
      return { total: sandbox.control.count('coupons'), dump: sandbox.control.dump('coupons') };
    };
    const [one, two] = [await run(), await run()];
    expect(one.total).toBeGreaterThan(20 + 5);
    expect(one.total).toBeLessThan(20 + 40);
    expect(two.dump).toEqual(one.dump);
  });

  test('gives new records the time of the previous one with the probability of ties', async () => {
    const sandbox = await startSandbox({ coupons: 1, now: () => sandboxNow, behaviour: { ties: 1 } });
    const first = sandbox.control.dump('coupons')[0]?.['created_at'];
    sandbox.control.churn('coupons', { inserts: 3 });
    expect(sandbox.control.dump('coupons').map((each) => each['created_at'])).toEqual([first, first, first, first]);
  });

  test('does nothing to an empty resource', async () => {
    const sandbox = await startSandbox({ coupons: 0 });
    expect(sandbox.control.churn('coupons', { updates: 2, deletes: 2 })).toBe(0);
  });

  test('does not happen on a read of one user', async () => {
    const sandbox = await startSandbox({ behaviour: { churn_deletes: 5 } });
    await call(sandbox, '/api/v1/users/1');
    expect(sandbox.control.count('users')).toBe(60);
  });
});

test('a deletion during a forward walk makes it miss a record', async () => {
  const sandbox = await startSandbox({ users: 30 });
  const path = 'users?paginate=10&sort[created_at]=asc&sort[username]=asc';
  const seen = new Set((await page(sandbox, `${path}&page=1`)).data.map((each) => each['id']));
  sandbox.control.remove('users', [...seen][0] as number);
  for (const number of [2, 3]) {
    for (const each of (await page(sandbox, `${path}&page=${number}`)).data) seen.add(each['id']);
  }
  const missed = sandbox.control.dump('users').filter((each) => !seen.has(each['id']));
  expect(missed).toHaveLength(1);
});
