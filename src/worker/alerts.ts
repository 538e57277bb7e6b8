/**
 * The worker's alerts: looks at what is wrong, keeps what is to be sent in the store, and delivers it in order. Only deliveries wait
 * for a receiver, and no failure here ends the worker. docs/worker.md, "Alerts", explains every field of a message.
 */
import { randomUUID } from 'node:crypto';
import pLimit from 'p-limit';
import { LockHeldError, OperatorError } from '../model/errors.ts';
import type { Head } from '../journal/chain.ts';
import type { Log } from '../model/log.ts';
import {
  type Clock,
  dayMs,
  hourMs,
  minuteMs,
  parseInstant,
  secondMs,
  type Timestamp,
  timestampOf,
} from '../model/time.ts';
import type { Alert, AlertBook, Channel, Message, Problem } from './store/port.ts';
import type { WorkerStore } from './store/store.ts';

/** Gives why it could not be delivered, without secrets; null where it was. Never rejects. */
type Deliver = (payload: AlertPayload, signal: AbortSignal) => Promise<string | null>;
export type Channels = Readonly<Partial<Record<Channel, Deliver>>>;

/** An undelivered message that is older is of no use. */
const longestMs = 7 * dayMs;

export interface Delivery {
  readonly result: 'delivered' | 'failed' | 'dropped';
  readonly channel: Channel;
}

interface AlertPorts {
  readonly store: Pick<WorkerStore, 'saveAlerts'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly sender: Sender;
  /** What is wrong now; those that are open are given, since some of it may not be known right now. */
  readonly problems: (known: readonly Problem[]) => Promise<readonly Problem[]>;
  readonly channels: () => Channels;
  /** The newest step of the journal, which is witnessed by whoever receives it; null where there is none that can be read. */
  readonly head: () => Promise<Head | null>;
  readonly onDelivery: (delivery: Delivery) => void;
  readonly signal: AbortSignal;
}

const channelNames: readonly Channel[] = ['webhook', 'command'];

/** The alerts that are open, and what is to be delivered; nothing is looked at or sent before `look`. */
export class Alerts {
  readonly #ports: AlertPorts;
  readonly #underWay = new Map<Channel, Promise<void>>();
  #book: AlertBook;
  #isSaved = true;
  #isClosed = false;
  /** One step after the other: each changes the book and saves it before the next one does. */
  readonly #alone = pLimit(1);

  constructor(ports: AlertPorts, book: AlertBook) {
    this.#ports = ports;
    this.#book = book;
  }

  /** Looks at what is wrong, and begins to deliver what is due. Never throws for what an operator can mend. */
  look(): Promise<void> {
    return this.#alone(async () => {
      const { problems, clock, head: headOf } = this.#ports;
      const { alerts } = this.#book;
      const steps = decideAlerts(alerts, await problems(alerts), clock.now());
      for (const step of steps) this.#log(step);
      if (steps.length > 0) {
        const head = await headOf();
        const messages = [...this.#book.messages, ...steps.flatMap((step) => this.#messagesOf(step, head))];
        this.#change({ alerts: alertsAfter(alerts, steps), messages });
      }
      // Before anything is sent: the next worker must not send it again.
      await this.#save();
      for (const channel of channelNames) this.#deliver(channel);
    });
  }

  /** Whether the book is on the disk as it is known here. */
  isSaved(): boolean {
    return this.#isSaved;
  }

  open(): readonly Alert[] {
    return this.#book.alerts;
  }

  /** Begins no delivery any more. */
  close(): void {
    this.#isClosed = true;
  }

  /** Resolves when nothing is on its way any more. */
  async settled(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay.values());
  }

  /** When a message that is not on its way is to be tried, ms since 1970; undefined where none waits. */
  nextTry(): number | undefined {
    const idle = channelNames.filter((name) => !this.#underWay.has(name));
    const firsts = idle.flatMap((name) => this.#book.messages.find(({ channel }) => channel === name) ?? []);
    return firsts.length === 0 ? undefined : Math.min(...firsts.map(({ notBefore }) => parseInstant(notBefore) ?? 0));
  }

  #change(book: AlertBook): void {
    this.#book = book;
    this.#isSaved = false;
  }

  #messagesOf(step: AlertStep, head: Head | null): Message[] {
    const { channels, clock, sender } = this.#ports;
    const at = timestampOf(clock.now());
    const wanted = channels();
    return channelNames
      .filter((channel) => wanted[channel] !== undefined)
      .map((channel) => {
        const id = randomUUID();
        const payload = JSON.stringify(payloadOf(step, id, at, sender, head));
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
  async #save(): Promise<void> {
    if (this.#isSaved) return;
    try {
      await this.#ports.store.saveAlerts(this.#book);
      this.#isSaved = true;
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      // Another worker has them now, and sends them.
      if (error instanceof LockHeldError) this.close();
      this.#ports.log.error({ advice: error.advice }, `the alerts are not on record: ${error.message}`);
    }
  }

  /** The oldest of the channel, where it may be tried now. The others wait behind it: an end never comes first. */
  #deliver(channel: Channel): void {
    if (this.#underWay.has(channel) || this.#isClosed || this.#ports.signal.aborted) return;
    const message = this.#book.messages.find((each) => each.channel === channel);
    if (message === undefined || (parseInstant(message.notBefore) ?? 0) > this.#ports.clock.now()) return;
    this.#underWay.set(channel, this.#deliverInTurn(message));
  }

  async #deliverInTurn(message: Message): Promise<void> {
    const { channel } = message;
    await this.#deliverOnce(message);
    // The next of the channel, once it is on record; one that failed is not due.
    await this.#alone(async () => {
      this.#underWay.delete(channel);
      this.#deliver(channel);
    });
  }

  /** Tries the message once, or drops it where its channel is gone. Never rejects; stopped, it leaves it as it was. */
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
      await this.#record(message, { result: 'dropped', channel });
      return;
    }
    const problem = await deliver(payload, signal);
    if (problem === null) {
      log.info(fields, `the alert was delivered: ${payload.text}`);
      await this.#record(message, { result: 'delivered', channel });
    } else if (!signal.aborted) {
      const attempts = message.attempts + 1;
      const pause = pauseAfter(attempts);
      log.error({ ...fields, attempts, again_in_ms: pause }, `the alert could not be delivered: ${problem}`);
      const later = { ...message, attempts, notBefore: timestampOf(clock.now() + pause) };
      await this.#record(message, { result: 'failed', channel }, later);
    }
  }

  #record({ id }: Message, delivery: Delivery, ...later: readonly Message[]): Promise<void> {
    return this.#alone(async () => {
      const { messages, alerts } = this.#book;
      this.#change({ alerts, messages: messages.flatMap((each) => (each.id === id ? later : [each])) });
      await this.#save();
      this.#ports.onDelivery(delivery);
    });
  }
}

