/** What is sent of an alert, and when it is tried again. docs/worker.md, "Alerts", explains every field. */
import { hourMs, minuteMs, secondMs, type Timestamp } from '../../model/time.ts';
import type { Alert } from '../store/alert-types.ts';

/** Where an alert comes from. */
export interface Sender {
  readonly host: string;
  /** The profile of the settings; null where there are none. */
  readonly profile: string | null;
  readonly version: string;
  /** Makes commands in a text such that they can be pasted there. */
  readonly pasteable?: (text: string) => string;
}

export interface AlertPayload {
  readonly id: string;
  readonly problem: string;
  readonly kind: Alert['kind'];
  readonly resolved: boolean;
  readonly text: string;
  /** What to do next; null where it is over. */
  readonly next: string | null;
  readonly at: Timestamp;
  readonly since: Timestamp;
  readonly comes_and_goes: boolean;
  readonly job: string | null;
  readonly run: string | null;
  readonly outcome: string | null;
  readonly exit_code: number | null;
  readonly host: string;
  readonly profile: string | null;
  readonly version: string;
}

/** @param id of this message: however often it is sent, it stays the same */
export function payloadOf(
  alert: Alert,
  id: string,
  at: Timestamp,
  { pasteable = (text) => text, ...sender }: Sender,
): AlertPayload {
  const { problem, kind, text, since, comesAndGoes, job, run, outcome, exitCode, isOver } = alert;
  const next = isOver || alert.next === null ? null : pasteable(alert.next);
  const place = sender.profile === null ? sender.host : `${sender.host}, ${sender.profile}`;
  return {
    id,
    problem,
    kind,
    resolved: isOver,
    text: `${isOver ? 'over: ' : ''}${text}${comesAndGoes && !isOver ? ' (it comes and goes)' : ''}${next === null ? '' : `. ${next}`} [admin-mirror on ${place}]`,
    next,
    at,
    since,
    comes_and_goes: comesAndGoes,
    job,
    run,
    outcome,
    exit_code: exitCode,
    ...sender,
  };
}

/** A receiver that is down is asked again soon; one that stays down is not asked every minute. */
const pauses: readonly number[] = [5 * secondMs, 30 * secondMs, 2 * minuteMs, 10 * minuteMs, 30 * minuteMs];

/** How long to wait after so many tries that failed, ms. */
export function pauseAfter(attempts: number): number {
  return pauses[attempts - 1] ?? hourMs;
}
