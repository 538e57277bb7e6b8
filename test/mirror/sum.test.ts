/**
 * The proof of a resource's sum, over a server of numbers: which ranges are counted, which windows are read again, and the
 * result.
 */
import { describe, expect, test } from 'vitest';
import type { Capabilities } from '../../src/api/capabilities.ts';
import { Allowance } from '../../src/mirror/run-bounds.ts';
import { ContradictionError } from '../../src/mirror/failures.ts';
import { forgetEmptyOutside, proveSum } from '../../src/mirror/sum.ts';
import { Surplus } from '../../src/mirror/surplus.ts';
import type { WindowVisitor } from '../../src/mirror/window-visitor.ts';
import { coverageOf, type DayRange, eraEnd, eraStart, everything, outsideEra } from '../../src/model/era.ts';
import { addDays, type Day, type Timestamp } from '../../src/model/time.ts';
import type { Window } from '../../src/store/mirror-types.ts';
import type { MirrorStore } from '../../src/mirror/store/mirror-store.ts';

type Ports = Parameters<typeof proveSum>[0];

const first = '2026-01-01' as Day;
const freshAsOf = '2026-03-01T00:00:00.000000Z' as Timestamp;
const week = (index: number): Day => addDays(first, 7 * index);
const within = (inner: DayRange, outer: DayRange) => inner.from >= outer.from && inner.to <= outer.to;

/** `users` with a window for each week. */
interface Start {
  readonly held: readonly number[];
  /** What the server has by now; by default as many as are held. */
  readonly server?: readonly number[];
  /** Records on the server outside of all days. None is held. */
  readonly outside?: number;
  /** How many more the total of the list counts. */
  readonly more?: number;
  /** How many more the total of each range counts. */
  readonly moreInEach?: number;
  /** How many more is counted by a range that holds the window. `edges`: by a range that ends with it. */
  readonly moreIn?: readonly number[];
  readonly edges?: readonly number[];
  /** Like `moreIn`, but only noticed when the window is read. */
  readonly hidden?: readonly number[];
  readonly changed?: (window: Window, index: number) => Partial<Window>;
  readonly ports?: Partial<Ports>;
  /** Windows by their places. */
  readonly located?: readonly number[] | undefined;
  readonly failed?: readonly number[];
  /** Called before each look at the total of the list. */
  readonly look?: (looks: number, server: number[]) => void;
  /** How many more the total of the list counts at each look at it. */
  readonly moreAt?: (looks: number) => number;
  /** What is known from an earlier run. */
  readonly known?: (surplus: Surplus, windows: readonly Window[]) => void;
  readonly requests?: number;
}

