/** Walks over a list that is made up here, page by page: what is requested in which order, and what is said of it. */
import { describe, expect, test } from 'vitest';
import type { Unreadable } from '../../src/api/envelope.ts';
import { NotFound, RefusedInput, ServerFailed } from '../../src/api/errors.ts';
import type { MirrorPage } from '../../src/mirror/page.ts';
import {
  lastByTotal,
  lastShown,
  problemOf,
  type Verdict,
  type WalkPorts,
  walkUncut,
  walkWindow,
} from '../../src/mirror/walk.ts';
import type { RecordKey } from '../../src/model/records.ts';
import { timestampOf } from '../../src/model/time.ts';

const start = Date.UTC(2026, 2, 11);
const createdAt = (id: RecordKey) => timestampOf(Date.UTC(2026, 0, 1) + Number(id) * 1_000);
const ids = (count: number, first = 1) => Array.from({ length: count }, (_, at) => first + at);

interface List {
  /** In the order of the list. */
  ids: RecordKey[];
  /** How many more the total counts. */
  more?: number;
  /** On a page, whatever is requested. */
  readonly perPage?: number;
  /** Called before each page is made. */
  readonly before?: (requests: number, list: List) => void;
  /** What is otherwise of a page than the list makes it. */
  readonly change?: (page: MirrorPage, requests: number) => Partial<MirrorPage>;
  readonly ports?: Partial<WalkPorts>;
}

interface Walked {
  readonly verdict: Verdict;
  /** The pages in the order in which they were requested. */
  readonly pages: readonly number[];
  /** Records on a page, for each pass. */
  readonly sizes: readonly number[];
  /** As whoever watches was shown. */
  readonly shown: readonly number[];
}

/** The list behind the ports of a walk, and what was requested of it. */
function portsOver(list: List) {
  const [pages, sizes, shown]: number[][] = [[], [], []];
  const read = (requested: number) => (page: number) => {
    const pageSize = list.perPage ?? requested;
    pages?.push(page);
    list.before?.(pages?.length ?? 0, list);
    const on = list.ids.slice((page - 1) * pageSize, page * pageSize);
    const total = list.ids.length + (list.more ?? 0);
    const lastPage = Math.max(1, Math.ceil(total / pageSize));
    const none = { field: [], rows: [], hash: '', milliseconds: 0 };
    const made: MirrorPage = {
      page,
      perPage: pageSize,
      lastPage,
      total,
      ids: on,
      createdAt: on.map(createdAt),
      ...none,
    };
    return Promise.resolve({ ...made, ...list.change?.(made, pages?.length ?? 0) });
  };
  const portsOf = (pageSize: number): WalkPorts => {
    sizes?.push(pageSize);
    return {
      clock: { now: () => start },
      pageSize,
      expected: list.ids.length + (list.more ?? 0),
      surplus: 0,
      past: 0,
      isOrdered: true,
      read: read(pageSize),
      record: () => ({ unusable: 0, twins: [] }),
      show: (records) => shown?.push(records),
      ...list.ports,
    };
  };
  return { portsOf, pages: pages ?? [], sizes: sizes ?? [], shown: shown ?? [] };
}

async function walked(list: List, passes = 1, most = Infinity, before?: Verdict): Promise<Walked> {
  const { portsOf, ...seen } = portsOver(list);
  const known = before?.kind === 'unstable' ? before : undefined;
  return { verdict: await walkWindow(portsOf, 10, most, passes, known), ...seen };
}

/** Without what was seen. */
function said(verdict: Verdict): string {
  return verdict.kind === 'settled' ? `settled, ${verdict.seen.size} of ${verdict.total}` : problemOf(verdict);
}

const settled = (seen: readonly RecordKey[], more: object = {}) => ({
  kind: 'settled',
  total: seen.length,
  seen: new Set(seen),
  startedAt: timestampOf(start),
  surplus: 0,
  past: 0,
  ...more,
});

