/** Walks over a list in memory, page by page: the requests in order, and the verdict. */
import { describe, expect, test } from 'vitest';
import type { Unreadable } from '../../src/api/envelope.ts';
import { NotFound } from '../../src/api/errors.ts';
import type { MirrorPage } from '../../src/mirror/page.ts';
import { problemOf, type Verdict, type WalkPorts, walkUncut, walkWindow } from '../../src/mirror/walk.ts';
import type { RecordKey } from '../../src/model/records.ts';
import { timestampOf } from '../../src/model/time.ts';
import { createdAt, ids, type List, portsOver, start } from '../support/walked-list.ts';

interface Walked {
  readonly verdict: Verdict;
  /** The pages in the order of their requests. */
  readonly pages: readonly number[];
  /** Records on a page, for each pass. */
  readonly sizes: readonly number[];
  /** The progress that was reported. */
  readonly shown: readonly number[];
}

async function walked(list: List, passes = 1, most = Infinity, before?: Verdict): Promise<Walked> {
  const { portsOf, ...seen } = portsOver(list);
  const known = before?.kind === 'unstable' ? before : undefined;
  return { verdict: await walkWindow(portsOf, 10, most, passes, known), ...seen };
}

/** The verdict in words. */
function said(verdict: Verdict): string {
  return verdict.kind === 'settled' ? `settled, ${verdict.seen.size} of ${verdict.total}` : problemOf(verdict);
}

const settled = (seen: readonly RecordKey[], more: object = {}) => ({
  kind: 'settled',
  total: seen.length,
  seen: new Set(seen),
  startedAt: timestampOf(start),
  surplus: 0,
  pastEnd: 0,
  isCut: false,
  ...more,
});

