/**
 * Sends a batch: settles what is open, claims the rows and runs over them. It can always be resumed. Section "Writing" of
 * docs/architecture.md.
 */
import type { Batch } from '../journal/port.ts';
import { counted } from '../model/text.ts';
import {
  FileError,
  IncompleteError,
  KeyRefusedError,
  NotSentError,
  OperatorError,
  OutcomeUnknownError,
  UsageError,
} from '../model/errors.ts';
import type { Action } from './action.ts';
import type { Again } from './approval.ts';
import {
  alreadyApproved,
  checkClaimable,
  checkFile,
  checkServer,
  claimRows,
  type Consent,
  earlierClock,
  type Rules,
} from './claim.ts';
import { checkJournal } from './journal-memory.ts';
import type { LiveClient } from './live-users.ts';
import { type BatchReport, holdingAdvice, reportOf } from './report.ts';
import { journalFailed, Run } from './run.ts';
import type { Sending, SendingOptions, SendingPorts } from './sending.ts';
import { reconcileRows, settleAll } from './late.ts';
import { underLock, updateBatchState } from './settle.ts';

/** How the sending of a batch ended. */
export interface SendingEnd {
  /** Why it ended early; null if it came to its end, or was asked to stop. */
  readonly stop: OperatorError | null;
  readonly report: BatchReport;
  /** The error with which the command ends; null if all rows were applied and no balance contradicts them. */
  readonly error: OperatorError | null;
}

/**
 * Claims the planned rows of the batch and sends them. Without consent it only looks for every row on the server and records what
 * it finds. Throws LockHeldError if another process has the lock of the batch, and an OperatorError if the rows may not be sent:
 * then nothing was sent, and a planned batch is still planned. Throws an OutcomeUnknownError if the journal cannot be read at the
 * end.
 */
export async function sendBatch(
  ports: SendingPorts,
  batch: Batch,
  action: Action,
  options: SendingOptions,
  consent: Consent | null,
): Promise<SendingEnd> {
  const { journal } = ports;
  let isSent = false;
  const sending = { ...ports, sends: (): void => void (isSent = true), batch, action, options };
  let stop: OperatorError | null;
  try {
    const work = () => (consent === null ? reconcileAll(sending) : sendAll(sending, consent));
    stop = await underLock(journal, batch.batch, work);
  } catch (error) {
    // Whatever fails now, money may have moved: the command must not end as if nothing had been sent.
    if (!isSent || !(error instanceof OperatorError)) throw error;
    stop = error instanceof OutcomeUnknownError ? error : journalFailed(error, true, batch);
  }
  try {
    const report = await reportOf(journal, (await journal.batch(batch.batch)) ?? batch);
    return { stop, report, error: endError(stop, report) };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    throw stop instanceof OutcomeUnknownError ? stop : journalFailed(error, isSent, batch, stop);
  }
}

/** Returns why it ended early, or null. */
async function sendAll(sending: Sending, consent: Consent): Promise<OperatorError | null> {
  const { journal, batch } = sending;
  const isResumed = consent.approved === null;
  if (isResumed) {
    await journal.takeUp(batch.batch);
    const stop = await settleAll(sending);
    // Rows that waited for the settled ones may be sent now.
    await journal.takeUp(batch.batch);
    if (stop !== null) return recordEnd(sending, stop);
  }
  try {
    await checkJournal(sending);
    await claimRows(journal, batch.batch, consent, earlierClock(sending));
  } catch (error) {
    if (!isResumed || !(error instanceof OperatorError)) throw error;
    return recordEnd(sending, error);
  }
  const claimed = (await journal.batch(batch.batch)) ?? batch;
  // A reason that came with the plan rests on what this journal knows. Only a person who resumes has been told of unknown tokens.
  const acceptUnknownMarks = isResumed && consent.again.reason !== null;
  return recordEnd(sending, await new Run({ ...sending, batch: claimed, acceptUnknownMarks }).all());
}