describe('a walk', () => {
  test.each([
    ['from the last page to the first', 25, {}, [3, 2, 1]],
    ['by way of the first page where nothing is known of the list', 25, { expected: null }, [1, 3, 2, 1]],
    ['by way of the page that was the last one before', 25, { expected: 45 }, [5, 3, 2, 1]],
    ['with a look behind a last page that is full', 20, {}, [2, 3, 1]],
    ['over a list that is empty in one request', 0, {}, [1]],
    ['over one page in one request', 3, {}, [1]],
  ] as const)('goes %s', async (_, count, ports, pages) => {
    const all = ids(count);
    const walk = await walked({ ids: all, ports });
    expect(walk.pages).toEqual(pages);
    expect(walk.verdict).toEqual(settled(all));
  });

  test('tells whoever watches how many records it has seen', async () => {
    expect((await walked({ ids: ids(25) })).shown).toEqual([5, 15, 25]);
  });

  test('says of a list with more records than may be walked that it is large', async () => {
    const large = await walked({ ids: ids(25) }, 1, 24);
    expect([large.verdict, large.pages]).toEqual([{ kind: 'large', total: 25 }, [3]]);
    expect(problemOf(large.verdict as Exclude<Verdict, { kind: 'settled' }>)).toBe('it is too large to be read');
    expect((await walked({ ids: ids(25) }, 1, 25)).verdict.kind).toBe('settled');
    // Records that a total is known to count past the end are none; what shows beyond it counts.
    const past = { more: 20, ports: { surplus: 20, past: 20 } };
    expect((await walked({ ids: ids(25), ...past }, 1, 25)).verdict).toEqual(
      settled(ids(25), { total: 45, surplus: 20, past: 20 }),
    );
    expect((await walked({ ids: ids(25), ...past }, 1, 24)).verdict).toEqual({ kind: 'large', total: 45 });
    const hidden = await walked({ ids: ids(45), more: -20 }, 1, 40);
    expect([hidden.verdict, hidden.pages]).toEqual([{ kind: 'large', total: 45 }, [3, 4, 6, 5]]);
  });

  test('gives up a list whose last page is another one each time', async () => {
    const list: List = {
      ids: ids(25),
      before: (requests, each) => {
        each.ids = ids(requests % 2 === 1 ? 35 : 25);
      },
    };
    const walk = await walked(list);
    expect(said(walk.verdict)).toBe('its last page was another one each time');
    expect(walk.pages).toEqual([3, 4, 3]);
  });

  test('begins with the page that the server calls the last one, whatever its total', async () => {
    const list = { ids: ids(25), more: 20, ports: { expected: null, surplus: 20 }, change: () => ({ lastPage: 3 }) };
    expect((await walked(list)).pages).toEqual([1, 3, 2, 1]);
  });

  test('gives up where the size of pages changes', async () => {
    const change = ({ page }: MirrorPage) => (page === 1 ? { perPage: 5, ids: ids(5) } : {});
    const { verdict } = await walked({ ids: ids(25), change });
    expect(verdict).toEqual({
      kind: 'unstable',
      total: 25,
      problem: 'the page size changed from 10 to 5 during the walk',
    });
  });
});

