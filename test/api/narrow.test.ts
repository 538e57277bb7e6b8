import { assert, asyncProperty, constantFrom, integer, record, uniqueArray } from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Page } from '../../src/api/envelope.ts';
import { ServerFailed } from '../../src/api/errors.ts';
import { type RequestPage, countOf, Reach, readingRecords, readPage } from '../../src/api/narrow.ts';

interface Host {
  readonly total: number;
  /** The total that the server reports, which may be stale. */
  readonly says?: number;
  /** Places of unreadable records, from 1. */
  readonly bad: readonly number[];
  /** The largest page that the server can deliver. */
  readonly most: number;
}

/** A list whose records have their place as id, and the requests for it. */
function listOf({ total, says = total, bad, most }: Host): { readonly ask: RequestPage; readonly asked: string[] } {
  const asked: string[] = [];
  const ask: RequestPage = async (page, size) => {
    asked.push(`${page}x${size}`);
    const first = (page - 1) * size + 1;
    const places = Array.from({ length: Math.max(0, Math.min(size, total - first + 1)) }, (_, at) => first + at);
    if (places.length > most || places.some((place) => bad.includes(place))) {
      throw new ServerFailed(`page ${page} of ${size} failed`, 500, { smallerMayHelp: true });
    }
    const records = places.map((id) => ({ id }));
    const lastPage = Math.max(1, Math.ceil(says / size));
    return Promise.resolve({ page, perPage: size, lastPage, total: says, records, text: '', milliseconds: 0 });
  };
  return { ask, asked };
}

async function pagesOf(host: Host, size: number, reach = new Reach()): Promise<{ pages: Page[]; asked: string[] }> {
  const { ask, asked } = listOf(host);
  const pages: Page[] = [];
  for (let page = Math.max(1, Math.ceil(host.total / size)); page >= 1; page -= 1) {
    pages.unshift(await readPage(readingRecords(ask), page, size, reach));
  }
  return { pages, asked };
}

