/** Progress: lines that are redrawn on a terminal, log lines elsewhere. */
import { clearScreenDown, cursorTo, moveCursor } from 'node:readline';
import type { BulkEvent } from '../bulk/sending.ts';
import type { SyncEvent } from '../store/mirror-types.ts';
import { counted, grouped, harmless } from '../model/text.ts';
import type { Log } from '../model/log.ts';
import type { ResourceName } from '../model/resources.ts';
import { minuteMs, secondMs, systemClock } from '../model/time.ts';
import type { CliContext } from './context.ts';
import { screenOf } from './output.ts';

/** Formats a duration as `2:05`, or from one hour on as `1:02:03`. */
function clockText(ms: number): string {
  const seconds = Math.round(ms / secondMs);
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const tail = `${String(minutes).padStart(hours > 0 ? 2 : 1, '0')}:${String(seconds % 60).padStart(2, '0')}`;
  return hours > 0 ? `${hours}:${tail}` : tail;
}

const barWidth = 24;

/** Draws a bar. @param share how much of it is filled, 0 to 1 */
function barOf(share: number): string {
  const filled = Math.round(share * barWidth);
  return '█'.repeat(filled) + '░'.repeat(barWidth - filled);
}

interface Tally {
  readonly done: number;
  readonly total: number;
  readonly startedAt: number;
}

/** `████████░░░░  340,000 of 1,000,000   52,000/s   0:13 left`. */
export function progressLine({ done, total, startedAt }: Tally, now: number): string {
  const rate = done / Math.max(0.001, (now - startedAt) / secondMs);
  const speed = `${rate >= 10 ? grouped(Math.round(rate)) : rate.toFixed(1)}/s`;
  // What is read twice counts twice. How much more there will be is unknown.
  if (done > total) return `${barOf(1)}  ${grouped(done)} read   ${speed}`;
  const left = done === 0 || done === total ? '' : `   ${clockText(((total - done) / rate) * secondMs)} left`;
  return `${barOf(total === 0 ? 0 : done / total)}  ${grouped(done)} of ${grouped(total)}   ${speed}${left}`;
}

/** Returns a function that overwrites the lines it wrote before; the last call leaves its lines. undefined if nobody watches. */
function openDrawing(context: CliContext): ((lines: readonly string[], isLast?: true) => void) | undefined {
  const screen = screenOf(context.stderr);
  if (!screen.isTTY || context.quiet()) return undefined;
  let height = 0;
  return (lines, isLast) => {
    cursorTo(screen, 0);
    if (height > 1) moveCursor(screen, 0, 1 - height);
    clearScreenDown(screen);
    // A line that wraps could not be overwritten.
    const fitting = lines.map((line) => harmless(line).slice(0, Math.max(20, screen.columns - 1)));
    screen.write(fitting.join('\n') + (isLast === true ? '\n' : ''));
    height = lines.length;
  };
}

interface Watch<Event> {
  readonly progress: (event: Event) => void;
  readonly ended: (fields: Readonly<Record<string, unknown>>) => void;
  /** Ends the drawing, so that the result is printed below it. */
  readonly close: () => void;
}

/** The eye cannot follow more than ten updates a second. */
const drawEveryMs = secondMs / 10;

/** Often enough to see that the work continues, seldom enough not to fill a log. */
const logEveryMs = minuteMs / 6;

interface Tracker<Event> {
  readonly take: (event: Event) => void;
  /** The current progress. */
  readonly lines: () => readonly string[];
  /** Logs an event that was taken. */
  readonly log: (event: Event) => void;
}

/** Draws if somebody watches, and logs else. */
function openWatch<Event extends { readonly kind: string }>(
  context: CliContext,
  log: Log,
  tracker: Tracker<Event>,
): Watch<Event> {
  const draw = openDrawing(context);
  let drawnAt: number | undefined;
  return {
    progress: (event) => {
      tracker.take(event);
      if (draw === undefined) return tracker.log(event);
      const isFrequent = event.kind === 'row' || event.kind === 'page' || event.kind === 'window';
      if (isFrequent && systemClock.now() - (drawnAt ?? 0) < drawEveryMs) return;
      drawnAt = systemClock.now();
      draw(tracker.lines());
    },
    ended: (fields) => {
      if (draw === undefined) log.info(fields, 'ended');
    },
    close: () => {
      if (drawnAt !== undefined) draw?.(tracker.lines(), true);
    },
  };
}

/** Opens a progress bar for work whose share done is known. @param title what is being done, such as `copying` */
export function openShareWatch(context: CliContext, title: string) {
  const draw = openDrawing(context);
  let drawn = '';
  return {
    /** @param done how much of the work is done, from 0 to 1 */
    progress: (done: number): void => {
      // What is copied may grow in the meantime.
      const share = Math.min(1, done);
      const line = `${title} ${barOf(share)} ${String(Math.floor(share * 100)).padStart(3)} %`;
      if (line !== drawn) draw?.([line]);
      drawn = line;
    },
    /** Clears the line. */
    close: (): void => draw?.([]),
  };
}