/** Looks for every row of the batch on the server and records what it finds. Sends nothing. */
async function reconcileAll(sending: Sending): Promise<OperatorError | null> {
  const { journal, batch, signal } = sending;
  if (batch.state !== 'planned') await journal.takeUp(batch.batch);
  const stop = await reconcileRows(sending);
  if (stop === null && !signal.aborted && batch.behind !== null) await journal.setBehind(batch.batch, null);
  return recordEnd(sending, stop);
}

/** Records whether the batch is done. A journal that cannot be written must not hide what was sent. */
async function recordEnd({ journal, batch }: Sending, stop: OperatorError | null): Promise<OperatorError | null> {
  try {
    await updateBatchState(journal, batch.batch);
    return stop;
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    return stop ?? journalFailed(error, true, batch);
  }
}

interface SendableChecks {
  /** Path of the batch's file; null if unknown. */
  readonly file: string | null;
  readonly again: Again;
}

/** Throws if the batch must not be sent, before anybody is asked for the total. The claim checks all of it again. */
export async function checkSendable(
  ports: Pick<SendingPorts, 'journal' | 'memory' | 'clock' | 'signal'> & {
    readonly client: LiveClient;
    readonly rules: Rules;
  },
  batch: Batch,
  { file, again }: SendableChecks,
): Promise<void> {
  const { journal, client, rules, signal } = ports;
  // Throws if another process has the lock, and says who. It is not kept while somebody is asked.
  if ((await journal.lockOwner(batch.batch)) !== undefined) await underLock(journal, batch.batch, async () => {});
  if (batch.state !== 'planned') {
    const isEnded = batch.appliedAt === null && (await journal.wasDiscarded(batch.batch));
    throw isEnded ? new NotSentError(`batch ${batch.batch} was discarded`) : alreadyApproved(batch);
  }
  const { planned = 0 } = await journal.counts(batch.batch);
  if (planned === 0) throw new UsageError(`batch ${batch.batch} has no valid row`);
  checkFile(batch, file);
  await checkServer(batch, client, signal);
  await checkJournal(ports);
  await checkClaimable(journal, batch, { ...rules, again }, earlierClock(ports));
}

/** The error with which the batch ends: the most serious one. */
function endError(
  stop: OperatorError | null,
  { batch, counts, discrepancies, holding: [held] }: BatchReport,
): OperatorError | null {
  if (stop instanceof KeyRefusedError) return stop;
  const { unknown, planned, rejected, blocked, skipped, invalid } = counts;
  if (unknown > 0 && !(stop instanceof OutcomeUnknownError)) {
    const what = counted(unknown, 'row');
    return new OutcomeUnknownError(`the outcome of ${what} is not known`, {
      advice:
        (stop === null ? '' : `It ended early: ${stop.message}. `) +
        `Do not send ${unknown === 1 ? 'it' : 'them'} by other means. Continue later with \`admin-mirror bulk resume ${batch}\`: it looks again. ` +
        `\`admin-mirror bulk status ${batch}\` says ${unknown === 1 ? 'whether it needs' : 'which of them need'} a person.`,
      cause: stop ?? undefined,
    });
  }
  if (stop !== null) return stop;
  const left = planned + rejected + blocked + skipped + invalid;
  if (left > 0) {
    const results = `\`admin-mirror bulk results ${batch}\` shows all, with the reason of each.`;
    return new IncompleteError(`${counted(left, 'row was', 'rows were')} not applied`, {
      advice: held === undefined ? results : `${holdingAdvice(batch, held)} ${results}`,
    });
  }
  if (discrepancies === 0) return null;
  const rows = counted(discrepancies, 'row that was applied', 'rows that were applied');
  return new IncompleteError(`the balance contradicts ${rows}`, {
    advice: `Look at these users on the server. \`admin-mirror bulk results ${batch}\` names them in the column _discrepancy.`,
  });
}
