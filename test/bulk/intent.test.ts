import { describe, expect, test } from 'vitest';
import {
  checkStep,
  countNameOf,
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
      rejected: ['planned', 'rejected', 'applied', 'needs_human'],
      unknown: ['planned', 'rejected', 'applied', 'not_applied', 'needs_human'],
      applied: ['needs_human'],
      not_applied: ['planned', 'applied', 'not_applied', 'needs_human'],
      needs_human: ['planned', 'rejected', 'applied', 'not_applied'],
      blocked: ['planned', 'not_applied', 'blocked', 'skipped'],
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
});
