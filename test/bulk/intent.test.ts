import { describe, expect, test } from 'vitest';
import {
  checkStep,
  countNameOf,
  countNames,
  countsOf,
  intentStates,
  isOpen,
  mayFollow,
  resultFileOf,
  stateAfterResponse,
} from '../../src/bulk/intent.ts';
import type { IntentState } from '../../src/journal/port.ts';

describe('the states of a row', () => {
  test('lead to the states of this table and no others', () => {
    const table = Object.fromEntries(
      intentStates.map((from) => [from, intentStates.filter((to) => mayFollow(from, to))]),
    );
    expect(table).toEqual({
      planned: ['sending', 'unknown', 'applied', 'not_applied', 'needs_human', 'blocked', 'skipped'],
      sending: ['planned', 'acknowledged', 'unknown'],
      acknowledged: ['rejected', 'unknown', 'applied', 'not_applied', 'needs_human'],
      rejected: ['planned', 'applied', 'needs_human'],
      unknown: ['planned', 'rejected', 'applied', 'not_applied', 'needs_human'],
      applied: ['needs_human'],
      not_applied: ['planned', 'applied', 'needs_human'],
      needs_human: ['planned', 'rejected', 'applied', 'not_applied'],
      blocked: ['planned', 'not_applied', 'skipped'],
      skipped: ['applied', 'needs_human'],
      invalid: [],
    });
    const refused = (from: IntentState) => intentStates.filter((to) => !mayFollow(from, to));
    for (const from of intentStates) {
      for (const to of refused(from)) expect(() => checkStep(from, to)).toThrow(`cannot go from ${from} to ${to}`);
      for (const to of table[from] ?? []) expect(() => checkStep(from, to)).not.toThrow();
    }
  });

  test('are open after any response', () => {
    expect((['accepted', 'refused', 'lost'] as const).map(stateAfterResponse)).toEqual([
      'acknowledged',
      'unknown',
      'unknown',
    ]);
  });

  test('are counted under the names of the result', () => {
    const each = Object.fromEntries(intentStates.map((state, at) => [state, 2 ** at]));
    const bits = (counted: number) => intentStates.filter((_, at) => (counted & (2 ** at)) !== 0);
    expect(Object.entries(countsOf(each)).map(([name, count]) => [name, bits(count)])).toEqual([
      ['planned', ['planned']],
      ['applied', ['applied']],
      ['rejected', ['rejected', 'not_applied']],
      ['unknown', ['sending', 'acknowledged', 'unknown', 'needs_human']],
      ['blocked', ['blocked']],
      ['skipped', ['skipped']],
      ['invalid', ['invalid']],
    ]);
    expect(countsOf({})).toEqual(Object.fromEntries(countNames.map((name) => [name, 0])));
  });

  test('lead to a request only from planned, so that a row is sent again only after a step back to it', () => {
    expect(intentStates.filter((state) => mayFollow(state, 'sending'))).toEqual(['planned']);
  });

  test('lead back to planned only if nothing was applied', () => {
    const back = intentStates.filter((state) => mayFollow(state, 'planned'));
    expect(back).toEqual(['sending', 'rejected', 'unknown', 'not_applied', 'needs_human', 'blocked']);
    // Of a row that was made, it can only turn out that it was made too often.
    expect(intentStates.filter((state) => mayFollow('applied', state))).toEqual(['needs_human']);
  });

  test('call a refused row rejected only after a look: a response alone leaves it open', () => {
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

  test('refuse a step that is not in the table', () => {
    expect(() => checkStep('applied', 'planned')).toThrow(/cannot go from applied to planned/);
  });
});
