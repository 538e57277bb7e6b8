/** A batch on its way: sent while its progress is shown, and then reported. */
import { realSleep } from '../../api/gate.ts';
import type { Action } from '../../bulk/action.ts';
import type { Consent } from '../../bulk/claim.ts';
import type { BatchReport } from '../../bulk/report.ts';
import { sendBatch } from '../../bulk/send-batch.ts';
import { sendMarginOf } from '../../bulk/send-row.ts';
import type { Batch } from '../../journal/port.ts';
import { counted } from '../../model/text.ts';
import { type OperatorError, UsageError } from '../../model/errors.ts';
import type { CliContext } from '../context.ts';
import { printNote } from '../output.ts';
import { openBulkWatch } from '../progress.ts';
import type { BulkPorts, SendFlags } from './shared.ts';

export interface Job {
  readonly context: CliContext;
  readonly ports: BulkPorts;
  readonly batch: Batch;
  readonly action: Action;
  readonly flags: SendFlags;
}

/** Sends the batch, showing progress, and emits the report. Then throws the error or interruption that stopped the batch. */
export async function sendWatched(
  { context, ports, batch, action, flags }: Job,
  consent: Consent | null,
  emit: (report: BatchReport, error: OperatorError | null) => Promise<void>,
): Promise<void> {
  const { signal } = ports;
  const { bulk, store } = context.settings();
  const options = {
    ...bulk,
    sendMarginMs: sendMarginOf(store.sharedLeaseMs),
    settleAfterMs: flags.settleAfter ?? bulk.settleAfterMs,
    maxErrors: flags.maxErrors,
  };
  const drain = (): void => {
    printNote(context, 'Finishing what is under way. Ctrl+C again stops at once and leaves its outcome unknown.');
  };
  signal.addEventListener('abort', drain, { once: true });
  const watch = openBulkWatch(context, ports.log);
  context.sends();
  let sent;
  try {
    const sending = { ...ports, sleep: context.sleep ?? realSleep, progress: watch.progress };
    sent = await sendBatch(sending, batch, action, options, consent);
  } finally {
    watch.close();
    signal.removeEventListener('abort', drain);
  }
  const { report, error } = sent;
  watch.ended({ state: report.state, ...report.counts });
  await emit(report, error);
  signal.throwIfAborted();
  if (error !== null) throw error;
}

export function invalidRows({ counts, rows }: BatchReport, end: string, advice: string): UsageError {
  const are = counts.invalid === 1 ? 'is' : 'are';
  return new UsageError(`${counts.invalid} of ${counted(rows, 'row')} ${are} invalid; ${end}`, { advice });
}
