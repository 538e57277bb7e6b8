import { expect, test } from 'vitest';
import { type BulkTally, bulkLine, tallied } from '../../src/cli/progress.ts';

const startedAt = Date.parse('2026-03-11T10:00:00Z');
const begun: BulkTally = { rows: 0, done: 0, failed: 0, startedAt };

test('the progress line of a batch shows rows done, rate, time left and failures', () => {
  let tally = tallied(begun, { kind: 'begin', rows: 1_000 });
  expect(bulkLine(tally, startedAt)).toBe('░░░░░░░░░░░░░░░░░░░░░░░░  0 of 1,000   0.0/s');
  for (let row = 2; row < 252; row += 1) {
    tally = tallied(tally, { kind: 'row', row, state: row === 7 ? 'unknown' : 'applied' });
  }
  tally = tallied(tally, { kind: 'wait', ms: 1_000, why: 'busy' });
  expect(bulkLine(tally, startedAt + 20_000)).toBe(
    '██████░░░░░░░░░░░░░░░░░░  250 of 1,000   13/s   1:00 left   1 not applied',
  );
});
