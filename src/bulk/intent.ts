/**
 * The states of one row, from the plan to the verdict, and which step leads from which to which. Section "Writing" of
 * docs/architecture.md.
 */
import type { AnswerKind, IntentState } from '../journal/port.ts';

/** What is counted of a batch, in the order in which it is shown. */
export const countNames = ['planned', 'applied', 'rejected', 'unknown', 'blocked', 'skipped', 'invalid'] as const;

type CountName = (typeof countNames)[number];
export type Counts = Readonly<Record<CountName, number>>;

/** As what a row in each of the states counts. */
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

/** The files of results. */
export const resultFiles = ['applied', 'rejected', 'unknown', 'unprocessed'] as const;
export type ResultFile = (typeof resultFiles)[number];

/** A row in one of these may be on its way, or its outcome is open: no other write for the same user goes out. */
export const openStates = [
  'sending',
  'acknowledged',
  'unknown',
  'needs_human',
] as const satisfies readonly IntentState[];

/**
 * `sending` back to `planned`: the server said to come back later, or was not reached; nothing was done. From a verdict
 * back to `planned`: a person decided to send again. From a verdict to another one: a later look saw more.
 */
const steps: Readonly<Record<IntentState, readonly IntentState[]>> = {
  // Without a request from here: the row is found on the server when it is looked at, something moved since it was put off, or a
  // person wanted it sent again and it must not be.
  planned: ['sending', 'blocked', 'skipped', 'not_applied', 'applied', 'unknown', 'needs_human'],
  blocked: ['planned', 'skipped', 'not_applied'],
  sending: ['acknowledged', 'unknown', 'planned'],
  acknowledged: ['applied', 'rejected', 'not_applied', 'unknown', 'needs_human'],
  unknown: ['applied', 'rejected', 'not_applied', 'needs_human', 'planned'],
  needs_human: ['applied', 'rejected', 'not_applied', 'planned'],
  // Proven as far as could be seen: a write that is made later still is seen later.
  rejected: ['planned', 'applied', 'needs_human'],
  not_applied: ['planned', 'applied', 'needs_human'],
  // Where it turns out to have been made more than once.
  applied: ['needs_human'],
  // Not sent from here: its token shows that another journal has.
  skipped: ['applied', 'needs_human'],
  invalid: [],
};

export function mayFollow(from: IntentState, to: IntentState): boolean {
  return steps[from].includes(to);
}

/** Throws where the step is none: a bug that must not reach the journal. */
export function checkStep(from: IntentState, to: IntentState): void {
  if (!mayFollow(from, to)) throw new Error(`a row cannot go from ${from} to ${to}`);
}

export function isOpen(state: IntentState): boolean {
  return (openStates as readonly IntentState[]).includes(state);
}

/** The state in which a response leaves the row. A refusal is believed only when the user was looked at. */
export function stateAfterResponse(kind: AnswerKind): 'acknowledged' | 'unknown' {
  return kind === 'accepted' ? 'acknowledged' : 'unknown';
}

export function countNameOf(state: IntentState): CountName {
  return countedAs[state];
}

/** The file of results in which a row stands. */
export function resultFileOf(state: IntentState): ResultFile {
  const name = countedAs[state];
  return name === 'applied' || name === 'rejected' || name === 'unknown' ? name : 'unprocessed';
}

/** The counts of a batch; they sum to its rows. */
export function countsOf(states: Readonly<Partial<Record<IntentState, number>>>): Counts {
  const counts = Object.fromEntries(countNames.map((name) => [name, 0])) as Record<CountName, number>;
  for (const state of intentStates) counts[countNameOf(state)] += states[state] ?? 0;
  return counts;
}
