import { describe, expect, test } from 'vitest';
import { endLine, progressLine } from '../../src/cli/progress.ts';

const startedAt = Date.parse('2026-03-11T10:00:00Z');

describe('the progress line of a resource', () => {
  test('shows records read, rate and time left', () => {
    expect(
      progressLine(
        'users',
        { records: 5_000, expected: 20_000, windows: 0, ofWindows: 0, startedAt },
        startedAt + 2_000,
      ),
    ).toBe('users     ██████░░░░░░░░░░░░░░░░░░  5,000 of 20,000   2,500/s   0:06 left');
    expect(
      progressLine(
        'emails',
        { records: 1_000, expected: 9_001_000, windows: 0, ofWindows: 0, startedAt },
        startedAt + 1_000,
      ),
    ).toMatch(/1,000 of 9,001,000 {3}1,000\/s {3}2:30:00 left$/);
  });

  test('shows no time left if more came than expected, or nothing yet', () => {
    expect(
      progressLine(
        'users',
        { records: 1_005, expected: 1_000, windows: 0, ofWindows: 0, startedAt },
        startedAt + 1_000,
      ),
    ).toBe('users     ████████████████████████  1,005 read   1,005/s');
    expect(progressLine('users', { records: 0, expected: 10, windows: 0, ofWindows: 0, startedAt }, startedAt)).toMatch(
      / 0 of 10 {3}0\/s$/,
    );
  });

  test('ends with records read and duration', () => {
    expect(
      endLine('packages', { records: 41, expected: 40, windows: 0, ofWindows: 0, startedAt }, startedAt + 140),
    ).toBe('packages  41 records read in 0.1 s');
    expect(endLine('users', { records: 1, expected: 1, windows: 0, ofWindows: 0, startedAt }, startedAt + 65_000)).toBe(
      'users     1 record read in 1:05',
    );
  });
});
