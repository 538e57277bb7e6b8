import { describe, expect, test } from 'vitest';
import { type Day, dayMs, type Timestamp } from '../../src/model/time.ts';
import { graceMs, heldIn, pagesOf, planSteps, type PlanInput, wholeResources } from '../../src/mirror/plan.ts';
import type { Window } from '../../src/store/mirror-types.ts';

const seal = '2026-11-19';

function window(from: string, to: string, more: Partial<Window> = {}): Window {
  return {
    resource: 'users',
    from: from as Day,
    to: to as Day,
    state: 'settled',
    serverTotal: 2_000,
    pagesRead: 2,
    freshAsOf: '2026-11-10T00:00:00.000000Z' as Timestamp,
    problem: null,
    ...more,
  };
}

const at = (day: string) => `${day}T00:00:00.000000Z` as Timestamp;

const sealedStale = window('2026-01-01', '2026-02-01', { freshAsOf: at('2026-11-01') });
const sealedFresh = window('2026-02-01', '2026-03-01');
const unfinished = window('2026-03-01', '2026-04-01', { state: 'walking' });
const unsettled = window('2026-04-01', '2026-05-01', { state: 'unsettled' });
const pending = window('2026-05-01', '2026-06-01', { state: 'pending', freshAsOf: null });
const open = window('2026-11-19', '3000-01-01');
const windows = [sealedStale, sealedFresh, unfinished, unsettled, pending, open];

function plan(input: Partial<PlanInput>): (readonly [from: string, reason: string])[] {
  return planSteps({
    windows,
    isAltered: () => false,
    isOpen: ({ to }) => to > seal,
    mode: 'default',
    whole: false,
    only: null,
    readSince: null,
    budget: 1_000,
    pageSize: 1_000,
    shownIn: ({ serverTotal }) => serverTotal ?? 0,
    ...input,
  }).map(({ window: { from }, reason }) => [from, reason] as const);
}

const duties = [
  ['2026-11-19', 'open: records may still be added'],
  ['2026-03-01', 'left unfinished'],
  ['2026-04-01', 'left unfinished'],
  ['2026-05-01', 'never read'],
] as const;

describe('a run reads', () => {
  test('the open window first, then unfinished ones, then the stalest, and everything if the budget allows it', () => {
    expect(plan({})).toEqual([...duties, ['2026-01-01', 'least recently read'], ['2026-02-01', 'least recently read']]);
  });

  test('only as many old windows as the budget of pages allows, the stalest first', () => {
    expect(plan({ budget: 2 })).toEqual([...duties, ['2026-01-01', 'least recently read']]);
    expect(plan({ budget: 1 })).toEqual(duties);
  });

  test('no old window in quick mode', () => {
    expect(plan({ mode: 'quick' })).toEqual(duties);
  });

  test('every window of a resource that is read whole, even in quick mode', () => {
    expect(plan({ mode: 'quick', whole: true })).toHaveLength(windows.length);
  });

  test('every window in full mode', () => {
    expect(plan({ mode: 'full', budget: 0 })).toHaveLength(windows.length);
  });

  test('the windows that hold days of the requested range, and no others', () => {
    const only = { from: '2026-01-15' as Day, to: '2026-02-02' as Day };
    expect(plan({ only, mode: 'quick' })).toEqual([
      ['2026-01-01', 'requested'],
      ['2026-02-01', 'requested'],
    ]);
  });

  test('no window that only borders on the requested range', () => {
    const day = { from: '2026-02-01' as Day, to: '2026-03-01' as Day };
    expect(plan({ only: day })).toEqual([['2026-02-01', 'requested']]);
  });

  test('a window with altered rows whatever the budget, unless it would be read anyway', () => {
    const isAltered = ({ from }: Window) => from === '2026-02-01';
    const altered = ['2026-02-01', 'rows are not as they were read'];
    expect(plan({ mode: 'quick', isAltered })).toEqual([...duties, altered]);
    expect(plan({ budget: 2, isAltered })).toEqual([...duties, ['2026-01-01', 'least recently read'], altered]);
    expect(plan({ isAltered })).toContainEqual(['2026-02-01', 'least recently read']);
    expect(plan({ mode: 'full', isAltered })).toContainEqual(['2026-02-01', 'requested']);
  });

  test('each window with the reason that the run is full or the resource read whole', () => {
    expect(new Set(plan({ mode: 'full' }).map(([, reason]) => reason))).toEqual(
      new Set(['requested', 'left unfinished', 'never read']),
    );
    expect(plan({ whole: true })).toContainEqual(['2026-01-01', 'read whole in each run']);
  });

  test('unfinished windows in every mode, but an unsettled one with unreadable records only in its turn', () => {
    const searched = {
      windows: windows.map((each) => (each === unsettled ? { ...each, freshAsOf: null } : each)),
      searchedAt: ({ from }: Window) => (from === '2026-04-01' ? at('2026-11-05') : undefined),
    };
    expect(plan({ mode: 'quick', ...searched })).not.toContainEqual(['2026-04-01', expect.anything()]);
    expect(plan({ budget: 4, ...searched })).toEqual([
      ...duties.filter(([from]) => from !== '2026-04-01'),
      ['2026-01-01', 'least recently read'],
      ['2026-04-01', 'least recently read'],
    ]);
    const walking = { searchedAt: () => at('2026-11-05') };
    expect(plan({ mode: 'quick', ...walking })).toContainEqual(['2026-03-01', 'left unfinished']);
  });

  test('the old window that was never read completely first, then the others by age', () => {
    const never = window('2026-06-01', '2026-07-01', { freshAsOf: null });
    expect(plan({ windows: [sealedFresh, sealedStale, never] }).map(([from]) => from)).toEqual([
      '2026-06-01',
      '2026-01-01',
      '2026-02-01',
    ]);
  });

  test('no window that was read completely at or after the given time', () => {
    const since = (readSince: Timestamp) => plan({ mode: 'full', readSince }).map(([from]) => from);
    expect(since(at('2026-11-10'))).toEqual(['2026-01-01', '2026-03-01', '2026-04-01', '2026-05-01'].sort());
    expect(since(at('2026-11-11'))).toHaveLength(windows.length);
    const never = window('2026-06-01', '2026-07-01', { freshAsOf: null });
    expect(plan({ windows: [never], mode: 'full', readSince: at('2026-11-10') })).toHaveLength(1);
  });

  test('an old window at the price of at least one page, even if it is empty', () => {
    const empty = [1, 2, 3].map((day) => window(`2026-01-0${day}`, `2026-01-0${day + 1}`, { serverTotal: 0 }));
    expect(plan({ windows: empty, budget: 2 })).toHaveLength(2);
    expect([0, 1, 1_000, 1_001].map((records) => pagesOf(records, 1_000))).toEqual([1, 1, 1, 2]);
  });
});

test('the rows of each window are counted', () => {
  const store = { accountedCount: (_: string, days?: { readonly from: Day }) => (days?.from === '2026-01-01' ? 7 : 0) };
  expect(heldIn(store, 'users', [sealedStale, sealedFresh])).toEqual([
    { from: '2026-01-01', to: '2026-02-01', rows: 7 },
    { from: '2026-02-01', to: '2026-03-01', rows: 0 },
  ]);
});

test('the grace period is two days, and small resources are read whole', () => {
  expect(graceMs).toBe(2 * dayMs);
  expect([...wholeResources]).toEqual(['packages', 'coupons']);
});
