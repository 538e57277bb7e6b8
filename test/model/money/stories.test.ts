/**
 * What would go wrong without a guard is replayed step by step. Without the guard each story breaks an invariant. With the
 * guard some step cannot be taken, or nothing breaks.
 */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { cases } from './cases.ts';
import { replay } from './explore.ts';

test.each(cases)(
  'the story breaks an invariant only without this guard: $title',
  ({ whole, without, breaks, story }) => {
    const [, ...told] = readFileSync(story, 'utf8').trim().split('\n');
    expect(replay(without, told)).toEqual({ broken: breaks, stuckAt: null });
    expect(replay(whole, told).broken).toBeNull();
  },
);
