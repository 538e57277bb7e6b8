import { assert, asyncProperty, boolean, constantFrom, integer, record } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type ResourceName, resourceNames, resourceOf } from '../../src/model/resources.ts';
import { envelopeFields } from '../support/api-reference.ts';
import { startSandbox } from '../support/sandbox.ts';
import { ids, page } from './call.ts';

describe('the envelope', () => {
  test.each(resourceNames)('of %s has every field of the reference and no other', async (resource) => {
    const sandbox = await startSandbox();
    const first = await page(sandbox, resource);
    expect(Object.keys(first).sort()).toEqual(envelopeFields.map((field) => field.name).sort());
    expect(first.status).toBe(true);
  });

  test.each(resourceNames)(
    'of %s contains records with every field, in the order of the reference',
    async (resource) => {
      const sandbox = await startSandbox();
      const { data } = await page(sandbox, resource);
      const names = resourceOf(resource).fields.map((field) => field.name);
      expect(data.length).toBeGreaterThan(0);
      for (const each of data) expect(Object.keys(each)).toEqual(names);
    },
  );

  test('has fifteen records if no page size is given', async () => {
    const sandbox = await startSandbox({ users: 31 });
    const first = await page(sandbox, 'users');
    expect(first).toMatchObject({ per_page: 15, current_page: 1, from: 1, to: 15, total: 31, last_page: 3 });
    expect(first.data).toHaveLength(15);
    expect(await page(sandbox, 'users?page=3')).toMatchObject({ from: 31, to: 31, current_page: 3 });
  });

  test('links to the pages around it, and has null where there is no page', async () => {
    const sandbox = await startSandbox({ users: 31 });
    const path = `${sandbox.url}/api/v1/users`;
    const first = await page(sandbox, 'users');
    expect(first.path).toBe(path);
    expect(first.prev_page_url).toBeNull();
    expect(first.next_page_url).toBe(`${path}?page=2`);
    expect(first.first_page_url).toBe(`${path}?page=1`);
    expect(first.last_page_url).toBe(`${path}?page=3`);
    expect(first.links.at(0)).toMatchObject({ url: null, active: false });
    expect(first.links.at(0)?.label).toContain('Previous');
    expect(first.links.at(-1)?.label).toContain('Next');
    const last = await page(sandbox, 'users?page=3');
    expect(last.prev_page_url).toBe(`${path}?page=2`);
    expect(last.next_page_url).toBeNull();
    expect(last.links.at(-1)).toMatchObject({ url: null, active: false });
    expect(last.links.filter((link) => link.active).map((link) => link.label)).toEqual(['3']);
  });

  test('replaces omitted pages by an ellipsis', async () => {
    const sandbox = await startSandbox({ users: 60 });
    const labels = async (number: number): Promise<string> =>
      (await page(sandbox, `users?paginate=2&page=${number}`)).links
        .slice(1, -1)
        .map(({ label }) => label)
        .join(' ');
    expect(await labels(1)).toBe('1 2 3 4 ... 30');
    expect(await labels(5)).toBe('1 2 3 4 5 6 7 8 ... 30');
    expect(await labels(15)).toBe('1 ... 12 13 14 15 16 17 18 ... 30');
    expect(await labels(30)).toBe('1 ... 27 28 29 30');
  });

  test('contains everything for a page size of -1', async () => {
    const sandbox = await startSandbox({ users: 60 });
    const all = await page(sandbox, 'users?paginate=-1');
    expect(all.data).toHaveLength(60);
    expect(all.last_page).toBe(1);
  });

  test('omits the other parameters from its links', async () => {
    const sandbox = await startSandbox();
    const path = 'users?paginate=5&sort[created_at]=asc';
    expect((await page(sandbox, path)).next_page_url).toBe(`${sandbox.url}/api/v1/users?page=2`);
  });
});

describe('the largest page', () => {
  test('is cut to the limit', async () => {
    const sandbox = await startSandbox({ behaviour: { page_max: 20 } });
    expect(await page(sandbox, 'users?paginate=50')).toMatchObject({ per_page: 20, last_page: 3 });
    expect(await page(sandbox, 'users?paginate=-1')).toMatchObject({ per_page: 20 });
    expect(await page(sandbox, 'users?paginate=7')).toMatchObject({ per_page: 7 });
  });
});

test('a walk of every page in any order with a stable sort reads each record once', async () => {
  const sandbox = await startSandbox({ users: 83, packages: 9, emails: 47, coupons: 31, behaviour: { ties: 0.5 } });
  const walk = record({
    resource: constantFrom<ResourceName>(...resourceNames),
    size: integer({ min: 1, max: 40 }),
    direction: constantFrom('asc', 'desc'),
    backward: boolean(),
  });
  await assert(
    asyncProperty(walk, async ({ resource, size, direction, backward }) => {
      const order = resourceOf(resource)
        .walkOrder.map((key) => `sort[${key}]=${direction}`)
        .join('&');
      const path = `${resource}?paginate=${size}&${order}`;
      const { last_page: last } = await page(sandbox, path);
      const pages = Array.from({ length: last }, (_, at) => (backward ? last - at : at + 1));
      const seen: number[] = [];
      for (const number of pages) seen.push(...(await ids(sandbox, `${path}&page=${number}`)));
      const all = sandbox.control.dump(resource).map((each) => each['id'] as number);
      expect(seen.toSorted((a, b) => a - b)).toEqual(all);
    }),
    { numRuns: 30 },
  );
});
