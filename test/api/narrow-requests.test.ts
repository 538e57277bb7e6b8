import { describe, expect, test } from 'vitest';
import type { Page } from '../../src/api/envelope.ts';
import { KeyRefused, ServerFailed, Unreachable } from '../../src/api/errors.ts';
import {
  Reach,
  readingRecords,
  readPage,
  type RequestPage,
  walkPages,
  describeUnreadable,
} from '../../src/api/narrow.ts';
import { IncompleteError } from '../../src/model/errors.ts';
import { silentLog } from '../../src/model/log.ts';

interface Host {
  readonly total: number;
  readonly bad?: readonly number[];
  readonly most?: number;
  /** Failures of single requests, by their name in `asked`. */
  readonly failures?: Readonly<Record<string, Error>>;
  /** Records per page, whatever size is requested. */
  readonly always?: number;
  /** How often a page fails before it comes. */
  readonly moods?: Map<string, number>;
}

const tooLarge = (name: string): Error => new ServerFailed(`${name} failed`, 500, { smallerMayHelp: true });

/** A list whose records have their place as id. `asked` names requests as `page×size`, with a `!` per allowed try. */
function listOf({ total, bad = [], most = Infinity, failures = {}, always, moods = new Map() }: Host) {
  const asked: string[] = [];
  const ask: RequestPage = (page, requested, patience) => {
    const size = always ?? requested;
    const name = `${page}×${requested}`;
    asked.push(`${name}${'!'.repeat(patience?.pageAttempts ?? 0)}`);
    const failure = failures[name];
    if (failure !== undefined) return Promise.reject(failure);
    const mood = moods.get(name) ?? 0;
    moods.set(name, mood - 1);
    const first = (page - 1) * size + 1;
    const places = Array.from({ length: Math.max(0, Math.min(size, total - first + 1)) }, (_, at) => first + at);
    if (mood > 0 || places.length > most || places.some((place) => bad.includes(place))) {
      return Promise.reject(tooLarge(name));
    }
    const records = places.map((id) => ({ id }));
    const lastPage = Math.max(1, Math.ceil(total / size));
    return Promise.resolve({ page, perPage: size, lastPage, total, records, text: '', milliseconds: 0 });
  };
  return { ask, asked };
}

const idsOf = ({ records }: Page) => records.map(({ id }) => id);

async function read(host: Host, page: number, size: number, reach = new Reach()) {
  const { ask, asked } = listOf(host);
  const got = await readPage(readingRecords(ask), page, size, reach);
  return { asked: asked.join(' '), reach, page: got, parts: (got.parts ?? []).map(idsOf) };
}

const upTo = (last: number, first = 1) => Array.from({ length: last - first + 1 }, (_, at) => first + at);

