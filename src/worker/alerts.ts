/**
 * The worker's alerts: compares the present problems with the known ones, stores what each channel was told, and tells it the rest.
 * No failure here ends the worker. docs/worker.md, "Alerts", explains every field.
 */
import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import { LockHeldError, OperatorError } from '../model/errors.ts';
import type { Log } from '../model/log.ts';
import { type Clock, dayMs, hourMs, minuteMs, parseInstant, secondMs, timestampOf } from '../model/time.ts';
import type { Facts } from './facts.ts';
import { type Problem, wordsOf } from './problem-words.ts';
import { keyOf, problemsOf } from './problems.ts';
import { type Alert, type Channel, channels } from './store/port.ts';
import type { WorkerStore } from './store/store.ts';

/** Returns why the message could not be delivered, without secrets; null if it was delivered. Never rejects. */
type Deliver = (payload: AlertPayload, signal: AbortSignal) => Promise<string | null>;
export type Channels = Readonly<Partial<Record<Channel, Deliver>>>;

interface AlertPorts {
  readonly store: Pick<WorkerStore, 'saveAlerts'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly sender: Sender;
  readonly channels: Channels;
  /** Called after each attempt. */
  readonly onDelivery: (channel: Channel, isDelivered: boolean) => void;
}

/** The known alerts. Nothing happens before `check`. */
export class Alerts {
  readonly #ports: AlertPorts;
  /** Failed attempts in a row, and when to try again. */
  readonly #failures = new Map<Channel, { readonly attempts: number; readonly notBefore: number }>();
  /** By key. */
  #alerts: ReadonlyMap<string, Alert>;
  #isSaved = true;
  /** Another worker has taken over, and tells the rest. */
  #isReplaced = false;
  /** The newest step of the journal, for which the receiver is a witness. */
  #head: AlertPayload['journal_head'] = null;

  constructor(ports: AlertPorts, known: readonly Alert[]) {
    this.#ports = ports;
    this.#alerts = new Map(known.map((alert) => [keyOf(alert.problem), alert]));
  }

