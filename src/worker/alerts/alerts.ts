/**
 * The worker's alerts: looks at what is wrong, decides what is to be told, keeps that in the store, and has it delivered.
 * Nothing here waits for a receiver but the deliveries themselves, and nothing that fails here ends the worker.
 */
import { randomUUID } from 'node:crypto';
import { OperatorError } from '../../model/errors.ts';
import type { Log } from '../../model/log.ts';
import { type Clock, parseInstant, timestampOf } from '../../model/time.ts';
import type { Alert, AlertBook, AlertStore, Channel, Message, Problem } from '../store/alert-types.ts';
import { type Channels, type Delivery, deliverOnce, dueMessage } from './courier.ts';
import { alertsAfter, type AlertStep, decideAlerts } from './decide.ts';
import { payloadOf, type Sender } from './message.ts';

export interface AlertPorts {
  readonly store: AlertStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly sender: Sender;
  /** What is wrong now; those that are known are given, since some of it may not be told right now. */
  readonly problems: (known: readonly Problem[]) => readonly Problem[];
  readonly channels: () => Channels;
  /** Told of each delivery, for counting. */
  readonly onDelivery: (delivery: Delivery) => void;
  /** Stops what is on its way. */
  readonly signal: AbortSignal;
}

export interface Alerts {
  /** Looks at what is wrong, and begins to deliver what is due. Never throws for what an operator can mend. */
  look(): void;
  /** Whether the book is on the disk as it is known here. */
  isSaved(): boolean;
  /** Those that are not over. */
  open(): readonly Alert[];
  /** Begins no delivery any more. */
  close(): void;
  /** Resolves when nothing is on its way any more. */
  settled(): Promise<void>;
  /** When a message that is not on its way is to be tried, ms since 1970; undefined where none waits. */
  nextTry(): number | undefined;
}

const channelNames: readonly Channel[] = ['webhook', 'command'];

class WorkerAlerts implements Alerts {
  readonly #ports: AlertPorts;
  readonly #underWay = new Map<Channel, Promise<void>>();
  #book: AlertBook;
  #isSaved = true;
  #isClosed = false;

  constructor(ports: AlertPorts) {
    this.#ports = ports;
    this.#book = ports.store.load();
  }

  look(): void {
    const { problems, clock } = this.#ports;
    const there = this.#book.alerts.filter(({ isOver, goneSince }) => !isOver && goneSince === null);
    const steps = decideAlerts(this.#book.alerts, problems(there), clock.now());
    if (steps.length > 0) {
      for (const step of steps) this.#log(step);
      this.#book = {
        alerts: alertsAfter(this.#book.alerts, steps),
        messages: [...this.#book.messages, ...steps.flatMap((step) => this.#messagesOf(step))],
      };
      this.#isSaved = false;
    }
    // Before anything is sent: what was told must not be told again by the next worker.
    this.#save();
    for (const channel of channelNames) this.#deliver(channel);
  }

  isSaved(): boolean {
    return this.#isSaved;
  }

  open(): readonly Alert[] {
    return this.#book.alerts.filter(({ isOver }) => !isOver);
  }

  close(): void {
    this.#isClosed = true;
  }

  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay.values());
  }

  nextTry(): number | undefined {
    const idle = channelNames.filter((name) => !this.#underWay.has(name));
    const firsts = idle.flatMap((name) => this.#book.messages.find(({ channel }) => channel === name) ?? []);
    return firsts.length === 0 ? undefined : Math.min(...firsts.map(({ notBefore }) => parseInstant(notBefore) ?? 0));
  }

  #messagesOf({ kind, alert }: AlertStep): Message[] {
    if (kind !== 'told' && kind !== 'again' && kind !== 'over') return [];
    const { channels, clock, sender } = this.#ports;
    const at = timestampOf(clock.now());
    const wanted = channels();
    return channelNames
      .filter((channel) => wanted[channel] !== undefined)
      .map((channel) => {
        const id = randomUUID();
        const payload = JSON.stringify(payloadOf(alert, id, at, sender));
        return { id, channel, payload, at, attempts: 0, notBefore: at };
      });
  }

  #log({ kind, alert }: AlertStep): void {
    const { log } = this.#ports;
    const fields = { problem: alert.problem, since: alert.since };
    if (kind === 'told' || kind === 'again') log.error({ ...fields, advice: alert.next }, `alert: ${alert.text}`);
    else if (kind === 'over') log.info(fields, `over: ${alert.text}`);
  }

  /** Where it cannot be written, it is tried again at the next look; until then it is known here alone. */
  #save(): void {
    if (this.#isSaved) return;
    try {
      this.#ports.store.save(this.#book);
      this.#isSaved = true;
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      this.#ports.log.error({ advice: error.advice }, `the alerts are not on record: ${error.message}`);
    }
  }

  #deliver(channel: Channel): void {
    const { clock, channels, log, signal } = this.#ports;
    if (this.#underWay.has(channel) || this.#isClosed || signal.aborted) return;
    const message = dueMessage(this.#book.messages, channel, clock.now());
    if (message === undefined) return;
    const record = (delivery: Delivery): void => this.#record(delivery);
    const done = deliverOnce(message, { channels: channels(), clock, log, record, signal }).finally(() => {
      this.#underWay.delete(channel);
      // The next of the channel; one that failed is not due.
      this.#deliver(channel);
    });
    this.#underWay.set(channel, done);
  }

  #record(delivery: Delivery): void {
    const { messages, alerts } = this.#book;
    const { message, kind } = delivery;
    const rest = messages.flatMap((each) => {
      if (each.id !== message.id) return [each];
      return kind === 'failed' ? [message] : [];
    });
    this.#book = { alerts, messages: rest };
    this.#isSaved = false;
    this.#save();
    this.#ports.onDelivery(delivery);
  }
}

/** The alerts as the store knows them; nothing is looked at or sent before it is told to. Throws a FileError. */
export function openAlerts(ports: AlertPorts): Alerts {
  return new WorkerAlerts(ports);
}
