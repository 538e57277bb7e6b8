/** How a batch is watched: one line that redraws itself on a terminal, log lines elsewhere. */
import type { BulkEvent } from '../../bulk/sending.ts';
import type { Log } from '../../model/log.ts';
import { harmless } from '../../model/terminal-text.ts';
import { type Clock, secondMs } from '../../model/time.ts';
import type { CliContext } from '../context.ts';
import { barOf, drawnAndLogged, durationText, logEveryMs, type Watch } from '../progress.ts';
import { screenOf } from '../sieve.ts';

const count = new Intl.NumberFormat('en-US');

type BulkWatch = Watch<BulkEvent>;

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

/** The watch for this context; draws nothing under `--quiet`. A log file gets its lines whatever is drawn. */
export function openBulkWatch(context: CliContext, log: Log, clock: Clock): BulkWatch {
  if (!context.stderr.isTTY || context.quiet()) return loggedWatch(log, clock);
  const drawn = drawnWatch(context, clock);
  if (context.settings().log.file === undefined) return drawn;
  return drawnAndLogged(drawn, loggedWatch(log, clock));
}

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
    ended: (fields) => log.info(fields, 'ended'),
    close: () => Promise.resolve(),
  };
}

/** Ten times a second is as much as an eye follows. */
const drawEveryMs = secondMs / 10;

/** One line that is written over again; nothing of it is left when it ends. */
function drawnWatch(context: CliContext, clock: Clock): BulkWatch {
  const screen = screenOf(context.stderr);
  let tally: BulkTally = { rows: 0, done: 0, failed: 0, startedAt: clock.now() };
  let drawnAt = 0;
  const draw = (line: string): void => {
    drawnAt = clock.now();
    // A line that is too long would not be written over, but pushed up.
    screen.write(`\r\u{1b}[2K${harmless(line).slice(0, Math.max(20, screen.columns - 1))}`);
  };
  draw('settling what is open …');
  return {
    progress: (event) => {
      tally = tallied(tally, event);
      const waiting = event.kind === 'wait' ? `   waiting ${durationText(event.ms)}: ${event.why}` : '';
      if (event.kind !== 'row' || clock.now() - drawnAt >= drawEveryMs)
        draw(`${bulkLine(tally, clock.now())}${waiting}`);
    },
    ended: () => {},
    close: () => {
      draw('');
      screen.write(`${bulkLine(tally, clock.now())}\n`);
      return Promise.resolve();
    },
  };
}
