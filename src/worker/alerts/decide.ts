/**
 * Which alerts are to be told: a pure function of the problems there are, of those that were told, and of the time. Each is
 * told once, again each day while it lasts, and once more when it is over. One that comes back soon after it was over is told once again, as one that
 * comes and goes, and is then over only when it has kept away for hours: so it may blink as it likes.
 */
import { dayMs, hourMs, parseInstant, timestampOf } from '../../model/time.ts';
import type { Alert, Problem } from '../store/alert-types.ts';

/** One that comes back within this time after it was over has never really gone. */
export const calmMs = 6 * hourMs;

/** One that lasts is told again after this time: what was told a week ago has been forgotten, or was overlooked. */
export const reminderMs = dayMs;

export interface AlertStep {
  /** `told`: it is new; `again`: it lasts; `over`: its end is to be told; `noted`: nothing is; `forgotten`: long over. */
  readonly kind: 'told' | 'again' | 'over' | 'noted' | 'forgotten';
  readonly alert: Alert;
}

/** What changes, in the order in which it is to be told: new ones first. Nothing where all is as it was. */
export function decideAlerts(known: readonly Alert[], problems: readonly Problem[], now: number): readonly AlertStep[] {
  const before = new Map(known.map((alert) => [alert.problem, alert]));
  const present = new Set(problems.map(({ problem }) => problem));
  return [
    ...problems.flatMap((problem) => whenThere(problem, before.get(problem.problem), now)),
    ...known.filter(({ problem }) => !present.has(problem)).flatMap((alert) => whenGone(alert, now)),
  ];
}

function whenThere(problem: Problem, alert: Alert | undefined, now: number): AlertStep[] {
  if (alert === undefined || (alert.isOver && isLongGone(alert, now))) return [told(problem, false, now)];
  if (alert.isOver) return [told(problem, true, now)];
  const there = { ...alert, goneSince: null };
  // What it says may have changed meanwhile: a sync that was partial for another resource.
  if (isDue(alert, now)) {
    return [{ kind: 'again', alert: { ...there, ...factsOf(problem), toldAt: timestampOf(now) } }];
  }
  return alert.goneSince === null ? [] : [{ kind: 'noted', alert: there }];
}

/** Once a day: a clock that was set back must not put it off. */
function isDue({ toldAt }: Alert, now: number): boolean {
  return Math.abs(now - (parseInstant(toldAt) ?? 0)) >= reminderMs;
}

/** Without what an alert that is handed back as a problem has besides. */
function factsOf({ problem, kind, text, next, job, run, outcome, exitCode }: Problem): Problem {
  return { problem, kind, text, next, job, run, outcome, exitCode };
}

function told(problem: Problem, comesAndGoes: boolean, now: number): AlertStep {
  const at = timestampOf(now);
  const facts = factsOf(problem);
  return { kind: 'told', alert: { ...facts, since: at, toldAt: at, comesAndGoes, goneSince: null, isOver: false } };
}

function whenGone(alert: Alert, now: number): AlertStep[] {
  if (alert.isOver) return isLongGone(alert, now) ? [{ kind: 'forgotten', alert }] : [];
  const gone = { ...alert, goneSince: alert.goneSince ?? timestampOf(now) };
  if (!alert.comesAndGoes || isLongGone(gone, now)) return [{ kind: 'over', alert: { ...gone, isOver: true } }];
  return alert.goneSince === null ? [{ kind: 'noted', alert: gone }] : [];
}

/** A clock that was set back must not keep an alert for ever. */
function isLongGone({ goneSince }: Alert, now: number): boolean {
  return Math.abs(now - (parseInstant(goneSince) ?? 0)) >= calmMs;
}

/** The alerts after the steps. */
export function alertsAfter(known: readonly Alert[], steps: readonly AlertStep[]): readonly Alert[] {
  const after = new Map(known.map((alert) => [alert.problem, alert]));
  for (const { kind, alert } of steps) {
    if (kind === 'forgotten') after.delete(alert.problem);
    else after.set(alert.problem, alert);
  }
  return [...after.values()];
}
