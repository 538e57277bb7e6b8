/**
 * The states of a row, from the plan to the verdict: the allowed steps between them, and the decision from what was seen of
 * the row. Pure. Sections "Writing" and "Settling" of docs/architecture.md.
 */
import type { AnswerKind, Discrepancy, Evidence, IntentState } from '../journal/port.ts';
import type { Judgement } from './action.ts';

/** The counts of a batch, in the order in which they are shown. */
export const countNames = ['planned', 'applied', 'rejected', 'unknown', 'blocked', 'skipped', 'invalid'] as const;

export type CountName = (typeof countNames)[number];
export type Counts = Readonly<Record<CountName, number>>;

const countedAs = {
  planned: 'planned',
  sending: 'unknown',
  acknowledged: 'unknown',
  rejected: 'rejected',
  unknown: 'unknown',
  applied: 'applied',
  not_applied: 'rejected',
  needs_human: 'unknown',
  blocked: 'blocked',
  skipped: 'skipped',
  invalid: 'invalid',
} as const satisfies Readonly<Record<IntentState, CountName>>;

export const intentStates = Object.keys(countedAs) as IntentState[];

/** The result files of a batch, without the ending of their names. */
export const resultFiles = ['applied', 'rejected', 'unknown', 'unprocessed'] as const;
export type ResultFile = (typeof resultFiles)[number];

/** The row may be on its way, or its outcome is open. Meanwhile no other write for the same user goes out. */
export const openStates = [
  'sending',
  'acknowledged',
  'unknown',
  'needs_human',
] as const satisfies readonly IntentState[];

/**
 * `sending` back to `planned`: nothing was done, because the server said to come back later or could not be reached. From a verdict
 * back to `planned`: a person decided to send again. From one verdict to another: a later look saw more.
 */
const steps: Readonly<Record<IntentState, readonly IntentState[]>> = {
  // All but `sending` come from the look before a request: the row shows on the server already, something changed since the server
  // put it off, or it must not be sent (again).
  planned: ['sending', 'blocked', 'skipped', 'not_applied', 'applied', 'unknown', 'needs_human'],
  // To itself if it waits for another reason.
  blocked: ['planned', 'blocked', 'skipped', 'not_applied'],
  sending: ['acknowledged', 'unknown', 'planned'],
  acknowledged: ['applied', 'rejected', 'not_applied', 'unknown', 'needs_human'],
  unknown: ['applied', 'rejected', 'not_applied', 'needs_human', 'planned'],
  needs_human: ['applied', 'rejected', 'not_applied', 'planned'],
  // Only as certain as what could be seen: a write that is made late shows later. To itself if a person closes it.
  rejected: ['rejected', 'planned', 'applied', 'needs_human'],
  not_applied: ['not_applied', 'planned', 'applied', 'needs_human'],
  // If it turns out to have been made more than once.
  applied: ['needs_human'],
  // If its token shows that another journal has sent it.
  skipped: ['applied', 'needs_human'],
  invalid: [],
};

export function mayFollow(from: IntentState, to: IntentState): boolean {
  return steps[from].includes(to);
}

/** Throws if the step is not allowed: such a bug must not reach the journal. */
export function checkStep(from: IntentState, to: IntentState): void {
  if (!mayFollow(from, to)) throw new Error(`a row cannot go from ${from} to ${to}`);
}

export function isOpen(state: IntentState): boolean {
  return (openStates as readonly IntentState[]).includes(state);
}

/** The state of the row right after its response. Even a refusal leaves it unknown, until the user has been read. */
export function stateAfterResponse(kind: AnswerKind): 'acknowledged' | 'unknown' {
  return kind === 'accepted' ? 'acknowledged' : 'unknown';
}

export function countNameOf(state: IntentState): CountName {
  return countedAs[state];
}

/** The result file that lists a row in this state. */
export function resultFileOf(state: IntentState): ResultFile {
  const name = countedAs[state];
  return name === 'applied' || name === 'rejected' || name === 'unknown' ? name : 'unprocessed';
}

/** Counts the rows of a batch by outcome. The counts add up to the number of rows. */
export function countsOf(states: Readonly<Partial<Record<IntentState, number>>>): Counts {
  const counts = Object.fromEntries(countNames.map((name) => [name, 0])) as Record<CountName, number>;
  for (const state of intentStates) counts[countNameOf(state)] += states[state] ?? 0;
  return counts;
}

/** A row that was sent and whose outcome is open. */
type OpenState = 'acknowledged' | 'unknown' | 'needs_human';
/** A row that was not sent, or whose outcome is known as far as anybody could see. */
export const watchedStates = [
  'planned',
  'applied',
  'rejected',
  'not_applied',
  'skipped',
] as const satisfies readonly IntentState[];
export type WatchedState = (typeof watchedStates)[number];

