/**
 * Sending a batch: what is open is settled first, then one row alone, then the others. It stops where going on would
 * help nobody, and can always be taken up again. Section "Writing" of docs/architecture.md.
 */
import type { Batch, Intent, IntentState, Journal } from '../journal/port.ts';
import { counted } from '../model/text.ts';
import {
  afterPart,
  FileError,
  IncompleteError,
  KeyRefusedError,
  OperatorError,
  OutcomeUnknownError,
  UsageError,
} from '../model/errors.ts';
import { minuteMs, secondMs } from '../model/time.ts';
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
import { countNameOf, isOpen } from './intent.ts';
import { acceptJournal, checkJournal } from './journal-memory.ts';
import type { LiveClient } from './live-users.ts';
import { type BatchReport, reportOf } from './report.ts';
import { type Later, sendRow } from './send-row.ts';
import type { RowEnd, Sending, SendingOptions, SendingPorts } from './sending.ts';
import { reconcileRows, isUnfinished, settleAll } from './settle.ts';

/** What became of a batch that was sent. */
export interface SendingEnd {
  /** Why it did not go on to the end; null where it did, or was asked to stop. */
  readonly stop: OperatorError | null;
  readonly report: BatchReport;
  /** As which an unfinished batch ends; null where all rows were applied, and nothing contradicts. */
  readonly error: OperatorError | null;
}

/** A server that is not there is tried so often; one that asks to wait, for so long. */
const mostUnreached = 3;
const longestWaitMs = 15 * minuteMs;
/** Where a server asks to come back later without saying when. */
const firstWaitMs = secondMs;

/**
 * Sends what is planned of the batch, once its rows are claimed; without consent, only looks for every row on the server and
 * records what is found. Throws LockHeldError where another process is at it, and an OperatorError where its rows may not go
 * out: nothing was sent then, and a batch that was planned still is.
 */
export async function sendBatch(
  ports: SendingPorts,
  batch: Batch,
  action: Action,
  options: SendingOptions,
  consent: Consent | null,
): Promise<SendingEnd> {
  const sending = { ...ports, batch, action, options };
  const stop = await withLock(ports.journal, batch, () =>
    consent === null ? reconcileAll(sending) : sendAll(sending, consent),
  );
  const report = await reportSent(ports.journal, batch, stop);
  return { stop, report, error: endError(stop, report, batch.batch) };
}

/** Gives why it ended early, or null. */
async function sendAll(sending: Sending, consent: Consent): Promise<OperatorError | null> {
  const { journal, batch, options } = sending;
  const early = consent.approved === null ? await settleBefore(sending) : null;
  if (early !== null) return ended(sending, early);
  try {
    if (options.acceptJournal !== null) await acceptJournal(sending, options.acceptJournal);
    await checkJournal(sending);
    await claimRows(journal, batch.batch, consent, earlierClock(sending));
  } catch (error) {
    if (consent.approved !== null || !(error instanceof OperatorError)) throw error;
    return ended(sending, error);
  }
  const claimed = (await journal.batch(batch.batch)) ?? batch;
  // A reason for the plan was given by what this journal knows; only whoever goes on has been told of what it does not.
  const acceptUnknownMarks = consent.approved === null && consent.again.reason !== null;
  return ended(sending, await new Run({ ...sending, batch: claimed, acceptUnknownMarks }).all());
}

/** Looks for every row of the batch on the server and records what is found; sends nothing. */
async function reconcileAll(sending: Sending): Promise<OperatorError | null> {
  const { journal, batch, signal } = sending;
  if (batch.state !== 'planned') await journal.takeUp(batch.batch);
  const stop = await reconcileRows(sending);
  if (stop === null && !signal.aborted && batch.behind !== null) await journal.setBehind(batch.batch, null);
  // What nobody has approved is not gone on with, but approved.
  return batch.state === 'planned' && (await isUnfinished(journal, batch.batch)) ? stop : ended(sending, stop);
}

/** How the batch stands after it was sent. A journal that cannot be read must not hide that rows may have gone out. */
async function reportSent(journal: Journal, batch: Batch, stop: OperatorError | null): Promise<BatchReport> {
  try {
    return await reportOf(journal, (await journal.batch(batch.batch)) ?? batch);
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    throw stop ?? notRecorded(error, true, batch);
  }
}