function world(start: Start) {
  const { moreInEach = 0, more = moreInEach, outside = 0, moreIn = [], edges = [], hidden = [] } = start;
  const held = [...start.held];
  const server = [...(start.server ?? held)];
  let heldOutside = 0;
  const windows: Window[] = held.map((rows, index) => {
    const [from, to] = [week(index), week(index + 1)];
    const days = { resource: 'users', from, to, state: 'settled', pagesRead: 1, freshAsOf, problem: null } as const;
    const edge = edges[index] ?? 0;
    const window: Window = { ...days, serverTotal: rows + moreInEach + (moreIn[index] ?? 0) + edge };
    return { ...window, ...start.changed?.(window, index) };
  });
  const known = new Map<string, unknown>();
  const counted: string[] = [];
  const read: string[] = [];
  const log: string[] = [];
  const events: unknown[] = [];
  let looks = 0;
  const nameOf = (range: DayRange): string => {
    if (coverageOf(range) !== 'days') return coverageOf(range);
    const at = (day: Day) => windows.findIndex(({ from }) => from === day);
    const to = windows.findIndex((window) => window.to === range.to);
    return at(range.from) === to ? `${to}` : `${at(range.from)} to ${to}`;
  };
  const sum = (counts: readonly number[], days: DayRange) =>
    counts.reduce(
      (all, count, index) => (within({ from: week(index), to: week(index + 1) }, days) ? all + count : all),
      0,
    );
  const everywhere = { from: eraStart, to: eraEnd };
  const store = {
    accountedCount: (_: string, days?: DayRange) => {
      if (days === undefined) return sum(held, everywhere) + heldOutside;
      if (coverageOf(days) === 'outside') return heldOutside;
      return coverageOf(days) === 'everything' ? sum(held, everywhere) + heldOutside : sum(held, days);
    },
    windows: () => [...windows],
    resetWindows: (_: string, ranges: readonly DayRange[]) => {
      const made = ranges.map((range): Window => {
        const kept = windows.find(({ from, to }) => from === range.from && to === range.to);
        const none = { resource: 'users', serverTotal: null, pagesRead: 0, freshAsOf: null, problem: null } as const;
        return kept ?? { ...none, from: range.from, to: range.to, state: 'pending' };
      });
      windows.splice(0, Infinity, ...made);
    },
    recordEvent: (_: string, event: unknown) => void events.push(event),
    capability: (name: string) => (known.has(name) ? { value: known.get(name) } : null),
    recordCapability: (name: string, _: string, value: unknown) => void known.set(name, value),
    forgetCapability: (name: string) => void known.delete(name),
  } as unknown as MirrorStore;
  const surplus = new Surplus(store, 'users');
  start.known?.(surplus, windows);
  const totalOf = (range: DayRange): number => {
    const edge = edges[windows.filter(({ from }) => from > eraStart).findIndex(({ to }) => to === range.to)] ?? 0;
    return sum(server, range) + sum(hidden, range) + sum(moreIn, range) + moreInEach + edge;
  };
  const visitor = {
    total: (range: DayRange | null) => {
      if (range === null) start.look?.((looks += 1), server);
      const isAll = range === null || coverageOf(range) === 'everything';
      counted.push(range === null ? 'list' : nameOf(range));
      log.push(`count ${counted.at(-1)}`);
      if (isAll) {
        const beside = start.moreAt?.(looks) ?? more;
        return Promise.resolve(sum(server, everywhere) + sum(hidden, everywhere) + outside + beside);
      }
      return Promise.resolve(totalOf(range));
    },
    hasFailed: ({ from }: Window) => (start.failed ?? []).some((index) => week(index) === from),
    locateLosses: () =>
      Promise.resolve(start.located?.map((index) => windows[index]).filter((each) => each !== undefined)),
    visitAll: (visited: readonly Window[], totals: ReadonlyMap<Window, number | undefined> = new Map()) => {
      for (const window of visited) {
        const total = totals.get(window);
        read.push(`${nameOf(window)}${total === undefined ? '' : `, which counts ${total}`}`);
        log.push(`read ${nameOf(window)}`);
        const place = windows.findIndex(({ from, to }) => from === window.from && to === window.to);
        if (coverageOf(window) !== 'days') heldOutside = outside;
        for (const index of held.keys()) {
          const days = { from: week(index), to: week(index + 1) };
          if (coverageOf(window) !== 'outside' && within(days, window)) held[index] = server[index] ?? 0;
        }
        const serverTotal = coverageOf(window) === 'outside' ? outside : totalOf(window);
        if (hidden.length > 0) surplus.note(window, sum(hidden, window));
        windows[place] = { ...window, state: 'settled', serverTotal, freshAsOf };
      }
      return Promise.resolve();
    },
  } as unknown as WindowVisitor;
  const capabilities = {
    rangeEnd: 'exclusive',
    dayShiftMinutes: 0,
    pageSize: 10,
    ranges: 'days',
  } as unknown as Capabilities;
  const ports: Ports = {
    run: 'run',
    visitor,
    store,
    resource: 'users',
    capabilities,
    surplus,
    allowance: new Allowance(start.requests ?? 100),
    only: null,
    isOpen: (window) => coverageOf(window) !== 'days',
    trustsStored: false,
    ...start.ports,
  };
  return { ports, counted, read, log, events, windows, store, surplus };
}

async function proven(start: Start) {
  const { ports, ...seen } = world(start);
  const sum = await proveSum(ports);
  return { sum, ...seen };
}

const isProven = (total: number) => ({ total, problem: null, proven: true, missing: false });
const unknownDays = {
  capabilities: { rangeEnd: 'unknown', dayShiftMinutes: 0, pageSize: 10 } as unknown as Capabilities,
};
const ten = [10, 10, 10, 10];

