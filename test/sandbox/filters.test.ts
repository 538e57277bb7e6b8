import { describe, expect, test } from 'vitest';
import { type ResourceName, resourceNames, resourceOf } from '../../src/model/resources.ts';
import { minuteMs, timestampOf } from '../../src/model/time.ts';
import { sandboxNow, startSandbox } from '../support/sandbox.ts';
import { call, ids, page } from './call.ts';

/** The filter keys that are plain fields; the others have their own tests. */
const plainKeys = resourceNames.flatMap((name) =>
  resourceOf(name)
    .filterKeys.filter((key) => !['is_online', 'data', 'applicable_products', 'button', 'attachment'].includes(key))
    .map((key) => [name, key] as const),
);

function query(key: string, value: unknown): string {
  return `filter[${key}]=${encodeURIComponent(String(value))}`;
}

describe('filters', () => {
  test.each(plainKeys)('%s can be filtered by %s', async (resource: ResourceName, key) => {
    const sandbox = await startSandbox({ coupons: 40 });
    const records = sandbox.control.dump(resource);
    const wanted = records.map((record) => record[key]).findLast((value) => value !== null && value !== '');
    const expected = records.filter((record) => record[key] === wanted).map((record) => record['id']);
    expect(expected.length).toBeGreaterThan(0);
    expect(await ids(sandbox, `${resource}?paginate=1000&${query(key, wanted)}`)).toEqual(expected);
    expect((await page(sandbox, `${resource}?${query(key, 'no such value')}`)).total).toBe(0);
  });

  test('are all applied if several are given', async () => {
    const sandbox = await startSandbox({ emails: 300 });
    const found = (await page(sandbox, 'emails?paginate=1000&filter[is_sent]=1&filter[user_id]=3')).data;
    const expected = sandbox.control.dump('emails').filter((each) => each['is_sent'] === 1 && each['user_id'] === 3);
    expect(expected.length).toBeGreaterThan(0);
    expect(found).toEqual(expected);
  });

  test('for online users find those seen within five minutes', async () => {
    const sandbox = await startSandbox({ users: 3, now: () => sandboxNow });
    sandbox.control.update('users', 1, { last_seen_at: timestampOf(sandboxNow - 4 * minuteMs) });
    sandbox.control.update('users', 2, { last_seen_at: timestampOf(sandboxNow - 6 * minuteMs) });
    sandbox.control.update('users', 3, { last_seen_at: timestampOf(sandboxNow + minuteMs) });
    expect(await ids(sandbox, 'users?filter[is_online]=1')).toEqual([1, 3]);
    expect(await ids(sandbox, 'users?filter[is_online]=0')).toEqual([2]);
    sandbox.control.advanceClock(2 * minuteMs);
    expect(await ids(sandbox, 'users?filter[is_online]=1')).toEqual([3]);
  });

  test('accept a time as it is served, with a space, or as a day', async () => {
    const sandbox = await startSandbox({ users: 3 });
    sandbox.control.update('users', 2, { created_at: '2026-02-03T00:00:00.000000Z' });
    for (const text of ['2026-02-03T00:00:00.000000Z', '2026-02-03 00:00:00', '2026-02-03']) {
      expect(await ids(sandbox, `users?${query('created_at', text)}`)).toEqual([2]);
    }
  });

  test('refuse an unknown key with 400, and an invalid value with 422', async () => {
    const sandbox = await startSandbox();
    const refused = await call(sandbox, '/api/v1/users?filter[id]=3');
    expect(refused.status).toBe(400);
    expect(refused.text).toContain('is_online');
    expect((await call(sandbox, '/api/v1/users?filter[email][]=3')).status).toBe(422);
    expect((await call(sandbox, '/api/v1/users?filter=3')).status).toBe(422);
    expect((await call(sandbox, '/api/v1/users?filter[data->theme]=dark')).status).toBe(400);
    expect((await call(sandbox, '/api/v1/emails?filter[created_at]=2026-01-01')).status).toBe(400);
  });
});

describe('filters of JSON columns', () => {
  test('can look inside the data of a package', async () => {
    const sandbox = await startSandbox({ packages: 3 });
    sandbox.control.update('packages', 1, { data: { cpu: 200, dedicated: true, place: { city: 'Köln' } } });
    sandbox.control.update('packages', 2, { data: { cpu: '200', dedicated: false } });
    sandbox.control.update('packages', 3, { data: {} });
    expect(await ids(sandbox, 'packages?filter[data->cpu]=200')).toEqual([1, 2]);
    expect(await ids(sandbox, 'packages?filter[data->dedicated]=true')).toEqual([1]);
    expect(await ids(sandbox, 'packages?filter[data->dedicated]=0')).toEqual([2]);
    expect(await ids(sandbox, `packages?${query('data->place->city', 'Köln')}`)).toEqual([1]);
    expect(await ids(sandbox, 'packages?filter[data->nothing]=1')).toEqual([]);
  });

  test('find coupons by one of their products, or by all of them', async () => {
    const sandbox = await startSandbox({ coupons: 3 });
    sandbox.control.update('coupons', 1, { applicable_products: ['4', '7'] });
    sandbox.control.update('coupons', 2, { applicable_products: ['7'] });
    sandbox.control.update('coupons', 3, { applicable_products: [] });
    expect(await ids(sandbox, 'coupons?filter[applicable_products]=7')).toEqual([1, 2]);
    expect(await ids(sandbox, `coupons?${query('applicable_products', '["4","7"]')}`)).toEqual([1]);
    expect(await ids(sandbox, `coupons?${query('applicable_products', '[]')}`)).toEqual([3]);
  });
});
