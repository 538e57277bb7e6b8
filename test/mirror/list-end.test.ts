/** Where a list ends, over lists that are made up: what is found, and what is requested for it. */
import { describe, expect, test } from 'vitest';
import { NotFound, RefusedInput, ServerFailed } from '../../src/api/errors.ts';
import { lastByTotal, lastShown, type ReadPageAt } from '../../src/mirror/list-end.ts';
import type { MirrorPage } from '../../src/mirror/page.ts';
import { ids, portsOver } from '../support/walked-list.ts';

describe('the last page that shows records', () => {
  /** What is found from that page on, and what was requested for it. */
  async function found(count: number, from: number, most = Infinity, isDoubted?: boolean) {
    const { portsOf, pages } = portsOver({ ids: ids(count) });
    const { read } = portsOf(10);
    const page = await read(from);
    pages.length = 0;
    const last = await lastShown(read, page, most, isDoubted);
    return [last.page, pages];
  }

  test.each([
    ['is the last one by the total where that is not full', 25, 3, [3, []]],
    ['is found one request behind it where it is full', 30, 3, [3, [4]]],
    ['is found in ever longer steps forward, and then by halves', 155, 3, [16, [4, 6, 10, 18, 14, 16, 17]]],
    ['is one step back where the total is a little too large', 25, 4, [3, [3]]],
    ['is found in a few steps back, and then by halves', 25, 12, [3, [11, 3, 7, 5, 4]]],
    ['is found by halves where a step back would lead to the first page', 15, 10, [2, [9, 3, 2]]],
    ['is the first page where none shows any', 0, 1, [1, []]],
    ['is the first page of which none shows any, after a look at each half', 0, 6, [1, [5, 2, 1]]],
    ['is found in a few dozen requests where the total is beyond all measure', 25, 1e9, [3, expect.any(Array)]],
  ] as const)('%s', async (_, count, from, expected) => {
    expect(await found(count, from)).toEqual(expected);
  });

  test('is not sought further than may be read, and is behind a page that is doubted', async () => {
    expect(await found(1_000, 3, 45)).toEqual([6, [4, 6]]);
    expect(await found(1_000, 3, 40)).toEqual([6, [4, 6]]);
    expect(await found(25, 3, Infinity, true)).toEqual([3, [4]]);
    const [, pages] = await found(25, 1e9);
    expect((pages as number[]).length).toBeLessThan(40);
  });

  /** Of a server that shows no page behind the eighth; `behind`: pages that may lie behind the end, as they were requested. */
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
    // A few steps back, of which the first show nothing and the others may be behind the end.
    expect(await foundOver(error, 25, 7)).toEqual([3, [4, 3]]);
  });

  test('is not known where a page is refused and none has shown any, or the server is away', async () => {
    await expect(foundOver(refused, 25, 12)).rejects.toBe(refused);
    const away = new ServerFailed('come back later', 503, { waitMs: 5 });
    await expect(foundOver(away, 80, 8)).rejects.toBe(away);
  });
});

describe('a last page by the total that does not come', () => {
  const refused = new RefusedInput('too deep', 422, []);
  const failed = new ServerFailed('broken', 500, { smallerMayHelp: true });
  const missing = new NotFound('no such page');
  const other = new ServerFailed('another page came', 200, { isWrongPage: true });

  /**
   * Pages of ten, of a list of that many records of which only some pages come.
   * @param comes whether a page does @param single what comes by itself
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
    'and %s gives way to the last that does, once two records behind that did not come by themselves',
    async (_, error) => {
      const upTo = (page: number): boolean => page <= 3;
      const search = await ended(error, 7, upTo);
      expect(search).toMatchObject({ found: 3, places: [31, 32] });
      expect(search.pages.every((each) => each.endsWith('behind'))).toBe(true);
      expect(await ended(error, 7, upTo, () => 'empty')).toMatchObject({ found: 3, places: [31, 32] });
    },
  );

  test('is read in parts where a record behind the last page that comes shows that the list goes on', async () => {
    const comes = (page: number, isBehind: boolean): boolean => page <= 3 || !isBehind;
    expect(await ended(failed, 7, comes, () => 'comes')).toMatchObject({ found: 7, places: [31] });
    const second = await ended(failed, 7, comes, (place) => (place === 32 ? 'comes' : 'fails'));
    expect(second).toMatchObject({ found: 7, places: [31, 32] });
    expect(second.pages.at(-1)).toBe('7');
  });

  test('is an error where the list goes on and the server refuses the page', async () => {
    const upTo = (page: number): boolean => page <= 3;
    const search = await ended(refused, 7, upTo, () => 'comes');
    expect(search).toMatchObject({ found: refused, places: [31] });
    expect(search.pages).not.toContain('7');
    expect(await ended(refused, 7, () => false)).toMatchObject({ found: refused, places: [] });
    expect(await ended(failed, 7, (_, isBehind) => !isBehind)).toMatchObject({ found: 7, places: [] });
  });

  test('is the error that it was where the server says nothing of the page', async () => {
    const away = new ServerFailed('come back later', 503, { waitMs: 5 });
    expect(await ended(away, 7, () => false)).toEqual({ found: away, pages: ['7 behind'], places: [] });
  });

  test('is looked for nowhere else where it comes, or is the first', async () => {
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

  test.each([3, 4, 7])('shows where that is: from page %i on', async (from) => {
    const { page, requests } = await found(from);
    expect(page).toBe(3);
    expect(requests).toBeLessThan(10);
  });

  test('is not one whose pages have a record in common', async () => {
    const { page } = await found(3, (each) => (each.page === 4 ? { ids: ids(10, 30) } : { ids: [] }));
    expect(page).toBe(4);
  });
});
