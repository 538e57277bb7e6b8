import { assert, asyncProperty, constantFrom, integer, record, uniqueArray } from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Page } from '../../src/api/body.ts';
import { isPageFailure, KeyRefused, ServerFailed, Unreachable } from '../../src/api/errors.ts';
import {
  describeUnreadable,
  Reach,
  readingRecords,
  readPage,
  type RequestPage,
  walkPages,
} from '../../src/api/narrow.ts';
import { IncompleteError } from '../../src/model/errors.ts';
import { silentLog } from '../../src/model/log.ts';

interface Host {
  readonly total: number;
  /** The total that the server reports. */
  readonly says?: number;
  /** Places of unreadable records, from 1. */
  readonly bad?: readonly number[];
  /** The largest page that the server can make. */
  readonly most?: number;
  /** Records per page, whatever size is requested. */
  readonly always?: number;
  /** Failures of single requests, by their name in `asked`. */
  readonly failures?: Readonly<Record<string, Error>>;
}

const cannotMake = (name: string): Error => new ServerFailed(`${name} failed`, 500, { smallerMayHelp: true });

/** A list whose records have their place as id. `asked` names requests as `page×size`. */
function listOf({ total, says = total, bad = [], most = Infinity, always, failures = {} }: Host) {
  const asked: string[] = [];
  const ask: RequestPage = async (page, requested) => {
    const size = always ?? requested;
    const name = `${page}×${requested}`;
    asked.push(name);
    const failure = failures[name];
    if (failure !== undefined) throw failure;
    const places = upTo(Math.min(page * size, total), (page - 1) * size + 1);
    if (places.length > most || places.some((place) => bad.includes(place))) throw cannotMake(name);
    const records = places.map((id) => ({ id }));
    const lastPage = Math.max(1, Math.ceil(says / size));
    return Promise.resolve({ page, perPage: size, lastPage, total: says, records, text: '', milliseconds: 0 });
  };
  return { ask, asked };
}

const upTo = (last: number, first = 1) => Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => first + at);
const idsOf = ({ records }: Page) => records.map(({ id }) => id);

async function read(host: Host, page: number, size: number, reach = new Reach()) {
  const { ask, asked } = listOf(host);
  const got = await readPage(readingRecords(ask), page, size, reach);
  return { asked: asked.join(' '), reach, page: got, parts: (got.parts ?? []).map(idsOf) };
}

async function pagesOf(host: Host, size: number): Promise<{ pages: Page[]; asked: string[]; reach: Reach }> {
  const { ask, asked } = listOf(host);
  const pages: Page[] = [];
  const reach = new Reach();
  for (let page = Math.max(1, Math.ceil(host.total / size)); page >= 1; page -= 1) {
    const got = await readPage(readingRecords(ask), page, size, reach).catch((error: unknown) => {
      if (!isPageFailure(error)) throw error;
    });
    if (got !== undefined) pages.unshift(got);
  }
  return { pages, asked, reach };
}

