/**
 * Which alerts are to be sent, what is sent of each, and when a failed delivery is tried again. docs/worker.md, "Alerts",
 * explains every field.
 */
import { dayMs, hourMs, minuteMs, parseInstant, secondMs, type Timestamp, timestampOf } from '../../model/time.ts';
import type { Alert, Problem } from '../store/alerts.ts';

/** One that lasts is sent again after this time: what was said a week ago has been forgotten, or was overlooked. */
const reminderMs = dayMs;

export interface AlertStep {
  readonly kind: 'begins' | 'lasts' | 'ends';
  readonly alert: Alert;
}

/**
 * What is to be sent, new problems first: a pure function of the alerts that are open, of the problems there are, and of the
 * time. Each is sent when it begins, again each day while it lasts, and when it ends.
 */
export function decideAlerts(open: readonly Alert[], problems: readonly Problem[], now: number): readonly AlertStep[] {
  const before = new Map(open.map((alert) => [alert.problem, alert]));
  const present = new Set(problems.map(({ problem }) => problem));
  const sentAt = timestampOf(now);
  return [
    ...problems.flatMap((problem): AlertStep[] => {
      const alert = before.get(problem.problem);
      if (alert === undefined) return [{ kind: 'begins', alert: { ...problem, since: sentAt, sentAt } }];
      // What it says may have changed meanwhile: a sync that was partial for another resource.
      return isDue(alert, now) ? [{ kind: 'lasts', alert: { ...problem, since: alert.since, sentAt } }] : [];
    }),
    ...open.filter(({ problem }) => !present.has(problem)).map((alert): AlertStep => ({ kind: 'ends', alert })),
  ];
}

/** Once a day: a clock that was set back must not put it off. */
function isDue({ sentAt }: Alert, now: number): boolean {
  return Math.abs(now - (parseInstant(sentAt) ?? 0)) >= reminderMs;
}

/** The open alerts after the steps. */
export function alertsAfter(open: readonly Alert[], steps: readonly AlertStep[]): readonly Alert[] {
  const after = new Map(open.map((alert) => [alert.problem, alert]));
  for (const { kind, alert } of steps) {
    if (kind === 'ends') after.delete(alert.problem);
    else after.set(alert.problem, alert);
  }
  return [...after.values()];
}

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
  { kind: step, alert }: AlertStep,
  id: string,
  at: Timestamp,
  { pasteable = (text) => text, ...sender }: Sender,
): AlertPayload {
  const { problem, kind, text, since, job, run, outcome, exitCode } = alert;
  const isOver = step === 'ends';
  const next = isOver || alert.next === null ? null : pasteable(alert.next);
  const place = sender.profile === null ? sender.host : `${sender.host}, ${sender.profile}`;
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
    ...sender,
  };
}

/** A receiver that is down is tried again soon; one that stays down is not tried every minute. */
const pauses: readonly number[] = [5 * secondMs, 30 * secondMs, 2 * minuteMs, 10 * minuteMs, 30 * minuteMs];

/** How long to wait after so many tries that failed, ms. */
export function pauseAfter(attempts: number): number {
  return pauses[attempts - 1] ?? hourMs;
}
