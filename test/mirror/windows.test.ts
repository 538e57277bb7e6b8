import { assert, integer, option, property, tuple } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { eraEnd, eraStart, everything, outsideEra, outsideStart, owns } from '../../src/model/era.ts';
import { addDays, type Day, type Timestamp } from '../../src/model/time.ts';
import {
  choose,
  type Choice,
  cutOut,
  firstWindows,
  isOpen,
  largestWindow,
  mergeWindows,
  requestedRange,
  sealDay,
  splitDay,
  splitWindow,
  strayIn,
} from '../../src/mirror/windows.ts';
import type { Window } from '../../src/store/mirror-types.ts';

const day = (text: string) => text as Day;

function window(from: string, to: string, more: Partial<Window> = {}): Window {
  return {
    resource: 'users',
    from: day(from),
    to: day(to),
    state: 'settled',
    serverTotal: 10,
    pagesRead: 1,
    freshAsOf: '2026-11-01T00:00:00.000000Z' as Timestamp,
    cause: null,
    problem: null,
    surplus: 0,
    ...more,
  };
}

describe('the seal', () => {
  test('lies the grace period before the server’s clock, at the start of that day', () => {
    expect(sealDay(Date.parse('2026-11-21T01:00:00Z'))).toBe('2026-11-19');
  });

  test('leaves windows open that reach beyond it, and all that are not ranges of days', () => {
    expect(isOpen(window('2026-01-01', '2026-11-19'), day('2026-11-19'))).toBe(false);
    expect(isOpen(window('2026-01-01', '2026-11-20'), day('2026-11-19'))).toBe(true);
    expect(isOpen({ ...window('2026-01-01', '2026-01-02'), ...outsideEra }, day('2026-11-19'))).toBe(true);
  });
});

test('the first windows cover all of time without a gap, cut at every given day of the era once', () => {
  const cuts = [day('2026-11-19'), day('2026-10-01'), day('2026-11-19'), eraStart, outsideStart, eraEnd];
  expect(firstWindows([...cuts, day('9999-01-01')])).toEqual([
    { from: eraStart, to: '2026-10-01' },
    { from: '2026-10-01', to: '2026-11-19' },
    { from: '2026-11-19', to: eraEnd },
  ]);
});

describe('the day to cut at', () => {
  test('halves the days between the oldest and the newest record', () => {
    const extent = { oldest: day('2026-01-01'), newest: day('2026-01-30') };
    expect(splitDay({ from: eraStart, to: eraEnd }, extent)).toBe('2026-01-16');
  });

  test('cuts off the empty side if all records lie on one day', () => {
    const extent = { oldest: day('2026-01-05'), newest: day('2026-01-05') };
    expect(splitDay({ from: eraStart, to: eraEnd }, extent)).toBe('2026-01-05');
    expect(splitDay({ from: day('2026-01-05'), to: eraEnd }, extent)).toBe('2026-01-06');
    expect(splitDay({ from: day('2026-01-05'), to: day('2026-01-06') }, extent)).toBeUndefined();
  });

  test('halves the window if all records lie just before or just after it', () => {
    const january = { from: day('2026-01-01'), to: day('2026-02-01') };
    expect(splitDay(january, { oldest: day('2026-02-01'), newest: null })).toBe('2026-01-16');
    expect(splitDay(january, { oldest: null, newest: day('2025-12-31') })).toBe('2026-01-16');
  });

  test('does not exist for a window that is not a range of days', () => {
    expect(splitDay(everything, { oldest: null, newest: null })).toBeUndefined();
  });

  test('lies inside the window for any extent, unless the window is a single day', () => {
    const days = integer({ min: 0, max: 20_000 }).map((count) => addDays(day('1990-01-01'), count));
    assert(
      property(
        tuple(days, days).filter(([a, b]) => a < b),
        option(days),
        option(days),
        ([from, to], oldest, newest) => {
          const at = splitDay({ from, to }, { oldest, newest });
          expect(at === undefined ? addDays(from, 1) === to : from < at && at < to).toBe(true);
        },
      ),
    );
  });
});

