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
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const [hours = 0, minutes = 0, rest = 0] = parts;
  const tail = `${String(minutes).padStart(hours > 0 ? 2 : 1, '0')}:${String(rest).padStart(2, '0')}`;
  return hours > 0 ? `${hours}:${tail}` : tail;
}

const barWidth = 24;

/** Draws a bar. @param share how much of it is filled, 0 to 1 */
function barOf(share: number): string {
  const filled = Math.round(share * barWidth);
  return '█'.repeat(filled) + '░'.repeat(barWidth - filled);
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
  const isLogged = draw === undefined;
  let drawnAt: number | undefined;
  return {
    progress: (event) => {
      tracker.take(event);
      if (isLogged) tracker.log(event);
      const isFrequent = event.kind === 'row' || event.kind === 'page' || event.kind === 'window';
      if (draw === undefined || (isFrequent && systemClock.now() - (drawnAt ?? 0) < drawEveryMs)) return;
      drawnAt = systemClock.now();
      draw(tracker.lines());
    },
    ended: (fields) => {
      if (isLogged) log.info(fields, 'ended');
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

/** The progress of a batch. */
export interface BulkTally {
  readonly rows: number;
  readonly done: number;
  readonly failed: number;
  readonly startedAt: number;
}

export function tallied(tally: BulkTally, event: BulkEvent): BulkTally {
  if (event.kind === 'begin') return { ...tally, rows: event.rows };
  if (event.kind === 'wait') return tally;
  return { ...tally, done: tally.done + 1, failed: tally.failed + (event.state === 'applied' ? 0 : 1) };
}

/** `████░░░░  340 of 1,000   12/s   0:55 left   2 not applied`. */
export function bulkLine({ rows, done, failed, startedAt }: BulkTally, now: number): string {
  const seconds = Math.max(0.001, (now - startedAt) / secondMs);
  const rate = done / seconds;
  const share = rows === 0 ? 1 : Math.min(1, done / rows);
  const left = done === 0 || done >= rows ? '' : `   ${clockText(((rows - done) / rate) * secondMs)} left`;
  const speed = rate >= 10 ? grouped(Math.round(rate)) : rate.toFixed(1);
  const wrong = failed === 0 ? '' : `   ${grouped(failed)} not applied`;
  return `${barOf(share)}  ${grouped(done)} of ${grouped(rows)}   ${speed}/s${left}${wrong}`;
}

export function openBulkWatch(context: CliContext, log: Log): Watch<BulkEvent> {
  let tally: BulkTally = { rows: 0, done: 0, failed: 0, startedAt: systemClock.now() };
  let loggedAt = systemClock.now();
  let waits = '';
  return openWatch(context, log, {
    take: (event) => {
      tally = tallied(tally, event);
      waits = event.kind === 'wait' ? `   waiting ${clockText(event.ms)}: ${event.why}` : '';
    },
    lines: () => [`${bulkLine(tally, systemClock.now())}${waits}`],
    log: (event) => {
      if (event.kind === 'wait') log.warn({ ms: event.ms }, event.why);
      if (event.kind !== 'row') return;
      if (event.state !== 'applied') log.warn({ row: event.row, state: event.state }, 'row');
      if (systemClock.now() - loggedAt < logEveryMs) return;
      loggedAt = systemClock.now();
      log.info({ done: tally.done, rows: tally.rows, failed: tally.failed }, 'progress');
    },
  });
}

interface Tally {
  records: number;
  expected: number;
  /** Windows that a comparison has counted so far, and how many there are. */
  windows: number;
  ofWindows: number;
  readonly startedAt: number;
}

/** `users     ████████░░░░  340,000 of 1,000,000   52,000/s   0:13 left`. */
export function progressLine(resource: ResourceName, tally: Tally, now: number): string {
  const { records, expected, windows, ofWindows, startedAt } = tally;
  const rate = records / Math.max(0.001, (now - startedAt) / secondMs);
  const name = resource.padEnd(9);
  const speed = `${grouped(Math.round(rate))}/s`;
  if (records === 0 && windows > 0) {
    return `${name} ${barOf(windows / ofWindows)}  ${grouped(windows)} of ${counted(ofWindows, 'window')} counted`;
  }
  // Windows that are read twice or overlap by a day give more records than expected. How many more is unknown.
  if (records > expected) return `${name} ${barOf(1)}  ${grouped(records)} read   ${speed}`;
  const share = expected === 0 ? 0 : records / expected;
  const left = rate === 0 ? '' : `   ${clockText(((expected - records) / rate) * secondMs)} left`;
  return `${name} ${barOf(share)}  ${grouped(records)} of ${grouped(expected)}   ${speed}${left}`;
}

/** `users     1,000,204 records read in 0:19`. Pages that were read twice count twice. */
export function endLine(resource: ResourceName, { records, windows, startedAt }: Tally, now: number): string {
  const took = now - startedAt;
  const time = took < 10 * secondMs ? `${(took / secondMs).toFixed(1)} s` : clockText(took);
  const done = [
    ...(windows > 0 ? [`${counted(windows, 'window')} counted`] : []),
    ...(windows === 0 || records > 0 ? [`${counted(records, 'record')} read`] : []),
  ];
  return `${resource.padEnd(9)} ${done.join(', ')} in ${time}`;
}

/** How often to log if the console started the run: it shows the log as progress. */
export const followedMs = secondMs;

export function openSyncWatch(
  context: CliContext,
  log: Log,
  resources: readonly ResourceName[],
  everyMs = logEveryMs,
): Watch<SyncEvent> {
  const tallies = new Map<ResourceName, Tally>();
  const ends = new Map<ResourceName, string>();
  const loggedAt = new Map<ResourceName, number>();

  function tallyOf(resource: ResourceName): Tally {
    const known = tallies.get(resource);
    const tally = known ?? { records: 0, expected: 0, windows: 0, ofWindows: 0, startedAt: systemClock.now() };
    tallies.set(resource, tally);
    return tally;
  }

  return openWatch(context, log, {
    take: (event) => {
      const { resource } = event;
      const tally = tallyOf(resource);
      if (event.kind === 'expected') tally.expected = event.records;
      if (event.kind === 'page') tally.records += event.records;
      if (event.kind === 'window') {
        tally.windows += 1;
        tally.ofWindows = event.of;
      }
      if (event.kind !== 'end') return;
      const { problem } = event;
      const done = problem === null ? `✓ ${endLine(resource, tally, systemClock.now())}` : `✗ ${resource}: ${problem}`;
      ends.set(resource, done);
    },
    lines: () =>
      resources.map((resource) => {
        const tally = tallies.get(resource);
        const line = tally === undefined ? resource : progressLine(resource, tally, systemClock.now());
        return ends.get(resource) ?? `  ${line}`;
      }),
    log: (event) => {
      const { resource } = event;
      const { records, expected, windows, ofWindows, startedAt } = tallyOf(resource);
      if (event.kind === 'notice') log.warn({ resource }, event.text);
      else if (event.kind === 'end') {
        // As in the report: pages that overlap, or were read twice, count twice, so it is more than the rows of the table.
        log.info({ resource, status: event.status, problem: event.problem, received: records }, 'resource read');
      } else if (event.kind === 'expected') log.info({ resource, records: event.records }, 'reading');
      else {
        const since = loggedAt.get(resource) ?? (everyMs === followedMs ? 0 : startedAt);
        if (systemClock.now() - since < everyMs) return;
        loggedAt.set(resource, systemClock.now());
        const counts = ofWindows === 0 ? {} : { windows, of_windows: ofWindows };
        log.info({ resource, records, expected, ...counts }, 'progress');
      }
    },
  });
}
