/** Batches that the console sends, whatever becomes of the browser, until it stops. src/bulk decides what may go out. */
import type { Sleep } from '../api/rate.ts';
import type { Action } from '../bulk/action.ts';
import type { Again } from '../bulk/approval.ts';
import { batchOf, checkServer, type Consent } from '../bulk/claim.ts';
import { type BulkPorts, openBulkPorts } from '../bulk/open.ts';
import { consentQuestion } from '../bulk/report.ts';
import { checkSendable, sendBatch } from '../bulk/send-batch.ts';
import { defaultMaxErrors } from '../bulk/sending.ts';
import type { Batch } from '../journal/port.ts';
import type { Actor } from '../model/actor.ts';
import { LockHeldError, OperatorError, stackOf, UsageError } from '../model/errors.ts';
import { isSameTotal } from '../model/money.ts';
import { withReleases } from '../model/releases.ts';
import type { Surroundings } from '../settings/settings.ts';

interface Running {
  readonly actor: Actor;
  readonly stop: AbortController;
  /** Rows were claimed, and the first may be on its way. */
  readonly begun: Promise<void>;
  /** Resolves when it has ended, however it did. */
  readonly ended: Promise<void>;
  /** Why it waits now, in words; null where it does not. */
  waits: string | null;
}

/** What is to be sent, in whose name and by what consent. */
interface Order {
  readonly batch: Batch;
  readonly action: Action;
  readonly actor: Actor;
  readonly consent: Pick<Consent, 'again' | 'approved'>;
}

export class Sendings {
  readonly #surroundings: Surroundings;
  readonly #sleep: Sleep;
  readonly #running = new Map<string, Running>();
  readonly #ends = new Map<string, OperatorError>();

  constructor(surroundings: Surroundings, sleep: Sleep) {
    this.#surroundings = surroundings;
    this.#sleep = sleep;
  }

  /** The batch as it is being sent here; undefined where it is not. */
  running(batch: string): (Pick<Running, 'actor' | 'waits'> & { readonly isStopping: boolean }) | undefined {
    const found = this.#running.get(batch);
    return found === undefined ? undefined : { ...found, isStopping: found.stop.signal.aborted };
  }

  /** Why the last sending of it from here ended early; undefined where it did not, or the console was started since. */
  lastProblem(batch: string): OperatorError | undefined {
    return this.#ends.get(batch);
  }

  /** Sends a batch that nobody has sent yet. Resolves once its rows are claimed. Throws an OperatorError where it may not go out. */
  async send(batch: Batch, action: Action, typed: string, again: Again, actor: Actor): Promise<void> {
    this.#checkFree(batch.batch);
    const approved = await this.#opened(actor, this.#surroundings.signal, async (ports) => {
      // The file was taken by the console, and is gone: what is sent is the plan.
      await checkSendable(ports, batch, { file: null, again, acceptJournal: null });
      const question = await consentQuestion(ports.journal, batch, action, ports.client.address);
      if (isSameTotal(typed, question.typed)) return `by typing ${question.typed}`;
      throw new UsageError(`that is not the total; nothing was sent`, {
        advice: `To ${question.doing}, type ${question.typed}.`,
      });
    });
    const { begun, ended } = this.#begin({ batch, action, actor, consent: { again, approved } });
    await Promise.race([begun, ended]);
    const problem = this.#running.has(batch.batch) ? undefined : this.#ends.get(batch.batch);
    if (problem instanceof UsageError || problem instanceof LockHeldError) throw problem;
  }

  /** Settles what is open, and sends what is left of a batch that was sent before. Throws where that is under way. */
  async resume(batch: Batch, action: Action, again: Again, actor: Actor): Promise<void> {
    this.#checkFree(batch.batch);
    if (batch.state === 'planned') throw new UsageError(`batch ${batch.batch} was never sent`);
    await this.#opened(actor, this.#surroundings.signal, async ({ journal, client }) => {
      if ((await journal.lockOwner(batch.batch)) !== undefined) {
        // Says who it is.
        await journal.acquireLock(batch.batch);
        await journal.releaseLock(batch.batch);
      }
      await checkServer(batch, client, this.#surroundings.signal);
    });
    this.#begin({ batch, action, actor, consent: { again, approved: null } });
  }

  /** Ends it after the rows that are under way. */
  stop(batch: string): void {
    this.#running.get(batch)?.stop.abort();
  }

  /** Stops all of them, and waits until each is safe. */
  async close(): Promise<void> {
    const all = [...this.#running.values()];
    for (const { stop } of all) stop.abort();
    await Promise.all(all.map(({ ended }) => ended));
  }

  #checkFree(batch: string): void {
    if (!this.#running.has(batch)) return;
    throw new LockHeldError(`batch ${batch} is being sent already; this has sent nothing`, {
      advice: 'The page of the batch shows how far it is.',
    });
  }

  #opened<T>(actor: Actor, signal: AbortSignal, work: (ports: BulkPorts) => Promise<T>): Promise<T> {
    return withReleases(async (releases) =>
      work(await openBulkPorts({ ...this.#surroundings, signal }, actor, releases)),
    );
  }

  /** Two requests may have come as far as this at once: the second is refused here, and in other processes by the lock. */
  #begin(order: Order): Running {
    const { actor } = order;
    const { batch } = order.batch;
    this.#checkFree(batch);
    const stop = new AbortController();
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    const signal = AbortSignal.any([stop.signal, this.#surroundings.signal]);
    const ended = this.#run(order, signal, begin);
    const running: Running = { actor, stop, begun, ended, waits: null };
    this.#ends.delete(batch);
    this.#running.set(batch, running);
    return running;
  }

  async #run({ batch: { batch }, action, actor, consent }: Order, signal: AbortSignal, begin: () => void) {
    const { settings, log } = this.#surroundings;
    const options = { ...settings.bulk, maxErrors: defaultMaxErrors, acceptJournal: null };
    try {
      const problem = await this.#opened(actor, signal, async (ports) => {
        const { journal, rules } = ports;
        const progress = (event: { readonly kind: string; readonly why?: string }): void => {
          if (event.kind === 'begin') begin();
          const running = this.#running.get(batch);
          if (running !== undefined) running.waits = event.why ?? null;
        };
        const found = await batchOf(journal, batch);
        const sending = { ...ports, sleep: this.#sleep, progress };
        const { stop, report, error } = await sendBatch(sending, found, action, options, { ...rules, ...consent });
        log.info({ batch, state: report.state, ...report.counts }, 'ended');
        return signal.aborted && stop === null ? null : error;
      });
      if (problem !== null) this.#ends.set(batch, problem);
    } catch (error) {
      if (error instanceof OperatorError) this.#ends.set(batch, error);
      else log.error({ batch, stack: stackOf(error) }, 'a sending failed');
    } finally {
      this.#running.delete(batch);
    }
  }
}
