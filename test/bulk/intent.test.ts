import { describe, expect, test } from 'vitest';
import {
  checkStep,
  countNameOf,
  countsOf,
  intentStates,
  isOpen,
  mayFollow,
  resultFileOf,
} from '../../src/bulk/intent.ts';

describe('the states of a row', () => {
  test('lead to a request only by way of planned, so that nothing is sent again but by a step back', () => {
    expect(intentStates.filter((state) => mayFollow(state, 'sending'))).toEqual(['planned']);
  });

  test('lead back to planned from an end only where nothing was applied', () => {
    const back = intentStates.filter((state) => mayFollow(state, 'planned'));
    expect(back).toEqual(['sending', 'rejected', 'unknown', 'not_applied', 'needs_human', 'blocked']);
    // Once more than that it was made, it can only turn out that it was made too often.
    expect(intentStates.filter((state) => mayFollow('applied', state))).toEqual(['needs_human']);
  });

  test('call a refusal rejected only after a look: a response alone leaves the row open', () => {
    expect(mayFollow('sending', 'rejected')).toBe(false);
    expect(mayFollow('sending', 'applied')).toBe(false);
    expect(mayFollow('sending', 'unknown')).toBe(true);
  });

  test('are each counted once and written to one file', () => {
    const each = Object.fromEntries(intentStates.map((state) => [state, 1]));
    const counts = countsOf(each);
    expect(Object.values(counts).reduce((a, b) => a + b, 0)).toBe(intentStates.length);
    for (const state of intentStates) {
      const name = countNameOf(state);
      const kept = ['applied', 'rejected', 'unknown'].includes(name) ? name : 'unprocessed';
      expect(resultFileOf(state)).toBe(kept);
    }
    expect(intentStates.filter(isOpen).map(countNameOf)).toEqual(['unknown', 'unknown', 'unknown', 'unknown']);
  });

  test('refuse a step that is none', () => {
    expect(() => checkStep('applied', 'planned')).toThrow(/cannot go from applied to planned/);
  });
});
