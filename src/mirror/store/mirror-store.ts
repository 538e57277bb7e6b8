/** The sync engine's store over an SQLite file. */
import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Database } from 'better-sqlite3';
import { everything } from '../../model/era.ts';
import type { SchemaDrift } from '../../model/page-rows.ts';
import { keyOf, keysJson, type RecordKey } from '../../model/records.ts';
import { resourceNames, resourceOf, type ResourceName } from '../../model/resources.ts';
import { systemClock, timestampOf, type Clock, type Timestamp } from '../../model/time.ts';
import type { MirrorEvent, MirrorStore } from '../../store/mirror-types.ts';
import { lateIndices } from '../../store/analyst-schema.ts';
import {
  beginHistory,
  deletionUndoer,
  historyPruner,
  recordHistory,
  reuseUndoer,
  significantChange,
} from './history.ts';
import { knownRecordsIn } from './known-records.ts';
import { mirrorLocks, stepsIn } from '../../store/lock.ts';
import { openMirrorFile, openMirrorForReading } from '../../store/open.ts';
import { ownedRows, rankedRows } from './owned-rows.ts';
import { pageForgetter, readPages, replacePages, rowSums } from './page-memory.ts';
import { pageUpsert, twinGuard } from './page-rows.ts';
import { relationsIn, type RelationDrift } from '../../store/relations.ts';
import { addCounts, eventOf, insertRun, readRun, readRuns, updateRun, updateRunResource } from './run-table.ts';
import { beginEpoch, deletionPruner, leaveInserts, numbersIn } from '../../store/numbering.ts';
import { quoteName } from '../../store/schema.ts';
import { build, Runner } from '../../store/tables.ts';
import { suppressionsIn } from './suppressions.ts';
import { advanceWindow, readWindows, replaceWindows, resetWalks, resetWindows, updateWindow } from './window-table.ts';
import { busyMs } from '../../store/file-kind.ts';

interface MirrorOptions {
  /** Fields whose change alone makes no version in the history; `_extra.name` for one that the reference does not know. */
  readonly historyIgnore: readonly string[];
}

/** Stands for pages of which nothing is known, so that no rows fit them. */
const unknownPage = { key: '', hash: '', total: 0, lastPage: 0, perPage: 0, ids: [], owned: 0, lastCreatedAt: null };

/** Opens the mirror at `file`, making it where there is none. Throws `FileError`. The caller closes it. */
export function openMirrorStore(
  file: string,
  clock: Clock = systemClock,
  options: MirrorOptions = { historyIgnore: [] },
): MirrorStore {
  const database = openMirrorFile(file, clock);
  leaveInserts(database);
  return mirrorStore(database, file, clock, options);
}

/** Opens an existing mirror to be looked at; its steps that write fail. Throws `FileError`. The caller closes it. */
export function openMirrorStoreForReading(file: string, clock: Clock = systemClock): MirrorStore {
  return mirrorStore(openMirrorForReading(file), file, clock, { historyIgnore: [] });
}

