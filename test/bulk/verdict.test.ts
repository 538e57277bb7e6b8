import { describe, expect, test } from 'vitest';
import type { Judgement } from '../../src/bulk/action.ts';
import {
  type Circumstances,
  intentStates,
  isOpen,
  laterVerdictOf,
  mayFollow,
  verdictOf,
  watchedStates,
} from '../../src/bulk/intent.ts';

const applied: Judgement = { kind: 'applied', evidence: 'token', after: '5.00', note: '' };
const byBalance: Judgement = { kind: 'applied', evidence: 'balance', after: '5.00', note: '' };
const absent: Judgement = { kind: 'absent', evidence: 'token', after: '0.00', note: '' };
const unclear: Judgement = { kind: 'unclear', after: '5.00', note: '' };
const twice = { kind: 'over_applied', evidence: 'token', after: '10.00', note: '', reversal: '' } as const;

const early: Circumstances = { state: 'unknown', response: 'lost', waited: false, agreed: false, mayRepeat: false };
const final: Circumstances = { ...early, waited: true, agreed: true };

// proves: time-to-be-made
describe('a row', () => {
  const cases: readonly (readonly [string, Judgement, Circumstances, string])[] = [
    ['that was made is applied', applied, early, 'applied'],
    ['that is not found stays unknown, because it may still be made', absent, early, 'unknown'],
    [
      'that is not found late enough, but by one look only, stays unknown',
      absent,
      { ...final, agreed: false },
      'unknown',
    ],
    ['that is not found by two looks, but too early, stays unknown', absent, { ...final, waited: false }, 'unknown'],
    ['that is not found late enough and by two looks is not applied', absent, final, 'not_applied'],
    [
      'that was refused and is not found by two looks is rejected',
      absent,
      { ...early, response: 'refused', agreed: true },
      'rejected',
    ],
    [
      'that was refused and is not found by one look stays unknown',
      absent,
      { ...early, response: 'refused' },
      'unknown',
    ],
    ['that was accepted and is not found is unknown', absent, { ...early, state: 'acknowledged' }, 'unknown'],
    ['that is unclear is unknown at first', unclear, early, 'unknown'],
    ['that was refused and is unclear is unknown at first', unclear, { ...early, response: 'refused' }, 'unknown'],
    ['that stays unclear needs a person', unclear, final, 'needs_human'],
    ['that was made twice needs a person at once', twice, early, 'needs_human'],
    ['that was made stays unknown while it may be made again', applied, { ...early, mayRepeat: true }, 'unknown'],
    ['that was made is applied once it can no longer be made again', applied, { ...final, mayRepeat: true }, 'applied'],
    ['that needs a person is applied if its token is found', applied, { ...early, state: 'needs_human' }, 'applied'],
    ['that needs a person is not settled by its balance', byBalance, { ...early, state: 'needs_human' }, 'needs_human'],
    ['that needs a person is not settled by absence', absent, { ...final, state: 'needs_human' }, 'needs_human'],
  ];
  test.each(cases)('%s', (_, judgement, now, state) => {
    expect(verdictOf(judgement, now).to).toBe(state);
  });
});

