/**
 * One run over the planned rows of a batch: sends one row alone, then the others side by side. Stops as soon as sending more would be
 * pointless or unsafe. Section "Writing" of docs/architecture.md.
 */
import type { Batch, Intent, IntentState } from '../journal/port.ts';
import { counted } from '../model/text.ts';
import {
  afterPart,
  FileError,
  IncompleteError,
  NotSentError,
  type OperatorError,
  OutcomeUnknownError,
  UsageError,
} from '../model/errors.ts';
import { minuteMs, secondMs } from '../model/time.ts';
import { countNameOf, isOpen } from './intent.ts';
import { type Later, sendRow } from './send-row.ts';
import type { RowEnd, Sending } from './sending.ts';
import { reviewResent } from './late.ts';

/** Attempts for a server that cannot be reached; longest total wait for one that asks to come back later. */
const maxUnreached = 3;
const maxWaitMs = 15 * minuteMs;
/** First wait if the server asks to come back later without saying when. */
const firstWaitMs = secondMs;

/** One run over the planned rows of a batch. */
export class Run {
  #sending: Sending;
  #stop: OperatorError | null = null;
  #errors = 0;
  /** Whether a request may have been sent. */
  #sent = false;

  constructor(sending: Sending) {
    this.#sending = sending;
  }

