import { describe, expect, test } from 'vitest';
import { parseMoment, dayMs, timestampOf } from '../../src/model/time.ts';

const now = Date.parse('2026-03-11T10:20:30.400Z');

describe('a moment', () => {
  test.each([
    ['2026-03-01T08:00:00Z', '2026-03-01T08:00:00.000000Z'],
    ['2026-03-01T08:00:00.123456Z', '2026-03-01T08:00:00.123000Z'],
    ['2026-03-01 08:00:00', '2026-03-01T08:00:00.000000Z'],
    ['2026-03-01 08:05', '2026-03-01T08:05:00.000000Z'],
    ['2026-03-01T08:05Z', '2026-03-01T08:05:00.000000Z'],
    ['2026-03-01T08:05+02:00', '2026-03-01T06:05:00.000000Z'],
    ['2026-03-01T08:00:00+02:00', '2026-03-01T06:00:00.000000Z'],
    [' 2026-03-01 ', '2026-03-01T00:00:00.000000Z'],
    ['7d', '2026-03-04T10:20:30.400000Z'],
    ['90m', '2026-03-11T08:50:30.400000Z'],
    ['99999999d', '1970-01-01T00:00:00.000000Z'],
  ])('is read from %j', (text, expected) => {
    expect(timestampOf(parseMoment(text, now) ?? NaN)).toBe(expected);
  });

  test('of a day is its last one if the day is to be included', () => {
    expect(parseMoment('2024-02-29', now, true)).toBe(Date.parse('2024-02-29') + dayMs - 1);
  });

  test.each(['', 'yesterday', '2026-02-30', '2026-13-01', '7', '-7d', '7w', '11.03.2026'])('is not %j', (text) => {
    expect(parseMoment(text, now)).toBeUndefined();
  });
});
