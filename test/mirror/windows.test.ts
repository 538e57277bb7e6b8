import { assert, integer, option, property, tuple } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { eraEnd, eraStart, everything, outsideEra, outsideStart, owns } from '../../src/model/era.ts';
import { addDays, type Day, type Timestamp } from '../../src/model/time.ts';
import { firstWindows, isOpen, mergeWindows, sealDay, splitDay, splitWindow } from '../../src/mirror/plan.ts';
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
    problem: null,
    ...more,
  };
}

describe('the seal', () => {
  test('lies the grace period before the server’s clock, at the start of that day', () => {
    expect(sealDay(Date.parse('2026-11-21T01:00:00Z'), 48 * 3_600_000)).toBe('2026-11-19');
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
  expect(rest.serverTotal).toBeNull();
  expect(splitWindow({ ...whole, serverTotal: 20 }, day('2026-01-16'), 30)[1].serverTotal).toBe(0);
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

  test('counts the surplus of each total only once, and not as records', () => {
    const two = [window('2026-01-01', '2026-02-01'), window('2026-02-01', '2026-03-01')];
    // Each total of ten includes a surplus of three, so there are fourteen records, which one range counts as seventeen.
    expect(mergeWindows(two, seal, 14, 3)).toMatchObject([{ serverTotal: 17 }]);
    expect(mergeWindows(two, seal, 13, 3)).toHaveLength(2);
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
