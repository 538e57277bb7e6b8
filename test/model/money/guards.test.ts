// @module-tag full
/** Each guard of the code is taken away, and the invariant that it holds breaks: with the fewest steps, as a story in `stories/`. */
import { describe, expect, test } from 'vitest';
import { approvalGuards } from './approvals.ts';
import { cases, limitFile } from './cases.ts';
import { explore } from './explore.ts';
import { approvalCases, guardCases, limits, secondLines, secondLinesOfApproval, worlds } from './worlds.ts';
import { guards, modelOf } from './world.ts';

describe('a guard that is taken away breaks its invariant', () => {
  test.each(cases)('$title: $breaks', async ({ without, breaks, story }) => {
    const { violation } = explore(without);
    expect(violation?.invariant).toBe(breaks);
    await expect([breaks, ...(violation?.story ?? [])].join('\n')).toMatchFileSnapshot(story);
  });

  test('each guard is among them, or stands behind another one', () => {
    const alone = guardCases.flatMap(({ without }) => (without.length === 1 ? without : []));
    expect([...new Set([...alone, ...secondLines])].sort()).toEqual(Object.keys(guards).sort());
    const ofApproval = approvalCases.flatMap(({ without }) => without);
    expect([...ofApproval, ...secondLinesOfApproval].sort()).toEqual(Object.keys(approvalGuards).sort());
  });
});

describe('where the proof ends', () => {
  test.each(limits)('$world.name', async ({ world, breaks }) => {
    const { violation } = explore(modelOf(world));
    expect(violation?.invariant).toBe(breaks);
    await expect([breaks, ...(violation?.story ?? [])].join('\n')).toMatchFileSnapshot(limitFile(world.name));
  });
});

test('a consent that is claimed before the prompt alone is found without being told where', () => {
  let found: string | undefined;
  for (const world of worlds) {
    if (found !== undefined) break;
    found = explore(modelOf({ ...world, without: ['claim_check'] })).violation?.invariant;
  }
  expect(found).toBe('paid_at_most_once');
});
