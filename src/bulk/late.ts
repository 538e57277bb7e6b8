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
export async function recordLate(journal: Journal, directory: UserDirectory): Promise<LateRow[]> {
  const late: LateRow[] = [];
  for (const batch of await journal.batches()) {
    if (batch.action === balance.name) late.push(...(await lateIn(journal, directory, batch)));
  }
  return late;
}

async function lateIn(journal: Journal, directory: UserDirectory, { batch }: Batch): Promise<LateRow[]> {
  const { not_applied: count = 0 } = await journal.counts(batch);
  if (count === 0) return [];
  try {
    await journal.acquireLock(batch);
  } catch (error) {
    if (error instanceof LockHeldError) return [];
    throw error;
  }
  try {
    const late: LateRow[] = [];
    for await (const intent of journal.intents(batch, ['not_applied'])) {
      const found = await lateRow(journal, directory, intent);
      if (found !== undefined) late.push(found);
    }
    return late;
  } finally {
    await journal.releaseLock(batch);
  }
}

async function lateRow(journal: Journal, directory: UserDirectory, intent: Intent): Promise<LateRow | undefined> {
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
  await journal.move({ batch, row, from: 'not_applied', to, fields, note: `found by a sync: ${note}` });
  return { batch, row, state: to === 'applied' ? to : 'needs_human' };
}