describe('a resource with as many rows as the server counts', () => {
  test('is proven by one request', async () => {
    const { sum, counted, read } = await proven({ held: ten });
    expect([sum, counted, read]).toEqual([isProven(40), ['list'], []]);
  });

  test('needs no search if a difference is known from before', async () => {
    const known = (surplus: Surplus, windows: readonly Window[]) => surplus.noteList(2, 42, windows);
    const { sum, counted, read } = await proven({ held: ten, more: 2, known });
    expect([counted, read]).toEqual([['list'], []]);
    expect(sum).toEqual({
      total: 42,
      problem:
        'the totals of this list count 2 records that no page shows: the mirror has 40 records and the server counts 42',
      proven: false,
      missing: true,
    });
  });

  test('forgets the surplus of its total once that is right', async () => {
    const known = (surplus: Surplus, windows: readonly Window[]) => surplus.noteList(2, 42, windows);
    expect((await proven({ held: ten, known })).surplus.list).toBe(0);
    const only = { from: week(0), to: week(1) };
    // A run over some days does not touch what is known of the others.
    expect((await proven({ held: ten, known, ports: { only } })).surplus.list).toBe(2);
  });
});

describe('windows whose counts differ', () => {
  test('are found by halving, and read again', async () => {
    const held = Array.from({ length: 8 }, () => 10);
    const { sum, counted, read } = await proven({ held, server: held.with(5, 12) });
    expect(counted).toEqual(['list', '0 to 7', '0 to 3', '4 to 7', '4 to 5', '4', '5', 'list']);
    expect(read).toEqual(['5, which counts 12']);
    expect(sum).toEqual(isProven(82));
  });

  test('are found if several differ, in any direction', async () => {
    const server = [10, 8, 10, 10, 13];
    const { sum, counted, read } = await proven({ held: [...ten, 10], server });
    expect(counted).toEqual(['list', '0 to 4', '0 to 1', '2 to 4', '2', '3', '4', '0', '1', 'list']);
    expect(read).toEqual(['4, which counts 13', '1, which counts 8']);
    expect(sum).toEqual(isProven(51));
  });

  test('are counted separately for each stretch of neighbours', async () => {
    const changed = (window: Window, index: number) => (index === 1 ? { from: addDays(window.from, 1) } : {});
    const { counted, read } = await proven({ held: [10, 0, 10], server: [10, 0, 11], changed });
    expect(counted).toEqual(['list', '0', '1 to 2', '1', '2', 'list']);
    expect(read).toEqual(['2, which counts 11']);
  });

  test.each([
    ['within a window', { moreIn: [3, 1, 0, 2], more: 6 }],
    ['at the edge to the next window', { edges: [2, 1, 3, 1] }],
    ['both within windows and at their edges', { moreIn: [0, 1, 0, 2], more: 3, edges: [2, 0, 3, 1] }],
    ['by the same number in each range', { moreInEach: 3 }],
    ['by the same number in each range, and at their edges', { moreInEach: 3, edges: [1, 2, 0, 1] }],
  ])('are found despite totals that are known to count too many %s', async (_, more: Partial<Start>) => {
    for (const place of [0, 1, 2, 3]) {
      const known = (surplus: Surplus, windows: readonly Window[]) => {
        for (const [index, each] of windows.entries()) {
          surplus.note(each, (more.moreIn?.[index] ?? 0) + (more.moreInEach ?? 0));
        }
        surplus.noteList(more.more ?? more.moreInEach ?? 0, 40, windows);
      };
      const { read, counted } = await proven({ held: ten, server: ten.with(place, 12), known, ...more });
      expect(read).toEqual([expect.stringMatching(new RegExp(`^${place}, which counts `))]);
      const single = place % 2 === 0 ? [`${place}`] : [`${place - 1}`, `${place}`];
      const expected = ['list', '0 to 3', '0 to 1', '2 to 3', ...single, 'list'];
      expect(counted.slice(0, expected.length)).toEqual(expected);
    }
  });

  test('are not counted a second time if their own count showed the difference', async () => {
    const held = Array.from({ length: 8 }, () => 10);
    const { counted } = await proven({ held, server: held.with(4, 12) });
    expect(counted).toEqual(['list', '0 to 7', '0 to 3', '4 to 7', '4 to 5', '4', 'list']);
  });

  test('add requests to the allowance for their pages, by their number of rows', async () => {
    const allowed: unknown[] = [];
    const allowance = { left: () => 100, allow: (...given: readonly unknown[]) => allowed.push(given) };
    const ports = { allowance: allowance as unknown as Allowance };
    await proven({ held: [10, 7, 10, 10], server: [10, 9, 10, 10], ports });
    expect(allowed).toEqual([['users', [{ from: week(1), to: week(2), rows: 7 }], 10]]);
    allowed.length = 0;
    // Records that no range shows are read from the whole list, so their window adds no requests itself.
    await proven({ held: ten, outside: 5, ports, changed: (_, index) => (index === 3 ? outsideEra : {}) });
    expect(allowed).toEqual([['users', [], 10]]);
  });

  test('cannot be found if every range counts the same number too many', async () => {
    const { sum, counted, read, events } = await proven({
      held: ten,
      moreInEach: 3,
      changed: () => ({ serverTotal: 10 }),
    });
    expect(counted.slice(0, 4)).toEqual(['list', '0 to 3', '0 to 1', '2 to 3']);
    expect(new Set(read)).toEqual(new Set(['outside']));
    const counts = 'the mirror has 40 records and the server counts 43';
    const problem = `the totals of this list count 3 records that no page shows: ${counts}`;
    expect(sum).toEqual({ total: 43, problem, proven: false, missing: true });
    expect(events).toEqual([{ resource: 'users', kind: 'totals_differ', subject: '3', detail: problem }]);
  });

  test('are counted one by one if ranges do not show exactly their days', async () => {
    const start = { held: ten, server: [10, 11, 10, 10], ports: unknownDays };
    const { counted, read, sum } = await proven(start);
    expect([counted, read]).toEqual([['list', '0', '1', '2', '3', 'list'], ['1, which counts 11']]);
    expect(sum).toEqual(isProven(41));
    const shifted = {
      capabilities: { rangeEnd: 'exclusive', dayShiftMinutes: 60, pageSize: 10 } as unknown as Capabilities,
    };
    expect((await proven({ ...start, ports: shifted })).counted).toEqual(counted);
  });

  test('are counted only if they were located, and not at all if that takes more requests than allowed', async () => {
    const start = { held: ten, server: [10, 11, 10, 10], ports: unknownDays };
    expect((await proven({ ...start, located: [1, 2] })).counted).toEqual(['list', '1', '2', 'list']);
    // Fifty requests are always allowed.
    expect((await proven({ ...start, requests: -46 })).counted.slice(0, 6)).toEqual([
      'list',
      '0',
      '1',
      '2',
      '3',
      'list',
    ]);
    expect((await proven({ ...start, requests: -47 })).counted).not.toContain('1');
  });
});

