/** The sync engine's store over an SQLite file. */
import type { Database } from 'better-sqlite3';
import { everything } from '../../model/era.ts';
import { explainFileError } from '../../model/file-error.ts';
import { resourceNames, resourceOf, type ResourceName } from '../../model/resources.ts';
import { systemClock, timestampOf, type Clock, type Timestamp } from '../../model/time.ts';
import type { MirrorEvent, MirrorStore } from '../ports/mirror-store.ts';
import { acquireLock, beatLock, lockOwner, releaseLock } from './lock.ts';
import { openMirrorFile, openMirrorForReading } from './open.ts';
import { ownedRows } from './owned-rows.ts';
import { pageUpsert } from './page-upsert.ts';
import { rowReader, type RecordRow, type Surprise } from './record-row.ts';
import { addCounts, insertRun, readRuns, updateRun, updateRunResource } from './run-table.ts';
import { quoteName } from './schema.ts';
import { build, Runner } from './tables.ts';
import { advanceWindow, readWindows, replaceWindows, resetWindows, updateWindow } from './window-table.ts';

/** Opens the mirror at `file`, making it where there is none. Throws `FileError`. The caller closes it. */
export function openMirrorStore(file: string, clock: Clock = systemClock): MirrorStore {
  return mirrorStore(openMirrorFile(file, clock), file, clock);
}

/** Opens an existing mirror to be looked at; its steps that write fail. Throws `FileError`. The caller closes it. */
export function openMirrorStoreForReading(file: string, clock: Clock = systemClock): MirrorStore {
  return mirrorStore(openMirrorForReading(file), file, clock);
}

function mirrorStore(database: Database, file: string, clock: Clock): MirrorStore {
  const runner = new Runner(database);
  const now = (): Timestamp => timestampOf(clock.now());
  const writers = new Map(
    resourceNames.map((name) => {
      const resource = resourceOf(name);
      const table = quoteName(name);
      return [
        name,
        {
          read: rowReader(resource),
          upsert: pageUpsert(database, resource),
          remove: database.prepare<[string]>(`DELETE FROM ${table} WHERE "id" IN (SELECT value FROM json_each(?))`),
          owned: ownedRows(database, name),
        },
      ] as const;
    }),
  );
  // A drift that every record shows is one event: the table is not asked again for what this process has written.
  const reported = new Set<string>();

  function writerOf(resource: ResourceName) {
    const writer = writers.get(resource);
    if (writer === undefined) throw new Error(`no table for ${resource}`);
    return writer;
  }

  function writeEvent(run: string, event: Omit<MirrorEvent, 'at'>): void {
    runner.run(
      build
        .insertInto('mirror_events')
        .values({ at: now(), run, ...event })
        .onConflict((conflict) => conflict.columns(['resource', 'kind', 'subject']).doNothing()),
    );
  }

  function writeSurprise(run: string, resource: ResourceName, surprise: Surprise): void {
    const key = `${resource} ${surprise.kind} ${surprise.subject}`;
    if (reported.has(key)) return;
    reported.add(key);
    writeEvent(run, { resource, ...surprise });
  }

  /** One step: all of it, or none; a full disk or a lost file is told as such. */
  function step<T>(doing: () => T): T {
    try {
      return database.transaction(doing).immediate();
    } catch (error) {
      throw explainFileError(error, 'write to the mirror', file) ?? error;
    }
  }

  return {
    acquireLock: (name, run) => acquireLock(database, runner, clock, name, run),
    releaseLock: (name, run) => step(() => releaseLock(runner, name, run)),
    lockOwner: (name) => lockOwner(runner, clock, name),
    beginRun: (run, command, resources) => step(() => insertRun(runner, run, command, now(), resources)),
    finishResource: (run, resource, report) => step(() => updateRunResource(runner, run, resource, report)),
    finishRun: (run, end) => step(() => updateRun(runner, run, { ...end, finished_at: now() })),
    runs: (limit) => readRuns(runner, limit),

    windows: (resource) => readWindows(runner, resource),
    replaceWindows: (resource, windows) => step(() => replaceWindows(runner, resource, windows)),
    resetWindows: (resource, windows) => step(() => resetWindows(runner, resource, windows)),
    beginWalk: (run, window) =>
      step(() => updateWindow(runner, window, { state: 'walking', pages_read: 0, run, problem: null })),
    recordPage: (run, window, records, received) =>
      step(() => {
        const { read, upsert } = writerOf(window.resource);
        const rows: RecordRow[] = [];
        for (const record of records) {
          const row = read(record, (surprise) => writeSurprise(run, window.resource, surprise));
          if (row !== undefined) rows.push(row);
        }
        const counts = upsert(rows, now());
        advanceWindow(runner, window);
        addCounts(runner, run, window.resource, { ...counts, received });
        beatLock(runner, clock, run);
        return { ...counts, unusable: records.length - rows.length };
      }),
    endWalk: (run, window, end) =>
      step(() =>
        updateWindow(runner, window, {
          state: end.state,
          server_total: end.serverTotal,
          problem: end.problem,
          run,
          // A walk that failed takes nothing from what an earlier one has shown.
          ...(end.freshAsOf === null ? {} : { fresh_as_of: end.freshAsOf }),
        }),
      ),

    unseenIds: (window, seen) =>
      writerOf(window.resource)
        .owned.ids(window)
        .filter((id) => !seen.has(id)),
    deleteRecords: (run, resource, ids) =>
      step(() => {
        const { changes } = writerOf(resource).remove.run(JSON.stringify(ids));
        addCounts(runner, run, resource, { deleted: changes });
      }),
    liveCount: (resource, range) => writerOf(resource).owned.count(range ?? everything),

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
    recordEvent: (run, event) => step(() => writeEvent(run, event)),
    events: (limit) =>
      runner
        .all(build.selectFrom('mirror_events').selectAll().orderBy('event', 'desc').limit(limit))
        .map(({ at, resource, kind, subject, detail }) => ({
          at: at as Timestamp,
          resource: resource as ResourceName | null,
          kind,
          subject,
          detail,
        })),

    checkpoint: () => {
      database.pragma('wal_checkpoint(TRUNCATE)');
    },
    close: () => database.close(),
  };
}