test('a cut window keeps its days and its count', () => {
  const whole = window('2026-01-01', '2026-02-01', { serverTotal: 100 });
  expect(splitWindow(whole, day('2026-01-16'), 30)).toEqual([
    { from: '2026-01-01', to: '2026-01-16', serverTotal: 30 },
    { from: '2026-01-16', to: '2026-02-01', serverTotal: 70 },
  ]);
  const [, rest] = splitWindow({ ...whole, serverTotal: null }, day('2026-01-16'), 30);
  expect(rest?.serverTotal).toBeNull();
  expect(splitWindow({ ...whole, serverTotal: 20 }, day('2026-01-16'), 30)[1]?.serverTotal).toBe(0);
});

describe('merging', () => {
  const seal = day('2026-11-19');

  test('joins small settled neighbours, and the result is as fresh as the older one', () => {
    const older = '2026-10-01T00:00:00.000000Z' as Timestamp;
    expect(
      mergeWindows(
        [window('2026-01-01', '2026-02-01'), window('2026-02-01', '2026-03-01', { freshAsOf: older })],
        seal,
        20,
      ),
    ).toMatchObject([{ from: '2026-01-01', to: '2026-03-01', serverTotal: 20, freshAsOf: older, state: 'settled' }]);
    expect(
      mergeWindows(
        [window('2026-01-01', '2026-02-01', { freshAsOf: older }), window('2026-02-01', '2026-03-01')],
        seal,
        20,
      ),
    ).toMatchObject([{ freshAsOf: older }]);
  });

  test('adds up what their totals count that no page shows', () => {
    const two = [window('2026-01-01', '2026-02-01', { surplus: 2 }), window('2026-02-01', '2026-03-01')];
    expect(mergeWindows(two, seal, 20)).toMatchObject([{ serverTotal: 20, surplus: 2 }]);
  });

  test.each([
    ['the open end', window('2026-02-01', '2026-12-01')],
    ['an unsettled window', window('2026-02-01', '2026-03-01', { state: 'unsettled', problem: 'no answer' })],
    ['a window that was never counted', window('2026-02-01', '2026-03-01', { serverTotal: null })],
    ['too many records', window('2026-02-01', '2026-03-01', { serverTotal: 11 })],
  ])('does not join %s', (_name, second) => {
    expect(mergeWindows([window('2026-01-01', '2026-02-01'), second], seal, 20)).toHaveLength(2);
  });

  test('does not join the records outside of the era with those of days', () => {
    const outside = { ...window('0000-01-01', '1000-01-01'), ...outsideEra };
    expect(mergeWindows([outside, window(eraStart, '2026-01-01')], seal, 20)).toHaveLength(2);
  });
});

describe('a record belongs to a window', () => {
  test.each([
    ['2026-01-01T00:00:00.000000Z', true],
    ['2026-01-31T23:59:59.999999Z', true],
    ['2026-02-01T00:00:00.000000Z', false],
    ['2025-12-31T23:59:59.999999Z', false],
    [null, false],
    [5, false],
  ])('by its creation time in [from, to): %j', (createdAt, expected) => {
    expect(owns({ from: day('2026-01-01'), to: day('2026-02-01') }, createdAt)).toBe(expected);
  });

  test.each([null, 5, 'soon', '0999-12-31T00:00:00.000000Z'])('outside of the era of known days: %j', (odd) => {
    expect(owns(outsideEra, odd)).toBe(true);
    expect(owns({ from: eraStart, to: eraEnd }, odd)).toBe(false);
    expect(owns(everything, odd)).toBe(true);
  });
});