/** Returns whether enough time has passed since it last said so. */
function paced(everyMs: number, start = systemClock.now()): () => boolean {
  let last = start;
  return () => {
    if (systemClock.now() - last < everyMs) return false;
    last = systemClock.now();
    return true;
  };
}

export function openBulkWatch(context: CliContext, log: Log): Watch<BulkEvent> {
  let tally: Tally = { done: 0, total: 0, startedAt: systemClock.now() };
  let failed = 0;
  let waits = '';
  const isTime = paced(logEveryMs);
  return openWatch(context, log, {
    take: (event) => {
      if (event.kind === 'begin') tally = { ...tally, total: event.rows };
      if (event.kind === 'row') tally = { ...tally, done: tally.done + 1 };
      if (event.kind === 'row' && event.state !== 'applied') failed += 1;
      waits = event.kind === 'wait' ? `   waiting ${clockText(event.ms)}: ${event.why}` : '';
    },
    lines: () => {
      const wrong = failed === 0 ? '' : `   ${grouped(failed)} not applied`;
      return [`${progressLine(tally, systemClock.now())}${wrong}${waits}`];
    },
    log: (event) => {
      if (event.kind === 'wait') log.warn({ ms: event.ms }, event.why);
      if (event.kind !== 'row') return;
      if (event.state !== 'applied') log.warn({ row: event.row, state: event.state }, 'row');
      if (isTime()) log.info({ done: tally.done, rows: tally.total, failed }, 'progress');
    },
  });
}

/** How often to log if the console started the run: it shows the log as progress. */
export const followedMs = secondMs;

/** The progress of one resource: its records, and the windows that a comparison has counted. */
function openTally(everyMs: number) {
  const startedAt = systemClock.now();
  return {
    records: 0,
    expected: 0,
    windows: 0,
    ofWindows: 0,
    end: undefined as string | undefined,
    startedAt,
    isTime: paced(everyMs, everyMs === followedMs ? 0 : startedAt),
  };
}

export function openSyncWatch(
  context: CliContext,
  log: Log,
  resources: readonly ResourceName[],
  everyMs = logEveryMs,
): Watch<SyncEvent> {
  const tallies = new Map<ResourceName, ReturnType<typeof openTally>>();

  function tallyOf(resource: ResourceName) {
    const tally = tallies.get(resource) ?? openTally(everyMs);
    tallies.set(resource, tally);
    return tally;
  }

  function lineOf(resource: ResourceName): string {
    const tally = tallies.get(resource);
    if (tally === undefined) return `  ${resource}`;
    const { records, expected, windows, ofWindows, startedAt, end } = tally;
    const counts = records === 0 && windows > 0;
    const progress = counts ? { done: windows, total: ofWindows } : { done: records, total: expected };
    const line = progressLine({ ...progress, startedAt }, systemClock.now());
    return end ?? `  ${resource.padEnd(9)} ${line}${counts ? ' windows counted' : ''}`;
  }

  return openWatch(context, log, {
    take: (event) => {
      const { resource } = event;
      const tally = tallyOf(resource);
      if (event.kind === 'expected') tally.expected = event.records;
      if (event.kind === 'page') tally.records += event.records;
      if (event.kind === 'window') [tally.windows, tally.ofWindows] = [tally.windows + 1, event.of];
      if (event.kind !== 'end') return;
      // Pages that were read twice count twice.
      const done = [
        ...(tally.windows > 0 ? [`${counted(tally.windows, 'window')} counted`] : []),
        ...(tally.windows === 0 || tally.records > 0 ? [`${counted(tally.records, 'record')} read`] : []),
      ];
      const took = clockText(systemClock.now() - tally.startedAt);
      tally.end =
        event.problem === null
          ? `✓ ${resource.padEnd(9)} ${done.join(', ')} in ${took}`
          : `✗ ${resource}: ${event.problem}`;
    },
    lines: () => resources.map(lineOf),
    log: (event) => {
      const { resource } = event;
      const { records, expected, windows, ofWindows, isTime } = tallyOf(resource);
      if (event.kind === 'notice') log.warn({ resource }, event.text);
      else if (event.kind === 'end') {
        log.info({ resource, status: event.status, problem: event.problem, received: records }, 'resource read');
      } else if (event.kind === 'expected') log.info({ resource, records: event.records }, 'reading');
      else if (isTime()) {
        const counts = ofWindows === 0 ? {} : { windows, of_windows: ofWindows };
        log.info({ resource, records, expected, ...counts }, 'progress');
      }
    },
  });
}
