/**
 * The whole system by one seed: syncs, exports, a worker, payments by two people, approvals, a server that changes, lies and
 * fails, disks that fill, processes that are killed, files that are put back. `SIMULATION_SEED=123` runs one seed again and
 * prints its trace; `SIMULATION_RUNS=10000` runs so many, from `SIMULATION_FROM` on.
 */
import { expect, test } from 'vitest';
import { isFull } from '../support/part.ts';
import { simulate, failedSeeds } from './seeds.ts';
import { movesOf } from './world.ts';

const seeds = isFull ? 50 : 2;

test('the whole system holds, whatever the seed', { timeout: 12 * 60 * 60_000 }, async () => {
  expect(await failedSeeds(1, seeds)).toBe('');
});

test('the same seed gives the same trace, to the byte', { timeout: 60_000, tags: 'full' }, async () => {
  for (const seed of [4, 9]) {
    const one = await simulate(seed, movesOf(seed));
    const two = await simulate(seed, movesOf(seed));
    expect(two.lines).toEqual(one.lines);
    expect(two.hash).toBe(one.hash);
  }
});
