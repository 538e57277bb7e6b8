/**
 * The worker's alerts: compares the present problems with the known ones, stores the messages, and delivers them in order. Only the
 * deliveries wait for a receiver, and no failure here ends the worker. docs/worker.md, "Alerts", explains every field of a message.
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

/** Returns why the message could not be delivered, without secrets; null if it was delivered. Never rejects. */
type Deliver = (payload: AlertPayload, signal: AbortSignal) => Promise<string | null>;
export type Channels = Readonly<Partial<Record<Channel, Deliver>>>;

/** An older message is dropped: it is of no use any more. */
const maxAgeMs = 7 * dayMs;

export interface Delivery {
  readonly result: 'delivered' | 'failed' | 'dropped';
  readonly channel: Channel;
}

interface AlertPorts {
  readonly store: Pick<WorkerStore, 'saveAlerts'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly sender: Sender;
  /** Returns what is wrong now. A problem that cannot be judged now is returned as in `known`. */
  readonly problems: (known: readonly Problem[]) => Promise<readonly Problem[]>;
  readonly channels: () => Channels;
  /** The newest step of the journal, for which the receiver is a witness; null if it cannot be read or there is none. */
  readonly head: () => Promise<Head | null>;
  readonly onDelivery: (delivery: Delivery) => void;
  readonly signal: AbortSignal;
}

const channelNames: readonly Channel[] = ['webhook', 'command'];

/** The open alerts and the undelivered messages. Nothing happens before `update`. */
export class Alerts {
  readonly #ports: AlertPorts;
  readonly #deliveries = new Map<Channel, Promise<void>>();
  #book: AlertBook;
  #isSaved = true;
  #isClosed = false;
  /** Runs steps one after the other: each one changes and saves the book before the next begins. */
  readonly #serially = pLimit(1);

  constructor(ports: AlertPorts, book: AlertBook) {
    this.#ports = ports;
    this.#book = book;
  }

