/**
 * Looks for rows of a batch on the server: first those that are open, then those that count as not made or were sent more than once,
 * whose write may show late. A sync may show it, too. Section "Settling" of docs/architecture.md.
 */
import { notMadeStates, unsentState } from '../journal/claim-view.ts';
import type { Batch, Intent, IntentFields, Journal, RowPlace } from '../journal/port.ts';
import { OperatorError, OutcomeUnknownError } from '../model/errors.ts';
import type { Judgement, Target } from './action.ts';
import { type BalanceParameters, observationOf, reversalOf } from './actions/balance-judge.ts';
import { balance } from './actions/balance.ts';
import {
  checkStep,
  isOpen,
  laterVerdictOf,
  openStates,
  type Verdict,
  type WatchedState,
  watchedStates,
} from './intent.ts';
import { type RowEnd, type Sending, targetOf } from './sending.ts';
import type { UserDirectory } from './find-users.ts';
import {
  fieldsOf,
  lookAndJudge,
  type OverApplied,
  overAppliedError,
  settleRow,
  tryWithLock,
  updateBatchState,
} from './settle.ts';

/**
 * Looks again at a row that nobody waits for, and records it if more shows than before: a write that was made late, made twice,
 * or made from a newer journal.
 */
async function reviewRow(sending: Sending, intent: Intent, state: WatchedState): Promise<RowEnd> {
  try {
    const { judgement } = await lookAndJudge(sending, intent, sending.signal);
    const verdict = laterVerdictOf(judgement, state, intent.evidence);
    if (verdict === null) return { state, stop: null };
    const recorded = await recordLateVerdict(sending, sending.batch, intent, judgement, verdict);
    const found = recorded === null || recorded.twice === null ? judgement : recorded.twice;
    const stop = found.kind === 'over_applied' ? overAppliedError(sending, intent, found) : null;
    if (recorded === null) return { state, stop: stop ?? notRecordableError(intent) };
    return { state: recorded.state, stop };
  } catch (error) {
    if (error instanceof OperatorError) return { state, stop: error };
    throw error;
  }
}

/** Looks again at a row of another batch, unless a process has its lock. Returns why nothing more may be sent, or null. */
export async function reviewElsewhere(sending: Sending, { batch: name, row }: RowPlace): Promise<OperatorError | null> {
  const { journal } = sending;
  const batch = await journal.batch(name);
  if (batch === undefined) return null;
  const end = await tryWithLock(journal, name, async () => {
    const intent = await journal.intent(name, row);
    const state = watchedStates.find((each) => each === intent?.state);
    return intent === undefined || state === undefined ? null : reviewRow({ ...sending, batch }, intent, state);
  });
  return end?.stop ?? null;
}

interface Recorded {
  readonly state: 'applied' | 'needs_human';
  /** Set if the row turned out to be applied and another row has taken back the same, so that it was taken back twice. */
  readonly twice: OverApplied | null;
}

/** Records the verdict of a later look. Returns null if it cannot be recorded yet. */
async function recordLateVerdict(
  { journal, clock }: Pick<Sending, 'journal' | 'clock'>,
  { undoOf }: Pick<Batch, 'undoOf'>,
  intent: Intent,
  judgement: Judgement,
  verdict: Verdict,
  source = '',
): Promise<Recorded | null> {
  const { batch, row, state: from } = intent;
  const note = `${source}${verdict.note}`;
  const fields = fieldsOf(intent, judgement, verdict, clock);
  if (verdict.to === 'applied') return recordLateApplied(journal, undoOf, intent, fields, note);
  checkStep(from, 'needs_human');
  const isRecorded = await journal.move({ batch, row, from, to: 'needs_human', fields, note });
  return isRecorded ? { state: 'needs_human', twice: null } : null;
}

/**
 * Records that a row that nobody waited for was made after all. If it takes another row back, a second row may have been planned
 * to do the same since. A second row that was not sent is skipped. If it was sent, the original row was taken back twice, and this
 * row needs a person. Returns null if it cannot be recorded yet.
 */
export async function recordLateApplied(
  journal: Journal,
  undoOf: string | null,
  intent: Intent,
  fields: IntentFields,
  note: string,
): Promise<Recorded | null> {
  const { batch, row, state: from, undoOfRow } = intent;
  checkStep(from, 'applied');
  const isRecorded = () => journal.move({ batch, row, from, to: 'applied', fields, note });
  if (await isRecorded()) return { state: 'applied', twice: null };
  const other = undoOf === null || undoOfRow === null ? undefined : (await journal.undoneRows(undoOf)).get(undoOfRow);
  if (other === undefined) return null;
  if (other.state === 'planned' || other.state === 'blocked') {
    const problem = `row ${row} of batch ${batch}, which counted as ${from.replace('_', ' ')}, was made after all`;
    if ((await tryWithLock(journal, other.batch, () => skipUnsent(journal, other, problem))) === null) return null;
    return (await isRecorded()) ? { state: 'applied', twice: null } : null;
  }
  const also = `row ${undoOfRow} of batch ${undoOf} was taken back by row ${other.row} of batch ${other.batch}, too`;
  const reversal = reversalOf(targetOf(intent) as Target<BalanceParameters>, 1, 'made twice');
  const twice: OverApplied = {
    kind: 'over_applied',
    evidence: 'token',
    after: null,
    note: `${note}, and ${also}`,
    reversal,
  };
  const problem = `over-applied: ${twice.note}. Reversal: ${reversal}`;
  const excess = { ...fields, problem, discrepancy: 'over_applied', undoOfRow: null } as const;
  const isKept = await journal.move({ batch, row, from, to: 'needs_human', fields: excess, note: problem });
  return isKept ? { state: 'needs_human', twice } : null;
}

