/** How a batch is watched: one line that redraws itself on a terminal, log lines elsewhere. */
import type { ListrDefaultRendererLogLevels } from 'listr2';
import type { BulkEvent, BulkProgress } from '../../bulk/progress.ts';
import type { Log } from '../../model/log.ts';
import { type Clock, minuteMs, secondMs } from '../../model/time.ts';
import type { CliContext } from '../context.ts';
import { barOf, durationText } from '../progress-text.ts';

const count = new Intl.NumberFormat('en-US');

export interface BulkWatch {
  readonly progress: BulkProgress;
  /** Ends the drawing, so that the answer stands below it. */
  close(): Promise<void>;
}

/** What is known so far. */
export interface BulkTally {
  readonly rows: number;
  readonly done: number;
  readonly failed: number;
  readonly startedAt: number;
}

export function tallied(tally: BulkTally, event: BulkEvent): BulkTally {
  switch (event.kind) {
    case 'begin':
      return { ...tally, rows: event.rows };
    case 'row': {
      const failed = event.state === 'applied' ? 0 : 1;
      return { ...tally, done: tally.done + 1, failed: tally.failed + failed };
    }
    case 'wait':
      return tally;
  }
}

/** `████░░░░  340 of 1,000   12/s   0:55 left   2 not applied`. */
export function bulkLine({ rows, done, failed, startedAt }: BulkTally, now: number): string {
  const seconds = Math.max(0.001, (now - startedAt) / secondMs);
  const rate = done / seconds;
  const share = rows === 0 ? 1 : Math.min(1, done / rows);
  const left = done === 0 || done >= rows ? '' : `   ${durationText(((rows - done) / rate) * secondMs)} left`;
  const speed = rate >= 10 ? count.format(Math.round(rate)) : rate.toFixed(1);
  const wrong = failed === 0 ? '' : `   ${count.format(failed)} not applied`;
  return `${barOf(share)}  ${count.format(done)} of ${count.format(rows)}   ${speed}/s${left}${wrong}`;
}

/** The watch for this context; draws nothing under `--quiet`. */
export async function openBulkWatch(context: CliContext, log: Log, clock: Clock): Promise<BulkWatch> {
  return context.stderr.isTTY && !context.quiet() ? drawnWatch(context, clock) : loggedWatch(log, clock);
}

/** Often enough to see that it goes on, seldom enough not to fill a log. */
const logEveryMs = minuteMs / 6;

function loggedWatch(log: Log, clock: Clock): BulkWatch {
  let tally: BulkTally = { rows: 0, done: 0, failed: 0, startedAt: clock.now() };
  let loggedAt = clock.now();
  return {
    progress: (event) => {
      tally = tallied(tally, event);
      if (event.kind === 'wait') log.warn({ ms: event.ms }, event.why);
      if (event.kind === 'row' && event.state !== 'applied') log.warn({ row: event.row, state: event.state }, 'row');
      if (event.kind === 'row' && clock.now() - loggedAt >= logEveryMs) {
        loggedAt = clock.now();
        log.info({ done: tally.done, rows: tally.rows, failed: tally.failed }, 'progress');
      }
    },
    close: () => Promise.resolve(),
  };
}

async function drawnWatch(context: CliContext, clock: Clock): Promise<BulkWatch> {
  const { Listr, ListrLogger, ProcessOutput } = await import('listr2');
  // Standard output is the answer's.
  const processOutput = new ProcessOutput(context.stderr, context.stderr);
  const logger = new ListrLogger<ListrDefaultRendererLogLevels>({ processOutput });
  let tally: BulkTally = { rows: 0, done: 0, failed: 0, startedAt: clock.now() };
  let show: (title: string) => void = () => {};
  const end = Promise.withResolvers<void>();
  const tasks = new Listr(
    [
      {
        title: 'settling what is open',
        task: (_, task) => {
          show = (title) => (task.title = title);
          return end.promise;
        },
      },
    ],
    { registerSignalListeners: false, renderer: 'default', rendererOptions: { logger } },
  );
  const drawn = tasks.run().catch(() => undefined);
  return {
    progress: (event) => {
      tally = tallied(tally, event);
      const waiting = event.kind === 'wait' ? `   waiting ${durationText(event.ms)}: ${event.why}` : '';
      show(`${bulkLine(tally, clock.now())}${waiting}`);
    },
    close: async () => {
      end.resolve();
      await drawn;
    },
  };
}
