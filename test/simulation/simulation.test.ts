/**
 * The whole system with one seed: syncs, exports, a worker, payments by two people, approvals, a server that changes,
 * lies and fails, full disks, killed processes, restored files. `SIMULATION_SEED=123` repeats one seed and prints its
 * trace; `SIMULATION_RUNS=10000` runs that many, starting at `SIMULATION_FROM`.
 */
import { expect, test } from 'vitest';
import { isFull } from '../support/part.ts';
import { simulate, failedSeeds } from './seeds.ts';
import { movesOf } from './world.ts';

const seeds = isFull ? 50 : 2;

test('the whole system holds, whatever the seed', { timeout: 12 * 60 * 60_000 }, async () => {
  expect(await failedSeeds(1, seeds)).toBe('');
});

test('the same seed gives the same trace, byte for byte', { timeout: 60_000, tags: 'full' }, async () => {
  for (const seed of [4, 9]) {
    const one = await simulate(seed, movesOf(seed));
    const two = await simulate(seed, movesOf(seed));
    expect(two.lines).toEqual(one.lines);
    expect(two.hash).toBe(one.hash);
  }
});
