/**
 * Writes that were made after their rows counted as not applied, found in the transactions that a sync has brought. Section
 * "Settling" of docs/architecture.md.
 */
import { LockHeldError } from '../model/errors.ts';
import type { Batch, Intent, Journal } from '../journal/port.ts';
import type { UserDirectory } from './user-directory-types.ts';
import { type BalanceParameters, sightingOf } from './actions/balance-sighting.ts';
import { balance } from './actions/balance.ts';
import { checkStep } from './intent.ts';
import { targetOf } from './sending.ts';
import { laterVerdictOf } from './verdict.ts';

/** A row whose outcome turned out to be another one. */
export interface LateRow {
  readonly batch: string;
  readonly row: number;
  readonly state: 'applied' | 'needs_human';
}

/** Records every such row of the journal; a batch that is being sent is left to whoever sends it. */
export function recordLate(journal: Journal, directory: UserDirectory): LateRow[] {
  return journal.batches().flatMap((batch) => (batch.action === balance.name ? lateIn(journal, directory, batch) : []));
}

function lateIn(journal: Journal, directory: UserDirectory, { batch }: Batch): LateRow[] {
  if ((journal.counts(batch).not_applied ?? 0) === 0) return [];
  try {
    journal.acquireLock(batch);
  } catch (error) {
    if (error instanceof LockHeldError) return [];
    throw error;
  }
  try {
    return journal
      .intents(batch, ['not_applied'])
      .toArray()
      .flatMap((intent) => lateRow(journal, directory, intent) ?? []);
  } finally {
    journal.releaseLock(batch);
  }
}

function lateRow(journal: Journal, directory: UserDirectory, intent: Intent): LateRow | undefined {
  const { batch, row, user } = intent;
  const transactions = user === null ? undefined : directory.transactions(user);
  if (transactions === undefined) return undefined;
  const target = targetOf(intent);
  const parameters = target.parameters as BalanceParameters;
  const seen = sightingOf({ id: user, balance_transactions: transactions }, parameters, target.token);
  const judgement = balance.judge({ ...target, parameters }, seen, seen, intent.answerKind);
  const verdict = laterVerdictOf(judgement, 'not_applied');
  if (verdict === null) return undefined;
  const { to, evidence, discrepancy, note } = verdict;
  checkStep('not_applied', to);
  const fields = { evidence, discrepancy, problem: to === 'applied' ? null : note };
  journal.move({ batch, row, from: 'not_applied', to, fields, note: `found by a sync: ${note}` });
  return { batch, row, state: to === 'applied' ? to : 'needs_human' };
}