describe('to explain a difference', () => {
  const isOpen = (window: Window) => window.from === week(3);

  test('open windows are read again if sealed ones do not explain it', async () => {
    const { sum, counted, read } = await proven({ held: ten, server: [10, 10, 10, 14], ports: { isOpen } });
    expect(counted).toEqual(['list', '0 to 2', 'list']);
    expect([read, sum]).toEqual([['3'], isProven(44)]);
  });

  test('open windows are left alone if sealed ones and a known surplus explain it', async () => {
    const known = (surplus: Surplus, windows: readonly Window[]) => surplus.noteList(2, 42, windows);
    const start = { held: ten, server: [10, 11, 10, 10], more: 2, known, ports: { isOpen } };
    const { sum, read } = await proven(start);
    // The surplus is not searched for again either.
    expect([read, sum.total, sum.missing]).toEqual([['1, which counts 11'], 43, true]);
  });

  test('open windows are left alone if sealed ones explain it', async () => {
    const { read } = await proven({ held: ten, server: [10, 12, 10, 10], ports: { isOpen } });
    expect(read).toEqual(['1, which counts 12']);
  });

  test('unsettled windows are read, unless their requests failed in this run', async () => {
    const changed = (_: Window, index: number) => (index < 2 ? { state: 'unsettled' as const } : {});
    const { read, sum } = await proven({ held: ten, server: [11, 12, 10, 10], changed, failed: [0] });
    expect(read.slice(0, 1)).toEqual(['1']);
    expect(sum).toEqual({
      total: 43,
      problem: 'the mirror has 42 records and the server counts 43',
      proven: false,
      missing: false,
    });
  });

  test('only the requested days are read, and no event is recorded about the others', async () => {
    const only = { from: week(1), to: week(2) };
    const { sum, counted, read, events } = await proven({ held: ten, server: [11, 12, 13, 10], ports: { only } });
    expect(counted.slice(0, 3)).toEqual(['list', '1', 'list']);
    expect(read).toEqual(['1, which counts 12']);
    const problem = 'the mirror has 42 records and the server counts 46';
    expect([sum, events]).toEqual([{ total: 46, problem, proven: false, missing: false }, []]);
  });

  test('a window of everything is counted and read', async () => {
    const changed = () => ({ ...everything, serverTotal: 10 });
    const { read, sum } = await proven({ held: [10], server: [12], changed, ports: { isOpen: () => true } });
    expect([read, sum]).toEqual([['everything, which counts 12'], isProven(12)]);
    const left = () => ({ ...changed(), state: 'unsettled' as const });
    expect((await proven({ held: [10], server: [12], changed: left })).read).toEqual(['everything']);
  });
});