/** One that lasts is sent again after this time: an alert of a week ago has been forgotten, or was overlooked. */
const reminderMs = dayMs;

interface AlertStep {
  readonly kind: 'begins' | 'lasts' | 'ends';
  readonly alert: Alert;
}

/** What is to be sent (pure): each problem when it begins, again each day while it lasts, and when it ends. */
export function decideAlerts(open: readonly Alert[], problems: readonly Problem[], now: number): readonly AlertStep[] {
  const before = new Map(open.map((alert) => [alert.problem, alert]));
  const present = new Set(problems.map(({ problem }) => problem));
  const sentAt = timestampOf(now);
  return [
    ...problems.flatMap((problem): AlertStep[] => {
      const alert = before.get(problem.problem);
      if (alert === undefined) return [{ kind: 'begins', alert: { ...problem, since: sentAt, sentAt } }];
      // What it says may have changed meanwhile: a sync that was partial for another resource.
      // A clock that was set back must not put it off.
      const isDue = Math.abs(now - (parseInstant(alert.sentAt) ?? 0)) >= reminderMs;
      return isDue ? [{ kind: 'lasts', alert: { ...problem, since: alert.since, sentAt } }] : [];
    }),
    ...open.filter(({ problem }) => !present.has(problem)).map((alert): AlertStep => ({ kind: 'ends', alert })),
  ];
}

export function alertsAfter(open: readonly Alert[], steps: readonly AlertStep[]): readonly Alert[] {
  const after = new Map(open.map((alert) => [alert.problem, alert]));
  for (const { kind, alert } of steps) {
    if (kind === 'ends') after.delete(alert.problem);
    else after.set(alert.problem, alert);
  }
  return [...after.values()];
}

export interface Sender {
  readonly host: string;
  readonly profile: string | null;
  readonly version: string;
  /** Makes commands in a text such that they can be pasted there. */
  readonly pasteable?: (text: string) => string;
}

export type AlertPayload = Readonly<ReturnType<typeof payloadOf>>;

export function payloadOf(
  { kind: step, alert }: AlertStep,
  id: string,
  at: Timestamp,
  { pasteable = (text) => text, host, profile, version }: Sender,
  head: Head | null,
) {
  const { problem, kind, text, since, job, run, outcome, exitCode } = alert;
  const isOver = step === 'ends';
  const next = isOver || alert.next === null ? null : pasteable(alert.next);
  const place = profile === null ? host : `${host}, ${profile}`;
  return {
    id,
    problem,
    kind,
    resolved: isOver,
    text: `${isOver ? 'over: ' : ''}${text}${next === null ? '' : `. ${next}`} [admin-mirror on ${place}]`,
    next,
    at,
    since,
    job,
    run,
    outcome,
    exit_code: exitCode,
    host,
    profile,
    version,
    journal_head: run !== null || kind === 'batch_unknown' ? head : null,
  };
}

/** A receiver that is down is tried again soon; one that stays down is not tried every minute. */
const pauses: readonly number[] = [5 * secondMs, 30 * secondMs, 2 * minuteMs, 10 * minuteMs, 30 * minuteMs];

/** How long to wait after so many tries that failed, ms. */
export function pauseAfter(attempts: number): number {
  return pauses[attempts - 1] ?? hourMs;
}