interface SendableChecks {
  /** Where the batch's file is now; null where nobody can say. */
  readonly file: string | null;
  readonly again: Again;
  readonly acceptJournal: string | null;
}

/** Throws where the batch must not go out, before a total is typed; the claim looks at all of it again. */
export async function checkSendable(
  ports: Pick<SendingPorts, 'journal' | 'memory' | 'clock' | 'signal'> & {
    readonly client: LiveClient;
    readonly rules: Rules;
  },
  batch: Batch,
  { file, again, acceptJournal }: SendableChecks,
): Promise<void> {
  const { journal, client, rules, signal } = ports;
  await checkFree(journal, batch);
  if (batch.state !== 'planned') {
    const isEnded = batch.appliedAt === null && (await journal.wasDiscarded(batch.batch));
    throw isEnded ? new UsageError(`batch ${batch.batch} was discarded; nothing was sent`) : alreadyApproved(batch);
  }
  const { planned = 0 } = await journal.counts(batch.batch);
  if (planned === 0) throw new UsageError(`batch ${batch.batch} has no valid row`);
  checkFile(batch, file);
  await checkServer(batch, client, signal);
  if (acceptJournal === null) await checkJournal(ports);
  await checkClaimable(journal, batch, { ...rules, again }, earlierClock(ports));
}

async function checkFree(journal: Journal, { batch }: Batch): Promise<void> {
  if ((await journal.lockOwner(batch)) === undefined) return;
  // Says who it is; the lock is not kept while somebody is asked.
  await journal.acquireLock(batch);
  await journal.releaseLock(batch);
}

async function withLock<T>(journal: Journal, { batch }: Batch, work: () => Promise<T>): Promise<T> {
  await journal.acquireLock(batch);
  try {
    return await work();
  } finally {
    // The lock of a process that ended gives way: that it could not be given up must not hide what was sent.
    await journal.releaseLock(batch).catch((error: unknown) => {
      if (!(error instanceof OperatorError)) throw error;
    });
  }
}
/** What was sent before is settled before more goes out. Gives the error that ended it early, or null. */
async function settleBefore(sending: Sending): Promise<OperatorError | null> {
  const { journal, batch } = sending;
  await journal.takeUp(batch.batch);
  const stop = await settleAll(sending);
  // What was settled may have freed others.
  await journal.takeUp(batch.batch);
  return stop;
}

/** Records how the batch stands. A journal that cannot be written must not hide what was sent. */
async function ended({ journal, batch }: Sending, stop: OperatorError | null): Promise<OperatorError | null> {
  try {
    await journal.setBatchState(batch.batch, (await isUnfinished(journal, batch.batch)) ? 'stopped' : 'done');
    return stop;
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    return stop ?? notRecorded(error, true, batch);
  }
}

class Run {
  readonly #sending: Sending;
  #stop: OperatorError | null = null;
  #errors = 0;
  /** A request may have gone out. */
  #sent = false;

  constructor(sending: Sending) {
    this.#sending = sending;
  }