describe('pages that the server cannot deliver', () => {
  const hosts = record({
    total: integer({ min: 1, max: 400 }),
    size: integer({ min: 2, max: 150 }),
    most: constantFrom(Infinity, 90, 20, 7, 1),
    drawn: uniqueArray(integer({ min: 1, max: 400 }), { maxLength: 6 }),
  });

  test('are split down to the unreadable records, and all others come once and in order', async () => {
    await assert(
      asyncProperty(hosts, async ({ total, size, most, drawn }) => {
        const bad = drawn.filter((place) => place <= total);
        const reach = new Reach();
        reach.failuresLeft = Infinity;
        const { pages, asked } = await pagesOf({ total, bad, most }, size, reach).catch(() => ({
          pages: [],
          asked: [],
        }));
        const good = Array.from({ length: total }, (_, at) => at + 1).filter((place) => !bad.includes(place));
        const unreadable = pages.flatMap((page) => page.unreadable ?? []);
        const shown = {
          records: pages.flatMap(({ records }) => records.map(({ id }) => id)),
          bad: unreadable.map(({ first }) => first).sort((x, y) => x - y),
          count: countOf(unreadable),
          totals: [...new Set(pages.map((page) => page.total))],
          // An unreadable record is no reason for smaller pages.
          isSizeRight: most >= size ? reach.size === Infinity : reach.size >= Math.ceil(most / 2),
        };
        const whole = { records: good, bad: bad.toSorted((x, y) => x - y), count: bad.length, totals: [total] };
        // If neither the first record nor the page beyond the end comes, the list itself fails.
        const nothing = { records: [], bad: [], count: 0, totals: [] };
        const isLost = asked.length === 0 && bad.includes(1);
        expect(shown).toEqual({ ...(isLost ? nothing : whole), isSizeRight: true });
      }),
      { numRuns: 400, seed: 1 },
    );
  });

  test.each([0.3, 0.5, 0.7, 0.9])('at random, %s of all requests, say nothing of the size of pages', async (share) => {
    // The same numbers in each run of the test.
    let state = 1;
    const random = () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
    const { ask } = listOf({ total: 2_000, bad: [], most: Infinity });
    const moody: RequestPage = (page, size, patience) => {
      const tries = Array.from({ length: patience?.pageAttempts ?? 8 }, random);
      if (tries.some((each) => each >= share)) return ask(page, size);
      return Promise.reject(new ServerFailed('a bad moment', 500, { smallerMayHelp: true }));
    };
    const sizes: number[] = [];
    for (let night = 0; night < 100; night += 1) {
      const reach = new Reach();
      for (let page = 20; page >= 1; page -= 1) {
        await readPage(readingRecords(moody), page, 100, reach).catch(() => {});
      }
      sizes.push(reach.size);
    }
    expect(new Set(sizes)).toEqual(new Set([Infinity]));
  });

  test('show every record, even if the total is stale', async () => {
    const stale = record({ total: integer({ min: 1, max: 60 }), more: integer({ min: -30, max: 30 }) });
    await assert(
      asyncProperty(stale, constantFrom(1, 2, 7), constantFrom(Infinity, 3), async ({ total, more }, most, size) => {
        const reach = new Reach();
        reach.size = size;
        const { pages } = await pagesOf({ total, says: Math.max(0, total + more), bad: [], most }, 10, reach);
        expect(pages.flatMap(({ records }) => records.map(({ id }) => id))).toHaveLength(total);
        expect(pages.flatMap(({ unreadable }) => unreadable ?? [])).toEqual([]);
      }),
      { numRuns: 300, seed: 1 },
    );
  });

  test('without readable records are reported as such, even if smaller ones were requested from the start', async () => {
    const bad = Array.from({ length: 10 }, (_, at) => 11 + at);
    const reach = new Reach();
    reach.size = 5;
    const { ask } = listOf({ total: 100, bad, most: Infinity });
    const page = await readPage(readingRecords(ask), 2, 10, reach);
    expect(page).toMatchObject({ page: 2, perPage: 10, lastPage: 10, total: 100, records: [] });
    expect(countOf(page.unreadable ?? [])).toBe(10);
    const lost = (): Promise<Page> => Promise.reject(new ServerFailed('failed', 500, { smallerMayHelp: true }));
    await expect(readPage(readingRecords(lost), 2, 10, reach)).rejects.toThrow(ServerFailed);
  });

  test('do not hold what is beyond the end of the list, if the server fails there', async () => {
    const { ask } = listOf({ total: 15, bad: [], most: Infinity });
    const failing: RequestPage = (page, size) =>
      (page - 1) * size < 15 ? ask(page, size) : Promise.reject(new ServerFailed('no', 500, { smallerMayHelp: true }));
    const reach = new Reach();
    reach.size = 2;
    const page = await readPage(readingRecords(failing), 2, 10, reach);
    expect(page.records.map(({ id }) => id)).toEqual([11, 12, 13, 14, 15]);
    expect(page.unreadable).toEqual([]);
  });

  test('cost about 3 log2(size) requests per unreadable record', async () => {
    for (const size of [1_000, 100, 15]) {
      const { asked } = await pagesOf({ total: 10_000, bad: [5_432], most: Infinity }, size);
      expect(asked.length - 10_000 / size).toBeLessThanOrEqual(3 * Math.ceil(Math.log2(size)) + 3);
    }
  });

  test('are split up to a limit of failures, and the rest is reported as ranges', async () => {
    const bad = Array.from({ length: 3_000 }, (_, at) => 1_001 + at);
    const { pages, asked } = await pagesOf({ total: 5_000, bad, most: Infinity }, 500);
    expect(countOf(pages.flatMap((page) => page.unreadable ?? []))).toBe(3_000);
    expect(pages.flatMap(({ records }) => records)).toHaveLength(2_000);
    expect(asked.length).toBeLessThan(300);
  });

  test('are not split if the list itself fails', async () => {
    const { ask, asked } = listOf({ total: 0, bad: [], most: -1 });
    await expect(readPage(readingRecords(ask), 1, 1_000, new Reach())).rejects.toThrow('page 1 of 1000 failed');
    expect(asked).toEqual(['1x1000', '1x1', '1001x1']);
  });
});