describe('records that cannot be read', () => {
  const at = freshAsOf;
  const known = (surplus: Surplus, windows: readonly Window[]) => {
    const [window] = windows;
    if (window !== undefined) surplus.noteUnreadable(window, { missing: 2, records: 2, at });
  };
  const changed = (window: Window, index: number) =>
    index === 0 ? { state: 'unsettled' as const, serverTotal: (window.serverTotal ?? 0) + 2 } : {};

  test('are not searched for again, and explain a difference', async () => {
    const { sum, read } = await proven({ held: ten, server: [12, 10, 10, 10], changed, known });
    expect([sum, read]).toEqual([{ total: 42, problem: null, proven: true, missing: false }, []]);
    const more = await proven({ held: ten, server: [12, 10, 13, 10], changed, known });
    expect(more.read).toEqual(['2, which counts 13']);
    expect(more.sum).toEqual({ total: 45, problem: null, proven: true, missing: false });
  });

  test('are searched for again if their window counts another number', async () => {
    const { read } = await proven({ held: ten, server: [13, 10, 10, 10], changed, known });
    expect(read).toEqual(['0, which counts 13']);
  });

  test('do not explain a larger difference, or rows that the server does not count', async () => {
    const lacks = await proven({ held: ten, server: [12, 10, 10, 10], more: 1, changed, known });
    expect(lacks.sum).toMatchObject({ proven: false });
    const fewer = await proven({ held: ten, server: [10, 10, 10, 10], more: -1, changed, known });
    expect(fewer.sum).toMatchObject({ proven: false });
  });
});

describe('records that no range of days shows', () => {
  test('are read if every window is settled and the list counts more', async () => {
    const { sum, read, log, windows } = await proven({ held: ten, outside: 5 });
    expect([sum, read]).toEqual([isProven(45), ['outside']]);
    expect(log.slice(-4)).toEqual(['count list', 'read outside', 'count 1 to 4', 'count list']);
    expect(windows).toHaveLength(5);
  });

  test('are a reason to measure the server again if stored capabilities were trusted', async () => {
    const work = proven({ held: ten, outside: 5, ports: { trustsStored: true } });
    await expect(work).rejects.toThrow(ContradictionError);
    await expect(work).rejects.toThrow('the windows show 40 records of users and the server counts 45');
  });

  test.each([
    ['the list counts fewer than are held', { more: -1 }],
    ['only some days were requested', { outside: 5, ports: { only: { from: week(0), to: week(4) } } }],
    ['it takes more than the run may send', { outside: 5, requests: -45 }],
    ['one of the windows is not settled', { outside: 5, changed: unsettled, failed: [1] }],
  ] as const)('are not looked for if %s, and the list is not counted again for that', async (_, start) => {
    const { read, counted } = await proven({ held: ten, ...start });
    expect(read).not.toContain('outside');
    expect(counted.filter((each) => each === 'list')).toHaveLength(2);
  });

  test('are looked for if other windows did not explain the difference', async () => {
    const { sum, log } = await proven({ held: ten, server: [11, 10, 10, 10], outside: 5 });
    expect(sum).toEqual(isProven(46));
    expect(log.filter((each) => /read|list/.test(each))).toEqual([
      'count list',
      'read 0',
      'count list',
      'count list',
      'read outside',
      'count list',
    ]);
  });

  test('are not looked for if the windows that were read explain the difference', async () => {
    const { sum, read } = await proven({ held: ten, hidden: [0, 2, 0, 0] });
    expect(read).toEqual(['1, which counts 12']);
    expect(sum).toMatchObject({ total: 42, proven: true, missing: false });
  });

  test('are not looked for if overlapping ranges count some records several times', async () => {
    const known = (surplus: Surplus, windows: readonly Window[]) => {
      for (const each of windows.slice(0, 2)) surplus.note(each, 2);
    };
    const start = { held: ten, moreIn: [2, 2, 0, 0], more: 2, known };
    const overlapping = await proven({ ...start, ports: unknownDays });
    expect([overlapping.sum.proven, overlapping.read]).toEqual([true, []]);
    const apart = await proven(start);
    expect([apart.sum.proven, new Set(apart.read)]).toEqual([false, new Set(['outside'])]);
  });

  function unsettled(_: Window, index: number): Partial<Window> {
    return index === 1 ? { state: 'unsettled' } : {};
  }

  test('are looked for only if there are enough requests for it', async () => {
    expect((await proven({ held: ten, outside: 5, requests: -43 })).read).toEqual(['outside']);
    expect((await proven({ held: ten, outside: 5, requests: -44 })).read).toEqual([]);
  });

  test('are read with the open windows if their window exists already', async () => {
    const changed = (_: Window, index: number) => (index === 0 ? outsideEra : {});
    const { read, sum } = await proven({ held: [0, 10], more: 3, changed });
    expect(read).toEqual(['outside']);
    expect(sum).toMatchObject({ total: 13, proven: false, missing: true });
  });
});

