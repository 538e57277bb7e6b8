import { describe, expect, test } from 'vitest';
import { type FieldType, resourceNames, resourceOf } from '../../src/model/resources.ts';
import { dayMs } from '../../src/model/time.ts';
import { sandboxNow, startSandbox } from '../support/sandbox.ts';

const some = { users: 3_000, emails: 3_000, packages: 40, coupons: 60 } as const;
const timestamp = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.000000Z$/;

const hasType: Readonly<Record<FieldType, (value: unknown) => boolean>> = {
  integer: (value) => Number.isInteger(value),
  number: (value) => typeof value === 'number' && Math.round(value * 100) / 100 === value,
  flag: (value) => value === 0 || value === 1,
  string: (value) => typeof value === 'string',
  timestamp: (value) => typeof value === 'string' && timestamp.test(value),
  object: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
  strings: (value) => Array.isArray(value) && value.every((each) => typeof each === 'string'),
  any: (value) => value !== undefined,
};

describe('seed data', () => {
  test('is the same for the same seed, and different for another', async () => {
    const [one, two, other] = [await startSandbox(), await startSandbox(), await startSandbox({ seed: 8 })];
    for (const resource of resourceNames) {
      expect(two.control.dump(resource)).toEqual(one.control.dump(resource));
      expect(other.control.dump(resource)).not.toEqual(one.control.dump(resource));
    }
  });

  test('has the requested numbers of records', async () => {
    const sandbox = await startSandbox({ users: 7, packages: 0, emails: 3, coupons: 1 });
    expect(resourceNames.map((name) => sandbox.control.count(name))).toEqual([7, 0, 3, 1]);
    const none = await startSandbox({ users: 0, packages: 0, emails: 0, coupons: 0 });
    expect(resourceNames.map((name) => none.control.count(name))).toEqual([0, 0, 0, 0]);
  });

  test.each(resourceNames)('of %s has the types of the reference', async (name) => {
    const sandbox = await startSandbox(some);
    const odd = sandbox.control.dump(name).flatMap((record) =>
      resourceOf(name)
        .fields.filter((field) => !(field.nullable && record[field.name] === null))
        .filter((field) => !hasType[field.type](record[field.name]))
        .map((field) => [field.name, record[field.name]]),
    );
    expect(odd).toEqual([]);
  });

  test('has no username or address twice', async () => {
    const sandbox = await startSandbox({ users: 20_000 });
    const users = sandbox.control.dump('users');
    for (const name of ['username', 'email'] as const) {
      expect(new Set(users.map((each) => each[name])).size).toBe(users.length);
    }
  });

  test('is spread over three years up to now, with ties', async () => {
    const sandbox = await startSandbox({ ...some, behaviour: { ties: 0.1 } });
    const times = sandbox.control.dump('users').map((each) => Date.parse(each['created_at'] as string));
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    expect(Math.min(...times)).toBeLessThan(sandboxNow - 1_050 * dayMs);
    expect(Math.max(...times)).toBeLessThanOrEqual(sandboxNow);
    expect(Math.max(...times)).toBeGreaterThan(sandboxNow - 5 * dayMs);
    const ties = times.length - new Set(times).size;
    expect(ties / times.length).toBeGreaterThan(0.07);
    expect(ties / times.length).toBeLessThan(0.14);
    const hours = times.map((each) => new Date(each).getUTCHours());
    const share = (from: number, to: number): number => hours.filter((each) => each >= from && each < to).length;
    expect(share(16, 20)).toBeGreaterThan(3 * share(0, 4));
  });

  test('has only addresses that nobody can own', async () => {
    const sandbox = await startSandbox(some);
    for (const user of sandbox.control.dump('users')) {
      expect(user['email']).toMatch(/^[a-z0-9._-]+@(?:[a-z]+\.example|example\.(?:com|net|org))$/);
    }
  });
});
