import { describe, expect, test } from 'vitest';
import { resourceNames, resourceOf } from '../../src/model/resources.ts';
import { startSandbox } from '../support/sandbox.ts';
import { call, page } from './call.ts';

describe('the shape of values', () => {
  test('numbers can be text, money with two decimals', async () => {
    const sandbox = await startSandbox({ behaviour: { numbers_as_strings: 1 } });
    sandbox.control.update('users', 1, { balance: 5.5 });
    expect((await page(sandbox, 'users')).data[0]).toMatchObject({
      id: 1,
      balance: '5.50',
      is_subscribed: expect.any(Number),
    });
    expect((await page(sandbox, 'emails')).data[0]).toMatchObject({ user_id: expect.stringMatching(/^\d+$/) });
  });

  test('flags can be booleans or text', async () => {
    const sandbox = await startSandbox({ behaviour: { flags_as_booleans: 1 } });
    const flag = sandbox.control.get('users', 1)?.['is_subscribed'];
    expect((await page(sandbox, 'users')).data[0]?.['is_subscribed']).toBe(flag === 1);
    sandbox.control.setBehaviour({ flags_as_booleans: 0, flags_as_strings: 1 });
    expect((await page(sandbox, 'users')).data[0]?.['is_subscribed']).toBe(String(flag));
  });

  test('empty objects can be empty lists', async () => {
    const sandbox = await startSandbox({ behaviour: { empty_objects_as_arrays: 1 } });
    sandbox.control.update('packages', 1, { data: {} });
    sandbox.control.update('packages', 2, { data: { a: 1 } });
    const { data } = await page(sandbox, 'packages');
    expect([data[0]?.['data'], data[1]?.['data']]).toEqual([[], { a: 1 }]);
  });

  test('only some records may differ', async () => {
    const sandbox = await startSandbox({ behaviour: { numbers_as_strings: 0.5 } });
    const types = (await page(sandbox, 'users?paginate=60')).data.map((each) => typeof each['balance']);
    expect(new Set(types)).toEqual(new Set(['string', 'number']));
  });
});

describe('fields', () => {
  test.each(resourceNames)('that are unknown come with some %s, always the same', async (resource) => {
    const sandbox = await startSandbox({ behaviour: { unknown_fields: 0.4 } });
    const known = resourceOf(resource).fields.map((field) => field.name);
    const extra = async (): Promise<string[][]> =>
      (await page(sandbox, `${resource}?paginate=60`)).data.map((each) =>
        Object.keys(each).filter((name) => !known.includes(name)),
      );
    const first = await extra();
    expect(first.some((each) => each.length > 0)).toBe(true);
    expect(first.some((each) => each.length === 0)).toBe(true);
    expect(await extra()).toEqual(first);
  });

  test.each(resourceNames)('can be missing from some %s, but neither id nor created_at', async (resource) => {
    const sandbox = await startSandbox({ behaviour: { missing_fields: 0.5 } });
    const { data } = await page(sandbox, `${resource}?paginate=60`);
    const full = resourceOf(resource).fields.length;
    expect(new Set(data.map((each) => Object.keys(each).length))).toEqual(new Set([full, full - 1]));
    for (const each of data) expect(each).toMatchObject({ id: expect.any(Number), created_at: expect.any(String) });
  });

  test('of a dump are not affected by faults', async () => {
    const sandbox = await startSandbox({ chaos: 'storm', behaviour: { missing_fields: 1, numbers_as_strings: 1 } });
    const calm = await startSandbox();
    for (const resource of resourceNames) expect(sandbox.control.dump(resource)).toEqual(calm.control.dump(resource));
  });
});

test('text is encoded as PHP does, in ASCII with escaped slashes', async () => {
  const sandbox = await startSandbox({ users: 1 });
  sandbox.control.update('users', 1, { first_name: 'Zoë 🎉/', data: { ключ: ['é'] } });
  const { text } = await call(sandbox, '/api/v1/users');
  expect(text).toContain(String.raw`"first_name":"Zo\u00eb \ud83c\udf89\/"`);
  expect(text).not.toMatch(/[^\n -~]/);
  expect(JSON.parse(text)).toMatchObject({ data: [{ first_name: 'Zoë 🎉/', data: { ключ: ['é'] } }] });
});
