/** Reading a window backward, and judging what its pages showed: pure, over generated lists. */
import { array, assert, asyncProperty, constantFrom, integer, record } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { doubtOf, judge, type Verdict, Walk } from '../../src/mirror/judge.ts';
import type { MirrorPage } from '../../src/mirror/page.ts';
import { readBack, readEnd } from '../../src/mirror/read.ts';
import type { RecordKey } from '../../src/model/records.ts';
import { secondMs, timestampOf } from '../../src/model/time.ts';

const start = Date.UTC(2026, 2, 11);
const createdAt = (id: RecordKey) => timestampOf(Date.UTC(2026, 0, 1) + Number(id) * secondMs);
const ids = (count: number, first = 1) => Array.from({ length: count }, (_, at) => first + at);

interface List {
  /** The ids in the order of the list. */
  ids: RecordKey[];
  /** How many records the total counts too many. */
  readonly more?: number;
  /** Called before each page is made. */
  readonly before?: (requests: number, list: List) => void;
  /** Returns the changes of a page from what the list has. */
  readonly change?: (page: MirrorPage, requests: number) => Partial<MirrorPage>;
}

const noRows: NonNullable<MirrorPage['rows']> = {
  json: new Uint8Array(),
  ids: [],
  drifts: [],
  unusable: 0,
  keptOut: [],
  related: [],
};

/** Walks the list. Returns the walk, and the pages that were requested. */
async function walk(list: List, { pageSize = 10, expected = list.ids.length + (list.more ?? 0) } = {}) {
  const requested: number[] = [];
  const read = (page: number): Promise<MirrorPage> => {
    requested.push(page);
    list.before?.(requested.length, list);
    const on = list.ids.slice((page - 1) * pageSize, page * pageSize);
    const total = list.ids.length + (list.more ?? 0);
    const lastPage = Math.max(1, Math.ceil(total / pageSize));
    const none = { rows: noRows, hash: '', milliseconds: 0 };
    const made = { page, perPage: pageSize, lastPage, total, ids: on, createdAt: on.map(createdAt), ...none };
    return Promise.resolve({ ...made, ...list.change?.(made, requested.length) });
  };
  const end = await readEnd(read, expected, pageSize, Infinity);
  const walked = new Walk(start);
  for await (const page of readBack(read, end)) walked.add(page, start);
  return { walked, requested };
}

const unknown = { surplus: 0, freshAsOf: null };

async function verdict(list: List, options = {}): Promise<Verdict> {
  return judge((await walk(list, options)).walked, unknown);
}

const why = (text: string | RegExp) => ({ kind: 'incomplete', why: expect.stringMatching(text) });

describe('a list that does not change', () => {
  test.each([
    [0, [1]],
    [9, [1]],
    [25, [3, 2, 1]],
    // The page behind a full last page shows that the total counts all.
    [20, [2, 3, 1]],
  ])('of %i records is read from its last page to its first', async (count, pages) => {
    const { walked, requested } = await walk({ ids: ids(count) });
    expect(requested).toEqual(pages);
    expect(judge(walked, unknown)).toEqual({ kind: 'complete', total: count, asOf: timestampOf(start), surplus: 0 });
  });

  test('is read from where it ends now, whatever was expected', async () => {
    expect((await walk({ ids: ids(25) }, { expected: 91 })).requested).toEqual([10, 3, 2, 1]);
    expect((await walk({ ids: ids(25) }, { expected: 0 })).requested).toEqual([1, 3, 2, 1]);
  });

  test('is too large if it has more records than allowed', async () => {
    const page = { total: 101, lastPage: 11 } as MirrorPage;
    await expect(readEnd(() => Promise.resolve(page), 0, 10, 100)).rejects.toMatchObject({ total: 101 });
  });

  test('that goes on behind its total contradicts itself', async () => {
    await expect(walk({ ids: ids(30), more: -10 })).rejects.toThrow(
      'its total counts 20 records, and its pages show more',
    );
  });

  test('that gives its last page for each page behind it does not', async () => {
    const change = (page: MirrorPage) => (page.page > 2 ? { ids: ids(10, 11) } : {});
    expect(await verdict({ ids: ids(20), change })).toMatchObject({ kind: 'complete' });
  });

  test('that counts far more than its last pages show contradicts itself', async () => {
    await expect(walk({ ids: ids(30), more: 1_000 })).rejects.toThrow(
      /its total counts 1,?030 records, and its last 11/,
    );
  });
});

