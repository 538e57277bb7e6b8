/**
 * What went wrong once, or would without a guard, is told again step by step. Without the guard each story ends as it did;
 * with it, some step of it cannot be taken, or it ends well.
 */
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { cases } from './cases.ts';
import { replay } from './explore.ts';

test.each(cases)('the story is possible only without this: $title', ({ whole, without, breaks, story }) => {
  const [, ...told] = readFileSync(story, 'utf8').trim().split('\n');
  expect(replay(without, told)).toEqual({ broken: breaks, stuckAt: null });
  expect(replay(whole, told).broken).toBeNull();
});
