/** The search for the end of a list, over lists in memory: what is found, and the requests for it. */
import { describe, expect, test } from 'vitest';
import { NotFound, RefusedInput, ServerFailed } from '../../src/api/errors.ts';
import { lastByTotal, lastShown, type ReadPageAt } from '../../src/mirror/list-end.ts';
import type { MirrorPage } from '../../src/mirror/page.ts';
import { ids, portsOver } from '../support/walked-list.ts';

describe('the last page that shows records', () => {
  /** The page that is found from this one on, and the pages that were requested for it. */
  async function found(count: number, from: number, most = Infinity, isDoubted?: boolean) {
    const { portsOf, pages } = portsOver({ ids: ids(count) });
    const { read } = portsOf(10);
    const page = await read(from);
    pages.length = 0;
    const last = await lastShown(read, page, most, isDoubted);
    return [last.page, pages];
  }

  test.each([
    ['is the last one by the total if that is not full', 25, 3, [3, []]],
    ['is confirmed by one request behind it if it is full', 30, 3, [3, [4]]],
    ['is found in growing steps forward, then by halves', 155, 3, [16, [4, 6, 10, 18, 14, 16, 17]]],
    ['is one step back if the total is a little too large', 25, 4, [3, [3]]],
    ['is found in a few steps back, then by halves', 25, 12, [3, [11, 3, 7, 5, 4]]],
    ['is found by halves if a step back would lead to the first page', 15, 10, [2, [9, 3, 2]]],
    ['is the first page if that is empty', 0, 1, [1, []]],
    ['is the first page if all are empty, after a few requests', 0, 6, [1, [5, 2, 1]]],
    ['is found even if the total is huge', 25, 1e9, [3, expect.any(Array)]],
  ] as const)('%s', async (_, count, from, expected) => {
    expect(await found(count, from)).toEqual(expected);
  });

  test('is not searched for beyond the limit; a doubted page is checked with one request behind it', async () => {
    expect(await found(1_000, 3, 45)).toEqual([6, [4, 6]]);
    expect(await found(1_000, 3, 40)).toEqual([6, [4, 6]]);
    expect(await found(25, 3, Infinity, true)).toEqual([3, [4]]);
    const [, pages] = await found(25, 1e9);
    expect((pages as number[]).length).toBeLessThan(40);
  });

  /** The page that is found on a server without pages after the eighth, and the requests that were marked as behind the end. */
  async function foundOver(error: Error, count: number, from: number) {
    const list = portsOver({ ids: ids(count) }).portsOf(10);
    const behind: number[] = [];
    const page = await list.read(from);
    const read: ReadPageAt = async (number, isBehind) => {
      if (isBehind === true) behind.push(number);
      if (number > 8) throw error;
      return list.read(number);
    };
    return [(await lastShown(read, page, Infinity)).page, behind];
  }
  const refused = new RefusedInput('too deep', 422, []);

  test.each([
    ['is refused', refused],
    ['fails', new ServerFailed('broken', 500, { smallerMayHelp: true })],
  ])('is the one before a page that %s', async (_, error) => {
    expect(await foundOver(error, 80, 8)).toEqual([8, [9]]);
    expect(await foundOver(error, 300, 5)).toEqual([8, [6, 8, 12, 10, 9]]);
    // A few steps back, which may all be behind the end.
    expect(await foundOver(error, 25, 7)).toEqual([3, [4, 3]]);
  });

  test('is not known if a page is refused before any showed records, or if the server is away', async () => {
    await expect(foundOver(refused, 25, 12)).rejects.toBe(refused);
    const away = new ServerFailed('come back later', 503, { waitMs: 5 });
    await expect(foundOver(away, 80, 8)).rejects.toBe(away);
  });
});