describe('a page that the host cannot make', () => {
  test('is read as two halves, from the last to the first, and in the smaller size from then on', async () => {
    const { asked, reach, page, parts } = await read({ total: 40, most: 5 }, 2, 16);
    expect(asked).toBe('2×16 1×1 4×8 8×4 7×4 3×8 6×4 5×4');
    expect(parts).toEqual([upTo(32, 29), upTo(28, 25), upTo(24, 21), upTo(20, 17)]);
    expect(page).toMatchObject({ page: 2, perPage: 16, lastPage: 3, total: 40, unreadable: [] });
    expect(idsOf(page)).toEqual(upTo(32, 17));
    expect(reach).toMatchObject({ size: 4, lasting: false });
    expect((await read({ total: 40, most: 5 }, 1, 16, reach)).asked).toBe('4×4 3×4 2×4 1×4');
    expect((await read({ total: 40, most: 5 }, 1, 4, reach)).asked).toBe('1×4');
  });

  test.each([
    [15, '1×15 1×1 3×5 2×5 1×5 1×15'],
    [7, '1×7 1×1 7×1 6×1 5×1 4×1 3×1 2×1 1×1 1×7'],
  ])('of an odd size, %i, is read in parts that divide it', async (size, requests) => {
    const { asked, page } = await read({ total: 60, most: size - 1 }, 1, size);
    expect(asked).toBe(requests);
    expect(idsOf(page)).toEqual(upTo(size));
  });

  test('while another page of its size comes does not make pages smaller', async () => {
    const { asked, reach, page } = await read({ total: 64, failures: { '3×16': cannotMake('3×16') } }, 3, 16);
    expect(asked).toBe('3×16 1×1 6×8 5×8 2×16');
    expect(idsOf(page)).toEqual(upTo(48, 33));
    expect(reach.size).toBe(Infinity);
  });

  test('and has few records says nothing of the size that the host can make', async () => {
    const failures = { '2×16': cannotMake('2×16'), '1×16': cannotMake('1×16') };
    expect((await read({ total: 24, failures }, 2, 16)).reach.size).toBe(Infinity);
    expect((await read({ total: 25, failures }, 2, 16)).reach.size).toBe(8);
  });

  test('shows what lies behind the end of the list, and lies not there if the server fails', async () => {
    expect((await read({ total: 20, says: 17, failures: { '2×16': cannotMake('2×16') } }, 2, 16)).parts).toEqual([
      [17, 18, 19, 20],
    ]);
    const { ask } = listOf({ total: 15 });
    const failing: RequestPage = async (page, size) => {
      if ((page - 1) * size >= 15 || size > 5) throw cannotMake(`${page}×${size}`);
      return ask(page, size);
    };
    const page = await readPage(readingRecords(failing), 2, 10, new Reach());
    expect(idsOf(page)).toEqual(upTo(15, 11));
    expect(page.unreadable).toEqual([]);
  });

  test.each([
    ['1×16', '1×16'],
    ['1×1', '1×16 1×1'],
    ['2×8', '1×16 1×1 2×8'],
    ['4×4', '1×16 1×1 2×8 4×4'],
  ])('is abandoned if the key is refused at %s', async (at, requests) => {
    const refused = new KeyRefused('401', 401);
    const { ask, asked } = listOf({ total: 16, most: 5, failures: { [at]: refused } });
    await expect(readPage(readingRecords(ask), 1, 16, new Reach())).rejects.toBe(refused);
    expect(asked.join(' ')).toBe(requests);
  });

  test('is reported if its parts come in another size than requested', async () => {
    const { ask } = listOf({ total: 400, always: 15, failures: { '1×16': cannotMake('1×16') } });
    await expect(readPage(readingRecords(ask), 1, 16, new Reach())).rejects.toThrow(
      'pages of 8 records were requested, and pages of 15 came',
    );
  });

  test('fails at once if the list itself fails', async () => {
    const { ask, asked } = listOf({ total: 0, most: -1 });
    await expect(readPage(readingRecords(ask), 1, 1_000, new Reach())).rejects.toThrow('1×1000 failed');
    expect(asked).toEqual(['1×1000', '1×1', '1001×1']);
  });
});

describe('records that no page shows', () => {
  test('are named with their place and the words of the server, and do not make pages smaller', async () => {
    const { asked, reach, page, parts } = await read({ total: 20, bad: [18] }, 2, 16);
    expect(asked).toBe('2×16 1×1 4×8 3×8 6×4 5×4 10×2 9×2 18×1 17×1');
    expect(parts).toEqual([[19, 20], [17]]);
    expect(page.unreadable).toEqual([{ place: 18, problem: '18×1 failed' }]);
    expect(reach).toMatchObject({ size: Infinity, lasting: true });
  });

  test('may be all of a page', async () => {
    const { page, parts } = await read({ total: 16, bad: [1, 2] }, 1, 2);
    expect(parts).toEqual([[]]);
    expect(page).toMatchObject({ total: 16, lastPage: 8, records: [] });
    expect(page.unreadable?.map(({ place }) => place)).toEqual([2, 1]);
  });

  test('are not those that were deleted meanwhile', async () => {
    let total = 20;
    const shrinking: RequestPage = async (page, size) => {
      const { ask } = listOf({ total, bad: [18, 20] });
      // The last record disappears once it was requested alone.
      if (page === 20 && size === 1) total = 18;
      return ask(page, size);
    };
    const { unreadable } = await readPage(readingRecords(shrinking), 2, 16, new Reach());
    expect(unreadable?.map(({ place }) => place)).toEqual([18]);
  });

  test('are left out, whatever the host can make, and all others come once and in order', async () => {
    const hosts = record({
      total: integer({ min: 2, max: 400 }),
      size: integer({ min: 2, max: 150 }),
      most: constantFrom(Infinity, 90, 20, 7, 1),
      drawn: uniqueArray(integer({ min: 2, max: 400 }), { maxLength: 4 }),
    });
    await assert(
      asyncProperty(hosts, async ({ total, size, most, drawn }) => {
        const bad = drawn.filter((place) => place <= total).sort((x, y) => x - y);
        const { pages, reach } = await pagesOf({ total, bad, most }, size);
        const unreadable = pages.flatMap((page) => page.unreadable ?? []);
        expect(pages.flatMap(idsOf)).toEqual(upTo(total).filter((place) => !bad.includes(place)));
        expect(unreadable.map(({ place }) => place).sort((x, y) => x - y)).toEqual(bad);
        expect(most < size || reach.size === Infinity).toBe(true);
      }),
      { numRuns: 400, seed: 1 },
    );
  });

  test('cost some requests each, and beyond a bound their pages fail', async () => {
    const one = await pagesOf({ total: 10_000, bad: [5_432] }, 1_000);
    expect(one.asked.length - 10).toBeLessThanOrEqual(3 * Math.ceil(Math.log2(1_000)));
    const many = await pagesOf({ total: 5_000, bad: upTo(4_000, 1_001) }, 500);
    expect(many.asked.length).toBeLessThan(500);
    expect(many.pages.flatMap(idsOf)).toEqual([...upTo(1_000), ...upTo(5_000, 4_001)]);
    expect(many.pages).toHaveLength(4);
  });

  const at = (place: number) => ({ place, problem: `the server failed at ${place}` });

  test.each([
    [[at(7)], '1 record cannot be read, number 7 of the list: the server failed at 7'],
    [[at(9), at(3)], '2 records cannot be read, numbers 3, 9 of the list: the server failed at 3'],
    [
      [6, 5, 4, 3, 2, 1].map(at),
      '6 records cannot be read, numbers 1, 2, 3, 4, 5, … of the list: the server failed at 1',
    ],
  ])('are described by place and in order, the first five of them', (unreadable, words) => {
    expect(describeUnreadable(unreadable)).toBe(words);
  });
});

