// @module-tag full
/** Fifty more seeds in their own file, so that they run in parallel with the others. */
import { expect, test } from 'vitest';
import { failedSeeds, isChosen } from './seeds.ts';

test.skipIf(isChosen)('the whole system holds, seeds 201 to 250', { timeout: 1_000_000 }, async () => {
  expect(await failedSeeds(201, 50)).toBe('');
});
