import { expect, test } from 'vitest';
import type { Capabilities } from '../../src/api/capabilities.ts';
import { countedStretches } from '../../src/mirror/verify-window.ts';
import { parseDay, type Day } from '../../src/model/time.ts';

function day(text: string): Day {
  const parsed = parseDay(text);
  if (parsed === undefined) throw new Error(`${text} is no day`);
  return parsed;
}

function bounds(from: string, to: string, rules: Pick<Capabilities, 'rangeEnd' | 'dayShiftMinutes'>) {
  const capabilities: Capabilities = { pageSize: 100, ranges: 'iso', sorts: 'kept', notes: [], ...rules };
  const { sure, possible } = countedStretches({ from: day(from), to: day(to) }, capabilities);
  return [`${sure.from} ${sure.to}`, `${possible.from} ${possible.to}`];
}

// Times at the edge of a range are known only to the second.
test.each([
  ['exclusive', 0, ['2026-03-01T00:00:00 2026-03-04T00:00:00', '2026-03-01T00:00:00 2026-03-04T00:00:01']],
  ['inclusive', 0, ['2026-03-01T00:00:00 2026-03-04T23:59:59', '2026-03-01T00:00:00 2026-03-05T00:00:01']],
  ['exclusive', 330, ['2026-02-28T18:30:00 2026-03-03T18:30:00', '2026-02-28T18:30:00 2026-03-03T18:30:01']],
  ['exclusive', 'unknown', ['2026-03-01T14:00:00 2026-03-03T10:00:00', '2026-02-28T10:00:00 2026-03-04T14:00:01']],
  ['unknown', 0, ['2026-03-01T00:00:00 2026-03-04T00:00:00', '2026-03-01T00:00:00 2026-03-05T00:00:01']],
] as const)(
  'a range with an %s end and days shifted by %s minutes has sure and possible bounds',
  (rangeEnd, dayShiftMinutes, expected) => {
    expect(bounds('2026-03-01', '2026-03-04', { rangeEnd, dayShiftMinutes })).toEqual(expected);
  },
);