describe('a walk over the pages of a list', () => {
  async function walked(requestPage: RequestPage, first = 1, pageSize = 10) {
    const ids: unknown[] = [];
    const warned: unknown[] = [];
    const log = { ...silentLog, warn: (fields: object, message: string) => void warned.push({ ...fields, message }) };
    let failure: unknown;
    try {
      for await (const page of walkPages(requestPage, { resource: 'users', first, pageSize, log }))
        ids.push(...idsOf(page));
    } catch (error) {
      failure = error;
    }
    return { ids, warned, failure };
  }

  test('requests each page once, from the first to the last', async () => {
    const { ask, asked } = listOf({ total: 25 });
    expect(await walked(ask)).toEqual({ ids: upTo(25), warned: [], failure: undefined });
    expect(asked.join(' ')).toBe('1×10 2×10 3×10');
    asked.length = 0;
    expect((await walked(ask, 3)).ids).toEqual(upTo(25, 21));
    expect(asked.join(' ')).toBe('3×10');
  });

  test('continues in the page size that the server uses', async () => {
    const { ask, asked } = listOf({ total: 25, always: 15 });
    expect((await walked(ask, 1, 100)).ids).toEqual(upTo(25));
    expect(asked.join(' ')).toBe('1×100 2×15');
  });

  test('ends at an empty page, whatever the last page is said to be', async () => {
    const { ask, asked } = listOf({ total: 20 });
    const saying: RequestPage = async (...request) => ({ ...(await ask(...request)), lastPage: 9 });
    expect((await walked(saying)).ids).toEqual(upTo(20));
    expect(asked.join(' ')).toBe('1×10 2×10 3×10');
  });

  test('yields each id once, and records without an id as often as they come', async () => {
    const { ask } = listOf({ total: 20 });
    const sliding: RequestPage = async (page, ...rest) => {
      const got = await ask(page, ...rest);
      const records =
        page === 1 ? [{ id: null }, { name: 'x' }, { id: 5 }] : [{ id: null }, { name: 'x' }, { id: 5 }, { id: 6 }];
      return { ...got, records };
    };
    expect((await walked(sliding)).ids).toEqual([null, undefined, 5, null, undefined, 6]);
  });

  test('warns once if the number of records changes', async () => {
    let total = 40;
    const growing: RequestPage = async (...request) => listOf({ total: total++ }).ask(...request);
    const { warned } = await walked(growing);
    const message = 'the number of records changed: some may be missing';
    expect(warned).toEqual([{ resource: 'users', before: 40, now: 41, message }]);
  });

  test('ends with an error that names missing records, after all others', async () => {
    const { ask } = listOf({ total: 30, bad: [7, 22] });
    const { ids, failure } = await walked(ask);
    expect(ids).toEqual(upTo(30).filter((id) => id !== 7 && id !== 22));
    expect(failure).toBeInstanceOf(IncompleteError);
    expect(failure).toMatchObject({
      message: '2 records cannot be read, numbers 7, 22 of the list: 7×1 failed',
      advice: 'All other users were given.',
    });
  });

  test('continues after a page without readable records', async () => {
    const { ask } = listOf({ total: 6, bad: [3, 4] });
    const { ids, failure } = await walked(ask, 1, 2);
    expect(ids).toEqual([1, 2, 5, 6]);
    expect(failure).toBeInstanceOf(IncompleteError);
  });

  test('that loses the server is incomplete after the first page, and unreachable before', async () => {
    const lost = new Unreachable('no server');
    const behind = await walked(listOf({ total: 30, failures: { '2×10': lost } }).ask);
    expect(behind.ids).toEqual(upTo(10));
    expect(behind.failure).toBeInstanceOf(IncompleteError);
    expect((await walked(listOf({ total: 30, failures: { '1×10': lost } }).ask)).failure).toBe(lost);
  });
});
