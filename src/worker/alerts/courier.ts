/** Brings messages to their receivers, those of one channel in their order, and says of each what became of it. */
import type { Log } from '../../model/log.ts';
import { type Clock, dayMs, parseInstant, timestampOf } from '../../model/time.ts';
import type { Channel, Message } from '../store/alert-types.ts';
import { type AlertPayload, pauseAfter } from './message.ts';

/** Delivers one message once; rejects with an Error that says why it could not, without secrets. */
export type Deliver = (payload: AlertPayload, signal: AbortSignal) => Promise<void>;
export type Channels = Readonly<Partial<Record<Channel, Deliver>>>;

/** What nobody would take for so long tells nobody anything any more. */
const longestMs = 7 * dayMs;

export type Delivery =
  | { readonly kind: 'delivered'; readonly message: Message }
  /** With the time of its next try. */
  | { readonly kind: 'failed'; readonly message: Message }
  | { readonly kind: 'dropped'; readonly message: Message };

export interface CourierPorts {
  readonly channels: Channels;
  readonly clock: Clock;
  readonly log: Log;
  /** Told of each as it happens. */
  readonly record: (delivery: Delivery) => void;
  readonly signal: AbortSignal;
}

/** The first of the channel, where it may be tried now. The others wait behind it: nobody hears of an end first. */
export function dueMessage(messages: readonly Message[], channel: Channel, now: number): Message | undefined {
  const first = messages.find((message) => message.channel === channel);
  return first === undefined || (parseInstant(first.notBefore) ?? 0) > now ? undefined : first;
}

/** Tries the message once, or drops it where there is nobody to take it. Never rejects; stopped, it leaves it as it was. */
export async function deliverOnce(
  message: Message,
  { channels, clock, log, record, signal }: CourierPorts,
): Promise<void> {
  const deliver = channels[message.channel];
  const payload = JSON.parse(message.payload) as AlertPayload;
  const fields = { alert: message.id, problem: payload.problem, channel: message.channel };
  const age = clock.now() - (parseInstant(message.at) ?? 0);
  if (deliver === undefined || age > longestMs) {
    const why = deliver === undefined ? `there is no alerts.${message.channel} any more` : 'it is a week old';
    log.warn(fields, `an alert is given up: ${why}`);
    record({ kind: 'dropped', message });
    return;
  }
  const problem = await problemOf(deliver(payload, signal));
  if (problem === null) {
    log.info(fields, `the alert was delivered: ${payload.text}`);
    record({ kind: 'delivered', message });
  } else if (!signal.aborted) {
    const attempts = message.attempts + 1;
    const pause = pauseAfter(attempts);
    log.error({ ...fields, attempts, again_in_ms: pause }, `the alert could not be delivered: ${problem}`);
    record({ kind: 'failed', message: { ...message, attempts, notBefore: timestampOf(clock.now() + pause) } });
  }
}

/** Why it failed; null where it did not. */
export async function problemOf(trying: Promise<void>): Promise<string | null> {
  try {
    await trying;
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
