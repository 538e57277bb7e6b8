/** The sync engine's store over an SQLite file. */
import { dirname } from 'node:path';
import type { Database } from 'better-sqlite3';
import type { Actor } from '../../model/actor.ts';
import { type DayRange, everything } from '../../model/era.ts';
import { type KeptOut, keysJson, type PageRows, type RecordKey, type SchemaDrift } from '../../model/records.ts';
import { resourceOf, type ResourceName } from '../../model/resources.ts';
import { type Day, systemClock, timestampOf, type Clock, type Timestamp } from '../../model/time.ts';
import {
  type MirrorEvent,
  type NewWindow,
  type PageCounts,
  type RememberedPage,
  type ResourceReport,
  type RunEnd,
  type RunProgressNote,
  type Window,
} from '../../store/mirror-types.ts';
import { lateIndices, quoteName } from '../../store/schema.ts';
import { beginHistory, historyPruner, recordHistory, significantChange } from './history.ts';
import { mirrorLocks, stepsIn } from '../../store/lock.ts';
import { openMirrorFile, openMirrorForReading } from '../../store/open.ts';
import { knownRecordsIn, ownedRows } from './owned-rows.ts';
import { pageForgetter, readPages, replacePages, touchedDays } from './page-memory.ts';
import { pageUpsert } from './upsert.ts';
import { relationsIn, type RelationDrift } from '../../store/relations.ts';
import {
  addCounts,
  advanceWindow,
  eventOf,
  insertRun,
  readRun,
  readRuns,
  readWindows,
  replaceWindows,
  resetWalks,
  resetWindows,
  suppressionsIn,
  updateRun,
  updateRunResource,
  updateWindow,
} from './bookkeeping.ts';
import { beginEpoch, deletionPruner } from '../../store/cursor.ts';
import { build, Runner } from '../../store/kysely-sqlite.ts';
import { busyMs } from '../../store/file-kind.ts';

interface MirrorOptions {
  /** Fields whose change alone makes no version in the history; `_extra.name` for one that the reference does not know. */
  readonly historyIgnore: readonly string[];
}

/** What a page brings for a window. */
interface PageToWrite {
  readonly rows: PageRows;
  /** Records on the page. */
  readonly received: number;
  /** How many of them are known to be as they were, and not among `rows`. */
  readonly unchanged?: number;
}

/** The mirror as the sync engine uses it. Every step is one transaction: when it returns, all of it is done. */
export type MirrorStore = ReturnType<typeof mirrorStore>;

/** Opens the mirror at `file`, and makes it if there is none. Throws `FileError`. The caller closes it. */
export function openMirrorStore(
  file: string,
  clock: Clock = systemClock,
  options: MirrorOptions = { historyIgnore: [] },
): MirrorStore {
  return mirrorStore(openMirrorFile(file, true), file, clock, options);
}

/** Opens an existing mirror for reading; steps that write fail. Throws `FileError`. The caller closes it. */
export function openMirrorStoreForReading(file: string): MirrorStore {
  return mirrorStore(openMirrorForReading(file), file, systemClock, { historyIgnore: [] });
}

