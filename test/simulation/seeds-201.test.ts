// @module-tag full
/** Fifty more, in a file of their own, so that they run beside the others. */
import { expect, test } from 'vitest';
import { failedSeeds, isChosen } from './seeds.ts';

test.skipIf(isChosen)('the whole system holds, seeds 201 to 250', { timeout: 1_000_000 }, async () => {
  expect(await failedSeeds(201, 50)).toBe('');
});