describe('a list that changes while it is read', () => {
  test('and loses a record that was read is incomplete, since another has moved past the reader', async () => {
    const before = (requests: number, list: List) => {
      if (requests === 2) list.ids = list.ids.filter((id) => id !== 21);
    };
    expect(await verdict({ ids: ids(30), before })).toMatchObject(why('records came or went while it was read'));
  });

  test('is complete with the records that were added at its end', async () => {
    const before = (requests: number, list: List) => {
      if (requests === 2) list.ids = [...list.ids, 100, 101];
    };
    const { walked, requested } = await walk({ ids: ids(25), before });
    expect(requested).toEqual([3, 2, 1, 3]);
    expect(judge(walked, unknown)).toMatchObject({ kind: 'complete', total: 27 });
    expect(walked.ids).toContain(101);
  });

  test('is incomplete if one was added in the middle and one deleted, although the numbers fit', async () => {
    const before = (requests: number, list: List) => {
      if (requests === 2) list.ids = [...list.ids.slice(0, 15), 500, ...list.ids.slice(15)];
      if (requests === 3) list.ids = list.ids.filter((id) => id !== 25);
    };
    expect((await verdict({ ids: ids(25), before })).kind).toBe('incomplete');
  });

  test('is given up if its last page is another one each time', async () => {
    const before = (requests: number, list: List) => {
      list.ids = ids(25 + 10 * requests);
    };
    await expect(walk({ ids: ids(25), before })).rejects.toThrow('its last page was another one each time');
  });

  test('is never called complete without each record that stayed', { timeout: 60_000 }, async () => {
    const change = record({
      at: integer({ min: 1, max: 8 }),
      kind: constantFrom('add', 'remove'),
      id: integer({ min: 1, max: 60 }),
    });
    await assert(
      asyncProperty(integer({ min: 0, max: 45 }), array(change, { maxLength: 2 }), async (count, changes) => {
        const all = ids(count).map((id) => id * 2);
        const gone = new Set<RecordKey>();
        const before = (requests: number, list: List) => {
          for (const { at, kind, id } of changes) {
            if (at !== requests) continue;
            if (kind === 'add') list.ids = [...list.ids, id * 2 + 1].sort((a, b) => Number(a) - Number(b));
            else for (const each of list.ids.splice(id % Math.max(1, list.ids.length), 1)) gone.add(each);
          }
        };
        const { walked } = await walk({ ids: [...all], before }).catch(() => ({ walked: undefined }));
        // One added in the middle and one deleted behind it cancel each other out, which no count can show.
        const cancels = new Set(changes.map(({ kind }) => kind)).size > 1;
        const isComplete = walked !== undefined && judge(walked, unknown).kind === 'complete';
        const stayed = all.filter((id) => !gone.has(id));
        const isWhole = stayed.every((id) => walked?.ids.has(id));
        expect(cancels || !isComplete || isWhole).toBe(true);
      }),
    );
  });
});

describe('a total that counts what no page shows', () => {
  const five: List = { ids: ids(25), more: 5 };

  test('makes the first walk incomplete, and the second complete if it shows the same in pages of another size', async () => {
    const first = await walk(five);
    expect(judge(first.walked, unknown)).toMatchObject(why('the server counts 30 records, its pages showed 25'));
    const second = await walk(five, { pageSize: 7 });
    const known = { ...unknown, before: first.walked };
    expect(judge(second.walked, known)).toMatchObject({ kind: 'complete', total: 30, surplus: 5 });
    const other = await walk({ ids: ids(25, 2), more: 5 }, { pageSize: 7 });
    expect(judge(other.walked, known).kind).toBe('incomplete');
  });

  test('is believed at once if it is known', async () => {
    const { walked } = await walk(five);
    expect(judge(walked, { ...unknown, surplus: 5 })).toMatchObject({ kind: 'complete', surplus: 5 });
    expect(judge(walked, { ...unknown, surplus: 4 }).kind).toBe('incomplete');
  });

  test('is never believed if the list has newer records than the walk showed', async () => {
    const { walked } = await walk(five);
    expect(doubtOf(walked, [24, 25])).toBeNull();
    expect(doubtOf(walked, [25, 99])).toBe('its pages end after 25 records, and there are newer ones');
  });
});

describe('pages that do not fit together', () => {
  test('have different sizes', async () => {
    const change = (page: MirrorPage) => (page.page === 1 ? { perPage: 5 } : {});
    expect(await verdict({ ids: ids(25), change })).toMatchObject(why('the page size changed from 10 to 5'));
  });

  test('come from a cache, older after newer, or all from before the last reading', async () => {
    const aged = (ages: readonly number[]) => (_: MirrorPage, requests: number) => ({ ageMs: ages[requests - 1] ?? 0 });
    expect(await verdict({ ids: ids(25), change: aged([0, 0, 60_000]) })).toMatchObject(why('older ones after newer'));
    const { walked } = await walk({ ids: ids(25), change: aged([60_000, 0, 0]) });
    expect(walked.asOf).toBe(timestampOf(start - 61_000));
    expect(judge(walked, unknown).kind).toBe('complete');
    const freshAsOf = timestampOf(start - 30_000);
    expect(judge(walked, { surplus: 0, freshAsOf })).toMatchObject(why('from before the last reading'));
    expect(judge(walked, { surplus: 0, freshAsOf: timestampOf(start - 90_000) }).kind).toBe('complete');
  });
});

describe('records that cannot be kept', () => {
  const page: MirrorPage = {
    page: 1,
    perPage: 10,
    lastPage: 1,
    total: 2,
    ids: [1, null],
    createdAt: ['', ''],
    rows: noRows,
    hash: '',
    milliseconds: 0,
  };

  test('have no usable id, or share one', () => {
    const unusable = new Walk(start);
    unusable.add({ ...page, rows: { ...page.rows, unusable: 1 } }, start);
    expect(judge(unusable, unknown)).toMatchObject({ ...why('1 record has no usable id'), isFinal: true });
    const shared = new Walk(start);
    shared.add({ ...page, total: 3, ids: [1, 2, 1] }, start);
    expect(judge(shared, unknown)).toMatchObject(why('1 record came twice'));
    expect(judge(shared, { ...unknown, before: shared }).kind).toBe('incomplete');
  });

  test('make the window incomplete by name, and count as shown', () => {
    const walked = new Walk(start);
    const unreadable = [{ place: 2, problem: 'GET … failed (500)' }];
    walked.add({ ...page, ids: [1], unreadable, parts: [{ ...page, ids: [1] }] }, start);
    expect(judge(walked, unknown)).toMatchObject({
      ...why('1 record cannot be read, number 2 of the list'),
      isFinal: true,
    });
    expect(judge(walked, { ...unknown, surplus: 1 }).kind).toBe('incomplete');
  });
});