describe('a page that the server cannot deliver', () => {
  test('is halved from the end until its parts come, and is compared with smaller pages before it counts as too large', async () => {
    const { asked, reach, page, parts } = await read({ total: 40, most: 5 }, 2, 16);
    expect(asked).toBe('2×16 1×1! 4×8! 8×4! 7×4! 3×8! 3×4! 4×8! 4×4! 3×8! 3×4! 4×8! 4×4! 6×4! 5×4!');
    expect(parts).toEqual([upTo(32, 29), upTo(28, 25), upTo(24, 21), upTo(20, 17)]);
    expect(page).toMatchObject({ page: 2, perPage: 16, lastPage: 3, total: 40, unreadable: [] });
    expect(idsOf(page)).toEqual(upTo(32, 17));
    expect(reach).toMatchObject({ size: 4, fails: 8, lasting: true, failuresLeft: 199 });
  });

  test('is read in small pages from the start once the server has shown which size works', async () => {
    const reach = new Reach();
    await read({ total: 16, most: 5 }, 1, 16, reach);
    expect((await read({ total: 16, most: 5 }, 1, 16, reach)).asked).toBe('4×4! 3×4! 2×4! 1×4!');
    // The largest size that works.
    expect((await read({ total: 16, most: 5 }, 1, 4, reach)).asked).toBe('1×4!!');
  });

  test('is neither requested nor judged as a whole if its size is known to fail', async () => {
    const reach = new Reach();
    reach.size = 12;
    expect((await read({ total: 40, most: 13 }, 1, 16, reach)).asked).toBe('2×8! 1×8!');
    expect(reach.size).toBe(12);
  });

  test('that the list does not fill is judged, too', async () => {
    const { asked, reach } = await read({ total: 11, most: 3 }, 1, 16);
    expect(asked).toBe('1×16 1×1! 2×8! 2×6! 4×3! 3×3! 1×6! 1×3! 2×6! 2×3! 1×6! 1×3! 2×6! 2×3! 2×3! 1×3!');
    expect(reach.size).toBe(3);
  });

  test('that is at most half full does not limit the page size', async () => {
    expect((await read({ total: 24, most: 7 }, 2, 16)).reach.size).toBe(Infinity);
    expect((await read({ total: 25, most: 7 }, 2, 16)).reach.size).toBe(5);
    // Nor does such a part: the list ends with the first of its four places.
    const parts = Object.fromEntries(['1×32', '2×15', '3×8', '4×8', '8×4'].map((name) => [name, tooLarge(name)]));
    const { asked, reach } = await read({ total: 29, failures: parts }, 1, 32);
    expect(asked.split(' ').filter((each) => each === '8×4!')).toHaveLength(1);
    expect(reach.size).toBe(4);
  });

  test('of one record is requested again, and does not limit the page size', async () => {
    const { asked, reach } = await read({ total: 5, moods: new Map([['3×1', 1]]) }, 3, 1);
    expect(asked).toBe('3×1 1×1! 3×1!!');
    expect(reach).toEqual(new Reach());
  });

  test('is judged by a part that failed, once all records of that part came', async () => {
    const moods = new Map([
      ['1×16', 5],
      ['2×8', 1],
    ]);
    const { asked, reach } = await read({ total: 16, moods }, 1, 16);
    const inTurns = '1×16! 1×8! 1×16! 1×8! 1×16! 1×8! 1×16! 1×8!';
    // The part itself is cleared by another page of its size.
    expect(asked).toBe(`1×16 1×1! 2×8! 4×4! 3×4! 1×8! 1×8! ${inTurns}`);
    expect(reach).toMatchObject({ size: 8, fails: 16, lasting: true, failuresLeft: 199, suspicionsLeft: 2 });
  });

  test.each([
    ['another page of its size comes', { failures: { '3×16': tooLarge('3×16') } }, '2×16!'],
    [
      'the same page comes now',
      {
        moods: new Map([
          ['3×16', 1],
          ['2×16', 9],
        ]),
      },
      '2×16! 2×8! 3×16!',
    ],
    [
      'a smaller page with its number fails, too',
      { failures: Object.fromEntries(['3×16', '2×16', '3×8'].map((name) => [name, tooLarge(name)])) },
      '2×16! 2×8! 3×16! 3×8!',
    ],
  ])('does not limit the page size if %s', async (_, host, tried) => {
    const { asked, reach, page } = await read({ total: 64, ...host }, 3, 16);
    expect(asked).toBe(`3×16 1×1! 6×8! 5×8! ${tried}`);
    expect(idsOf(page)).toEqual(upTo(48, 33));
    expect(reach).toMatchObject({ size: Infinity, fails: Infinity, lasting: false, suspicionsLeft: 2 });
  });

  test('does not limit the page size if one of its parts that came is as large', async () => {
    const failures = Object.fromEntries(['1×16', '1×8', '2×8'].map((name) => [name, tooLarge(name)]));
    const asOne = await read({ total: 16, failures: { ...failures } }, 1, 16);
    expect(asOne.reach.size).toBe(4);
    const { ['2×8']: _, ...others } = failures;
    const { asked, reach } = await read({ total: 16, failures: others }, 1, 16);
    expect(asked).toBe('1×16 1×1! 2×8! 1×8! 2×4! 1×4! 1×16! 1×8!');
    expect(reach).toMatchObject({ size: Infinity, suspicionsLeft: 2 });
  });

  test('is no longer suspected after three sizes that were not the cause', async () => {
    const reach = new Reach();
    const failures = { '2×16': tooLarge('2×16') };
    for (let time = 0; time < 3; time += 1) await read({ total: 64, failures }, 2, 16, reach);
    expect(reach).toMatchObject({ size: Infinity, suspicionsLeft: 0 });
    expect((await read({ total: 64, failures }, 2, 16, reach)).asked).toBe('2×16 1×1! 4×8! 3×8!');
  });

  test('does not limit the page size if the failure was temporary', async () => {
    const { asked, reach } = await read({ total: 16, moods: new Map([['1×16', 1]]) }, 1, 16);
    expect(asked).toBe('1×16 1×1! 2×8! 1×8! 1×16!');
    expect(reach).toMatchObject({ size: Infinity, fails: Infinity, lasting: false, failuresLeft: 200 });
  });

  test('with an unreadable record is not too large; the record is tried twice', async () => {
    const { asked, reach, page, parts } = await read({ total: 20, bad: [18] }, 2, 16);
    expect(asked).toBe('2×16 1×1! 3×8! 6×4! 10×2! 9×2! 18×1!! 17×1!!');
    expect(parts).toEqual([[19, 20], [17]]);
    expect(page.unreadable).toEqual([{ first: 18, last: 18, problem: '18×1 failed' }]);
    expect(reach).toMatchObject({ size: Infinity, fails: Infinity, lasting: true });
    // From now on whole pages are tried twice, too.
    expect((await read({ total: 20, bad: [18] }, 2, 16, reach)).asked).toMatch(/^2×16!! 1×1! /);
  });

  test('without readable records has one part without records', async () => {
    const { asked, page, parts } = await read({ total: 16, bad: [1, 2] }, 1, 2);
    expect(asked).toBe('1×2 1×1! 3×1! 2×1!! 1×1!!');
    expect(parts).toEqual([[]]);
    expect(page.unreadable?.map(({ first }) => first)).toEqual([2, 1]);
  });

  test('beyond the limit of failures is reported as one unread range', async () => {
    const reach = new Reach();
    reach.failuresLeft = 1;
    const { asked, page } = await read({ total: 16, bad: [10] }, 1, 16, reach);
    expect(asked).toBe('1×16 1×1! 2×8! 1×8!');
    expect(page.unreadable).toEqual([{ first: 9, last: 16, problem: '2×8 failed' }]);
    expect(reach.lasting).toBe(true);
  });

  test.each([
    ['1×16', '1×16'],
    ['1×1', '1×16 1×1!'],
    ['2×8', '1×16 1×1! 2×8!'],
  ])('is abandoned if the key is refused at %s', async (at, requests) => {
    const refused = new KeyRefused('401', 401);
    const { ask, asked } = listOf({ total: 16, most: 5, failures: { [at]: refused } });
    await expect(readPage(readingRecords(ask), 1, 16, new Reach())).rejects.toBe(refused);
    expect(asked.join(' ')).toBe(requests);
  });

  test('is abandoned if the key is refused while its size is judged', async () => {
    const refused = new KeyRefused('401', 401);
    const { ask } = listOf({ total: 16, most: 5 });
    let times = 0;
    const refusing: RequestPage = (page, size, patience) =>
      page === 2 && size === 8 && (times += 1) === 2 ? Promise.reject(refused) : ask(page, size, patience);
    await expect(readPage(readingRecords(refusing), 1, 16, new Reach())).rejects.toBe(refused);
  });

  test('is refused with the first failure if smaller pages come in another size', async () => {
    const { ask } = listOf({ total: 400, always: 15, failures: { '1×16': tooLarge('1×16') } });
    await expect(readPage(readingRecords(ask), 1, 16, new Reach())).rejects.toThrow('1×16 failed');
    const reach = new Reach();
    reach.size = 8;
    const problem = 'pages of 8 records were requested, and pages of 15 came';
    await expect(readPage(readingRecords(ask), 1, 16, reach)).rejects.toThrow(problem);
  });
});