function mirrorStore(database: Database, file: string, clock: Clock, options: MirrorOptions): MirrorStore {
  const { historyIgnore } = options;
  const runner = new Runner(database);
  const locks = mirrorLocks(database, clock);
  const now = (): Timestamp => timestampOf(clock.now());
  // What one step removes ends at one time.
  let stepAt = now();
  /** The last number that was given before the run began. */
  let runBeganAfter = 0;
  if (!database.readonly) recordHistory(database, historyIgnore, () => stepAt);
  const prune = historyPruner(database);
  const pruneTombstones = deletionPruner(database);
  const twins = twinGuard(database);
  const relations = relationsIn(database, runner);
  const suppressions = suppressionsIn(database, runner);
  const writers = new Map<ResourceName, ReturnType<typeof newWriter>>();
  const unsentEmails = database.prepare<[], { id: bigint; createdAt: unknown }>(
    `SELECT "id", "created_at" AS "createdAt" FROM emails WHERE "is_sent" = 0`,
  );
  unsentEmails.safeIntegers();
  // A drift that every record shows is one event: the table is not read again for what this process has written.
  const reported = new Set<string>();

  function newWriter(name: ResourceName) {
    const resource = resourceOf(name);
    return {
      upsert: pageUpsert(database, resource, significantChange(resource, historyIgnore), twins),
      remove: database.prepare<[string]>(
        `DELETE FROM ${quoteName(name)} WHERE "id" IN (SELECT value FROM json_each(?))`,
      ),
      owned: ownedRows(database, name),
      ranked: rankedRows(database, resource),
      knownRecords: knownRecordsIn(database, name),
      forgetPages: pageForgetter(database, name),
      sums: rowSums(database, name),
      undoReuse: reuseUndoer(database, name),
      undoDeletion: deletionUndoer(database, name, historyIgnore),
      removed: new Set<RecordKey>(),
    };
  }

  /** Prepared at the first use: whoever only looks at the runs, each second and for many, needs none of it. */
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
    stepAt = now();
    return timeless(doing);
  }

  return {
    acquireLock: (name, run, command = name) =>
      whole(() => {
        locks.acquire(name, run, command);
        beginEpoch(database, now());
      }),
    releaseLock: (name, run) => whole(() => locks.release(name, run)),
    lockOwner: (name) => locks.owner(name),
    beginRun: (run, command, resources, actor) =>
      step(() => {
        suppressions.reload();
        runBeganAfter = numbersIn(database).last();
        twins.begin(runBeganAfter);
        insertRun(runner, { run, command, startedAt: now(), actor }, resources);
        beginHistory(runner, resources, now());
      }),
    finishResource: (run, resource, report) => {
      step(() => updateRunResource(runner, run, resource, report));
      const late = report.status === 'complete' ? lateIndices[resource] : [];
      for (const index of late ?? []) step(() => database.exec(index));
    },
    finishRun: (run, end) => step(() => updateRun(runner, run, { ...end, finished_at: now() })),
    noteProgress: (run, resource, progress) => step(() => updateRunResource(runner, run, resource, progress)),
    runs: (limit) => readRuns(runner, limit),
    run: (run) => readRun(runner, run),

    windows: (resource) => readWindows(runner, resource),
    replaceWindows: (resource, windows) => step(() => replaceWindows(runner, resource, windows)),
    resetWindows: (resource, windows) => step(() => resetWindows(runner, resource, windows)),
    beginWalk: (run, window) =>
      step(() => {
        // Rows of a walk that was not settled are of several moments: no page stands for them.
        if (window.state !== 'settled') replacePages(runner, window, []);
        updateWindow(runner, window, { state: 'walking', pages_read: 0, run, problem: null });
      }),
    keptOut: (resource) => ({
      own: [...suppressions.ids(resource)],
      users: [...suppressions.ids('users')],
      emails: [...suppressions.ids('emails')],
    }),
    recordPage: (run, window, rows, received, seen) =>
      step(() => {
        const { upsert, removed, undoDeletion, undoReuse } = writerOf(window.resource);
        const report = (drift: SchemaDrift | RelationDrift) => writeDrift(run, window.resource, drift);
        suppressions.note(window.resource, rows.keptOut, now());
        for (const drift of rows.drifts) report(drift);
        const { twins: refused, ...counts } = upsert(rows, now(), seen);
        const undone = refused.filter((id) => undoReuse(id, runBeganAfter));
        if (undone.length > 0) addCounts(runner, run, window.resource, { updated: -undone.length });
        const back = removed.size === 0 ? [] : rows.ids.filter((id) => removed.delete(id) && undoDeletion(id));
        if (back.length > 0) addCounts(runner, run, window.resource, { deleted: -back.length, inserted: -back.length });
        relations.write(window.resource, rows.related, report);
        advanceWindow(runner, window);
        addCounts(runner, run, window.resource, { ...counts, received });
        return { ...counts, twins: refused, unusable: rows.unusable };
      }),
    recordSamePages: (run, resource, { received, owned }) =>
      step(() => {
        addCounts(runner, run, resource, { received, unchanged: owned });
      }),
    forgetPages: (window) => step(() => replacePages(runner, window, [])),
    alteredWindows: (resource) =>
      readWindows(runner, resource).filter((window) => !writerOf(resource).sums.fit(window)),
    compareAgain: (resource, days) =>
      step(() => {
        const touched = readWindows(runner, resource).filter(({ from, to }) => from < days.to && to > days.from);
        for (const window of touched) replacePages(runner, window, [unknownPage]);
      }),
    unsentEmails: () => unsentEmails.all().map(({ id, createdAt }) => ({ id: keyOf(id), createdAt })),
    rememberedPages: (window) => readPages(runner, window),
    endWalk: (run, window, end) =>
      step(() => {
        const { sums } = writerOf(window.resource);
        // Those of a first walk are compared once more before they are taken for granted: summing costs as much as reading.
        const pages = window.state === 'settled' ? (end.pages ?? []) : [];
        replacePages(runner, window, suppressions.withoutTimes(window.resource, pages), (of, ids) => sums.of(of, ids));
        updateWindow(runner, window, {
          state: end.state,
          server_total: end.serverTotal,
          problem: end.problem,
          run,
          // A walk that failed takes nothing from what an earlier one has shown.
          ...(end.freshAsOf === null ? {} : { fresh_as_of: end.freshAsOf }),
        });
      }),

    unseenIds: (window, seen) =>
      writerOf(window.resource)
        .owned.ids(window)
        .filter((id) => !seen.has(id)),
    rankedRows: (resource, range) => writerOf(resource).ranked(range),
    deleteRecords: (run, resource, ids) =>
      step(() => {
        const { forgetPages, remove, removed } = writerOf(resource);
        forgetPages(ids);
        for (const id of ids) removed.add(id);
        const { changes } = remove.run(keysJson(ids));
        addCounts(runner, run, resource, { deleted: changes });
      }),
    pruneHistory: (resource, before, versions) => step(() => prune(resource, before, versions)),
    pruneDeletions: (before, tombstones) => step(() => pruneTombstones(before, tombstones)),
    liveCount: (resource, range) => writerOf(resource).owned.count(range ?? everything),
    accountedCount: (resource, range) =>
      writerOf(resource).owned.count(range ?? everything) + suppressions.count(resource, range),
    suppressedIds: (resource) => suppressions.ids(resource),
    releaseUnseen: (window, seen) => {
      if (suppressions.ids(window.resource).size === 0) return;
      step(() => suppressions.releaseUnseen(window.resource, window, seen));
    },

    includedRelations: (resource) => relations.included(resource),
    includeRelations: (resource, names) =>
      step(() => {
        if (relations.include(resource, names, now())) resetWalks(runner, resource);
      }),
    abandonRelations: (resource) => step(() => relations.abandon(resource)),

    freshAsOf: (resource) => {
      const query = build.selectFrom('mirror_freshness').select('fresh_as_of').where('resource', '=', resource);
      return (runner.first(query)?.fresh_as_of ?? null) as Timestamp | null;
    },
    capability: (name, resource) => {
      const row = runner.first(
        build.selectFrom('mirror_capabilities').selectAll().where('name', '=', name).where('resource', '=', resource),
      );
      return row === undefined
        ? undefined
        : { value: JSON.parse(row.value) as unknown, measuredAt: row.measured_at as Timestamp };
    },
    recordCapability: (name, resource, value) =>
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
    forgetCapability: (name, resource) =>
      step(() =>
        runner.run(build.deleteFrom('mirror_capabilities').where('name', '=', name).where('resource', '=', resource)),
      ),
    knownRecords: (resource, order, count) => writerOf(resource).knownRecords(order, count),
    recordEvent: (run, event) => step(() => writeEvent(run, event)),
    events: (limit, kinds) =>
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

    pruneRuns: (before, runs) => step(() => pruneRuns(database, before, runs)),
    pruneEvents: (before, events) => step(() => pruneEvents(database, before, events)),
    ...maintenanceOf(database, file, explained),
    footprint: () => ({
      folder: dirname(file),
      bytes: statSync(file).size,
      records: resourceNames.reduce((sum, name) => sum + writerOf(name).owned.count(everything), 0),
    }),
    close: () => {
      locks.close();
      database.close();
    },
  };
}