describe('a last page by the total that is missing', () => {
  const refused = new RefusedInput('too deep', 422, []);
  const failed = new ServerFailed('broken', 500, { smallerMayHelp: true });
  const missing = new NotFound('no such page');
  const other = new ServerFailed('another page came', 200, { isWrongPage: true });

  /**
   * Pages of ten, of a list of 70 records of which only some pages come.
   * @param comes whether a page comes @param single what a record by itself gives
   */
  async function ended(
    failure: Error,
    end: number,
    comes: (page: number, isBehind: boolean) => boolean,
    single: (place: number) => 'comes' | 'empty' | 'fails' = () => 'fails',
  ) {
    const list = portsOver({ ids: ids(70) });
    const [page, one] = [list.portsOf(10).read, list.portsOf(1).read];
    const pages: string[] = [];
    const places: number[] = [];
    const read: ReadPageAt = async (number, isBehind = false) => {
      pages.push(`${number}${isBehind ? ' behind' : ''}`);
      if (!comes(number, isBehind)) throw failure;
      return page(number);
    };
    const readOne = async (place: number) => {
      places.push(place);
      if (single(place) === 'fails') throw failed;
      return single(place) === 'empty' ? { ...(await one(place)), ids: [] } : one(place);
    };
    const found = await lastByTotal(read, readOne, end).then(
      (each) => each.page,
      (thrown: unknown) => thrown,
    );
    return { found, pages, places };
  }

  test.each([
    ['is refused', refused],
    ['fails', failed],
    ['is not found', missing],
    ['is another one', other],
  ])(
    'and %s is replaced by the last page that comes, if two single records behind that do not come',
    async (_, error) => {
      const upTo = (page: number): boolean => page <= 3;
      const search = await ended(error, 7, upTo);
      expect(search).toMatchObject({ found: 3, places: [31, 32] });
      expect(search.pages.every((each) => each.endsWith('behind'))).toBe(true);
      expect(await ended(error, 7, upTo, () => 'empty')).toMatchObject({ found: 3, places: [31, 32] });
    },
  );

  test('is read if a single record behind the last page that comes shows that the list goes on', async () => {
    const comes = (page: number, isBehind: boolean): boolean => page <= 3 || !isBehind;
    expect(await ended(failed, 7, comes, () => 'comes')).toMatchObject({ found: 7, places: [31] });
    const second = await ended(failed, 7, comes, (place) => (place === 32 ? 'comes' : 'fails'));
    expect(second).toMatchObject({ found: 7, places: [31, 32] });
    expect(second.pages.at(-1)).toBe('7');
  });

  test('is an error if the list goes on and the server refuses the page', async () => {
    const upTo = (page: number): boolean => page <= 3;
    const search = await ended(refused, 7, upTo, () => 'comes');
    expect(search).toMatchObject({ found: refused, places: [31] });
    expect(search.pages).not.toContain('7');
    expect(await ended(refused, 7, () => false)).toMatchObject({ found: refused, places: [] });
    expect(await ended(failed, 7, (_, isBehind) => !isBehind)).toMatchObject({ found: 7, places: [] });
  });

  test('is an error at once if the error is not about the page', async () => {
    const away = new ServerFailed('come back later', 503, { waitMs: 5 });
    expect(await ended(away, 7, () => false)).toEqual({ found: away, pages: ['7 behind'], places: [] });
  });

  test('is not searched for if it comes or is the first', async () => {
    expect(await ended(failed, 7, () => true)).toEqual({ found: 7, pages: ['7 behind'], places: [] });
    expect(await ended(failed, 1, () => true)).toEqual({ found: 1, pages: ['1'], places: [] });
    expect(await ended(failed, 1, () => false)).toEqual({ found: failed, pages: ['1'], places: [] });
  });
});

describe('a server that gives its last page for each one behind it', () => {
  /** Pages of ten records; behind the third comes the third. */
  async function found(from: number, change: (page: MirrorPage) => Partial<MirrorPage> = () => ({})) {
    const list = portsOver({
      ids: ids(30),
      more: 40,
      change: (page) => (page.page <= 3 ? {} : { ids: ids(10, 21), ...change(page) }),
    });
    const { read } = list.portsOf(10);
    const last = await lastShown(read, await read(from), Infinity);
    return { page: last.page, requests: list.pages.length };
  }

  test.each([3, 4, 7])('is recognised from page %i on', async (from) => {
    const { page, requests } = await found(from);
    expect(page).toBe(3);
    expect(requests).toBeLessThan(10);
  });

  test('is not assumed if two pages only have a record in common', async () => {
    const { page } = await found(3, (each) => (each.page === 4 ? { ids: ids(10, 30) } : { ids: [] }));
    expect(page).toBe(4);
  });
});