describe('the verdict of a row', () => {
  const seen = 'it is there';
  const none = { evidence: null, discrepancy: null };

  test('that was made names its evidence, and what contradicts it', () => {
    const made = { ...applied, note: seen };
    expect(verdictOf(made, early)).toEqual({ to: 'applied', evidence: 'token', note: seen, discrepancy: null });
    const contradicted = { ...made, contradiction: 'it was cut off' };
    const words = `${seen}, but it was cut off`;
    const verdict = { to: 'applied', evidence: 'token', note: words, discrepancy: 'balance' };
    expect(verdictOf(contradicted, early)).toEqual(verdict);
    // In a later look, the balance has had time to change.
    expect(laterVerdictOf(contradicted, 'not_applied')).toEqual({ ...verdict, discrepancy: null });
  });

  test('that was made twice says how to reverse it, now and later', () => {
    const verdict = {
      to: 'needs_human',
      evidence: 'token',
      note: 'over-applied: made 2 times. Reversal: remove 5',
      discrepancy: 'over_applied',
    };
    const judgement = { ...twice, note: 'made 2 times', reversal: 'remove 5' };
    expect(verdictOf(judgement, early)).toEqual(verdict);
    for (const state of watchedStates) expect(laterVerdictOf(judgement, state)).toEqual(verdict);
  });

  test('by a later look changes only if the row is proven to be made', () => {
    const byRecord: Judgement = { ...applied, evidence: 'record' };
    const later = (judgement: Judgement) => watchedStates.filter((state) => laterVerdictOf(judgement, state) !== null);
    expect(later(applied)).toEqual(['planned', 'rejected', 'not_applied', 'skipped']);
    expect(later(byRecord)).toEqual(['planned']);
    expect([...later(byBalance), ...later(absent), ...later(unclear)]).toEqual([]);
    // Its mark is there, so it was made, whatever it did.
    const other: Judgement = { ...unclear, isMarked: true };
    expect(later(other)).toEqual(['rejected', 'not_applied']);
    expect(laterVerdictOf({ ...other, note: seen }, 'rejected')).toEqual({ ...none, to: 'needs_human', note: seen });
    expect(laterVerdictOf(other, 'not_applied', 'person')).toBeNull();
  });
});

describe('any judgement of a row in any state', () => {
  const evidences = ['token', 'record', 'balance', 'answer'] as const;
  const everyJudgement: readonly Judgement[] = [
    ...evidences.flatMap((evidence): Judgement[] => [
      { kind: 'applied', evidence, after: '5.00', note: '' },
      { kind: 'applied', evidence, after: '5.00', note: '', contradiction: 'it is not' },
      { kind: 'absent', evidence, after: '0.00', note: '' },
      { kind: 'over_applied', evidence, after: '10.00', note: '', reversal: '' },
    ]),
    unclear,
  ];
  const open = ['acknowledged', 'unknown', 'needs_human'] as const;
  const answers = ['accepted', 'refused', 'lost', null] as const;
  const yesNo = [true, false];

  test('leads to a state that may follow', () => {
    let combinations = 0;
    for (const judgement of everyJudgement) {
      for (const state of open) {
        for (const answer of answers) {
          for (const waited of yesNo) {
            for (const agreed of yesNo) {
              for (const mayRepeat of yesNo) {
                const { to } = verdictOf(judgement, { state, response: answer, waited, agreed, mayRepeat });
                combinations += 1;
                expect(to === state || mayFollow(state, to), `${state} to ${to} by ${judgement.kind}`).toBe(true);
              }
            }
          }
        }
      }
      for (const state of watchedStates) {
        const later = laterVerdictOf(judgement, state);
        combinations += 1;
        if (later === null) continue;
        expect(mayFollow(state, later.to), `${state} to ${later.to} by ${judgement.kind}`).toBe(true);
        expect(['applied', 'needs_human']).toContain(later.to);
      }
    }
    expect(combinations).toBe(17 * (3 * 4 * 8 + 5));
  });

  test('leaves an open row a way to a final state', () => {
    for (const state of intentStates.filter(isOpen)) {
      // A person decides about rows that are unknown or need a person; other open rows become unknown.
      const from = state === 'needs_human' ? state : 'unknown';
      expect(state === from || mayFollow(state, 'unknown')).toBe(true);
      for (const to of ['applied', 'not_applied', 'planned'] as const) expect(mayFollow(from, to)).toBe(true);
    }
  });

  test('turns a row from not applied to applied only by its token', () => {
    for (const judgement of everyJudgement) {
      if (judgement.kind !== 'applied') continue;
      expect(laterVerdictOf(judgement, 'not_applied')?.to).toBe(judgement.evidence === 'token' ? 'applied' : undefined);
    }
  });
});