/** The list, if the server fails beyond its end. */
function failingBehind(ask: RequestPage, end: number, said: number): RequestPage {
  return async (page, size, patience) => {
    const got = await ask(page, size, patience);
    if ((page - 1) * size >= end) throw tooLarge(`${page}×${size}`);
    return { ...got, total: said };
  };
}

describe('the end of a list that fails beyond it', () => {
  const stale = (most: number, failures: Readonly<Record<string, Error>> = {}) => {
    const { ask, asked } = listOf({ total: 20, most, failures });
    const saying: RequestPage = async (...request) => ({ ...(await ask(...request)), total: 17 });
    const reach = new Reach();
    reach.size = 4;
    return { asked, page: () => readPage(readingRecords(saying), 2, 16, reach) };
  };

  test('is searched from the total on, because the total may be stale', async () => {
    const { asked, page } = stale(4);
    const { records, lastPage } = await page();
    expect(records.map(({ id }) => id)).toEqual([17, 18, 19, 20]);
    expect(lastPage).toBe(2);
    expect(asked.join(' ')).toBe('8×4! 5×4! 6×4! 5×4!');
  });

  test('leaves out pages without records that were requested beyond it', async () => {
    const reach = new Reach();
    reach.size = 4;
    expect(await read({ total: 20 }, 2, 16, reach)).toMatchObject({
      asked: '8×4! 6×4! 5×4!',
      parts: [[17, 18, 19, 20]],
    });
  });

  test.each([
    { total: 20, said: 17, page: 2, size: 16, most: 4, shown: [17, 18, 19, 20] },
    { total: 30, said: 30, page: 2, size: 20, most: 16, shown: upTo(30, 21) },
  ])(
    'is found with few requests that do not count as failures: total $said of $total',
    async ({ total, said, page, size, most, shown }) => {
      const { ask, asked } = listOf({ total });
      const reach = new Reach();
      reach.size = most;
      const got = await readPage(readingRecords(failingBehind(ask, total, said)), page, size, reach);
      expect(idsOf(got)).toEqual(shown);
      expect(got.unreadable).toEqual([]);
      expect(asked.length).toBeLessThan(12);
      expect(reach.failuresLeft).toBe(200);
    },
  );

  test('does not count records as unreadable that were deleted meanwhile', async () => {
    let total = 20;
    const shrinking: RequestPage = (page, size, patience) => {
      const { ask } = listOf({ total, bad: [18, 20] });
      // The last record disappears once it was requested alone.
      if (page === 20 && size === 1) total = 18;
      return ask(page, size, patience);
    };
    const { unreadable } = await readPage(readingRecords(shrinking), 2, 16, new Reach());
    expect(unreadable?.map(({ first, last }) => [first, last])).toEqual([[18, 18]]);
  });

  test('is taken from the total if pages come in another size', async () => {
    const { ask, asked } = listOf({ total: 400, always: 15, failures: { '1×16': tooLarge('1×16') } });
    const saying: RequestPage = async (...request) => ({ ...(await ask(...request)), total: 5 });
    await expect(readPage(readingRecords(saying), 1, 16, new Reach())).rejects.toThrow('1×16 failed');
    expect(asked.join(' ')).toBe('1×16 1×1! 1×8! 2×3!');
  });

  test('is searched in smaller pages if one fails', async () => {
    const { asked, page } = stale(4, { '5×4': tooLarge('5×4') });
    expect((await page()).records.map(({ id }) => id)).toEqual([17, 18, 19, 20]);
    expect(asked.join(' ')).toContain('5×4! 9×2! 10×2! 11×2!');
  });

  test('is not searched further if the key is refused', async () => {
    const refused = new KeyRefused('401', 401);
    const { page } = stale(4, { '6×4': refused });
    await expect(page()).rejects.toBe(refused);
  });
});

describe('unreadable records', () => {
  const at = (first: number, last = first) => ({ first, last, problem: `the server failed at ${first}` });

  test.each([
    [[at(7)], '1 record cannot be read, number 7 of the list: the server failed at 7'],
    [[at(9), at(3, 5)], '4 records cannot be read, numbers 3 to 5, 9 of the list: the server failed at 3'],
    [
      [5, 4, 3, 2, 1].map((each) => at(each)),
      '5 records cannot be read, numbers 1, 2, 3, 4, 5 of the list: the server failed at 1',
    ],
    [
      [6, 5, 4, 3, 2, 1].map((each) => at(each)),
      '6 records cannot be read, numbers 1, 2, 3, 4, 5, … of the list: the server failed at 1',
    ],
  ])('are named by place and in order, the first five of them', (unreadable, words) => {
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