function mirrorStore(database: Database, file: string, clock: Clock, options: MirrorOptions) {
  const { historyIgnore } = options;
  const runner = new Runner(database);
  const locks = mirrorLocks(database, clock);
  const now = (): Timestamp => timestampOf(clock.now());
  // Everything that one step writes and removes has one time, which does not run backward while a lock is held.
  let stepAt = now();
  if (!database.readonly) recordHistory(database, historyIgnore, () => stepAt);
  const prune = historyPruner(database);
  const pruneTombstones = deletionPruner(database);
  const relations = relationsIn(database, runner);
  const suppressions = suppressionsIn(database, runner);
  const touched = touchedDays(database, runner);
  const writers = new Map<ResourceName, ReturnType<typeof newWriter>>();
  // A drift that every record shows is one event. What this process has written need not be looked up in the table.
  const reported = new Set<string>();

  function newWriter(name: ResourceName) {
    const resource = resourceOf(name);
    const forgetPages = pageForgetter(database, name);
    return {
      upsert: pageUpsert(database, resource, significantChange(resource, historyIgnore), forgetPages),
      remove: database.prepare<[string]>(
        `DELETE FROM ${quoteName(name)} WHERE "id" IN (SELECT value FROM json_each(?))`,
      ),
      owned: ownedRows(database, name),
      knownRecords: knownRecordsIn(database, name),
      forgetPages,
    };
  }

  /** Prepares the statements on first use: those who only read the runs, perhaps every second, need none of them. */
  function writerOf(resource: ResourceName) {
    const known = writers.get(resource);
    if (known !== undefined) return known;
    const made = newWriter(resource);
    writers.set(resource, made);
    return made;
  }

  function writeEvent(run: string, event: Omit<MirrorEvent, 'at'>): void {
    runner.run(
      build
        .insertInto('mirror_events')
        .values({ at: now(), run, ...event })
        .onConflict((conflict) => conflict.columns(['resource', 'kind', 'subject']).doNothing()),
    );
  }

  function writeDrift(run: string, resource: ResourceName, drift: SchemaDrift | RelationDrift): void {
    const key = `${resource} ${drift.kind} ${drift.subject}`;
    if (reported.has(key)) return;
    reported.add(key);
    writeEvent(run, { resource, ...drift });
  }

  const { explained, whole, step: timeless } = stepsIn(database, file, 'write to the mirror', locks);

  function step<T>(doing: () => T): T {
    const at = now();
    if (at > stepAt) stepAt = at;
    return timeless(doing);
  }

  function writePage(run: string, window: Window, { rows, received, unchanged = 0 }: PageToWrite): void {
    const report = (drift: SchemaDrift | RelationDrift) => writeDrift(run, window.resource, drift);
    suppressions.note(window.resource, rows.keptOut, now());
    for (const drift of rows.drifts) report(drift);
    const counts = writerOf(window.resource).upsert(rows, window, stepAt);
    relations.write(window.resource, rows.related, report);
    advanceWindow(runner, window);
    addCounts(runner, run, window.resource, { ...counts, unchanged: counts.unchanged + unchanged, received });
  }

  return {
    /**
     * Takes the lock, from a dead owner if need be, or throws `LockHeldError`, as does every later step once another process has
     * it.
     * @param command what the process is doing, for messages to others who want the lock
     */
    acquireLock: (name: string, run: string, command = name): void =>
      whole(() => {
        locks.acquire(name, run, command);
        stepAt = beginEpoch(database, now());
      }),
    releaseLock: (name: string, run: string): void => whole(() => locks.release(name, run)),
    lockOwner: (name: string) => locks.owner(name),
    /** Records a run and its resources as begun. Runs that a dead process left `running` become `killed`. */
    beginRun: (run: string, command: string, resources: readonly ResourceName[], actor?: Actor): void =>
      step(() => {
        suppressions.reload();
        const who = actor === undefined ? null : JSON.stringify(actor);
        insertRun(runner, { run, command, status: 'running', started_at: now(), actor: who }, resources);
        beginHistory(runner, resources, now());
      }),
    finishResource: (run: string, resource: ResourceName, report: Omit<ResourceReport, keyof PageCounts>): void => {
      step(() => updateRunResource(runner, run, resource, report));
      const late = report.status === 'complete' ? lateIndices[resource] : [];
      for (const index of late ?? []) step(() => database.exec(index));
    },
    finishRun: (run: string, end: RunEnd): void => step(() => updateRun(runner, run, { ...end, finished_at: now() })),
    /** Records how far the run is with the resource, for others to see. */
    noteProgress: (run: string, resource: ResourceName, progress: RunProgressNote): void =>
      step(() => updateRunResource(runner, run, resource, progress)),
    runs: (limit: number) => readRuns(runner, limit),
    run: (run: string) => readRun(runner, run),

    windows: (resource: ResourceName) => readWindows(runner, resource),
    /** Replaces the windows between the first new one's `from` and the last one's `to`. */
    replaceWindows: (resource: ResourceName, windows: readonly NewWindow[]): void =>
      step(() => replaceWindows(runner, resource, windows)),
    /** Replaces all windows of the resource. */
    resetWindows: (resource: ResourceName, windows: readonly NewWindow[]): void =>
      step(() => resetWindows(runner, resource, windows)),
    /** Begins a walk. Returns whether something else than a sync has changed rows of the window since its last one. */
    beginWalk: (run: string, window: Window): boolean =>
      step(() => {
        const isTouched = touched.has(window.resource, window);
        // What is changed from now on is noted again. If the walk fails, the window forgets its pages.
        touched.forget(window.resource, window);
        // The rows of an unsettled walk come from different moments, so no page stands for them.
        if (window.state !== 'settled') replacePages(runner, window, []);
        updateWindow(runner, window, { state: 'walking', pages_read: 0, run, problem: null });
        return isTouched;
      }),
    /** The records that must not be taken from pages of the resource. */
    keptOut: (resource: ResourceName): KeptOut => ({
      own: [...suppressions.ids(resource)],
      users: [...suppressions.ids('users')],
      emails: [...suppressions.ids('emails')],
    }),
    /** Stores pages in the order given, with their related records, and advances the window and the run's counters. */
    recordPages: (run: string, window: Window, pages: readonly PageToWrite[]): void =>
      step(() => {
        for (const page of pages) writePage(run, window, page);
      }),
    /** Counts pages that came again unchanged. */
    recordSamePages: (run: string, resource: ResourceName, pages: readonly RememberedPage[]): void =>
      step(() => {
        const sum = (of: (page: RememberedPage) => number) => pages.reduce((all, page) => all + of(page), 0);
        addCounts(runner, run, resource, {
          received: sum(({ ids }) => ids.length),
          unchanged: sum(({ owned }) => owned),
        });
      }),
    /** Whether something else than a sync has changed rows of the window since its last walk began. */
    isTouched: (window: Window) => touched.has(window.resource, window),
    /** Has the windows of these days compared row by row. */
    compareAgain: (resource: ResourceName, days: DayRange): void =>
      step(() => {
        const differing = readWindows(runner, resource).filter(({ from, to }) => from < days.to && to > days.from);
        for (const { from } of differing) touched.note(resource, from);
      }),
    /** The pages of the window's last settled walk; none if its rows were written since, or if it was not settled. */
    rememberedPages: (window: Window) => readPages(runner, window),
    /** Ends a walk. `end.pages` are its pages, for the next walk to recognise. */
    endWalk: (
      run: string,
      window: Window,
      end: Pick<Window, 'serverTotal' | 'freshAsOf' | 'problem'> & {
        readonly state: 'settled' | 'unsettled';
        readonly pages?: readonly RememberedPage[] | 'as they are';
        readonly surplus?: number;
      },
    ): void =>
      step(() => {
        const { pages = [] } = end;
        if (pages !== 'as they are') {
          replacePages(runner, window, suppressions.withoutTimes(window.resource, pages));
        }
        updateWindow(runner, window, {
          state: end.state,
          server_total: end.serverTotal,
          problem: end.problem,
          run,
          ...(end.surplus === undefined ? {} : { surplus: end.surplus }),
          // A failed walk does not change what an earlier one has proven.
          ...(end.freshAsOf === null ? {} : { fresh_as_of: end.freshAsOf }),
        });
      }),

    /** Leaves a window to be read again, with the reason. */
    leaveWindow: (run: string, window: Window, end: Pick<Window, 'serverTotal' | 'problem'>): void =>
      step(() => {
        replacePages(runner, window, []);
        const { serverTotal: server_total, problem } = end;
        updateWindow(runner, window, { state: 'unsettled', server_total, problem, run });
      }),
    /** Marks the window that begins on this day to be read again. Its rows stay as fresh as they are. */
    resetWalks: (resource: ResourceName, day: Day): void => step(() => resetWalks(runner, resource, day)),

    unseenIds: (window: DayRange & Pick<Window, 'resource'>, seen: ReadonlySet<RecordKey>) =>
      writerOf(window.resource)
        .owned.ids(window)
        .filter((id) => !seen.has(id)),
    /** Those of the records that the mirror neither has nor must not have. */
    lacking: (resource: ResourceName, ids: readonly RecordKey[]): RecordKey[] =>
      ids.filter((id) => !writerOf(resource).owned.has(id) && !suppressions.ids(resource).has(Number(id))),
    deleteRecords: (run: string, resource: ResourceName, ids: readonly RecordKey[]): void =>
      step(() => {
        const { forgetPages, remove } = writerOf(resource);
        forgetPages(ids);
        touched.without(resource, () => {
          const { changes } = remove.run(keysJson(ids));
          addCounts(runner, run, resource, { deleted: changes });
        });
      }),
    /** Removes at most so many versions that ended before that time. Returns how many it removed. */
    pruneHistory: (resource: ResourceName, before: Timestamp, versions: number) =>
      step(() => prune(resource, before, versions)),
    /** The same for tombstones. From then on, cursors older than the removed ones are refused. */
    pruneDeletions: (before: Timestamp, tombstones: number) => step(() => pruneTombstones(before, tombstones)),
    /** How many rows the resource has, in all or in a window of these days. */
    liveCount: (resource: ResourceName, range?: DayRange) => writerOf(resource).owned.count(range ?? everything),
    /** The same, plus suppressed records that the server still has: what the mirror accounts for. */
    accountedCount: (resource: ResourceName, range?: DayRange) =>
      writerOf(resource).owned.count(range ?? everything) + suppressions.count(resource, range),
    /** The day of creation in the middle of the rows of these days; undefined if there are none. */
    middleDay: (resource: ResourceName, days: DayRange) => writerOf(resource).owned.middleDay(days),
    /** How many rows were created in the first second of the day. */
    midnightCount: (resource: ResourceName, day: Day) =>
      writerOf(resource).owned.count({ from: day, to: `${day}T00:00:01` as Day }),
    suppressedIds: (resource: ResourceName): ReadonlySet<number> => suppressions.ids(resource),
    /** After a consistent walk: suppressed records of the window that it did not see are gone from the server. */
    releaseUnseen: (window: Window, seen: ReadonlySet<RecordKey>): void => {
      if (suppressions.ids(window.resource).size === 0) return;
      step(() => suppressions.releaseUnseen(window.resource, window, seen));
    },

    /** The relations that all rows of the resource were read with. A run with no others need not read everything again. */
    includedRelations: (resource: ResourceName): readonly string[] => relations.included(resource),
    /** Includes these relations in every page from now on. If one was not read before, every window is read again. */
    includeRelations: (resource: ResourceName, names: readonly string[]): void =>
      step(() => {
        if (relations.include(resource, names, now())) resetWalks(runner, resource);
      }),
    /** Goes on without relations, since the server refuses them. Their tables stay as they are. */
    abandonRelations: (resource: ResourceName): void => step(() => relations.abandon(resource)),

    /** The time of the resource's stalest window; null if one was never settled. */
    freshAsOf: (resource: ResourceName): Timestamp | null => {
      const query = build.selectFrom('mirror_freshness').select('fresh_as_of').where('resource', '=', resource);
      return (runner.first(query)?.fresh_as_of ?? null) as Timestamp | null;
    },
    capability: (name: string, resource: ResourceName | '') => {
      const row = runner.first(
        build.selectFrom('mirror_capabilities').selectAll().where('name', '=', name).where('resource', '=', resource),
      );
      return row === undefined
        ? undefined
        : { value: JSON.parse(row.value) as unknown, measuredAt: row.measured_at as Timestamp };
    },
    recordCapability: (name: string, resource: ResourceName | '', value: unknown): void =>
      step(() =>
        runner.run(
          build
            .insertInto('mirror_capabilities')
            .values({ name, resource, value: JSON.stringify(value), measured_at: now() })
            .onConflict((conflict) =>
              conflict.columns(['name', 'resource']).doUpdateSet((row) => ({
                value: row.ref('excluded.value'),
                measured_at: row.ref('excluded.measured_at'),
              })),
            ),
        ),
      ),
    forgetCapability: (name: string, resource: ResourceName | ''): void =>
      step(() =>
        runner.run(build.deleteFrom('mirror_capabilities').where('name', '=', name).where('resource', '=', resource)),
      ),
    /** At most so many rows with a usable creation time, the newest or the oldest: the server is recognised by them. */
    knownRecords: (resource: ResourceName, order: 'newest' | 'oldest', count: number) =>
      writerOf(resource).knownRecords(order, count),
    recordEvent: (run: string, event: Omit<MirrorEvent, 'at'>): void => step(() => writeEvent(run, event)),
    /** The last events, newest first: those of some kinds, or all. */
    events: (limit: number, kinds?: readonly string[]) =>
      runner
        .all(
          build
            .selectFrom('mirror_events')
            .selectAll()
            .$if(kinds !== undefined, (query) => query.where('kind', 'in', kinds ?? []))
            .orderBy('event', 'desc')
            .limit(limit),
        )
        .map(eventOf),

    /** Lets SQLite update its statistics of the tables, which its query planner uses. */
    optimize: (): void =>
      explained(() => {
        // With a limit, SQLite looks at some hundred rows of an index and stores only counts. Without one it would store samples,
        // which may have bytes of people who are forgotten later.
        database.pragma('analysis_limit = 400');
        database.pragma('optimize');
      }),
    /**
     * Folds the log into the file and begins it anew, as far as no reader of an older state prevents it.
     * @param wait whether to give readers some seconds to end
     */
    checkpoint: (wait: boolean): void =>
      explained(() => {
        if (!wait) database.pragma('busy_timeout = 0');
        try {
          database.pragma('wal_checkpoint(TRUNCATE)');
        } finally {
          if (!wait) database.pragma(`busy_timeout = ${busyMs}`);
        }
      }),
    /** The folder of the mirror's file. */
    folder: dirname(file),
    close: (): void => {
      locks.close();
      database.close();
    },
  };
}