  get #stopped(): boolean {
    return this.#stop !== null || this.#sending.signal.aborted;
  }

  /** Every planned row; gives why it ended early, or null. */
  async all(): Promise<OperatorError | null> {
    try {
      await this.#rows();
    } catch (error) {
      if (error instanceof FileError) this.#stop ??= notRecorded(error, this.#sent, this.#sending.batch);
      else if (error instanceof UsageError) this.#stop ??= error;
      else throw error;
    }
    return this.#sent ? afterRows(this.#stop) : this.#stop;
  }

  async #rows(): Promise<void> {
    const { journal, batch, options, progress } = this.#sending;
    const { planned = 0 } = await journal.counts(batch.batch);
    progress({ kind: 'begin', rows: planned });
    const rows = journal.intents(batch.batch, ['planned']);
    await this.#canary(rows);
    const queue = openKeyedQueue(options.concurrency);
    try {
      while (!this.#stopped) {
        const { value: intent, done } = await rows.next();
        if (done === true) break;
        await queue.give(intent.subject ?? `row:${intent.row}`, async () => {
          if (!this.#stopped) await this.#one(intent);
        });
      }
    } finally {
      // Whatever ended it: the lock stays until no request is under way.
      await queue.end();
    }
  }

  /** One row alone, looked at to its end, before any other goes out. */
  async #canary(rows: AsyncGenerator<Intent, undefined>): Promise<void> {
    while (!this.#stopped) {
      const { value: intent, done } = await rows.next();
      if (done === true) return;
      const state = await this.#one(intent);
      if (state === 'applied') return;
      // A row that is planned as before has stopped the run, or was to wait when it was stopped.
      if (state === 'planned' || !(await this.#wasSent(intent))) continue;
      if (state === 'rejected' && this.#sending.action.refusedForItself === true) continue;
      this.#stop ??= canaryFailed(this.#sending, intent, state);
    }
  }

  /** Whether the row has gone out since it was read. */
  async #wasSent({ batch, row, attempts }: Intent): Promise<boolean> {
    return (await this.#sending.journal.intent(batch, row))?.attempts !== attempts;
  }

  /** Sends the row, as often as the server asks to come back later. */
  async #one(intent: Intent): Promise<IntentState> {
    const { journal, progress } = this.#sending;
    let planned = intent;
    let unreached = 0;
    let waited = 0;
    for (;;) {
      const end = await this.#try(planned);
      if (!('later' in end)) return this.#ended(intent, end);
      if (end.later.httpStatus === null) unreached += 1;
      const ms = waitOf(end, unreached, waited);
      // A server that always says "at once" is not tried for ever.
      waited += Math.max(ms, firstWaitMs);
      if (unreached >= mostUnreached || waited > longestWaitMs) this.#stop ??= end.later.error;
      if (this.#stopped) return 'planned';
      progress({ kind: 'wait', ms, why: end.later.error.message });
      if (!(await this.#sleep(ms))) return 'planned';
      planned = (await journal.intent(planned.batch, planned.row)) ?? planned;
    }
  }

  /** What the journal cannot record stops the batch: it is told how far it came, and nothing more goes out. */
  async #try(planned: Intent): Promise<RowEnd | Later> {
    try {
      return await sendRow(this.#sending, planned);
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      const state = await this.#stateOf(planned);
      this.#sent ||= state !== 'planned';
      return { state, stop: notRecorded(error, this.#sent, this.#sending.batch) };
    }
  }

  /** A row that a journal cannot show any more counts as one that may have gone out. */
  async #stateOf({ batch, row, state }: Intent): Promise<IntentState> {
    try {
      return (await this.#sending.journal.intent(batch, row))?.state ?? state;
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      return 'sending';
    }
  }

  /** False where it was asked to stop meanwhile. */
  async #sleep(ms: number): Promise<boolean> {
    const { sleep, signal } = this.#sending;
    try {
      await sleep(ms, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    return !this.#stopped;
  }

  #ended({ row }: Intent, { state, stop }: RowEnd): IntentState {
    const { options, progress, signal } = this.#sending;
    progress({ kind: 'row', row, state });
    if (state !== 'planned' && state !== 'skipped' && state !== 'blocked') this.#sent = true;
    // A read that was broken off by the signal is no failure of the server's.
    if (!(signal.aborted && state === 'planned')) this.#stop ??= stop;
    const name = countNameOf(state);
    if (name === 'rejected' || name === 'unknown' || name === 'skipped') this.#errors += 1;
    if (this.#errors >= options.maxErrors) {
      this.#stop ??= new IncompleteError(`${counted(this.#errors, 'row')} failed, as many as --max-errors allows`, {
        advice: 'Look at the results, then go on with `admin-mirror bulk resume`.',
      });
    }
    return state;
  }
}

function waitOf({ later }: Later, unreached: number, waited: number): number {
  if (later.httpStatus === null) return firstWaitMs * 2 ** unreached;
  // Without a time told, twice as long each time.
  return later.waitMs ?? Math.max(firstWaitMs, waited);
}

/** Why it stopped, once rows went out: an exit code that means that nothing was sent would be untrue. */
function afterRows(stop: OperatorError | null): OperatorError | null {
  if (!(stop instanceof UsageError)) return afterPart(stop);
  const message = stop.message.replace('; nothing was sent', '; nothing more was sent');
  return new IncompleteError(message, { advice: stop.advice, cause: stop });
}

/** Money may have moved, so it does not end as if nothing had been sent. */
function notRecorded(error: FileError, sent: boolean, { batch }: Batch): OperatorError {
  const advice = `${error.advice ?? ''} Then go on with the batch: \`admin-mirror bulk resume ${batch}\`.`.trim();
  const options = { advice, cause: error };
  return sent
    ? new OutcomeUnknownError(`${error.message}. The batch was stopped; rows may have been sent before that`, options)
    : new IncompleteError(`${error.message}. The batch was stopped; nothing was sent`, options);
}

function canaryFailed({ batch }: Sending, { row }: Intent, state: IntentState): OperatorError {
  const how = isOpen(state) ? 'is not known to be applied' : 'was not applied';
  const advice =
    `See why with \`admin-mirror bulk results ${batch.batch}\`; go on with the others by ` +
    `\`admin-mirror bulk resume ${batch.batch}\`.`;
  return new IncompleteError(`row ${row}, which went alone before all others, ${how}: the batch was stopped`, {
    advice,
  });
}

/** The weightiest first. */
function endError(
  stop: OperatorError | null,
  { counts, discrepancies }: Pick<BatchReport, 'counts' | 'discrepancies'>,
  batch: string,
): OperatorError | null {
  if (stop instanceof KeyRefusedError) return stop;
  const { unknown, planned, rejected, blocked, skipped, invalid } = counts;
  if (unknown > 0 && !(stop instanceof OutcomeUnknownError)) {
    const what = counted(unknown, 'row');
    return new OutcomeUnknownError(`the outcome of ${what} is not known`, {
      advice:
        (stop === null ? '' : `It ended early: ${stop.message}. `) +
        `Do not send ${unknown === 1 ? 'it' : 'them'} by other means. Run \`admin-mirror bulk resume ${batch}\` later: it looks again. ` +
        `\`admin-mirror bulk status ${batch}\` says ${unknown === 1 ? 'whether it needs' : 'which of them need'} a person.`,
      cause: stop ?? undefined,
    });
  }
  if (stop !== null) return stop;
  const left = planned + rejected + blocked + skipped + invalid;
  if (left > 0) {
    return new IncompleteError(`${counted(left, 'row was', 'rows were')} not applied`, {
      advice: `\`admin-mirror bulk results ${batch}\` writes them to files, with the reason of each.`,
    });
  }
  if (discrepancies === 0) return null;
  const rows = counted(discrepancies, 'row that was applied', 'rows that were applied');
  return new IncompleteError(`the balance contradicts ${rows}`, {
    advice: `Look at these users on the server. \`admin-mirror bulk results ${batch}\` names them in the column _discrepancy.`,
  });
}

/** Works side by side, except those of one subject, which go in the order in which they came. */
function openKeyedQueue(concurrency: number) {
  const last = new Map<string, Promise<void>>();
  const underWay = new Set<Promise<void>>();
  let failure: { readonly error: unknown } | undefined;

  return {
    /** Begins the work as soon as there is room for it; resolves when the next one may be given. */
    give: async (subject: string, work: () => Promise<void>): Promise<void> => {
      const before = last.get(subject);
      const inTurn = async (): Promise<void> => {
        await before;
        if (failure === undefined) await work();
      };
      const run = inTurn()
        .catch((error: unknown) => {
          failure ??= { error };
        })
        .finally(() => {
          underWay.delete(run);
          if (last.get(subject) === run) last.delete(subject);
        });
      last.set(subject, run);
      underWay.add(run);
      while (underWay.size >= concurrency) await Promise.race(underWay);
    },
    /** Resolves when all is done; throws what a work threw first. */
    end: async (): Promise<void> => {
      await Promise.all(underWay);
      if (failure !== undefined) throw failure.error;
    },
  };
}
