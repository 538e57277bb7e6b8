/**
 * Sending a batch: what is open is settled first, then one row alone, then the others. It stops where going on would
 * help nobody, and can always be taken up again. Section "Writing" of docs/architecture.md.
 */
import { IncompleteError, KeyRefusedError, type OperatorError, OutcomeUnknownError } from '../model/errors.ts';
import { minuteMs, secondMs } from '../model/time.ts';
import type { Batch, Intent, IntentState } from '../store/ports/journal.ts';
import type { Action } from './action.ts';
import { countNameOf, isOpen } from './intent.ts';
import { openLanes } from './lanes.ts';
import { type Later, sendRow } from './send-row.ts';
import type { RowEnd, Sending, SendingOptions, SendingPorts } from './sending.ts';
import { settleOpen } from './settle.ts';

export interface SendingEnd {
  /** Why it did not go on to the end; null where it did, or was asked to stop. */
  readonly stop: OperatorError | null;
}

/** A server that is not there is tried so often; one that asks to wait, for so long. */
const mostUnreached = 3;
const longestWaitMs = 15 * minuteMs;
/** Where a server asks to come back later without saying when. */
const firstWaitMs = secondMs;

/**
 * Sends what is planned of the batch. The caller has made sure that it may. Throws LockHeldError where another process is
 * at it, and what is a bug.
 */
export async function sendBatch(
  ports: SendingPorts,
  batch: Batch,
  action: Action,
  options: SendingOptions,
): Promise<SendingEnd> {
  const { journal } = ports;
  const sending: Sending = { ...ports, batch, action, options };
  journal.acquireLock(batch.batch);
  try {
    journal.setBatchState(batch.batch, 'applying');
    journal.takeUp(batch.batch);
    const early = await settleOpen(sending);
    // What was settled may have freed others.
    journal.takeUp(batch.batch);
    const stop = early ?? (await new Run(sending).all());
    journal.setBatchState(batch.batch, isDone(sending) ? 'done' : 'stopped');
    return { stop };
  } finally {
    journal.releaseLock(batch.batch);
  }
}

function isDone({ journal, batch }: Sending): boolean {
  const counts = journal.counts(batch.batch);
  return (Object.keys(counts) as IntentState[]).every(
    (state) => !isOpen(state) && state !== 'planned' && state !== 'blocked',
  );
}

class Run {
  readonly #sending: Sending;
  #stop: OperatorError | null = null;
  #errors = 0;

  constructor(sending: Sending) {
    this.#sending = sending;
  }

  get #stopped(): boolean {
    return this.#stop !== null || this.#sending.signal.aborted;
  }

  /** Every planned row; gives why it ended early, or null. */
  async all(): Promise<OperatorError | null> {
    const { journal, batch, options, progress } = this.#sending;
    progress({ kind: 'begin', rows: journal.counts(batch.batch).planned ?? 0 });
    const rows = journal.intents(batch.batch, ['planned']);
    await this.#canary(rows);
    const lanes = openLanes(options.concurrency);
    while (!this.#stopped) {
      const { value: intent, done } = rows.next();
      if (done === true) break;
      await lanes.give(intent.subject ?? `row:${intent.row}`, async () => {
        if (!this.#stopped) await this.#one(intent);
      });
    }
    await lanes.end();
    return this.#stop;
  }

  /** One row alone, looked at to its end, before any other goes out. */
  async #canary(rows: IteratorObject<Intent, undefined>): Promise<void> {
    while (!this.#stopped) {
      const { value: intent, done } = rows.next();
      if (done === true) return;
      const state = await this.#one(intent);
      if (state === 'applied') return;
      if (state === 'skipped' || state === 'blocked') continue;
      if (state === 'rejected' && this.#sending.action.refusedForItself === true) continue;
      this.#stop ??= canaryFailed(this.#sending, intent);
    }
  }

  /** Sends the row, as often as the server asks to come back later. */
  async #one(intent: Intent): Promise<IntentState> {
    const { journal, progress } = this.#sending;
    let planned = intent;
    let unreached = 0;
    let waited = 0;
    for (;;) {
      const end = await sendRow(this.#sending, planned);
      if (!('later' in end)) return this.#ended(intent, end);
      if (end.later.httpStatus === null) unreached += 1;
      const ms = waitOf(end, unreached, waited);
      waited += ms;
      if (unreached >= mostUnreached || waited > longestWaitMs) this.#stop ??= end.later.error;
      if (this.#stopped) return 'planned';
      progress({ kind: 'wait', ms, why: end.later.error.message });
      if (!(await this.#sleep(ms))) return 'planned';
      planned = journal.intent(planned.batch, planned.row) ?? planned;
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
    // A read that was broken off by the signal is no failure of the server's.
    if (stop !== null && !(signal.aborted && state === 'planned')) this.#stop ??= stop;
    const name = countNameOf(state);
    if (name === 'rejected' || name === 'unknown' || name === 'skipped') this.#errors += 1;
    if (this.#errors >= options.maxErrors) {
      this.#stop ??= new IncompleteError(`${this.#errors} rows failed, as many as --max-errors allows`, {
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

function canaryFailed({ batch }: Sending, { row }: Intent): OperatorError {
  const advice =
    `See why with \`admin-mirror bulk results ${batch.batch}\`; go on with the others by ` +
    `\`admin-mirror bulk resume ${batch.batch}\`.`;
  return new IncompleteError(`row ${row}, which went alone before all others, was not applied: the batch was stopped`, {
    advice,
  });
}

/** The error as which an unfinished batch ends, the weightiest first; null where all rows were applied. */
export function endError(
  stop: OperatorError | null,
  counts: Readonly<Record<string, number>>,
  batch: string,
): OperatorError | null {
  if (stop instanceof KeyRefusedError) return stop;
  const { unknown = 0, planned = 0, rejected = 0, blocked = 0, skipped = 0, invalid = 0 } = counts;
  if (unknown > 0 && !(stop instanceof OutcomeUnknownError)) {
    const what = unknown === 1 ? '1 row' : `${unknown} rows`;
    return new OutcomeUnknownError(`the outcome of ${what} is not known`, {
      advice:
        `Do not send them by other means. Run \`admin-mirror bulk resume ${batch}\` later: it looks again. ` +
        `\`admin-mirror bulk status ${batch}\` says which of them need a person.`,
      cause: stop ?? undefined,
    });
  }
  if (stop !== null) return stop;
  const left = planned + rejected + blocked + skipped + invalid;
  if (left === 0) return null;
  return new IncompleteError(`${left} ${left === 1 ? 'row was' : 'rows were'} not applied`, {
    advice: `\`admin-mirror bulk results ${batch}\` writes them to files, with the reason of each.`,
  });
}