/** Returns null if the row is already being sent. */
async function skipUnsent(journal: Journal, { batch, row }: RowPlace, problem: string): Promise<true | null> {
  const intent = await journal.intent(batch, row);
  if (intent?.state !== 'planned' && intent?.state !== 'blocked') return null;
  const { state: from } = intent;
  await journal.move({ batch, row, from, to: unsentState(intent), fields: { problem }, note: problem });
  await updateBatchState(journal, batch);
  return true;
}

function notRecordableError({ batch, row }: Intent): OperatorError {
  return new OutcomeUnknownError(
    `row ${row} of batch ${batch} was made after all. This cannot be recorded while another row of the same user is open or being sent`,
    { advice: '`admin-mirror bulk status` names that row. Settle it, then run this again.' },
  );
}

/**
 * Settles every open row, then looks again at those that count as not made or were sent more than once. It looks at them even if an
 * open row was made twice: a row must not be reported as not applied while its write shows on the server. This and the next two
 * return the first error, or null.
 */
export function settleAll(sending: Sending): Promise<OperatorError | null> {
  const { journal, batch } = sending;
  const { batch: name } = batch;
  // No row is `sending`: `takeUp` has made those that a process left so `unknown`.
  const rounds = [journal.intents(name, openStates), journal.intents(name, notMadeStates), journal.resentRows(name)];
  return lookAtAll(sending, rounds);
}

/** Looks again at the rows that were sent more than once: each of their requests may have been made. */
export function reviewResent(sending: Sending): Promise<OperatorError | null> {
  return lookAtAll(sending, [sending.journal.resentRows(sending.batch.batch)]);
}

/** Looks for every row of the batch on the server, and sends nothing. */
export function reconcileRows(sending: Sending): Promise<OperatorError | null> {
  const { journal, batch } = sending;
  return lookAtAll(sending, [journal.intents(batch.batch, openStates), journal.intents(batch.batch, watchedStates)]);
}

async function lookAtAll(sending: Sending, rounds: readonly AsyncIterable<Intent>[]): Promise<OperatorError | null> {
  let first: OperatorError | null = null;
  for (const rows of rounds) {
    for await (const intent of rows) {
      if (sending.signal.aborted) return first;
      // One after the other, to spare the server.
      const { state, stop } = await lookAgain(sending, intent);
      if (state !== intent.state) sending.progress({ kind: 'row', row: intent.row, state });
      first ??= stop;
      // An unknown outcome of one row is no reason to leave out the others. A server that cannot be reached is.
      if (stop !== null && !(stop instanceof OutcomeUnknownError)) return first;
    }
  }
  return first;
}

async function lookAgain(sending: Sending, intent: Intent): Promise<RowEnd> {
  if (isOpen(intent.state)) return settleRow(sending, intent);
  // A person has already decided about a row that was made too often.
  if (intent.discrepancy === 'over_applied') return { state: intent.state, stop: null };
  return reviewRow(sending, intent, intent.state as WatchedState);
}

/** A row whose outcome turned out to be different. */
interface LateRow {
  readonly batch: string;
  readonly row: number;
  readonly state: 'applied' | 'needs_human';
}

interface LatePorts extends Pick<Sending, 'journal' | 'clock'> {
  readonly directory: Pick<UserDirectory, 'transactions'>;
}

/** Records every such row of the journal that the mirror shows. Skips a batch that another process has locked. */
export async function recordLate(ports: LatePorts): Promise<LateRow[]> {
  const { journal } = ports;
  const late: LateRow[] = [];
  for (const batch of await journal.batchesNotMade()) {
    if (batch.action !== balance.name) continue;
    await tryWithLock(journal, batch.batch, async () => {
      for await (const intent of journal.intents(batch.batch, notMadeStates)) {
        const state = await recordIfShown(ports, batch, intent);
        if (state !== undefined) late.push({ batch: batch.batch, row: intent.row, state });
      }
    });
  }
  return late;
}

async function recordIfShown(
  { directory, ...ports }: LatePorts,
  ofBatch: Pick<Batch, 'undoOf'>,
  intent: Intent,
): Promise<LateRow['state'] | undefined> {
  const { user, state, evidence, answerKind } = intent;
  const transactions = user === null ? undefined : directory.transactions(user);
  if (transactions === undefined) return undefined;
  const target = targetOf(intent) as Target<BalanceParameters>;
  const seen = observationOf({ id: user, balance_transactions: transactions }, target.parameters, target.token);
  const judgement = balance.judge(target, seen, seen, answerKind);
  const verdict = laterVerdictOf(judgement, state as WatchedState, evidence);
  if (verdict === null) return undefined;
  return (await recordLateVerdict(ports, ofBatch, intent, judgement, verdict, 'found by a sync: '))?.state;
}
