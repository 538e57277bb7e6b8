/** A person's word on a row whose outcome cannot be found out, or that shall be sent again. It is on record with its reason. */
import { UsageError } from '../model/errors.ts';
import type { Batch, IntentFields, IntentState, Journal } from '../journal/port.ts';
import { checkStep, isOpen } from './intent.ts';

export interface Resolution {
  readonly row: number;
  readonly outcome: 'applied' | 'not_applied';
  /** Sends it again with the next `resume`: only what was not applied. */
  readonly resend: boolean;
  readonly reason: string;
}

/**
 * Records the person's decision. Throws a UsageError where the row is not one to decide about, and LockHeldError where a
 * process is at the batch.
 */
export async function resolveRow(journal: Journal, { batch }: Batch, resolution: Resolution): Promise<IntentState> {
  const { row, outcome, resend } = resolution;
  const reason = resolution.reason.trim();
  if (reason === '') throw new UsageError('a reason is needed', { advice: 'Say how you know: --reason "…".' });
  if (resend && outcome === 'applied') {
    throw new UsageError('what was applied must not be sent again', { advice: 'Leave --resend out.' });
  }
  await journal.acquireLock(batch);
  try {
    await journal.takeUp(batch);
    const intent = await journal.intent(batch, row);
    if (intent === undefined)
      throw new UsageError(`batch ${batch} has no row ${row}`, { advice: 'The header is row 1.' });
    const { state } = intent;
    const done = state === 'rejected' || state === 'not_applied';
    if (!isOpen(state) && !(done && resend)) {
      throw new UsageError(`row ${row} is ${state.replace('_', ' ')}: there is nothing to decide about it`, {
        advice: done ? 'Add --resend to send it again.' : undefined,
      });
    }
    const to = resend ? 'planned' : outcome;
    await step(journal, batch, row, state, to, reason);
    if (to !== 'planned') await journal.takeUp(batch);
    await journal.setBatchState(batch, (await restOf(journal, batch)) ? 'stopped' : 'done');
    return to;
  } finally {
    await journal.releaseLock(batch);
  }
}

async function step(
  journal: Journal,
  batch: string,
  row: number,
  state: IntentState,
  to: IntentState,
  reason: string,
): Promise<void> {
  // An answer of success that was not looked at yet is open like any other.
  const from = state === 'acknowledged' ? 'unknown' : state;
  if (from !== state) await journal.move({ batch, row, from: state, to: from });
  checkStep(from, to);
  const fields: IntentFields =
    to === 'planned'
      ? // By it, the next sending knows that a person and not the server has said that it may go out again.
        { evidence: 'person', problem: null, discrepancy: null }
      : { evidence: 'person', problem: `a person decided: ${reason}` };
  if (!(await journal.move({ batch, row, from, to, fields, note: `decided by a person: ${reason}` }))) {
    throw new UsageError(`row ${row} was taken back by another batch, and cannot be sent again`);
  }
}

async function restOf(journal: Journal, batch: string): Promise<boolean> {
  const counts = await journal.counts(batch);
  return (Object.keys(counts) as IntentState[]).some(
    (state) => isOpen(state) || state === 'planned' || state === 'blocked',
  );
}
