/** The states of a row, from the plan to the verdict, and the allowed steps between them. Section "Writing" of docs/architecture.md. */
import type { AnswerKind, IntentState } from '../journal/port.ts';

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
  blocked: ['planned', 'skipped', 'not_applied'],
  sending: ['acknowledged', 'unknown', 'planned'],
  acknowledged: ['applied', 'rejected', 'not_applied', 'unknown', 'needs_human'],
  unknown: ['applied', 'rejected', 'not_applied', 'needs_human', 'planned'],
  needs_human: ['applied', 'rejected', 'not_applied', 'planned'],
  // Only as certain as what could be seen: a write that is made late shows later.
  rejected: ['planned', 'applied', 'needs_human'],
  not_applied: ['planned', 'applied', 'needs_human'],
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
