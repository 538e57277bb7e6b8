import { describe, expect, test } from 'vitest';
import type { Capabilities } from '../../src/api/capabilities.ts';
import { eraEnd, eraStart, everything, outsideEra } from '../../src/model/era.ts';
import type { Day } from '../../src/model/time.ts';
import { isOutside, requestedRange } from '../../src/mirror/source.ts';

const window = { from: '2026-03-01' as Day, to: '2026-04-01' as Day };

function capabilities(
  rangeEnd: Capabilities['rangeEnd'],
  dayShiftMinutes: Capabilities['dayShiftMinutes'],
): Capabilities {
  return {
    pageSize: 1_000,
    ranges: 'iso',
    rangeEnd,
    dayShiftMinutes,
    sorts: 'kept',
    clockDifferenceMs: 0,
  } as Capabilities;
}

describe('a window is requested', () => {
  test.each([
    ['exclusive', 0, '2026-03-01', '2026-04-01'],
    ['inclusive', 0, '2026-03-01', '2026-03-31'],
    ['unknown', 0, '2026-03-01', '2026-04-01'],
    ['exclusive', 120, '2026-02-28', '2026-04-02'],
    ['inclusive', 120, '2026-02-28', '2026-04-01'],
    ['unknown', 'unknown', '2026-02-28', '2026-04-02'],
  ] as const)('by a range wide enough for an %s end and a shift of %s minutes', (end, shift, from, to) => {
    expect(requestedRange(window, capabilities(end, shift))).toEqual({ from, to });
  });

  test('never beyond the era', () => {
    expect(requestedRange({ from: eraStart, to: eraEnd }, capabilities('exclusive', 'unknown'))).toEqual({
      from: eraStart,
      to: eraEnd,
    });
  });

  test('without a range if no range can show it', () => {
    expect(requestedRange(everything, capabilities('exclusive', 0))).toBeNull();
    expect(requestedRange(outsideEra, capabilities('exclusive', 0))).toBeNull();
  });
});

describe('a record days outside of the requested range shows that the server ignores ranges', () => {
  test.each([
    ['2026-02-28T10:00:00.000000Z', false],
    ['2026-02-27T10:00:00.000000Z', true],
    ['2026-04-02T10:00:00.000000Z', false],
    ['2026-04-03T10:00:00.000000Z', true],
    ['soon', false],
    [null, false],
  ])('%j: %s', (createdAt, breaks) => {
    expect(isOutside(window)(createdAt)).toBe(breaks);
  });

  test('but not if the range has no end', () => {
    expect(isOutside({ from: window.from, to: eraEnd })('2026-04-03T10:00:00.000000Z')).toBe(false);
    expect(isOutside({ from: eraStart, to: window.to })('0001-04-03T10:00:00.000000Z')).toBe(false);
  });
});