/** Schema drift is reported once for each field and is true for as long as the field is there, so it does not age. */
const lasting = [
  'unknown_field',
  'missing_field',
  'changed_type',
  'unreadable_text',
  'relation_absent',
  'relation_keys',
];

export function pruneRuns(database: Database, before: Timestamp, runs: number): number {
  const old = "SELECT run FROM mirror_runs WHERE started_at < ? AND status <> 'running' ORDER BY started_at LIMIT ?";
  return database.prepare(`DELETE FROM mirror_runs WHERE run IN (${old})`).run(before, runs).changes;
}

export function pruneEvents(database: Database, before: Timestamp, events: number): number {
  const kinds = lasting.map((kind) => `'${kind}'`).join(', ');
  const old = `SELECT event FROM mirror_events WHERE at < ? AND kind NOT IN (${kinds}) ORDER BY event LIMIT ?`;
  return database.prepare(`DELETE FROM mirror_events WHERE event IN (${old})`).run(before, events).changes;
}

/** @param reported runs what touches the file, and reports its failure to the operator */
function maintenanceOf(
  database: Database,
  file: string,
  reported: <T>(doing: () => T) => T,
): Pick<MirrorStore, 'optimize' | 'logBytes' | 'checkpoint'> {
  return {
    optimize: () =>
      reported(() => {
        // With a limit SQLite looks at some hundred rows of an index, and keeps counts alone: without one it would keep
        // samples, and with them bytes of people who are forgotten later.
        database.pragma('analysis_limit = 400');
        database.pragma('optimize');
      }),
    logBytes: () => statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0,
    checkpoint: (wait) =>
      reported(() => {
        if (!wait) database.pragma('busy_timeout = 0');
        try {
          const [result] = database.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[];
          return result?.busy === 0 ? 'folded' : 'held';
        } finally {
          if (!wait) database.pragma(`busy_timeout = ${busyMs}`);
        }
      }),
  };
}
