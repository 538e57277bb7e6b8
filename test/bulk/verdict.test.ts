import { describe, expect, test } from 'vitest';
import type { Judgement } from '../../src/bulk/action.ts';
import { agree, type Circumstances, verdictOf } from '../../src/bulk/verdict.ts';

const applied: Judgement = { kind: 'applied', evidence: 'token', after: '5.00', note: '' };
const byBalance: Judgement = { kind: 'applied', evidence: 'balance', after: '5.00', note: '' };
const absent: Judgement = { kind: 'absent', evidence: 'token', after: '0.00', note: '' };
const unclear: Judgement = { kind: 'unclear', after: '5.00', note: '' };
const twice = { kind: 'over_applied', evidence: 'token', after: '10.00', note: '', reversal: '' } as const;

const early: Circumstances = { state: 'unknown', answer: 'lost', waited: false, agreed: false };
const final: Circumstances = { state: 'unknown', answer: 'lost', waited: true, agreed: true };

describe('a row', () => {
  const cases: readonly (readonly [string, Judgement, Circumstances, string])[] = [
    ['that is seen to be made is applied', applied, early, 'applied'],
    ['that is nowhere stays unknown: it may still be made', absent, early, 'unknown'],
    ['that is nowhere long enough but once stays unknown', absent, { ...final, agreed: false }, 'unknown'],
    ['that is nowhere twice but too early stays unknown', absent, { ...final, waited: false }, 'unknown'],
    ['that is nowhere long enough and twice is not applied', absent, final, 'not_applied'],
    ['that was refused and is nowhere is rejected', absent, { ...early, answer: 'refused' }, 'rejected'],
    ['that was accepted and is nowhere is unknown', absent, { ...early, state: 'acknowledged' }, 'unknown'],
    ['that fits nothing is unknown first', unclear, early, 'unknown'],
    ['that was refused and fits nothing is unknown first', unclear, { ...early, answer: 'refused' }, 'unknown'],
    ['that fits nothing for long needs a person', unclear, final, 'needs_human'],
    ['that was made twice needs a person at once', twice, early, 'needs_human'],
    ['that needs a person is settled by its token', applied, { ...early, state: 'needs_human' }, 'applied'],
    ['that needs a person is not settled by a balance', byBalance, { ...early, state: 'needs_human' }, 'needs_human'],
    ['that needs a person is not settled by absence', absent, { ...final, state: 'needs_human' }, 'needs_human'],
  ];
  test.each(cases)('%s', (_, judgement, now, state) => {
    expect(verdictOf(judgement, now).to).toBe(state);
  });

  test('was looked at twice with the same result only where the kind and the balance are the same', () => {
    expect(agree(absent, { ...absent })).toBe(true);
    expect(agree(absent, { ...absent, after: '1.00' })).toBe(false);
    expect(agree(absent, unclear)).toBe(false);
  });

  test('is applied only with evidence', () => {
    expect(verdictOf(applied, early).evidence).toBe('token');
    expect(verdictOf(byBalance, early).evidence).toBe('balance');
  });
});
