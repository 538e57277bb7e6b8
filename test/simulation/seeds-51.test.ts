// @module-tag full
/** Fifty more seeds in a file of their own, so that they run in parallel with the others. `npm run soak` has 10,000. */
import { expect, test } from 'vitest';
import { failedSeeds, isChosen } from './seeds.ts';

test.skipIf(isChosen)('the whole system holds, seeds 51 to 100', { timeout: 1_000_000 }, async () => {
  expect(await failedSeeds(51, 50)).toBe('');
});
