/** From what was seen to the state that a row goes into. Pure. Section "Settling" of docs/architecture.md. */
import type { AnswerKind, Evidence, IntentState } from '../store/ports/journal.ts';
import type { Judgement } from './action.ts';

export interface Circumstances {
  readonly state: 'acknowledged' | 'unknown' | 'needs_human';
  readonly answer: AnswerKind | null;
  /** Long enough ago that a write under way would have been made: `bulk.settle_after`. */
  readonly waited: boolean;
  /** Two looks, one after the other, say the same. */
  readonly agreed: boolean;
}

export interface Verdict {
  /** As it is now where nothing more can be said yet. */
  readonly to: IntentState;
  readonly evidence: Evidence | null;
  readonly note: string;
}

export function verdictOf(judgement: Judgement, now: Circumstances): Verdict {
  const { note } = judgement;
  const final = now.waited && now.agreed;
  switch (judgement.kind) {
    case 'applied':
      // What a person was asked about is settled by proof alone.
      if (now.state === 'needs_human' && judgement.evidence !== 'token') return open(now, note);
      return { to: 'applied', evidence: judgement.evidence, note };
    case 'over_applied':
      return {
        to: 'needs_human',
        evidence: judgement.evidence,
        note: `over-applied: ${note}. Reversal: ${judgement.reversal}`,
      };
    case 'absent':
      if (now.state === 'needs_human') return open(now, note);
      // The server had looked at it and said no, and nothing of it is there: there is nothing to wait for.
      if (now.answer === 'refused') return { to: 'rejected', evidence: judgement.evidence, note };
      if (!final) return open(now, note);
      return { to: 'not_applied', evidence: judgement.evidence, note: `two looks agree: ${note}` };
    case 'unclear':
      return final ? { to: 'needs_human', evidence: null, note } : open(now, note);
  }
}

function open({ state }: Circumstances, note: string): Verdict {
  return { to: state === 'acknowledged' ? 'unknown' : state, evidence: null, note };
}

/** Whether a second look could make the verdict final. */
export function wantsSecondLook(judgement: Judgement, now: Omit<Circumstances, 'agreed'>): boolean {
  if (!now.waited || now.state === 'needs_human') return false;
  return judgement.kind === 'unclear' || (judgement.kind === 'absent' && now.answer !== 'refused');
}

/** Two looks that say the same, of a user who did not change in between. */
export function agree(first: Judgement, second: Judgement): boolean {
  return first.kind === second.kind && first.after === second.after;
}