  get #stopped(): boolean {
    return this.#stop !== null || this.#sending.signal.aborted;
  }

  /** Sends every planned row. Returns why it ended early, or null. */
  async all(): Promise<OperatorError | null> {
    try {
      await this.#sendRows();
    } catch (error) {
      if (error instanceof FileError) this.#stop ??= journalFailed(error, this.#sent, this.#sending.batch);
      else if (error instanceof UsageError) this.#stop ??= error;
      else throw error;
    }
    return this.#sent ? afterRows(this.#stop) : this.#stop;
  }

  async #sendRows(): Promise<void> {
    const { journal, batch, options, progress } = this.#sending;
    const { planned = 0 } = await journal.counts(batch.batch);
    progress({ kind: 'begin', rows: planned });
    await this.#checkPutOff();
    const rows = journal.intents(batch.batch, ['planned']);
    await this.#sendCanary(rows);
    const queue = openKeyedQueue(options.concurrency);
    try {
      while (!this.#stopped) {
        const { value: intent, done } = await rows.next();
        if (done === true) break;
        await queue.add(intent.subject ?? `row:${intent.row}`, async () => {
          if (!this.#stopped) await this.#sendWithRetries(intent);
        });
      }
    } finally {
      // In any case: the lock must be kept until no request is under way.
      await queue.end();
    }
    await journal.flush();
    if (!this.#stopped) this.#stop = await reviewResent(this.#sending);
  }

  /** Notes whether the server has made a row of the batch that it had put off. */
  async #checkPutOff(): Promise<void> {
    const { journal, batch } = this.#sending;
    if (await journal.hasMadePutOff(batch.batch)) this.#sending = { ...this.#sending, makesPutOff: true };
  }

  /** Sends one row alone and settles it before any other is sent. */
  async #sendCanary(rows: AsyncGenerator<Intent, undefined>): Promise<void> {
    const { journal, action } = this.#sending;
    while (!this.#stopped) {
      const { value: intent, done } = await rows.next();
      if (done === true) return;
      const state = await this.#sendWithRetries(intent);
      await journal.flush();
      if (state === 'applied') return;
      // A row that is still planned has stopped the run, or the run was stopped while it waited.
      if (state === 'planned') continue;
      const wasSent = (await journal.intent(intent.batch, intent.row))?.attempts !== intent.attempts;
      if (!wasSent || (state === 'rejected' && action.refusedForItself === true)) continue;
      this.#stop ??= canaryFailed(this.#sending, intent, state);
    }
  }

  /** Sends the row, and tries again as long as the server asks to come back later. */
  async #sendWithRetries(intent: Intent): Promise<IntentState> {
    const { journal, progress } = this.#sending;
    let planned = intent;
    let unreached = 0;
    let waited = 0;
    for (;;) {
      const end = await this.#attempt(planned);
      if (!('later' in end)) {
        if (planned !== intent) await this.#checkPutOff();
        return this.#recordEnd(intent, end);
      }
      if (end.later.httpStatus === null) unreached += 1;
      const ms = waitOf(end, unreached, waited);
      // So that a server that always says "at once" is not tried for ever.
      waited += Math.max(ms, firstWaitMs);
      if (unreached >= maxUnreached || waited > maxWaitMs) this.#stop ??= end.later.error;
      if (this.#stopped) return 'planned';
      progress({ kind: 'wait', ms, why: end.later.error.message });
      await this.#sleep(ms);
      if (this.#stopped) return 'planned';
      planned = (await journal.intent(planned.batch, planned.row)) ?? planned;
    }
  }

  /** Sends the row once. If the journal cannot be written, the batch stops, and the error says whether rows may have been sent. */
  async #attempt(planned: Intent): Promise<RowEnd | Later> {
    try {
      return await sendRow(this.#sending, planned);
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      const { journal, batch } = this.#sending;
      // If the journal cannot be read either, the row may have been sent.
      const state = await journal.intent(planned.batch, planned.row).then(
        (now) => now?.state ?? planned.state,
        (unread: unknown): IntentState => {
          if (!(unread instanceof FileError)) throw unread;
          return 'sending';
        },
      );
      this.#sent ||= state !== 'planned';
      return { state, stop: journalFailed(error, this.#sent, batch) };
    }
  }

  async #sleep(ms: number): Promise<void> {
    const { journal, sleep, signal } = this.#sending;
    await journal.flush();
    try {
      await sleep(ms, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  #recordEnd({ row }: Intent, { state, stop }: RowEnd): IntentState {
    const { options, progress, signal } = this.#sending;
    progress({ kind: 'row', row, state });
    if (state !== 'planned' && state !== 'skipped' && state !== 'blocked') this.#sent = true;
    // A read that the signal interrupted is not the server's failure.
    if (!(signal.aborted && state === 'planned')) this.#stop ??= stop;
    const name = countNameOf(state);
    if (name === 'rejected' || name === 'unknown' || name === 'skipped') this.#errors += 1;
    if (this.#errors >= options.maxErrors) {
      this.#stop ??= new IncompleteError(`${counted(this.#errors, 'row')} failed, as many as one run may have`, {
        advice: 'Look at the results, then continue with `admin-mirror bulk resume`.',
      });
    }
    return state;
  }
}

function waitOf({ later }: Later, unreached: number, waited: number): number {
  if (later.httpStatus === null) return firstWaitMs * 2 ** unreached;
  // If the server does not say when, the wait doubles each time.
  return later.waitMs ?? Math.max(firstWaitMs, waited);
}

/** The error once rows were sent: its exit code and words must not say that nothing was sent. */
function afterRows(stop: OperatorError | null): OperatorError | null {
  if (!(stop instanceof UsageError)) return afterPart(stop);
  const message = stop instanceof NotSentError ? `${stop.why}; nothing more was sent` : stop.message;
  return new IncompleteError(message, { advice: stop.advice, cause: stop });
}

/** The error if the journal cannot be read or written. If money may have moved, it must not end as if nothing had been sent. */
export function journalFailed(
  error: OperatorError,
  sent: boolean,
  { batch }: Batch,
  early: OperatorError | null = null,
): OperatorError {
  const before = early === null ? '' : `It ended early: ${early.message}. `;
  const advice =
    before + `${error.advice ?? ''} Then continue the batch: \`admin-mirror bulk resume ${batch}\`.`.trim();
  const options = { advice, cause: error };
  return sent
    ? new OutcomeUnknownError(`${error.message}. The batch was stopped; rows may have been sent before that`, options)
    : new IncompleteError(`${error.message}. The batch was stopped; nothing was sent`, options);
}

function canaryFailed({ batch }: Sending, { row }: Intent, state: IntentState): OperatorError {
  const how = isOpen(state) ? 'is not known to be applied' : 'was not applied';
  const advice =
    `\`admin-mirror bulk results ${batch.batch}\` shows why. Send the others with ` +
    `\`admin-mirror bulk resume ${batch.batch}\`.`;
  return new IncompleteError(`row ${row}, which was sent alone before all others, ${how}: the batch was stopped`, {
    advice,
  });
}

/** Runs works side by side, except that works for the same subject run one after the other, in the order in which they were added. */
function openKeyedQueue(concurrency: number) {
  const last = new Map<string, Promise<void>>();
  const underWay = new Set<Promise<void>>();
  let failure: { readonly error: unknown } | undefined;
  const runAfter = async (before: Promise<void> | undefined, work: () => Promise<void>): Promise<void> => {
    await before;
    try {
      if (failure === undefined) await work();
    } catch (error) {
      failure ??= { error };
    }
  };

  return {
    /** Resolves when there is room for the next work. */
    add: async (subject: string, work: () => Promise<void>): Promise<void> => {
      const run = runAfter(last.get(subject), work).finally(() => {
        underWay.delete(run);
        if (last.get(subject) === run) last.delete(subject);
      });
      last.set(subject, run);
      underWay.add(run);
      while (underWay.size >= concurrency) await Promise.race(underWay);
    },
    /** Resolves when all works are done; throws the first error of a work. */
    end: async (): Promise<void> => {
      await Promise.all(underWay);
      if (failure !== undefined) throw failure.error;
    },
  };
}