describe('while a list is walked', () => {
  /** Changed just before the second request. */
  const changed = (change: (list: List) => void, count = 25, passes = 1) =>
    walked({ ids: ids(count), before: (requests, list) => void (requests === 2 && change(list)) }, passes);

  test.each([
    ['a record that was read is deleted', (list: List) => void list.ids.pop()],
    ['a record that is still to be read is deleted', (list: List) => void list.ids.shift()],
    ['a record comes in the middle', (list: List) => void list.ids.unshift(0)],
    [
      'one comes while one goes, and the total is the same',
      (list: List) => {
        list.ids.shift();
        list.ids.push(26);
      },
    ],
  ])('%s: it is walked again', async (_, change) => {
    const once = await changed(change);
    expect(once.verdict.kind).toBe('unstable');
    expect(said(once.verdict)).toMatch(
      /^records came or went while it was read \(2[46] at the end, 2[456] seen\)$|counts 25 records, its pages showed 24$/,
    );
    const again = await changed(change, 25, 3);
    expect(said(again.verdict)).toMatch(/^settled, (\d+) of \1$/);
  });

  test('records that are added at the end are read, and it is settled', async () => {
    const one = await changed((list) => list.ids.push(26));
    expect([one.verdict, one.pages]).toEqual([settled(ids(26)), [3, 2, 1, 3]]);
    const many = await changed((list) => list.ids.push(...ids(10, 26)));
    expect([many.verdict, many.pages]).toEqual([settled(ids(35)), [3, 2, 1, 3, 4]]);
    // The page was full, and so the first of them stand on the next.
    const full = await changed((list) => list.ids.push(21), 20);
    expect(full.verdict).toEqual(settled(ids(21)));
  });

  test('a record that is added and one that is deleted do not cancel out', async () => {
    const before: List['before'] = (requests, list) => {
      if (requests === 2) list.ids.push(26, 27);
      if (requests === 3) list.ids.shift();
    };
    const { verdict } = await walked({ ids: ids(25), before });
    expect(said(verdict)).toBe('records came or went while it was read (26 at the end, 26 seen)');
  });

  test.each([
    ['before all others', 0],
    ['just before the last', 24.5],
    ['at the time of the last', 25.0000001],
  ])('a record that was created %s does not count as added at the end', async (_, id) => {
    const { verdict } = await changed((list) => list.ids.splice(24, 0, id));
    expect(verdict.kind).toBe('unstable');
  });

  test('where records do not say in words when they were created, none counts as added at the end', async () => {
    const change = ({ ids: on }: MirrorPage) => ({ createdAt: on });
    const before: List['before'] = (requests, list) => void (requests === 2 && list.ids.push(26));
    expect((await walked({ ids: ids(25), before, change })).verdict.kind).toBe('unstable');
  });

  test('a total that was smaller in between is not one that only grew', async () => {
    // The record 25 was seen and goes, 10 is pushed past the reader: as many as there are were seen, and 10 was not.
    const before: List['before'] = (requests, list) => {
      if (requests === 2) list.ids.pop();
      if (requests === 3) list.ids = [0, ...list.ids, 26];
    };
    const { verdict } = await walked({ ids: ids(25), before });
    expect(said(verdict)).toBe('records came or went while it was read (26 at the end, 26 seen)');
  });

  test('a page that came again just as it was holds nothing that was added', async () => {
    const before: List['before'] = (requests, list) => void (requests === 2 && list.ids.push(26));
    const recalled = {
      key: '',
      hash: '',
      total: 25,
      lastPage: 3,
      perPage: 10,
      ids: ids(10, 11),
      owned: 10,
      rowsSum: 0,
    };
    const change = ({ page }: MirrorPage) =>
      page === 2 ? { ids: [], createdAt: [], recalled: { ...recalled, lastCreatedAt: createdAt(99) } } : {};
    expect((await walked({ ids: ids(25), before, change })).verdict).toEqual(settled(ids(26)));
  });
});

describe('what cannot be kept', () => {
  test.each([
    [1, /^1 record has no usable id/],
    [2, /^2 records have no usable id/],
  ])('makes a window unusable: %i on a page', async (unusable, words) => {
    let page = 0;
    const record = () => ({ unusable: (page += 1) === 1 ? unusable : 0, twins: [] });
    const { verdict } = await walked({ ids: ids(25), ports: { record } });
    expect(verdict).toMatchObject({ kind: 'unusable', total: 25 });
    expect(said(verdict)).toMatch(words);
  });

  test('are different records under one id, of which five are named', async () => {
    const record = ({ page }: MirrorPage) => ({ unusable: 0, twins: page === 1 ? ids(6) : [] });
    const { verdict } = await walked({ ids: ids(25), ports: { record } });
    expect(verdict).toEqual({
      kind: 'unstable',
      total: 25,
      problem: 'different records have the same id: 1, 2, 3, 4, 5',
      twins: ids(6),
    });
  });

  test('and what cannot be read is told apart from what is not shown', async () => {
    const unreadable: readonly Unreadable[] = [{ first: 3, last: 4, problem: 'HTTP 500' }];
    const without = ids(25).filter((id) => id !== 3 && id !== 4);
    const change = ({ page }: MirrorPage) =>
      page === 1 ? { ids: ids(10).filter((id) => id !== 3 && id !== 4), unreadable } : {};
    const { verdict } = await walked({ ids: ids(25), change });
    expect(verdict).toEqual({
      kind: 'damaged',
      total: 25,
      seen: new Set(without),
      unreadable,
      problem: '2 records cannot be read, numbers 3 to 4 of the list: HTTP 500',
    });
    // Another one is missing besides.
    const short = await walked({ ids: ids(25), more: 1, change });
    expect(said(short.verdict)).toBe('records came or went while it was read (26 at the end, 23 seen)');
  });

  test('pages that came in parts are kept part by part', async () => {
    const change = (made: MirrorPage) => {
      const { ids: _ids, ...page } = made;
      const half = (from: number) => ({ ...page, ids: made.ids.slice(from, from + 5), createdAt: [] });
      return made.page === 1 ? { parts: [half(5), half(0)] } : {};
    };
    const kept: number[] = [];
    const record = (page: MirrorPage) => {
      kept.push(page.ids.length);
      return { unusable: 0, twins: [] };
    };
    const { verdict } = await walked({ ids: ids(25), change, ports: { record } });
    expect([verdict, kept]).toEqual([settled(ids(25)), [5, 10, 5, 5]]);
  });
});