describe('a walk', () => {
  test.each([
    ['from the last page to the first', 25, {}, [3, 2, 1]],
    ['from the first page to the last and back if nothing is known of the list', 25, { expected: null }, [1, 3, 2, 1]],
    ['from the page that was the last one before', 25, { expected: 45 }, [5, 3, 2, 1]],
    ['with one request behind a last page that is full', 20, {}, [2, 3, 1]],
    ['over a list that is empty in one request', 0, {}, [1]],
    ['over one page in one request', 3, {}, [1]],
  ] as const)('goes %s', async (_, count, ports, pages) => {
    const all = ids(count);
    const walk = await walked({ ids: all, ports });
    expect(walk.pages).toEqual(pages);
    expect(walk.verdict).toEqual(settled(all));
  });

  test('reports how many records it has seen', async () => {
    expect((await walked({ ids: ids(25) })).shown).toEqual([5, 15, 25]);
  });

  test('calls a list large that has more records than allowed', async () => {
    const large = await walked({ ids: ids(25) }, 1, 24);
    expect([large.verdict, large.pages]).toEqual([{ kind: 'large', total: 25 }, [3]]);
    expect(problemOf(large.verdict as Exclude<Verdict, { kind: 'settled' }>)).toBe('it is too large to be read');
    expect((await walked({ ids: ids(25) }, 1, 25)).verdict.kind).toBe('settled');
    // A known surplus past the end does not count, but records that pages show beyond the total do.
    const past = { more: 20, ports: { surplus: 20, pastEnd: 20 } };
    expect((await walked({ ids: ids(25), ...past }, 1, 25)).verdict).toEqual(
      settled(ids(25), { total: 45, surplus: 20, pastEnd: 20 }),
    );
    expect((await walked({ ids: ids(25), ...past }, 1, 24)).verdict).toEqual({ kind: 'large', total: 45 });
    const hidden = await walked({ ids: ids(45), more: -20 }, 1, 40);
    expect([hidden.verdict, hidden.pages]).toEqual([{ kind: 'large', total: 45 }, [3, 4, 6, 5]]);
  });

  test('gives up if the last page is another one each time', async () => {
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

  test('begins with the page that the server calls the last one, whatever the total says', async () => {
    const list = { ids: ids(25), more: 20, ports: { expected: null, surplus: 20 }, change: () => ({ lastPage: 3 }) };
    expect((await walked(list)).pages).toEqual([1, 3, 2, 1]);
  });

  test('gives up if the page size changes', async () => {
    const change = ({ page }: MirrorPage) => (page === 1 ? { perPage: 5, ids: ids(5) } : {});
    const { verdict } = await walked({ ids: ids(25), change });
    expect(verdict).toEqual({
      kind: 'unstable',
      total: 25,
      problem: 'the page size changed from 10 to 5 during the walk',
      perPage: 5,
    });
  });
});

describe('during a walk', () => {
  /** Walks a list that changes just before the second request. */
  const changed = (change: (list: List) => void, count = 25, passes = 1) =>
    walked({ ids: ids(count), before: (requests, list) => void (requests === 2 && change(list)) }, passes);

  test.each([
    ['a record that was read is deleted', (list: List) => void list.ids.pop()],
    ['a record that is still to be read is deleted', (list: List) => void list.ids.shift()],
    ['a record is added in the middle', (list: List) => void list.ids.unshift(0)],
    [
      'one is added and one deleted, with the same total',
      (list: List) => {
        list.ids.shift();
        list.ids.push(26);
      },
    ],
  ])('%s, and the list is walked again', async (_, change) => {
    const once = await changed(change);
    expect(once.verdict.kind).toBe('unstable');
    expect(said(once.verdict)).toMatch(
      /^records came or went while it was read \(2[46] at the end, 2[456] seen\)$|counts 25 records, its pages showed 24$/,
    );
    const again = await changed(change, 25, 3);
    expect(said(again.verdict)).toMatch(/^settled, (\d+) of \1$/);
  });

  test('records that are added at the end are read, and the window is settled', async () => {
    const one = await changed((list) => list.ids.push(26));
    expect([one.verdict, one.pages]).toEqual([settled(ids(26)), [3, 2, 1, 3]]);
    const many = await changed((list) => list.ids.push(...ids(10, 26)));
    expect([many.verdict, many.pages]).toEqual([settled(ids(35)), [3, 2, 1, 3, 4]]);
    // The page was full, so the first of them is on the next page.
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

  test('no record counts as added at the end if creation times are not text', async () => {
    const change = ({ ids: on }: MirrorPage) => ({ createdAt: on });
    const before: List['before'] = (requests, list) => void (requests === 2 && list.ids.push(26));
    expect((await walked({ ids: ids(25), before, change })).verdict.kind).toBe('unstable');
  });

  test('a total that was smaller in between did not only grow', async () => {
    // Record 25 was seen and is deleted, and 10 is pushed past the reader: the count is right, but 10 was not seen.
    const before: List['before'] = (requests, list) => {
      if (requests === 2) list.ids.pop();
      if (requests === 3) list.ids = [0, ...list.ids, 26];
    };
    const { verdict } = await walked({ ids: ids(25), before });
    expect(said(verdict)).toBe('records came or went while it was read (26 at the end, 26 seen)');
  });

  test('a page that came again unchanged holds no added records', async () => {
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

describe('records that cannot be kept', () => {
  test.each([
    [1, /^1 record has no usable id/],
    [2, /^2 records have no usable id/],
  ])('make a window unusable: %i on a page', async (unusable, words) => {
    let page = 0;
    const record = () => ({ unusable: (page += 1) === 1 ? unusable : 0, duplicateIds: [] });
    const { verdict } = await walked({ ids: ids(25), ports: { record } });
    expect(verdict).toMatchObject({ kind: 'unusable', total: 25 });
    expect(said(verdict)).toMatch(words);
  });

  test('may be different records under one id, of which five are named', async () => {
    const record = ({ page }: MirrorPage) => ({ unusable: 0, duplicateIds: page === 1 ? ids(6) : [] });
    const { verdict } = await walked({ ids: ids(25), ports: { record } });
    expect(verdict).toEqual({
      kind: 'unstable',
      total: 25,
      problem: 'different records have the same id: 1, 2, 3, 4, 5',
      duplicateIds: ids(6),
    });
  });

  test('or cannot be read are told apart from records that are not shown', async () => {
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
    // Here another record is missing, too.
    const short = await walked({ ids: ids(25), more: 1, change });
    expect(said(short.verdict)).toBe('records came or went while it was read (26 at the end, 23 seen)');
  });

  test('do not include pages that came in parts, which are kept part by part', async () => {
    const change = (made: MirrorPage) => {
      const { ids: _ids, ...page } = made;
      const half = (from: number) => ({ ...page, ids: made.ids.slice(from, from + 5), createdAt: [] });
      return made.page === 1 ? { parts: [half(5), half(0)] } : {};
    };
    const kept: number[] = [];
    const record = (page: MirrorPage) => {
      kept.push(page.ids.length);
      return { unusable: 0, duplicateIds: [] };
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

  test('makes the window as old as its oldest page, plus a second', async () => {
    const older = { startedAt: timestampOf(start - 31_000) };
    expect((await aged([30_000, 30_000, 30_000])).verdict).toEqual(settled(ids(25), older));
    expect((await aged([29_000, 30_000, 30_000])).verdict).toEqual(settled(ids(25), older));
    expect((await aged([0, undefined, 0])).verdict).toEqual(
      settled(ids(25), { startedAt: timestampOf(start - 1_000) }),
    );
  });

  test('that gives an older page after a newer one makes the window unstable', async () => {
    const { verdict } = await aged([undefined, 30_000, undefined]);
    expect(verdict).toEqual({
      kind: 'unstable',
      total: 25,
      problem: 'a cache in front of the server gave older pages after newer ones, up to 31 s old',
    });
    expect((await aged([5_000, 2_000, 5_000])).verdict.kind).toBe('unstable');
    // Later pages that do not come from a cache are not older.
    expect((await aged([30_000, undefined, undefined])).verdict.kind).toBe('settled');
  });

  test('is not suspected if the clock is set back', async () => {
    let now = start;
    const clock = { now: () => (now -= 10_000) };
    expect((await walked({ ids: ids(25), ports: { clock } })).verdict.kind).toBe('settled');
  });
});

describe('a total that counts what no page shows', () => {
  test('settles a window if the surplus is known, and otherwise is kept for the next pass', async () => {
    const known = await walked({ ids: ids(15), more: 10, ports: { surplus: 10 } });
    expect(known.verdict).toEqual(settled(ids(15), { total: 25, surplus: 10, pastEnd: 10 }));
    expect(known.pages).toEqual([3, 2, 1]);
    const { verdict } = await walked({ ids: ids(15), more: 10 });
    expect(verdict).toEqual({
      kind: 'unstable',
      total: 25,
      problem: 'the server counts 25 records, its pages showed 15',
      united: {
        seen: new Set(ids(15)),
        startedAt: timestampOf(start),
        perPage: 10,
        fullest: 10,
        passes: 1,
        isCut: false,
        overlapping: false,
        isOrdered: true,
        idle: 0,
        end: { pastEnd: 10, isSure: true },
      },
    });
    const other = await walked({ ids: ids(15), more: 10, ports: { surplus: 9 } });
    expect(other.verdict.kind).toBe('unstable');
  });

  test('is no reason to look for the end again if that is known', async () => {
    const { verdict, pages } = await walked({ ids: ids(15), more: 10, ports: { surplus: 10, pastEnd: 10 } });
    expect([verdict.kind, pages]).toEqual(['settled', [2, 1]]);
    // The next pass checks the known end.
    const twice = await walked({ ids: ids(15), more: 10, ports: { pastEnd: 10 } }, 2);
    expect(twice.pages).toEqual([2, 1, 3, 4, 2, 1]);
    expect(twice.verdict).toMatchObject({ kind: 'settled', surplus: 10, pastEnd: 10 });
  });

  test('settles nothing if a record came on two pages, because another one may be hidden', async () => {
    const onOne = await walked({ ids: [...ids(14), 14], ports: { surplus: 1 } });
    expect(onOne.verdict).toEqual(settled(ids(14), { total: 15, surplus: 1 }));
    const onTwo = await walked({ ids: [...ids(10), 10, ...ids(4, 11)], ports: { surplus: 1 } });
    expect(onTwo.verdict).toMatchObject({ kind: 'unstable', united: { overlapping: true } });
  });
});

describe('a last page by the total that is missing', () => {
  test('ends the walk at the last page that comes, and the rest of the total is a surplus', async () => {
    const list = portsOver({ ids: ids(30), more: 20 });
    const behind: unknown[] = [];
    const portsOf = (size: number): WalkPorts => {
      const ports = list.portsOf(size);
      const read: WalkPorts['read'] = (page, isBehind) => {
        if ((page - 1) * size < 30) return ports.read(page);
        behind.push([size, page, isBehind]);
        return Promise.reject(new NotFound('no such page'));
      };
      return { ...ports, expected: 70, read };
    };
    const verdict = await walkWindow(portsOf, 10, Infinity, 2);
    expect(verdict).toMatchObject({ kind: 'settled', total: 50, surplus: 20 });
    expect(behind).toContainEqual([1, 31, true]);
    expect(list.pages).toEqual([2, 3, 2, 1, 2, 4, 5, 4, 3, 2, 1]);
    expect(behind.every((each) => (each as unknown[])[2] === true)).toBe(true);
  });
});

describe('several passes', () => {
  test('end with the first that is consistent, or after the given number', async () => {
    let requests = 0;
    const restless: List = { ids: ids(25), before: () => (requests += 1), change: () => ({ total: 25 + requests }) };
    expect((await walked(restless, 3)).sizes).toEqual([10, 10, 10]);
    expect((await walked({ ids: ids(25) }, 3)).sizes).toEqual([10]);
  });

  test('over an ordered list end once two of them with different page sizes show the same', async () => {
    const walk = await walked({ ids: ids(15), more: 10 }, 3);
    expect(walk.verdict).toMatchObject(settled(ids(15), { total: 25, surplus: 10, pastEnd: 10 }));
    expect(walk.sizes).toEqual([10, 7]);
  });

  test('use another page size if a record came twice, so that a hidden record shows', async () => {
    // Record 16 is hidden by record 10, which comes on two pages of ten.
    const list: List = {
      ids: ids(16),
      change: ({ page, perPage }) =>
        perPage === 10 && page === 2 ? { ids: [10, ...ids(5, 11)], createdAt: ids(6).map(() => null) } : {},
    };
    const walk = await walked(list, 3);
    expect(walk.sizes).toEqual([10, 7]);
    expect(walk.verdict).toMatchObject({ kind: 'settled', total: 16, surplus: 0 });
  });

  /** A list with a fixed page size whose total is sixteen. Each pass shows what `shows` says. */
  const passing = (shows: (pass: number) => readonly RecordKey[], more: Partial<List> = {}): List => {
    let pass = 1;
    return {
      ids: ids(15),
      more: 1,
      perPage: 10,
      before: (_, list) => {
        list.ids = [...shows(pass)];
        list.more = 16 - list.ids.length;
      },
      change: ({ page }) => {
        if (page === 1) pass += 1;
        return {};
      },
      ...more,
    };
  };
  const shuffled = { ports: { isOrdered: false } };

  test.each([
    ['the second showed fewer', [ids(15), ids(14)]],
    ['the second showed more', [ids(14), ids(15)]],
    ['each showed another one', [ids(14), ids(14, 2)]],
  ])('do not settle a window if %s', async (_, [one = [], other = []]) => {
    const { verdict } = await walked(
      passing((pass) => (pass === 1 ? one : other)),
      2,
    );
    expect(verdict).toMatchObject({ kind: 'unstable', united: { seen: new Set(ids(15)) } });
  });

  test('end once none showed a new record for a while, or for longer if the order is not kept', async () => {
    const list = () => passing((pass) => ids(15).filter((id) => id !== pass));
    expect((await walked(list(), 40)).sizes).toHaveLength(6);
    expect((await walked({ ...list(), ...shuffled }, 40)).sizes).toHaveLength(10);
  });

  test('take different page sizes in turns while a record comes twice', async () => {
    const overlapping = passing(() => [...ids(10), 10, ...ids(4, 11)]);
    const walk = await walked(overlapping, 4);
    // The server keeps to its own size, so another record may still be hidden.
    expect(walk.sizes).toEqual([10, 7, 5, 10]);
    expect(walk.verdict).toMatchObject({ kind: 'unstable', united: { overlapping: true, idle: 3 } });
  });

  test('settle a shuffled list once enough showed nothing new, more of them if a record came twice', async () => {
    const twice = [...ids(10), 10, ...ids(4, 11)];
    const all = passing(() => twice, shuffled);
    const walk = await walked(all, 40);
    expect(walk.verdict).toMatchObject({ kind: 'settled', total: 16, surplus: 2 });
    expect(walk.sizes).toHaveLength(9);
    const first = passing((pass) => (pass === 1 ? twice : ids(14)), shuffled);
    expect((await walked(first, 3)).verdict.kind).toBe('unstable');
    const none = passing(() => ids(14), shuffled);
    expect((await walked(none, 40)).sizes).toHaveLength(2);
  });

  test('leave out one that was not finished', async () => {
    const broken = (at: number): List => ({
      ids: ids(15),
      more: 10,
      change: ({ page }, requests) => (requests === at && page === 1 ? { perPage: 5 } : {}),
    });
    // The first pass takes three requests, or ends with the third of them.
    const first = await walked(broken(3), 2);
    expect(first.verdict).toMatchObject({ kind: 'unstable', united: { idle: 0 } });
    const second = await walked(broken(6), 2);
    expect(second.verdict).toEqual({
      kind: 'unstable',
      total: 25,
      problem: 'the page size changed from 7 to 5 during the walk',
      perPage: 5,
    });
  });

  test('take the size of the smallest page if pages of two sizes came', async () => {
    // After the first page, no page has more than 4 records.
    const list: List = {
      ids: ids(25),
      change: ({ page, perPage }) => (page > 1 || perPage <= 4 ? {} : { perPage: 4, ids: ids(4) }),
    };
    const walk = await walked(list, 3);
    expect([walk.verdict, walk.sizes]).toEqual([settled(ids(25)), [10, 4]]);
  });

  test('rely on the end of the list once it was seen in this run', async () => {
    const list = passing((pass) => ids(15).filter((id) => id !== pass), { ports: { pastEnd: 2 } });
    const { pages } = await walked(list, 3);
    expect(pages).toEqual([2, 1, 2, 3, 1, 3, 2, 1]);
  });

  test('continue from what earlier ones showed', async () => {
    const { verdict: first } = await walked({ ids: ids(15), more: 1 });
    const rest = await walked({ ids: ids(15, 2), more: 1 }, 2, Infinity, first);
    expect(rest.verdict).toMatchObject({ kind: 'settled', total: 16, surplus: 0, seen: new Set(ids(16)) });
    // With another total they cannot be combined.
    const other = await walked({ ids: ids(15, 2), more: 2 }, 2, Infinity, first);
    expect(other.verdict).toMatchObject({ kind: 'unstable', total: 17, united: { seen: new Set(ids(15, 2)) } });
  });

  test('continue over a window that cannot be cut, if that can help', async () => {
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

describe('a list whose pages leave out records', () => {
  type Change = NonNullable<List['change']>;
  const showing = (shown: (ids: readonly (RecordKey | null)[], page: MirrorPage) => (RecordKey | null)[]): Change => {
    return (page) => {
      const on = shown(page.ids, page);
      return { ids: on, createdAt: on.map((id) => createdAt(id ?? 0)) };
    };
  };
  const dropsLast = showing((on, { perPage }) => (on.length < perPage ? [...on] : on.slice(0, -1)));
  const repeatsLast = showing((on, { perPage }) => (on.length < perPage ? [...on] : [...on.slice(0, -1), on[0] ?? 0]));
  const cuts = (most: number) => showing((on) => on.slice(0, most));

  test.each([
    ['the last of each that is full', 27, dropsLast, [10, 6], true],
    ['the last of each that is full, one of them in every size', 35, dropsLast, [10, 6, 4], true],
    ['the last of each that is full, and one page is full', 10, dropsLast, [10, 6], true],
    ['the last of each that is full, with another one repeated', 35, repeatsLast, [10, 7], true],
    ['all but six', 35, cuts(6), [10, 4], false],
    ['all but six of the only one', 9, cuts(6), [10, 4], false],
    ['all but one of the only one', 2, cuts(1), [10, 1], false],
  ] as const)('(%s) is settled once they were seen on other pages', async (_, count, change, sizes, isCut) => {
    const walk = await walked({ ids: ids(count), change }, 3);
    expect(walk.verdict).toMatchObject({ ...settled(ids(count)), isCut, pastEnd: expect.any(Number) });
    expect(walk.sizes).toEqual(sizes);
  });

  test('without order, and that fits on one page, is read in pages of as many records as that page showed', async () => {
    const ports = { isOrdered: false };
    const one = await walked({ ids: ids(9), change: cuts(6), ports }, 3);
    expect([said(one.verdict), one.sizes]).toEqual(['settled, 9 of 9', [10, 6]]);
    const none = await walked({ ids: ids(6), more: 3, ports }, 3);
    expect([said(none.verdict), none.sizes, none.pages]).toEqual(['settled, 6 of 9', [10, 6], [1, 1, 2]]);
    const several = await walked({ ids: ids(15), more: 3, ports }, 3);
    expect([said(several.verdict), several.sizes]).toEqual(['settled, 15 of 18', [10, 7]]);
    const empty = await walked({ ids: [], more: 3, ports }, 3);
    expect([said(empty.verdict), empty.sizes]).toEqual(['settled, 0 of 3', [10, 1]]);
  });

  test('is read in three sizes in turns, and is not settled while no size shows all records', async () => {
    // The second of each page is left out, and so always the second of the list.
    const change = showing((on) => on.filter((_, at) => at !== 1));
    const walk = await walked({ ids: ids(45), change }, 5);
    expect(walk.sizes).toEqual([10, 6, 4, 9, 6]);
    expect(walk.verdict).toMatchObject({ kind: 'unstable', united: { isCut: true } });
    expect(said(walk.verdict)).toBe(
      'the server counts 45 records, its pages showed 44: its pages leave out records, others at each size of page',
    );
    const before = await walked({ ids: ids(45), change }, 1);
    expect(said(before.verdict)).toBe('the server counts 45 records, its pages showed 40');
  });

  test('is not assumed if a record came twice, because then the order may hide one', async () => {
    const change: Change = ({ page, perPage, ids: on }) => ({
      ids: page === 2 ? [perPage === 10 ? 10 : 1, ...on.slice(1)] : on,
    });
    const { verdict } = await walked({ ids: ids(15), more: 1, change }, 2);
    expect(said(verdict)).toBe('the server counts 16 records, its pages showed 15');
    expect(verdict).toMatchObject({ united: { isCut: false, overlapping: true } });
  });
});
