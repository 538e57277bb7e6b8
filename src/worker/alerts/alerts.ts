/**
 * The worker's alerts: looks at what is wrong, decides what is to be sent, keeps that in the store, and delivers it, the
 * messages of each channel in their order. Nothing here waits for a receiver but the deliveries themselves, and nothing that
 * fails here ends the worker.
 */
import { randomUUID } from 'node:crypto';
import { OperatorError } from '../../model/errors.ts';
import type { Log } from '../../model/log.ts';
import { type Clock, dayMs, parseInstant, timestampOf } from '../../model/time.ts';
import type { Alert, AlertBook, AlertStore, Channel, Message, Problem } from '../store/alerts.ts';
import { type Channels, problemOf } from './channels.ts';
import {
  type AlertPayload,
  alertsAfter,
  type AlertStep,
  decideAlerts,
  pauseAfter,
  payloadOf,
  type Sender,
} from './message.ts';

/** What nobody would take for so long tells nobody anything any more. */
const longestMs = 7 * dayMs;

/** What became of a try to deliver a message. */
export interface Delivery {
  readonly result: 'delivered' | 'failed' | 'dropped';
  readonly channel: Channel;
}

interface AlertPorts {
  readonly store: AlertStore;
  readonly clock: Clock;
  readonly log: Log;
  readonly sender: Sender;
  /** What is wrong now; those that are open are given, since some of it may not be known right now. */
  readonly problems: (known: readonly Problem[]) => readonly Problem[];
  readonly channels: () => Channels;
  /** For counting. */
  readonly onDelivery: (delivery: Delivery) => void;
  /** Stops what is on its way. */
  readonly signal: AbortSignal;
}

export interface Alerts {
  /** Looks at what is wrong, and begins to deliver what is due. Never throws for what an operator can mend. */
  look(): void;
  /** Whether the book is on the disk as it is known here. */
  isSaved(): boolean;
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
    const { alerts } = this.#book;
    const steps = decideAlerts(alerts, problems(alerts), clock.now());
    if (steps.length > 0) {
      for (const step of steps) this.#log(step);
      this.#book = {
        alerts: alertsAfter(alerts, steps),
        messages: [...this.#book.messages, ...steps.flatMap((step) => this.#messagesOf(step))],
      };
      this.#isSaved = false;
    }
    // Before anything is sent: the next worker must not send it again.
    this.#save();
    for (const channel of channelNames) this.#deliver(channel);
  }

  isSaved(): boolean {
    return this.#isSaved;
  }

  open(): readonly Alert[] {
    return this.#book.alerts;
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

  #messagesOf(step: AlertStep): Message[] {
    const { channels, clock, sender } = this.#ports;
    const at = timestampOf(clock.now());
    const wanted = channels();
    return channelNames
      .filter((channel) => wanted[channel] !== undefined)
      .map((channel) => {
        const id = randomUUID();
        const payload = JSON.stringify(payloadOf(step, id, at, sender));
        return { id, channel, payload, at, attempts: 0, notBefore: at };
      });
  }

  #log({ kind, alert }: AlertStep): void {
    const { log } = this.#ports;
    const fields = { problem: alert.problem, since: alert.since };
    if (kind === 'ends') log.info(fields, `over: ${alert.text}`);
    else log.error({ ...fields, advice: alert.next }, `alert: ${alert.text}`);
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

  /** The oldest of the channel, where it may be tried now. The others wait behind it: nobody hears of an end first. */
  #deliver(channel: Channel): void {
    if (this.#underWay.has(channel) || this.#isClosed || this.#ports.signal.aborted) return;
    const message = this.#book.messages.find((each) => each.channel === channel);
    if (message === undefined || (parseInstant(message.notBefore) ?? 0) > this.#ports.clock.now()) return;
    const done = this.#deliverOnce(message).finally(() => {
      this.#underWay.delete(channel);
      // The next of the channel; one that failed is not due.
      this.#deliver(channel);
    });
    this.#underWay.set(channel, done);
  }

  /** Tries the message once, or drops it where there is nobody to take it. Never rejects; stopped, it leaves it as it was. */
  async #deliverOnce(message: Message): Promise<void> {
    const { channels, clock, log, signal } = this.#ports;
    const { channel } = message;
    const deliver = channels()[channel];
    const payload = JSON.parse(message.payload) as AlertPayload;
    const fields = { alert: message.id, problem: payload.problem, channel };
    const age = clock.now() - (parseInstant(message.at) ?? 0);
    if (deliver === undefined || age > longestMs) {
      const why = deliver === undefined ? `there is no alerts.${channel} any more` : 'it is a week old';
      log.warn(fields, `an alert is given up: ${why}`);
      return this.#record(message, { result: 'dropped', channel });
    }
    const problem = await problemOf(deliver(payload, signal));
    if (problem === null) {
      log.info(fields, `the alert was delivered: ${payload.text}`);
      this.#record(message, { result: 'delivered', channel });
    } else if (!signal.aborted) {
      const attempts = message.attempts + 1;
      const pause = pauseAfter(attempts);
      log.error({ ...fields, attempts, again_in_ms: pause }, `the alert could not be delivered: ${problem}`);
      const later = { ...message, attempts, notBefore: timestampOf(clock.now() + pause) };
      this.#record(message, { result: 'failed', channel }, later);
    }
  }

  #record({ id }: Message, delivery: Delivery, ...later: readonly Message[]): void {
    const { messages, alerts } = this.#book;
    this.#book = { alerts, messages: messages.flatMap((each) => (each.id === id ? later : [each])) };
    this.#isSaved = false;
    this.#save();
    this.#ports.onDelivery(delivery);
  }
}

/** The alerts as the store knows them; nothing is looked at or sent before `look`. Throws a FileError. */
export function openAlerts(ports: AlertPorts): Alerts {
  return new WorkerAlerts(ports);
}
