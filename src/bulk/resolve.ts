/** What a person decides: the outcome of a row that no look can settle, and that nothing more of a batch is sent. */
import type { Batch, Intent, IntentFields, IntentState, Journal } from '../journal/port.ts';
import { UsageError } from '../model/errors.ts';
import { requiredReason } from './approval.ts';
import { checkStep, isOpen } from './intent.ts';
import { underLock, updateBatchState } from './settle.ts';

interface Resolution {
  readonly row: number;
  readonly outcome: 'applied' | 'not_applied';
  /** The next `resume` sends the row again. Only for a row that was not applied. */
  readonly resend: boolean;
  readonly reason: string;
}

/**
 * Records the person's decision. Throws a UsageError if there is nothing to decide about the row, and LockHeldError if another
 * process has the lock of the batch.
 */
export async function resolveRow(journal: Journal, { batch }: Batch, resolution: Resolution): Promise<IntentState> {
  const { row, outcome, resend } = resolution;
  const reason = requiredReason(resolution.reason, 'Say how you know.');
  if (resend && outcome === 'applied') {
    throw new UsageError('what was applied must not be sent again', { advice: 'Nothing was recorded.' });
  }
  if (resend && (await journal.wasDiscarded(batch))) {
    throw new UsageError(`batch ${batch} was discarded: nothing of it is sent again`, {
      advice: 'To send the row after all, plan a batch with it.',
    });
  }
  return underLock(journal, batch, async () => {
    await journal.takeUp(batch);
    const intent = await journal.intent(batch, row);
    if (intent === undefined)
      throw new UsageError(`batch ${batch} has no row ${row}`, { advice: 'The header is row 1.' });
    const { state, evidence } = intent;
    const done = state === 'rejected' || state === 'not_applied';
    // Such a row holds back the later rows of its user until somebody says that it stays as it is.
    const closes = done && outcome === 'not_applied' && evidence !== 'person';
    if (!isOpen(state) && !(done && resend) && !closes) {
      throw new UsageError(`row ${row} is ${state.replace('_', ' ')}: there is nothing to decide about it`, {
        advice: done ? 'It can be sent again.' : undefined,
      });
    }
    const to = resend ? 'planned' : closes ? state : outcome;
    await recordDecision(journal, intent, to, reason);
    await journal.takeUp(batch);
    await updateBatchState(journal, batch);
    return to;
  });
}

/**
 * Ends a batch of which nothing more is to be sent. Throws a UsageError if nothing is left to be sent, and LockHeldError if another
 * process has the lock of the batch.
 */
export async function discardBatch(journal: Journal, { batch, state }: Batch, reason: string): Promise<void> {
  const words = requiredReason(reason);
  await underLock(journal, batch, async () => {
    await journal.takeUp(batch);
    const { planned = 0, blocked = 0 } = await journal.counts(batch);
    if (planned + blocked === 0 && state !== 'planned') {
      throw new UsageError(`batch ${batch} has no row that is still to be sent`);
    }
    await journal.discard(batch, words);
  });
}

async function recordDecision(
  journal: Journal,
  { batch, row, state }: Intent,
  to: IntentState,
  reason: string,
): Promise<void> {
  // A reported success that nobody has checked is open like any other row.
  const from = state === 'acknowledged' ? 'unknown' : state;
  if (from !== state) await journal.move({ batch, row, from: state, to: from });
  checkStep(from, to);
  const fields: IntentFields =
    to === 'planned'
      ? // The evidence tells the next run that a person, not the server, said that the row may go out again.
        { evidence: 'person', problem: null, discrepancy: null }
      : { evidence: 'person', problem: `a person decided: ${reason}` };
  if (!(await journal.move({ batch, row, from, to, fields, note: `decided by a person: ${reason}` }))) {
    throw new UsageError(`row ${row} was taken back by another batch, and cannot be sent again`);
  }
}
