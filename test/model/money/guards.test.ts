// @module-tag full
/** Each guard of the code is removed, and its invariant breaks. The shortest trace is kept as a story in `stories/`. */
import { describe, expect, test } from 'vitest';
import { approvalGuards } from './approvals.ts';
import { cases, limitFile } from './cases.ts';
import { explore } from './explore.ts';
import { approvalCases, guardCases, limits, secondLines, secondLinesOfApproval, worlds } from './worlds.ts';
import { guards, modelOf } from './world.ts';

describe('removing a guard breaks its invariant', () => {
  test.each(cases)('$title: $breaks', async ({ without, breaks, story }) => {
    const { violation } = explore(without);
    expect(violation?.invariant).toBe(breaks);
    await expect([breaks, ...(violation?.story ?? [])].join('\n')).toMatchFileSnapshot(story);
  });

  test('covers each guard, or another one backs it up', () => {
    const alone = guardCases.flatMap(({ without }) => (without.length === 1 ? without : []));
    expect([...new Set([...alone, ...secondLines])].sort()).toEqual(Object.keys(guards).sort());
    const ofApproval = approvalCases.flatMap(({ without }) => without);
    expect([...ofApproval, ...secondLinesOfApproval].sort()).toEqual(Object.keys(approvalGuards).sort());
  });
});

describe('beyond the limits of the proof, an invariant breaks', () => {
  test.each(limits)('$world.name', async ({ world, breaks }) => {
    const { violation } = explore(modelOf(world));
    expect(violation?.invariant).toBe(breaks);
    await expect([breaks, ...(violation?.story ?? [])].join('\n')).toMatchFileSnapshot(limitFile(world.name));
  });
});

test('a claim that is checked only before the prompt is found without naming the world', () => {
  let found: string | undefined;
  for (const world of worlds) {
    if (found !== undefined) break;
    found = explore(modelOf({ ...world, without: ['claim_check'] })).violation?.invariant;
  }
  expect(found).toBe('paid_at_most_once');
});
