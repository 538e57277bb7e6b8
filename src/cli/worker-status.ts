/** The worker's part of `status`: who works, how its jobs ended and when they come. */
import type { JobStatus, WorkerStatus } from '../worker/status.ts';

/** Nothing where there is neither a job nor a worker. What is wrong is told apart: src/cli/status-problems.ts. */
export function workerLines({ worker, jobs }: WorkerStatus, timeText: (at: string) => string): string[] {
  if (worker === null && jobs.length === 0) return [];
  const owner =
    worker === null
      ? 'no worker runs; its jobs are'
      : `the worker: process ${worker.pid} on ${worker.host}, since ${worker.acquiredAt}`;
  const width = Math.max(...jobs.map(({ job }) => job.length));
  return ['', owner, ...jobs.map((job) => jobLine(job, width, timeText))];
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
