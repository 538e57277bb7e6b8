/** The worker's part of `status`: who works, how its jobs ended and when they come, and what needs a person. */
import { durationText, secondMs } from '../model/time.ts';
import type { JobStatus, WorkerStatus } from '../worker/status.ts';
import type { CliContext } from './context.ts';
import { paint } from './output.ts';

/** Nothing where there is neither a job nor a worker, and all is well. */
export function workerLines(context: CliContext, status: WorkerStatus, timeText: (at: string) => string): string[] {
  const { worker, jobs, freshness, alerts, open_batches } = status;
  const lines: string[] = [];
  const warn = (line: string) => paint(context, 'yellow', line);
  if (!freshness.is_fresh) {
    const limit = durationText(freshness.max_staleness_seconds * secondMs);
    const why = freshness.problem ?? `it is older than the ${limit} of worker.max_staleness`;
    lines.push('', warn(`the mirror is not fresh enough: ${why}`));
  }
  if (worker !== null || jobs.length > 0) {
    const owner =
      worker === null
        ? 'no worker runs; its jobs are'
        : `the worker: process ${worker.pid} on ${worker.host}, since ${worker.acquiredAt}`;
    const width = Math.max(...jobs.map(({ job }) => job.length));
    lines.push('', owner, ...jobs.map((job) => jobLine(job, width, timeText)));
  }
  if (alerts.length > 0) {
    lines.push('', 'alerts', ...alerts.map(({ since, text }) => warn(`  since ${timeText(since)}: ${text}`)));
  }
  const waiting = open_batches.filter((each) => !each.is_in_hand);
  if (waiting.length > 0) {
    lines.push('', 'batches with rows of which nobody knows what became');
    for (const { batch, rows } of waiting) {
      const counts = Object.entries(rows).filter(([, count]) => count > 0);
      const words = counts.map(([state, count]) => `${count} ${state.replace('_', ' ')}`).join(', ');
      lines.push(warn(`  ${batch}  ${words}: run \`admin-mirror bulk resume ${batch}\``));
    }
  }
  return lines;
}

function jobLine(
  { job, running_since, last, next_at }: JobStatus,
  width: number,
  timeText: (at: string) => string,
): string {
  const end = last?.finished_at ?? null;
  const ended = last === null || end === null ? 'has not run yet' : `${last.outcome} ${timeText(end)}`;
  const now = running_since === null ? '' : `, runs since ${running_since}`;
  const next = next_at === null ? '' : `, next ${timeText(next_at)}`;
  return `  ${job.padEnd(width)}  ${ended}${now}${next}`;
}