describe('a cache in front of the server', () => {
  const aged = (ages: readonly (number | undefined)[]) =>
    walked({
      ids: ids(25),
      change: (_, requests) => {
        const ageMs = ages[requests - 1];
        return ageMs === undefined ? {} : { ageMs };
      },
    });

  test('makes the window as old as its oldest page, and a second more', async () => {
    const older = { startedAt: timestampOf(start - 31_000) };
    expect((await aged([30_000, 30_000, 30_000])).verdict).toEqual(settled(ids(25), older));
    expect((await aged([29_000, 30_000, 30_000])).verdict).toEqual(settled(ids(25), older));
    expect((await aged([0, undefined, 0])).verdict).toEqual(
      settled(ids(25), { startedAt: timestampOf(start - 1_000) }),
    );
  });

  test('that gives an older page after a newer one makes it unstable', async () => {
    const { verdict } = await aged([undefined, 30_000, undefined]);
    expect(verdict).toEqual({
      kind: 'unstable',
      total: 25,
      problem: 'a cache in front of the server gave older pages after newer ones, up to 31 s old',
    });
    expect((await aged([5_000, 2_000, 5_000])).verdict.kind).toBe('unstable');
    // Pages that come out of no cache, and later, are not older.
    expect((await aged([30_000, undefined, undefined])).verdict.kind).toBe('settled');
  });

  test('is not seen in a clock that is set back', async () => {
    let now = start;
    const clock = { now: () => (now -= 10_000) };
    expect((await walked({ ids: ids(25), ports: { clock } })).verdict.kind).toBe('settled');
  });
});

