import { describe, expect, test } from 'vitest';
import type { Day, Timestamp } from '../../src/model/time.ts';
import { planSteps, type PlanInput } from '../../src/mirror/plan.ts';
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

const sealedStale = window('2026-01-01', '2026-02-01', { freshAsOf: '2026-11-01T00:00:00.000000Z' as Timestamp });
const sealedFresh = window('2026-02-01', '2026-03-01');
const unfinished = window('2026-03-01', '2026-04-01', { state: 'walking' });
const unsettled = window('2026-04-01', '2026-05-01', { state: 'unsettled' });
const pending = window('2026-05-01', '2026-06-01', { state: 'pending', freshAsOf: null });
const open = window('2026-11-19', '3000-01-01');
const windows = [sealedStale, sealedFresh, unfinished, unsettled, pending, open];

function plan(input: Partial<PlanInput>): (readonly [from: string, reason: string])[] {
  return planSteps({
    windows,
    altered: new Set(),
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
  test('the open window first, then what was left, then the stalest, and everything where the budget allows it', () => {
    expect(plan({})).toEqual([...duties, ['2026-01-01', 'least recently read'], ['2026-02-01', 'least recently read']]);
  });

  test('only as many old windows as the budget of pages allows, the stalest first', () => {
    expect(plan({ budget: 2 })).toEqual([...duties, ['2026-01-01', 'least recently read']]);
    expect(plan({ budget: 1 })).toEqual(duties);
  });

  test('no old window when it shall be quick', () => {
    expect(plan({ mode: 'quick' })).toEqual(duties);
  });

  test('every window of a resource that is read whole, even when it shall be quick', () => {
    expect(plan({ mode: 'quick', whole: true })).toHaveLength(windows.length);
  });

  test('every window when it shall be full', () => {
    expect(plan({ mode: 'full', budget: 0 })).toHaveLength(windows.length);
  });

  test('the windows that hold days of the range requested, and no others', () => {
    const only = { from: '2026-01-15' as Day, to: '2026-02-02' as Day };
    expect(plan({ only, mode: 'quick' })).toEqual([
      ['2026-01-01', 'requested'],
      ['2026-02-01', 'requested'],
    ]);
  });
});