  /** Compares the problems with the open alerts, and begins the deliveries that are due. Never throws an OperatorError. */
  update(): Promise<void> {
    return this.#serially(async () => {
      const { problems, clock, head: headOf } = this.#ports;
      const { alerts } = this.#book;
      const steps = decideAlerts(alerts, await problems(alerts), clock.now());
      for (const step of steps) this.#log(step);
      if (steps.length > 0) {
        const head = await headOf();
        const messages = [...this.#book.messages, ...steps.flatMap((step) => this.#messagesOf(step, head))];
        this.#change({ alerts: alertsAfter(alerts, steps), messages });
      }
      // Saved before anything is sent: the next worker must not send it again.
      await this.#save();
      for (const channel of channelNames) this.#deliver(channel);
    });
  }

  /** Whether the store has the present state. */
  isSaved(): boolean {
    return this.#isSaved;
  }

  open(): readonly Alert[] {
    return this.#book.alerts;
  }

  /** Begins no more deliveries. */
  close(): void {
    this.#isClosed = true;
  }

  /** Resolves when no delivery is under way. */
  async settled(): Promise<void> {
    while (this.#deliveries.size > 0) await Promise.all(this.#deliveries.values());
  }

  /** When the next delivery is due, ms since 1970; undefined if no message waits. */
  nextTry(): number | undefined {
    const idle = channelNames.filter((name) => !this.#deliveries.has(name));
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
    const configured = channels();
    return channelNames
      .filter((channel) => configured[channel] !== undefined)
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

  /** If the book cannot be saved, the next update tries again. */
  async #save(): Promise<void> {
    if (this.#isSaved) return;
    try {
      await this.#ports.store.saveAlerts(this.#book);
      this.#isSaved = true;
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      // Another worker has taken over, and sends them.
      if (error instanceof LockHeldError) this.close();
      this.#ports.log.error({ advice: error.advice }, `the alerts could not be recorded: ${error.message}`);
    }
  }

  /** Begins to deliver the channel's oldest message, if it is due. The others wait behind it, so that an end never arrives first. */
  #deliver(channel: Channel): void {
    if (this.#deliveries.has(channel) || this.#isClosed || this.#ports.signal.aborted) return;
    const message = this.#book.messages.find((each) => each.channel === channel);
    if (message === undefined || (parseInstant(message.notBefore) ?? 0) > this.#ports.clock.now()) return;
    this.#deliveries.set(channel, this.#deliverInTurn(message));
  }

  async #deliverInTurn(message: Message): Promise<void> {
    const { channel } = message;
    await this.#deliverOnce(message);
    // Continues with the next message of the channel. After a failure, it is not due yet.
    await this.#serially(async () => {
      this.#deliveries.delete(channel);
      this.#deliver(channel);
    });
  }

  /** Tries once to deliver the message; drops it if it is too old or its channel is gone. An abort leaves it as it was. Never rejects. */
  async #deliverOnce(message: Message): Promise<void> {
    const { channels, clock, log, signal } = this.#ports;
    const { channel } = message;
    const deliver = channels()[channel];
    const payload = JSON.parse(message.payload) as AlertPayload;
    const fields = { alert: message.id, problem: payload.problem, channel };
    const age = clock.now() - (parseInstant(message.at) ?? 0);
    if (deliver === undefined || age > maxAgeMs) {
      const why = deliver === undefined ? `alerts.${channel} is no longer set` : 'it is a week old';
      log.warn(fields, `an alert was dropped: ${why}`);
      await this.#record(message, { result: 'dropped', channel });
      return;
    }
    const problem = await deliver(payload, signal);
    if (problem === null) {
      log.info(fields, `the alert was delivered: ${payload.text}`);
      await this.#record(message, { result: 'delivered', channel });
    } else if (!signal.aborted) {
      const attempts = message.attempts + 1;
      const pause = retryDelay(attempts);
      log.error({ ...fields, attempts, again_in_ms: pause }, `the alert could not be delivered: ${problem}`);
      const again = { ...message, attempts, notBefore: timestampOf(clock.now() + pause) };
      await this.#record(message, { result: 'failed', channel }, again);
    }
  }

  /** Replaces the message with the one to send again, or removes it. */
  #record({ id }: Message, delivery: Delivery, ...again: readonly Message[]): Promise<void> {
    return this.#serially(async () => {
      const { messages, alerts } = this.#book;
      this.#change({ alerts, messages: messages.flatMap((each) => (each.id === id ? again : [each])) });
      await this.#save();
      this.#ports.onDelivery(delivery);
    });
  }
}

/** A problem that lasts is sent again after this time, since people forget or overlook an old alert. */
const reminderMs = dayMs;

interface AlertStep {
  readonly kind: 'begins' | 'lasts' | 'ends';
  readonly alert: Alert;
}

/** Decides what to send (pure): each problem when it begins, again each day while it lasts, and when it ends. */
export function decideAlerts(open: readonly Alert[], problems: readonly Problem[], now: number): readonly AlertStep[] {
  const before = new Map(open.map((alert) => [alert.problem, alert]));
  const present = new Set(problems.map(({ problem }) => problem));
  const sentAt = timestampOf(now);
  return [
    ...problems.flatMap((problem): AlertStep[] => {
      const alert = before.get(problem.problem);
      if (alert === undefined) return [{ kind: 'begins', alert: { ...problem, since: sentAt, sentAt } }];
      // Uses the present text, which may have changed: the sync may be partial for another resource now.
      // Absolute, so that a clock that was set back does not delay the reminder.
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
  /** Turns the commands in a text into ones that can be pasted on this machine. */
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

/** Retries soon at first, then less often: a receiver that stays down is not tried every minute. */
const retryDelays: readonly number[] = [5 * secondMs, 30 * secondMs, 2 * minuteMs, 10 * minuteMs, 30 * minuteMs];

/** Returns how long to wait after this many failed attempts, ms. */
export function retryDelay(failedAttempts: number): number {
  return retryDelays[failedAttempts - 1] ?? hourMs;
}