describe('a total that counts what no page shows', () => {
  test('settles a window where it is known to, and else is what there is to go on with', async () => {
    const known = await walked({ ids: ids(15), more: 10, ports: { surplus: 10 } });
    expect(known.verdict).toEqual(settled(ids(15), { total: 25, surplus: 10, past: 10 }));
    expect(known.pages).toEqual([3, 2, 1]);
    const { verdict } = await walked({ ids: ids(15), more: 10 });
    expect(verdict).toEqual({
      kind: 'unstable',
      total: 25,
      problem: 'the server counts 25 records, its pages showed 15',
      shown: {
        seen: new Set(ids(15)),
        startedAt: timestampOf(start),
        perPage: 10,
        crossing: false,
        idle: 0,
        end: { past: 10, isSure: true },
      },
    });
    const other = await walked({ ids: ids(15), more: 10, ports: { surplus: 9 } });
    expect(other.verdict.kind).toBe('unstable');
  });

  test('is no reason to look for the end again where it is known', async () => {
    const { verdict, pages } = await walked({ ids: ids(15), more: 10, ports: { surplus: 10, past: 10 } });
    expect([verdict.kind, pages]).toEqual(['settled', [2, 1]]);
    // What was known of it is doubted by the next pass.
    const twice = await walked({ ids: ids(15), more: 10, ports: { past: 10 } }, 2);
    expect(twice.pages).toEqual([2, 1, 2, 3, 1]);
    expect(twice.verdict).toMatchObject({ kind: 'settled', surplus: 10, past: 10 });
  });

  test('settles nothing where a record came on two pages: another one may hide behind it', async () => {
    const onOne = await walked({ ids: [...ids(14), 14], ports: { surplus: 1 } });
    expect(onOne.verdict).toEqual(settled(ids(14), { total: 15, surplus: 1 }));
    const onTwo = await walked({ ids: [...ids(10), 10, ...ids(4, 11)], ports: { surplus: 1 } });
    expect(onTwo.verdict).toMatchObject({ kind: 'unstable', shown: { crossing: true } });
  });
});

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
    expect(await found(25, 3, Infinity, true)).toEqual([3, [4]]);
    const [, pages] = await found(25, 1e9);
    expect((pages as number[]).length).toBeLessThan(40);
  });

  /** Of a server that shows no page behind the eighth; `behind`: pages that may lie behind the end, as they were requested. */
  async function foundOver(error: Error, count: number, from: number) {
    const list = portsOver({ ids: ids(count) }).portsOf(10);
    const behind: number[] = [];
    const page = await list.read(from);
    const read: WalkPorts['read'] = async (number, isBehind) => {
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
  const other = new ServerFailed('another page came', 200, { isOther: true });

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
    const read: WalkPorts['read'] = async (number, isBehind = false) => {
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

  test('is the end of a walk, and what its total counts beyond it a surplus', async () => {
    const list = portsOver({ ids: ids(30), more: 20 });
    const behind: unknown[] = [];
    const portsOf = (size: number): WalkPorts => {
      const ports = list.portsOf(size);
      const read: WalkPorts['read'] = (page, isBehind) => {
        if ((page - 1) * size < 30) return ports.read(page);
        behind.push([size, page, isBehind]);
        return Promise.reject(missing);
      };
      return { ...ports, expected: 70, read };
    };
    const verdict = await walkWindow(portsOf, 10, Infinity, 2);
    expect(verdict).toMatchObject({ kind: 'settled', total: 50, surplus: 20 });
    expect(behind).toContainEqual([1, 31, true]);
    expect(list.pages).toEqual([2, 3, 2, 1, 2, 3, 2, 1]);
    expect(behind.every((each) => (each as unknown[])[2] === true)).toBe(true);
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

describe('several passes', () => {
  test('end with the first that is consistent, and after so many', async () => {
    let requests = 0;
    const restless: List = { ids: ids(25), before: () => (requests += 1), change: () => ({ total: 25 + requests }) };
    expect((await walked(restless, 3)).sizes).toEqual([10, 10, 10]);
    expect((await walked({ ids: ids(25) }, 3)).sizes).toEqual([10]);
  });

  test('over an order that is kept end once two of them show the same', async () => {
    const walk = await walked({ ids: ids(15), more: 10 }, 3);
    expect(walk.verdict).toMatchObject(settled(ids(15), { total: 25, surplus: 10, past: 10 }));
    expect(walk.sizes).toEqual([10, 10]);
  });

  test('with other pages where a record came twice, so that what hid between two of them shows', async () => {
    // The record 16 hides behind the 10 that comes on two pages of ten.
    const list: List = {
      ids: ids(16),
      change: ({ page, perPage }) =>
        perPage === 10 && page === 2 ? { ids: [10, ...ids(5, 11)], createdAt: ids(6).map(() => null) } : {},
    };
    const walk = await walked(list, 3);
    expect(walk.sizes).toEqual([10, 7]);
    expect(walk.verdict).toMatchObject({ kind: 'settled', total: 16, surplus: 0 });
  });

  /** Two requests a pass; the total counts sixteen, and each pass shows what it is told. */
  const passing = (shows: (pass: number) => readonly RecordKey[], more: Partial<List> = {}): List => ({
    ids: ids(15),
    more: 1,
    before: (requests, list) => {
      list.ids = [...shows(Math.ceil(requests / 2))];
      list.more = 16 - list.ids.length;
    },
    ...more,
  });
  const shuffled = { ports: { isOrdered: false } };

  test.each([
    ['the second showed fewer', [ids(15), ids(14)]],
    ['the second showed more', [ids(14), ids(15)]],
    ['each showed another one', [ids(14), ids(14, 2)]],
  ])('do not settle a window where %s', async (_, [one = [], other = []]) => {
    const { verdict } = await walked(
      passing((pass) => (pass === 1 ? one : other)),
      2,
    );
    expect(verdict).toMatchObject({ kind: 'unstable', shown: { seen: new Set(ids(15)) } });
  });

  test('end where none has shown another record for long, and later where the order is not kept', async () => {
    const list = () => passing((pass) => ids(15).filter((id) => id !== pass));
    expect((await walked(list(), 40)).pages).toHaveLength(2 * 6);
    expect((await walked({ ...list(), ...shuffled }, 40)).pages).toHaveLength(2 * 10);
  });

  test('take another size in turns while a record comes twice', async () => {
    const crossing = passing(() => [...ids(10), 10, ...ids(4, 11)], { perPage: 10 });
    const walk = await walked(crossing, 4);
    // The server keeps to its own size, so nothing shows that no other record hides.
    expect(walk.sizes).toEqual([10, 7, 10, 7]);
    expect(walk.verdict).toMatchObject({ kind: 'unstable', shown: { crossing: true, idle: 3 } });
  });

  test('settle a shuffled list once so many have shown nothing new, where a record came twice in any of them', async () => {
    const twice = [...ids(10), 10, ...ids(4, 11)];
    const all = passing(() => twice, { perPage: 10, ...shuffled });
    const walk = await walked(all, 40);
    expect(walk.verdict).toMatchObject({ kind: 'settled', total: 16, surplus: 2 });
    expect(walk.sizes).toHaveLength(9);
    const first = passing((pass) => (pass === 1 ? twice : ids(14)), { perPage: 10, ...shuffled });
    expect((await walked(first, 3)).verdict.kind).toBe('unstable');
    const none = passing(() => ids(14), { perPage: 10, ...shuffled });
    expect((await walked(none, 40)).sizes).toHaveLength(2);
  });

  test('leave out one that could not be finished', async () => {
    const broken = (at: number): List => ({
      ids: ids(15),
      more: 10,
      change: ({ page }, requests) => (requests === at && page === 1 ? { perPage: 5 } : {}),
    });
    // The first pass takes three requests, or ends with the third of them.
    const first = await walked(broken(3), 2);
    expect(first.verdict).toMatchObject({ kind: 'unstable', shown: { idle: 0 } });
    const second = await walked(broken(5), 2);
    expect(second.verdict).toEqual({
      kind: 'unstable',
      total: 25,
      problem: 'the page size changed from 10 to 5 during the walk',
    });
  });

  test('believe where the list ends once it was seen in this run', async () => {
    const list = passing((pass) => ids(15).filter((id) => id !== pass), { ports: { past: 2 } });
    const { pages } = await walked(list, 3);
    expect(pages).toEqual([2, 1, 2, 3, 1, 2, 1]);
  });

  test('go on from what earlier ones have shown', async () => {
    const { verdict: first } = await walked({ ids: ids(15), more: 1 });
    const rest = await walked({ ids: ids(15, 2), more: 1 }, 2, Infinity, first);
    expect(rest.verdict).toMatchObject({ kind: 'settled', total: 16, surplus: 0, seen: new Set(ids(16)) });
    // Of another total, nothing of them adds up.
    const other = await walked({ ids: ids(15, 2), more: 2 }, 2, Infinity, first);
    expect(other.verdict).toMatchObject({ kind: 'unstable', total: 17, shown: { seen: new Set(ids(15, 2)) } });
  });

  test('go on over a window that cannot be cut, as long as there is something to go on with', async () => {
    const whole = portsOver({ ids: ids(25) });
    expect(await walkUncut(whole.portsOf, 10, { kind: 'large', total: 25 })).toEqual(settled(ids(25)));
    const done = settled(ids(3)) as Verdict;
    expect(await walkUncut(whole.portsOf, 10, done)).toBe(done);
    const deep: Verdict = { kind: 'large', total: 25, problem: 'its pages end after 20' };
    expect(await walkUncut(whole.portsOf, 10, deep)).toBe(deep);
    const hopeless: Verdict = { kind: 'unstable', total: 3, problem: 'x' };
    expect(await walkUncut(whole.portsOf, 10, hopeless)).toBe(hopeless);
    expect(whole.sizes).toEqual([10]);
  });
});