export interface Circumstances {
  readonly state: OpenState;
  readonly response: AnswerKind | null;
  /** `bulk.settle_after` has passed: a write that was under way would have been made by now. */
  readonly waited: boolean;
  /** Two consecutive looks say the same. */
  readonly agreed: boolean;
  /** The row was sent several times, since the server put it off, and the server makes what it puts off. */
  readonly mayRepeat: boolean;
}

export interface Verdict {
  /** The present state if nothing more can be said yet. */
  readonly to: IntentState;
  readonly evidence: Evidence | null;
  readonly note: string;
  readonly discrepancy: Discrepancy | null;
}

export function verdictOf(judgement: Judgement, now: Circumstances): Verdict {
  const { note } = judgement;
  const final = now.waited && now.agreed;
  switch (judgement.kind) {
    case 'applied':
      // If a person has been asked, only proof settles the row.
      if (now.state === 'needs_human' && judgement.evidence !== 'token') return stillOpen(now, note);
      // Another one of its requests may still be made.
      if (now.mayRepeat && !now.waited) return stillOpen(now, note);
      return appliedBy(judgement);
    case 'over_applied':
      return overApplied(judgement);
    case 'absent':
      if (now.state === 'needs_human') return stillOpen(now, note);
      // The server refused it and nothing of it shows. The second look is for a replica that lags; there is nothing else to wait for.
      if (now.response === 'refused' && now.agreed) {
        return { to: 'rejected', evidence: judgement.evidence, note, discrepancy: null };
      }
      if (!final) return stillOpen(now, note);
      return { to: 'not_applied', evidence: judgement.evidence, note: `two looks agree: ${note}`, discrepancy: null };
    case 'unclear':
      return final ? { to: 'needs_human', evidence: null, note, discrepancy: null } : stillOpen(now, note);
  }
}

/**
 * Decides what a later look changes about a row that nobody waits for: its write was made late, made twice, or made from a newer
 * journal. Returns null if nothing changes. A balance is no evidence here: it has had time to change.
 * @param evidence what the row's state rests on; if a person decided it, that person is not asked again
 */
export function laterVerdictOf(
  judgement: Judgement,
  state: WatchedState,
  evidence: Evidence | null = null,
): Verdict | null {
  if (judgement.kind === 'over_applied') return overApplied(judgement);
  const isClosed = (state === 'rejected' || state === 'not_applied') && evidence !== 'person';
  if (judgement.kind === 'unclear' && judgement.isMarked === true && isClosed) {
    return { to: 'needs_human', evidence: null, note: judgement.note, discrepancy: null };
  }
  if (judgement.kind !== 'applied' || state === 'applied') return null;
  // A record without a token may belong to the same row in a batch that was sent since.
  const proven = judgement.evidence === 'token' || (judgement.evidence === 'record' && state === 'planned');
  return proven ? { ...appliedBy(judgement), discrepancy: null } : null;
}

export function appliedBy({ evidence, note, contradiction = null }: Extract<Judgement, { kind: 'applied' }>): Verdict {
  if (contradiction === null) return { to: 'applied', evidence, note, discrepancy: null };
  return { to: 'applied', evidence, note: `${note}, but ${contradiction}`, discrepancy: 'balance' };
}

/** What is worth knowing of a row that was applied as it should be. */
export function differenceOf(judgement: Judgement): string | null {
  return judgement.kind === 'applied' ? (judgement.difference ?? null) : null;
}

function overApplied({ evidence, note, reversal }: Extract<Judgement, { kind: 'over_applied' }>): Verdict {
  const words = `over-applied: ${note}. Reversal: ${reversal}`;
  return { to: 'needs_human', evidence, note: words, discrepancy: 'over_applied' };
}

function stillOpen({ state }: Circumstances, note: string): Verdict {
  return { to: state === 'acknowledged' ? 'unknown' : state, evidence: null, note, discrepancy: null };
}

/** Whether a second look could make the verdict final. */
export function needsSecondLook(judgement: Judgement, now: Omit<Circumstances, 'agreed' | 'mayRepeat'>): boolean {
  if (now.state === 'needs_human') return false;
  if (judgement.kind === 'absent' && now.response === 'refused') return true;
  return now.waited && (judgement.kind === 'unclear' || judgement.kind === 'absent');
}

/** Whether two looks say the same, about a user who did not change in between. */
export function agree(first: Judgement, second: Judgement): boolean {
  return first.kind === second.kind && first.after === second.after;
}