test('a piece that is cut out of a window is read again, and the rest stays as it was read', () => {
  const whole = window('2026-01-01', '2026-02-01');
  const rows = ({ from }: { readonly from: Day }) => Number(from.slice(-2));
  const piece = { from: day('2026-01-10'), to: day('2026-01-12') };
  expect(cutOut(whole, piece, rows)).toMatchObject([
    { from: '2026-01-01', to: '2026-01-10', state: 'settled', serverTotal: 1 },
    { from: '2026-01-10', to: '2026-01-12', state: 'pending', serverTotal: 10 },
    { from: '2026-01-12', to: '2026-02-01', state: 'settled', serverTotal: 12 },
  ]);
  expect(new Set(cutOut(whole, piece, rows).map(({ freshAsOf }) => freshAsOf))).toEqual(new Set([whole.freshAsOf]));
  expect(cutOut(whole, { from: day('2025-12-01'), to: day('2026-01-10') }, rows)).toHaveLength(2);
  expect(cutOut(whole, { from: eraStart, to: eraEnd }, rows)).toMatchObject([{ state: 'pending' }]);
});

test('a window holds as many pages as are set, no page of it is deeper than 10,000 records, and one without an order is a page', () => {
  const profile = {
    pageSize: 100,
    ordered: true,
    dates: 'iso',
    dayBounds: 'exact',
    clockAheadMs: 0,
    notes: [],
  } as const;
  expect(largestWindow(profile, 20)).toBe(2_000);
  expect(largestWindow({ ...profile, pageSize: 1_000 }, 20)).toBe(10_000);
  expect(largestWindow({ ...profile, pageSize: 20_000 }, 20)).toBe(20_000);
  expect(largestWindow({ ...profile, ordered: false }, 20)).toBe(100);
});

describe('a window is requested', () => {
  const march = { from: day('2026-03-01'), to: day('2026-04-01') };

  test.each([
    ['exact', '2026-03-01', '2026-03-31'],
    ['next_day', '2026-03-01', '2026-04-01'],
    ['wide', '2026-02-28', '2026-04-02'],
  ] as const)('by a range whose days are %s', (dayBounds, from, to) => {
    expect(requestedRange(march, { dayBounds })).toEqual({ from, to });
  });

  test('never beyond the era, and without a range if none can show it', () => {
    expect(requestedRange({ from: eraStart, to: eraEnd }, { dayBounds: 'wide' })).toEqual({
      from: eraStart,
      to: eraEnd,
    });
    for (const each of [everything, outsideEra]) expect(requestedRange(each, { dayBounds: 'exact' })).toBeNull();
  });

  test.each([
    ['next_day', '2026-02-26T10:00:00.000000Z', 'outside'],
    ['next_day', '2026-02-28T23:59:59.000000Z', 'beside'],
    ['next_day', '2026-03-01T00:00:00.000000Z', undefined],
    ['next_day', '2026-04-01T00:00:00.000000Z', undefined],
    ['next_day', '2026-04-01 00:00:01', 'beside'],
    ['next_day', '2026-04-03T10:00:00.000000Z', 'outside'],
    ['exact', '2026-04-01T23:59:59.000000Z', undefined],
    ['exact', '2026-04-02T00:00:01.000000Z', 'beside'],
    ['wide', '2026-02-28T23:59:59.000000Z', undefined],
    ['wide', '2026-04-02T23:59:59.000000Z', undefined],
    ['wide', '2026-04-03T10:00:00.000000Z', 'outside'],
    ['exact', 'soon', undefined],
    ['exact', null, undefined],
  ] as const)('(%s) and a record of %j lies %s', (dayBounds, createdAt, stray) => {
    expect(strayIn(march, { dayBounds })(createdAt)).toBe(stray);
  });

  test('and a range without an end has no record behind it', () => {
    const last = { from: march.from, to: eraEnd };
    expect(strayIn(last, { dayBounds: 'exact' })('9026-04-03T10:00:00.000000Z')).toBeUndefined();
    expect(strayIn({ from: eraStart, to: march.to }, { dayBounds: 'exact' })('0001-04-03T10:00:00Z')).toBeUndefined();
  });
});

