/** `schedule --list`: every job with its next times, on its own clock and in UTC. */
import { commandText, type Job } from '../../model/job.ts';
import { durationText, systemClock } from '../../model/time.ts';
import { wallText } from '../../model/zone.ts';
import { nextOccurrence, occurrencesOf } from '../../worker/occurrences.ts';
import type { CliContext } from '../context.ts';
import { paint, printJson, printLine } from '../output.ts';

const shownTimes = 5;

export function printJobs(context: CliContext, jobs: readonly Job[]): void {
  const now = systemClock.now();
  const listed = jobs.map((job) => ({ job, times: nextTimes(job, now) }));
  if (context.json()) {
    printJson(context, { jobs: listed.map(({ job, times }) => answerOf(job, times)) });
    return;
  }
  for (const [index, { job, times }] of listed.entries()) {
    if (index > 0) printLine(context, '');
    printLine(context, `${paint(context, 'bold', job.name)}  ${commandText(job.commandLine)}`);
    printLine(context, `  ${ruleWords(job)}`);
    if (times.length === 0) printLine(context, '  never');
    for (const time of times) printLine(context, `  ${wallText(time, job.timezone)}  ${utc(time)}`);
  }
}

function nextTimes(job: Job, now: number): number[] {
  const occurrences = occurrencesOf(job);
  const times: number[] = [];
  for (let at = nextOccurrence(occurrences, now); at !== undefined && times.length < shownTimes;) {
    times.push(at);
    at = nextOccurrence(occurrences, at);
  }
  return times;
}

function ruleWords({ cron, timezone, jitterMs, after, requireComplete, catchUp, timeoutMs }: Job): string {
  return [
    `${cron} in ${timezone}`,
    ...(jitterMs > 0 ? [`up to ${durationText(jitterMs)} later`] : []),
    ...(after.length > 0 ? [`after ${after.join(' and ')}${requireComplete ? ', if complete' : ''}`] : []),
    ...(catchUp ? [] : ['not made up for when missed']),
    ...(timeoutMs === undefined ? [] : [`for ${durationText(timeoutMs)} at most`]),
  ].join(', ');
}

function utc(time: number): string {
  return `${new Date(time).toISOString().slice(0, 19)}Z`;
}

function answerOf(job: Job, times: readonly number[]): unknown {
  return {
    name: job.name,
    run: job.run,
    command: commandText(job.commandLine),
    cron: job.cron,
    timezone: job.timezone,
    jitter_ms: job.jitterMs,
    after: job.after,
    require: job.requireComplete ? 'complete' : null,
    catch_up: job.catchUp,
    timeout_ms: job.timeoutMs ?? null,
    next: times.map((time) => ({ local: wallText(time, job.timezone), utc: utc(time) })),
  };
}
