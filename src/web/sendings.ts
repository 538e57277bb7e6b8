/** The batches that the console is sending. Sending goes on without the browser, until the console stops. src/bulk has the rules. */
import type { Sleep } from '../api/gate.ts';
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
  /** Resolves when the rows are claimed; the first may be on its way. */
  readonly begun: Promise<void>;
  /** Resolves when the sending has ended, in whatever way. */
  readonly ended: Promise<void>;
  /** Why the sending waits; null if it does not. */
  waits: string | null;
}

/** What to send, in whose name, with what consent. */
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
  readonly #problems = new Map<string, OperatorError>();

  constructor(surroundings: Surroundings, sleep: Sleep) {
    this.#surroundings = surroundings;
    this.#sleep = sleep;
  }

  /** Returns the sending of the batch; undefined if this console is not sending it. */
  running(batch: string): (Pick<Running, 'actor' | 'waits'> & { readonly isStopping: boolean }) | undefined {
    const found = this.#running.get(batch);
    return found === undefined ? undefined : { ...found, isStopping: found.stop.signal.aborted };
  }

  /** Why the last sending from here ended early; undefined if it did not, or the console was restarted since. */
  lastProblem(batch: string): OperatorError | undefined {
    return this.#problems.get(batch);
  }

  /** Somebody has decided about what was left open, so that is no problem any more. */
  forgetProblem(batch: string): void {
    this.#problems.delete(batch);
  }

  /** Sends a new batch. Resolves once its rows are claimed. Throws an OperatorError if it may not be sent. */
  async send(batch: Batch, action: Action, typed: string, again: Again, actor: Actor): Promise<void> {
    this.#checkFree(batch.batch);
    const approved = await this.#opened(actor, this.#surroundings.signal, async (ports) => {
      // No file to compare with: the console deleted the sheet after planning, and sends the plan.
      await checkSendable(ports, batch, { file: null, again });
      const { currency } = this.#surroundings.settings.bulk;
      const question = await consentQuestion(ports.journal, batch, action, ports.client.address, currency);
      if (isSameTotal(typed, question.typed)) return `by typing ${question.typed}`;
      throw new UsageError('that is not the total; nothing was sent', {
        advice: `To ${question.doing}, type ${question.typed}.`,
      });
    });
    const { begun, ended } = this.#begin({ batch, action, actor, consent: { again, approved } });
    await Promise.race([begun, ended]);
    const problem = this.#running.has(batch.batch) ? undefined : this.#problems.get(batch.batch);
    if (problem instanceof UsageError || problem instanceof LockHeldError) throw problem;
  }

  /** Continues a batch: settles the open rows, then sends the rest. Throws a LockHeldError if the batch is already being sent. */
  async resume(batch: Batch, action: Action, again: Again, actor: Actor): Promise<void> {
    this.#checkFree(batch.batch);
    if (batch.state === 'planned') throw new UsageError(`batch ${batch.batch} was never sent`);
    await this.#opened(actor, this.#surroundings.signal, async ({ journal, client }) => {
      if ((await journal.lockOwner(batch.batch)) !== undefined) {
        // Throws an error that names the owner of the lock.
        await journal.acquireLock(batch.batch);
        await journal.releaseLock(batch.batch);
      }
      await checkServer(batch, client, this.#surroundings.signal);
    });
    this.#begin({ batch, action, actor, consent: { again, approved: null } });
  }

  /** Stops the sending after the rows that are under way. */
  stop(batch: string): void {
    this.#running.get(batch)?.stop.abort();
  }

  /** Stops all sendings, and waits until they have ended. */
  async close(): Promise<void> {
    const all = [...this.#running.values()];
    for (const { stop } of all) stop.abort();
    await Promise.all(all.map(({ ended }) => ended));
  }

  #checkFree(batch: string): void {
    if (!this.#running.has(batch)) return;
    throw new LockHeldError(`batch ${batch} is already being sent; nothing more was sent`, {
      advice: 'The page of the batch shows how far it is.',
    });
  }

  #opened<T>(actor: Actor, signal: AbortSignal, work: (ports: BulkPorts) => Promise<T>): Promise<T> {
    return withReleases(async (releases) =>
      work(await openBulkPorts({ ...this.#surroundings, signal }, actor, releases)),
    );
  }

  /** Checks once more, since two requests may get this far at once. The lock refuses those of other processes. */
  #begin(order: Order): Running {
    const { actor } = order;
    const { batch } = order.batch;
    this.#checkFree(batch);
    const stop = new AbortController();
    const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
    const signal = AbortSignal.any([stop.signal, this.#surroundings.signal]);
    const ended = this.#run(order, signal, begin);
    const running: Running = { actor, stop, begun, ended, waits: null };
    this.#problems.delete(batch);
    this.#running.set(batch, running);
    return running;
  }

  async #run({ batch: { batch }, action, actor, consent }: Order, signal: AbortSignal, begin: () => void) {
    const { settings, log } = this.#surroundings;
    const options = { ...settings.bulk, maxErrors: defaultMaxErrors };
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
        log.info(
          { batch, state: report.state, ...report.counts },
          `the sending of batch ${batch} has ended: ${report.state}`,
        );
        return signal.aborted && stop === null ? null : error;
      });
      if (problem !== null) this.#problems.set(batch, problem);
    } catch (error) {
      if (error instanceof OperatorError) this.#problems.set(batch, error);
      else log.error({ batch, stack: stackOf(error) }, 'a sending failed');
    } finally {
      this.#running.delete(batch);
    }
  }
}