describe('a run reads', () => {
  const at = (text: string) => `${text}T00:00:00.000000Z` as Timestamp;
  const more = { serverTotal: 2_000, freshAsOf: at('2026-11-10') };
  const stale = window('2026-01-01', '2026-02-01', { ...more, freshAsOf: at('2026-11-01') });
  const fresh = window('2026-02-01', '2026-03-01', more);
  const unfinished = window('2026-03-01', '2026-04-01', { ...more, state: 'walking' });
  const unsettled = window('2026-04-01', '2026-05-01', { ...more, state: 'unsettled' });
  const pending = window('2026-05-01', '2026-06-01', { state: 'pending', serverTotal: 3_000, freshAsOf: null });
  const open = window('2026-11-19', '3000-01-01', more);
  const windows = [stale, fresh, unfinished, unsettled, pending, open];

  function chosen(choice: Partial<Choice>): (readonly [from: string, reason: string])[] {
    return choose({
      windows,
      isTouched: () => false,
      seal: day('2026-11-19'),
      mode: 'default',
      whole: false,
      only: null,
      readSince: null,
      budget: 1_000,
      pageSize: 1_000,
      ...choice,
    }).map(({ window: { from }, reason }) => [from, reason] as const);
  }

  const duties = [
    ['2026-11-19', 'open: records may still be added'],
    ['2026-05-01', 'never read'],
    ['2026-03-01', 'left unfinished'],
    ['2026-04-01', 'left unfinished'],
  ] as const;
  const old = ['2026-01-01', 'least recently read'] as const;

  test('the open window first, then what must be read, the largest first, then the stalest', () => {
    expect(chosen({})).toEqual([...duties, old, ['2026-02-01', 'least recently read']]);
  });

  test('only as many old windows as the budget of pages allows, and none in quick mode', () => {
    expect(chosen({ budget: 2 })).toEqual([...duties, old]);
    expect(chosen({ budget: 1 })).toEqual(duties);
    expect(chosen({ mode: 'quick' })).toEqual(duties);
    const empty = [1, 2, 3].map((each) => window(`2026-01-0${each}`, `2026-01-0${each + 1}`, { serverTotal: 0 }));
    expect(chosen({ windows: empty, budget: 2 })).toHaveLength(2);
    const hidden = window('2026-01-01', '2026-02-01', { serverTotal: 9_000, surplus: 8_500 });
    expect(chosen({ windows: [hidden], budget: 1 })).toHaveLength(1);
  });

  test('everything in full mode, and always of a resource that is read whole', () => {
    expect(new Set(chosen({ mode: 'full', budget: 0 }).map(([, reason]) => reason))).toEqual(
      new Set(['requested', 'left unfinished', 'never read']),
    );
    expect(chosen({ mode: 'quick', whole: true })).toContainEqual(['2026-01-01', 'read whole in each run']);
    expect(chosen({ mode: 'quick', whole: true })).toHaveLength(windows.length);
  });

  test('the windows that hold days of the requested range, and none that only borders on it', () => {
    const only = { from: day('2026-01-15'), to: day('2026-02-02') };
    expect(chosen({ only, mode: 'quick' })).toEqual([
      ['2026-01-01', 'requested'],
      ['2026-02-01', 'requested'],
    ]);
    expect(chosen({ only: { from: day('2026-02-01'), to: day('2026-03-01') } })).toEqual([['2026-02-01', 'requested']]);
  });

  test('a window with altered rows whatever the budget, unless it would be read anyway', () => {
    const isTouched = ({ from }: Window) => from === '2026-02-01';
    const altered = ['2026-02-01', 'rows are not as they were read'];
    expect(chosen({ mode: 'quick', isTouched })).toEqual([...duties, altered]);
    expect(chosen({ budget: 2, isTouched })).toEqual([...duties, old, altered]);
    expect(chosen({ isTouched })).toContainEqual(['2026-02-01', 'least recently read']);
  });

  test('no window that was read whole at or after the given time', () => {
    const since = (readSince: Timestamp) => chosen({ mode: 'full', readSince }).map(([from]) => from);
    expect(since(at('2026-11-10')).sort()).toEqual(['2026-01-01', '2026-03-01', '2026-04-01', '2026-05-01']);
    expect(since(at('2026-11-11'))).toHaveLength(windows.length);
  });
});
