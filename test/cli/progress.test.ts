import { expect, test } from 'vitest';
import { progressLine } from '../../src/cli/progress.ts';

test.each([
  [0, 1_000, 0, '░░░░░░░░░░░░░░░░░░░░░░░░  0 of 1,000   0.0/s'],
  [250, 1_000, 20, '██████░░░░░░░░░░░░░░░░░░  250 of 1,000   13/s   1:00 left'],
  [1_000, 9_001_000, 1, '░░░░░░░░░░░░░░░░░░░░░░░░  1,000 of 9,001,000   1,000/s   2:30:00 left'],
  [1_005, 1_000, 1, '████████████████████████  1,005 read   1,005/s'],
])('the progress of %i of %i after %i seconds shows rate and time left', (done, total, seconds, line) => {
  expect(progressLine({ done, total, startedAt: 5_000 }, 5_000 + seconds * 1_000)).toBe(line);
});
