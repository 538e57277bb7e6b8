/** How a sync is watched: a line a resource that redraws itself on a terminal, log lines elsewhere. */
import type { ListrDefaultRendererLogLevels, ListrLogLevels } from 'listr2';
import { counted, grouped } from '../model/counted.ts';
import type { ResourceName } from '../model/resources.ts';
import { secondMs, type Clock } from '../model/time.ts';
import type { Log } from '../model/log.ts';
import type { SyncEvent } from '../mirror/progress.ts';
import { harmless } from '../model/terminal-text.ts';
import type { CliContext } from './context.ts';
import { barOf, drawnAndLogged, durationText, logEveryMs, type Watch } from './progress.ts';
import { screenOf } from './sieve.ts';

/** What is known of one resource's progress. */
interface Tally {
  readonly records: number;
  readonly expected: number;
  /** Windows that a comparison has counted, and how many there are. */
  readonly windows: number;
  readonly ofWindows: number;
  readonly startedAt: number;
}

/** `users     ████████░░░░  340,000 of 1,000,000   52,000/s   0:13 left`. */
export function progressLine(resource: ResourceName, tally: Tally, now: number): string {
  const seconds = Math.max(0.001, (now - tally.startedAt) / secondMs);
  const rate = tally.records / seconds;
  const { records, expected } = tally;
  const name = resource.padEnd(9);
  const speed = `${grouped(Math.round(rate))}/s`;
  if (records === 0 && tally.windows > 0) {
    const { windows, ofWindows } = tally;
    return `${name} ${barOf(windows / ofWindows)}  ${grouped(windows)} of ${counted(ofWindows, 'window')} counted`;
  }
  // Windows that are read twice, or overlap by a day, bring more records than were expected; how many more is not known.
  if (records > expected) return `${name} ${barOf(1)}  ${grouped(records)} read   ${speed}`;
  const share = expected === 0 ? 0 : records / expected;
  const left = rate === 0 ? '' : `   ${durationText(((expected - records) / rate) * secondMs)} left`;
  return `${name} ${barOf(share)}  ${grouped(records)} of ${grouped(expected)}   ${speed}${left}`;
}

/** `users     1,000,204 records read in 0:19`, pages that were read twice counted twice. */
export function endLine(resource: ResourceName, tally: Tally, now: number): string {
  const took = now - tally.startedAt;
  const time = took < 10 * secondMs ? `${(took / secondMs).toFixed(1)} s` : durationText(took);
  const done = [
    ...(tally.windows > 0 ? [`${counted(tally.windows, 'window')} counted`] : []),
    ...(tally.windows === 0 || tally.records > 0 ? [`${counted(tally.records, 'record')} read`] : []),
  ];
  return `${resource.padEnd(9)} ${done.join(', ')} in ${time}`;
}

type SyncWatch = Watch<SyncEvent>;

/** Where the console has begun the run, and shows its log as its progress. */
export const followedMs = secondMs;

/** The watch for this context; draws nothing under `--quiet`. A log file gets its lines whatever is drawn. */
export async function openSyncWatch(
  context: CliContext,
  log: Log,
  clock: Clock,
  resources: readonly ResourceName[],
  everyMs = logEveryMs,
): Promise<SyncWatch> {
  if (!context.stderr.isTTY || context.quiet()) return loggedWatch(log, clock, everyMs);
  const drawn = await drawnWatch(context, clock, resources);
  if (context.settings().log.file === undefined) return drawn;
  return drawnAndLogged(drawn, loggedWatch(log, clock, everyMs));
}

function loggedWatch(log: Log, clock: Clock, everyMs: number): SyncWatch {
  const tallies = new Tallies(clock);
  const loggedAt = new Map<ResourceName, number>();
  return {
    progress: (event) => {
      const tally = tallies.take(event);
      const { resource } = event;
      switch (event.kind) {
        case 'notice':
          log.warn({ resource }, event.text);
          break;
        case 'end':
          log.info({ resource, status: event.status, problem: event.problem, records: tally.records }, 'resource read');
          break;
        case 'expected':
          log.info({ resource, records: event.records }, 'reading');
          break;
        case 'page':
        case 'window': {
          const since = loggedAt.get(resource) ?? (everyMs === followedMs ? 0 : tally.startedAt);
          if (clock.now() - since < everyMs) break;
          loggedAt.set(resource, clock.now());
          const { records, expected, windows, ofWindows } = tally;
          const counts = ofWindows === 0 ? {} : { windows, of_windows: ofWindows };
          log.info({ resource, records, expected, ...counts }, 'progress');
        }
      }
    },
    ended: (fields) => log.info(fields, 'ended'),
    close: () => Promise.resolve(),
  };
}

async function drawnWatch(context: CliContext, clock: Clock, resources: readonly ResourceName[]): Promise<SyncWatch> {
  const { Listr, ListrLogger, ProcessOutput } = await import('listr2');
  const screen = screenOf(context.stderr);
  const processOutput = new ProcessOutput(screen, screen);
  const logger = new ListrLogger<ListrDefaultRendererLogLevels>({ processOutput });
  const tallies = new Tallies(clock);
  const rows = new Map(resources.map((resource) => [resource, new Row()]));
  const tasks = new Listr(
    resources.map((resource) => ({
      title: resource,
      task: (_, task) => {
        const row = rows.get(resource);
        if (row === undefined) return;
        row.show = (title) => (task.title = title);
        return row.ended;
      },
    })),
    {
      concurrent: true,
      exitOnError: false,
      registerSignalListeners: false,
      renderer: 'default',
      // Standard output is for the report.
      rendererOptions: { logger },
      // It draws plainly where standard output is a file, and would draw into that file.
      fallbackRendererOptions: { logger: new ListrLogger<ListrLogLevels>({ processOutput }) },
    },
  );
  const drawn = tasks.run().catch(() => undefined);
  return {
    progress: (event) => {
      const tally = tallies.take(event);
      const row = rows.get(event.resource);
      const line = event.kind === 'end' ? endLine : progressLine;
      row?.show(line(event.resource, tally, clock.now()));
      if (event.kind !== 'end') return;
      if (event.problem === null) row?.resolve();
      else row?.reject(new Error(harmless(`${event.resource}: ${event.problem}`)));
    },
    ended: () => {},
    close: async () => {
      for (const row of rows.values()) row.resolve();
      await drawn;
    },
  };
}

/** One line on the terminal, drawn until its resource ends. */
class Row {
  show: (title: string) => void = () => {};
  readonly ended: Promise<void>;
  resolve: () => void = () => {};
  reject: (error: Error) => void = () => {};

  constructor() {
    this.ended = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    // Where the drawing never began, nobody waits for it.
    this.ended.catch(() => {});
  }
}

function unread(startedAt: number): Tally {
  return { records: 0, expected: 0, windows: 0, ofWindows: 0, startedAt };
}

class Tallies {
  readonly #clock: Clock;
  readonly #tallies = new Map<ResourceName, Tally>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  take(event: SyncEvent): Tally {
    const old = this.#tallies.get(event.resource) ?? unread(this.#clock.now());
    const tally = {
      ...old,
      records: old.records + (event.kind === 'page' ? event.records : 0),
      expected: event.kind === 'expected' ? event.records : old.expected,
      windows: old.windows + (event.kind === 'window' ? 1 : 0),
      ofWindows: event.kind === 'window' ? event.of : old.ofWindows,
    };
    this.#tallies.set(event.resource, tally);
    return tally;
  }
}