describe('a server that changes during the proof', () => {
  test('is counted again, and what changed meanwhile is read', async () => {
    const look = (looks: number, server: number[]) => {
      if (looks === 2) server[0] = 11;
    };
    const { sum, read } = await proven({ held: ten, server: [10, 12, 10, 10], look });
    expect([read, sum]).toEqual([['1, which counts 12', '0, which counts 11'], isProven(43)]);
  });

  test('is counted three times more, and then the difference is reported', async () => {
    const look = (looks: number, server: number[]) => {
      server[0] = 10 + looks;
    };
    const { sum, counted, events } = await proven({ held: ten, look });
    expect(counted.filter((each) => each === 'list')).toHaveLength(4);
    const problem = 'the mirror has 43 records and the server counts 44';
    expect([sum, events]).toEqual([{ total: 44, problem, proven: false, missing: false }, []]);
  });

  test('is not searched for records outside of all ranges while its total changes', async () => {
    const { sum, read } = await proven({ held: ten, moreAt: (looks) => looks, look: () => {} });
    expect(read).toEqual([]);
    expect(sum).toMatchObject({ total: 44, problem: 'the mirror has 40 records and the server counts 44' });
  });

  test('is not searched if its list became empty', async () => {
    const { read, counted } = await proven({ held: ten, server: [0, 0, 0, 0] });
    expect([read, new Set(counted)]).toEqual([[], new Set(['list'])]);
  });
});

describe('a total that counts fewer than are held', () => {
  test('is reported with the number, and does not count as missing records', async () => {
    const { sum, surplus, events } = await proven({ held: ten, more: -2 });
    const counts = 'the mirror has 40 records and the server counts 38';
    const problem = `the totals of this list count 2 records fewer than its pages show: ${counts}`;
    expect(sum).toEqual({ total: 38, problem, proven: false, missing: false });
    expect(surplus.list).toBe(-2);
    expect(events).toHaveLength(1);
  });

  test('is proven if every window showed the same', async () => {
    const known = (surplus: Surplus, windows: readonly Window[]) => windows.forEach((each) => surplus.note(each, -1));
    const { sum } = await proven({ held: ten, moreInEach: -1, more: -4, known });
    expect(sum).toMatchObject({ total: 36, proven: true, missing: false, problem: expect.any(String) });
  });
});

describe('the window of records that no range of days shows', () => {
  test.each([
    ['is removed if it was read and has no record', 'settled', 0, 4],
    ['stays while it was not read', 'pending', 0, 5],
    ['stays with a record', 'settled', 1, 5],
  ] as const)('%s', async (_, state, outside, count) => {
    const made = world({ held: ten, outside });
    made.store.resetWindows('users', [outsideEra, ...made.windows]);
    const [window] = made.windows;
    if (window !== undefined && state === 'settled') await made.ports.visitor.visitAll([window]);
    forgetEmptyOutside(made.store, 'users');
    expect(made.windows).toHaveLength(count);
    expect(made.windows.filter((each) => coverageOf(each) === 'days')).toHaveLength(4);
  });

  test('is not created if there is none', () => {
    const made = world({ held: [0, 10, 10, 10] });
    forgetEmptyOutside(made.store, 'users');
    expect(made.windows).toHaveLength(4);
  });
});