  /** The problems that last. */
  open(): readonly Problem[] {
    return [...this.#alerts.values()].flatMap(({ problem, endedAt }) => (endedAt === null ? [problem] : []));
  }

  /** How long until a channel that failed is tried again, ms; Infinity if none failed. */
  nextTryMs(): number {
    const now = this.#ports.clock.now();
    return Math.min(...Array.from(this.#failures.values(), ({ notBefore }) => Math.max(secondMs, notBefore - now)));
  }

  /** Compares the present problems with the known ones, and tells each channel what is due. Never throws an OperatorError. */
  async check(found: Facts, signal: AbortSignal): Promise<void> {
    const { clock, log, channels: configured } = this.#ports;
    this.#head = 'found' in found.journal ? found.journal.found.head : this.#head;
    const before = this.open();
    const problems = problemsOf(found, before);
    for (const problem of notIn(before, problems)) {
      const { what, next } = wordsOf(problem);
      log.error({ problem: keyOf(problem), advice: next }, `alert: ${what}`);
    }
    for (const problem of notIn(problems, before)) {
      log.info({ problem: keyOf(problem), since: problem.since }, `over: ${wordsOf(problem).what}`);
    }
    const reachable = channels.filter((channel) => configured[channel] !== undefined);
    await this.#change(alertsAfter(this.#alerts, problems, { now: clock.now(), reachable }));
    for (const channel of channels) {
      const deliver = configured[channel];
      if (deliver !== undefined) await this.#tell(channel, deliver, signal);
    }
  }

  /** If the alerts cannot be saved, the next check tries again. */
  async #change(alerts: ReadonlyMap<string, Alert>): Promise<void> {
    const { store, log } = this.#ports;
    const list = [...alerts.values()];
    if (this.#isSaved && JSON.stringify(list) === JSON.stringify([...this.#alerts.values()])) return;
    this.#alerts = alerts;
    this.#isSaved = false;
    try {
      await store.saveAlerts(list);
      this.#isSaved = true;
    } catch (error) {
      if (!(error instanceof OperatorError)) throw error;
      if (error instanceof LockHeldError) this.#isReplaced = true;
      log.error({ advice: error.advice }, `the alerts could not be recorded: ${error.message}`);
    }
  }

  /** Tells the channel what it does not know, one message at a time, until one fails. An abort leaves everything as it was. */
  async #tell(channel: Channel, deliver: Deliver, signal: AbortSignal): Promise<void> {
    const { clock, log, sender, onDelivery } = this.#ports;
    while (!this.#isReplaced && !signal.aborted) {
      const now = clock.now();
      const failed = this.#failures.get(channel);
      const alert = [...this.#alerts.values()].find((each) => isDue(each, channel, now));
      if (alert === undefined || (failed?.notBefore ?? 0) > now) return;
      const key = keyOf(alert.problem);
      const payload = payloadOf(alert, channel, now, sender, this.#head);
      const fields = { alert: payload.id, problem: key, channel };
      const failure = await deliver(payload, signal);
      onDelivery(channel, failure === null);
      if (failure === null) {
        log.info(fields, `the alert was delivered: ${payload.text}`);
        this.#failures.delete(channel);
        await this.#change(alertsTold(this.#alerts, key, channel, payload.resolved ? null : clock.now()));
      } else if (!signal.aborted) {
        const attempts = (failed?.attempts ?? 0) + 1;
        const pause = retryDelay(attempts);
        log.error({ ...fields, attempts, again_in_ms: pause }, `the alert could not be delivered: ${failure}`);
        this.#failures.set(channel, { attempts, notBefore: clock.now() + pause });
      }
    }
  }
}

/** A problem that lasts is told again after this time, since people forget or overlook an old alert. */
const reminderMs = dayMs;

/** Whether the channel must be told: each problem when it begins, again each day while it lasts, and when it ends. */
export function isDue({ told, endedAt }: Alert, channel: Channel, now: number): boolean {
  const last = told[channel];
  if (endedAt !== null || last === undefined) return (endedAt === null) === (last === undefined);
  // Absolute, so that a clock that was set back does not delay the reminder.
  return Math.abs(now - (parseInstant(last) ?? 0)) >= reminderMs;
}

/** Returns those problems that are not among the known ones. */
function notIn(known: readonly Problem[], problems: readonly Problem[]): Problem[] {
  const keys = new Set(known.map(keyOf));
  return problems.filter((problem) => !keys.has(keyOf(problem)));
}

/** Returns the alerts that result from the present problems (pure). One that ended stays until every channel was told. */
export function alertsAfter(
  known: ReadonlyMap<string, Alert>,
  problems: readonly Problem[],
  { now, reachable }: { readonly now: number; readonly reachable: readonly Channel[] },
): Map<string, Alert> {
  const after = new Map<string, Alert>();
  for (const [key, alert] of known) {
    const isToBeTold = reachable.some((channel) => alert.told[channel] !== undefined);
    if (isToBeTold) after.set(key, { ...alert, endedAt: alert.endedAt ?? timestampOf(now) });
  }
  for (const problem of problems) {
    const key = keyOf(problem);
    const before = known.get(key);
    const since = before?.problem.since ?? timestampOf(now);
    after.set(key, { problem: { ...problem, since }, told: before?.told ?? {}, endedAt: null });
  }
  return after;
}

/** Returns the alerts once the channel was told of one. @param at null if it was told of its end */
function alertsTold(
  alerts: ReadonlyMap<string, Alert>,
  key: string,
  channel: Channel,
  at: number | null,
): Map<string, Alert> {
  const after = new Map(alerts);
  const alert = after.get(key);
  if (alert === undefined) return after;
  const { [channel]: _last, ...others } = alert.told;
  const told = at === null ? others : { ...others, [channel]: timestampOf(at) };
  if (alert.endedAt !== null && Object.keys(told).length === 0) after.delete(key);
  else after.set(key, { ...alert, told });
  return after;
}

export interface Sender {
  readonly profile: string | null;
  readonly version: string;
  /** Turns the commands in a text into ones that can be pasted on this machine. */
  readonly pasteable?: (text: string) => string;
}

export type AlertPayload = Readonly<ReturnType<typeof payloadOf>>;

/** The message for the channel. Its id is the same whenever it is sent again because a response was lost. */
export function payloadOf(
  { problem: found, told, endedAt }: Pick<Alert, 'problem' | 'told' | 'endedAt'>,
  channel: Channel,
  now: number,
  { pasteable = (text) => text, profile, version }: Sender,
  head: { readonly step: number; readonly hash: string } | null,
) {
  const { code, facts, since } = found;
  const { what, next: step } = wordsOf(found);
  const problem = keyOf(found);
  const resolved = endedAt !== null;
  const host = hostname();
  const next = resolved || step === null ? null : pasteable(step);
  const place = profile === null ? host : `${host}, ${profile}`;
  const identity = [host, profile, problem, since, resolved, told[channel], channel];
  return {
    id: createHash('sha256').update(JSON.stringify(identity)).digest('hex').slice(0, 32),
    problem,
    code,
    facts,
    resolved,
    text: `${resolved ? 'over: ' : ''}${what}${next === null ? '' : `. ${next}`} [admin-mirror on ${place}]`,
    next,
    at: timestampOf(now),
    since,
    host,
    profile,
    version,
    journal_head: head,
  };
}

/** Retries soon at first, then less often: a receiver that stays down is not tried every minute. */
const retryDelays: readonly number[] = [5 * secondMs, 30 * secondMs, 2 * minuteMs, 10 * minuteMs, 30 * minuteMs];

/** Returns how long to wait after this many failed attempts, ms. */
export function retryDelay(failedAttempts: number): number {
  return retryDelays[failedAttempts - 1] ?? hourMs;
}
