import { describe, expect, test } from 'vitest';
import { resourceNames, resourceOf } from '../../src/model/resources.ts';
import { startSandbox } from '../support/sandbox.ts';
import { call, column, ids, page } from './call.ts';

const everyKey = resourceNames.flatMap((name) => resourceOf(name).sortKeys.map((key) => [name, key] as const));

function ordered(values: readonly unknown[]): unknown[] {
  return values.toSorted((a, b) => {
    if (a === b) return 0;
    if (a === null) return -1;
    if (b === null) return 1;
    if (typeof a === 'number' && typeof b === 'number') return a - b;
    return Buffer.compare(Buffer.from(a as string), Buffer.from(b as string));
  });
}

describe('sorts', () => {
  test.each(everyKey)('%s can be sorted by %s, both ways', async (resource, key) => {
    const sandbox = await startSandbox({ emails: 400 });
    const up = await column(sandbox, `${resource}?paginate=400&sort[${key}]=asc`, key);
    expect(up).toEqual(ordered(up));
    expect(new Set(up).size).toBeGreaterThan(1);
    const down = await column(sandbox, `${resource}?paginate=400&sort[${key}]=desc`, key);
    expect(down).toEqual(ordered(up).toReversed());
  });

  test('apply in the order in which they are given', async () => {
    const sandbox = await startSandbox({ emails: 200 });
    const sorted = async (query: string): Promise<readonly (readonly unknown[])[]> =>
      (await page(sandbox, `emails?paginate=500&${query}`)).data.map((each) => [
        each['is_sent'],
        each['user_id'],
        each['id'],
      ]);
    const rows = sandbox.control
      .dump('emails')
      .map((each) => [each['is_sent'], each['user_id'], each['id']] as number[]);
    const by = (columns: readonly number[], signs: readonly number[]) =>
      rows.toSorted((a, b) => {
        for (const [at, column] of columns.entries()) {
          const difference = ((a[column] ?? 0) - (b[column] ?? 0)) * (signs[at] ?? 1);
          if (difference !== 0) return difference;
        }
        return 0;
      });
    expect(await sorted('sort[is_sent]=asc&sort[user_id]=desc')).toEqual(by([0, 1, 2], [1, -1, 1]));
    expect(await sorted('sort[user_id]=desc&sort[is_sent]=asc')).toEqual(by([1, 0, 2], [-1, 1, 1]));
  });

  test('at random differ on every request, and contain every record', async () => {
    const sandbox = await startSandbox({ users: 60 });
    const one = await ids(sandbox, 'users?paginate=60&sort[created_at]=random');
    const two = await ids(sandbox, 'users?paginate=60&sort[created_at]=random');
    expect(one).not.toEqual(two);
    expect(one.toSorted((a, b) => a - b)).toEqual(two.toSorted((a, b) => a - b));
    expect(new Set(one).size).toBe(60);
  });

  test('refuse an unknown key, and name the known ones', async () => {
    const sandbox = await startSandbox();
    const refused = await call(sandbox, '/api/v1/users?sort[id]=asc');
    expect(refused.status).toBe(400);
    expect(refused.text).toContain('first_name, last_name, username');
    expect((await call(sandbox, '/api/v1/users?sort=created_at')).status).toBe(422);
  });
});
