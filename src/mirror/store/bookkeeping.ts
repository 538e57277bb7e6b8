/**
 * Reads and writes the tables of runs (what each sync requested, received and changed), of windows (what was read, and when),
 * and of suppressed records (the ids of forgotten people and of their emails, and nothing about them).
 */
import type { Database } from 'better-sqlite3';
import { type Insertable, type Selectable, sql, type Updateable } from 'kysely';
import type { Actor } from '../../model/actor.ts';
import { eraEnd, eraStart, everything, outsideStart, type DayRange } from '../../model/era.ts';
import type { KeptOutRecord, RecordKey } from '../../model/records.ts';
import { type ResourceName, resourceNames } from '../../model/resources.ts';
import type { Day, Timestamp } from '../../model/time.ts';
import type {
  MirrorEvent,
  NewWindow,
  PageCounts,
  RememberedPage,
  ResourceReport,
  RunDetail,
  RunEnd,
  RunProgressNote,
  RunReport,
  Window,
} from '../../store/mirror-types.ts';
import { build, type Runner, type Tables } from '../../store/kysely-sqlite.ts';
import { quoteName } from '../../store/schema.ts';

/** The lock that every writer of the mirror takes. */
export const syncLock = 'sync';

/** Records a run as begun. Any other `running` run is of a dead process, since this one holds the lock. */
export function insertRun(
  runner: Runner,
  row: Insertable<Tables['mirror_runs']>,
  resources: readonly ResourceName[],
): void {
  runner.run(build.updateTable('mirror_runs').set({ status: 'killed' }).where('status', '=', 'running'));
  runner.run(build.insertInto('mirror_runs').values(row));
  for (const resource of resources) {
    runner.run(build.insertInto('mirror_run_resources').values({ run: row.run, resource, status: 'running' }));
  }
}

export function addCounts(runner: Runner, run: string, resource: ResourceName, counts: Partial<PageCounts>): void {
  runner.run(
    build
      .updateTable('mirror_run_resources')
      .set((row) => ({
        received: row('received', '+', counts.received ?? 0),
        inserted: row('inserted', '+', counts.inserted ?? 0),
        updated: row('updated', '+', counts.updated ?? 0),
        deleted: row('deleted', '+', counts.deleted ?? 0),
        unchanged: row('unchanged', '+', counts.unchanged ?? 0),
      }))
      .where('run', '=', run)
      .where('resource', '=', resource),
  );
}

export function updateRunResource(
  runner: Runner,
  run: string,
  resource: ResourceName,
  report: Omit<ResourceReport, keyof PageCounts> | RunProgressNote,
): void {
  runner.run(
    build.updateTable('mirror_run_resources').set(report).where('run', '=', run).where('resource', '=', resource),
  );
}

export function updateRun(
  runner: Runner,
  run: string,
  { answers, ...end }: RunEnd & { readonly finished_at: Timestamp },
): void {
  const values = { ...end, answers: JSON.stringify(answers) };
  runner.run(build.updateTable('mirror_runs').set(values).where('run', '=', run));
}

/** Reads the last runs, newest first. */
export function readRuns(runner: Runner, limit: number): RunReport[] {
  const runs = runner.all(
    // In the order in which they began, whatever the clock said: it may have been set back.
    build
      .selectFrom('mirror_runs')
      .selectAll()
      .orderBy(sql`rowid`, 'desc')
      .limit(limit),
  );
  return runs.map((row) => reportOf(runner, row));
}

/** Reads one run with all its details; undefined if there is none of that name. */
export function readRun(runner: Runner, run: string): RunDetail | undefined {
  const row = runner.first(build.selectFrom('mirror_runs').selectAll().where('run', '=', run));
  if (row === undefined) return undefined;
  const expected = runner.all(
    build.selectFrom('mirror_run_resources').select(['resource', 'expected']).where('run', '=', run),
  );
  const events = runner.all(build.selectFrom('mirror_events').selectAll().where('run', '=', run).orderBy('event'));
  return {
    ...reportOf(runner, row),
    command: row.command,
    problem: row.problem,
    expected: Object.fromEntries(
      expected.flatMap(({ resource, expected: records }) => (records === null ? [] : [[resource, records]])),
    ),
    events: events.map(eventOf),
  };
}

export function eventOf({ at, resource, kind, subject, detail }: Omit<EventRow, 'run' | 'event'>): MirrorEvent {
  return { at: at as Timestamp, resource: resource as ResourceName | null, kind, subject, detail };
}

type EventRow = Selectable<Tables['mirror_events']>;

function reportOf(runner: Runner, row: Selectable<Tables['mirror_runs']>): RunReport {
  const resources = readResources(runner, row.run);
  // Until a run ends, or if its process was killed, only the requests that it noted on its way are known.
  const noted = Object.values(resources).reduce((sum, { requests }) => sum + requests, 0);
  return {
    run: row.run,
    status: row.status,
    started_at: row.started_at as Timestamp,
    finished_at: row.finished_at as Timestamp | null,
    actor: row.actor === null ? null : (JSON.parse(row.actor) as Actor),
    requests: Math.max(row.requests, noted),
    retries: row.retries,
    answers: JSON.parse(row.answers) as Record<string, number>,
    resources,
  };
}

function readResources(runner: Runner, run: string): Partial<Record<ResourceName, ResourceReport>> {
  const rows = new Map(
    runner
      .all(build.selectFrom('mirror_run_resources').selectAll().where('run', '=', run))
      .map(({ run: _run, expected: _expected, resource, ...report }) => [resource, report]),
  );
  const reports: Partial<Record<ResourceName, ResourceReport>> = {};
  // In the order of the API's reference, not of the table.
  for (const resource of resourceNames) {
    const report = rows.get(resource);
    if (report === undefined) continue;
    reports[resource] = { ...report, live: report.live ?? 0, fresh_as_of: report.fresh_as_of as Timestamp | null };
  }
  return reports;
}

type Row = Omit<Selectable<Tables['mirror_windows']>, 'resource' | 'run'>;

export function readWindows(runner: Runner, resource: ResourceName): Window[] {
  const query = build
    .selectFrom('mirror_windows')
    .select(['from_day', 'to_day', 'state', 'server_total', 'pages_read', 'fresh_as_of', 'problem', 'surplus'])
    .where('resource', '=', resource)
    .orderBy('from_day');
  return runner.all<Row>(query).map((row) => ({
    resource,
    from: row.from_day as Day,
    to: row.to_day as Day,
    state: row.state,
    serverTotal: row.server_total,
    pagesRead: row.pages_read,
    freshAsOf: row.fresh_as_of as Timestamp | null,
    problem: row.problem,
    surplus: row.surplus,
  }));
}

/** Replaces the windows that cover the same days. The new ones must follow each other without a gap. */
export function replaceWindows(runner: Runner, resource: ResourceName, windows: readonly NewWindow[]): void {
  const first = windows[0];
  const last = windows.at(-1);
  if (first === undefined || last === undefined) return;
  runner.run(
    build
      .deleteFrom('mirror_windows')
      .where('resource', '=', resource)
      .where('from_day', '>=', first.from)
      .where('to_day', '<=', last.to),
  );
  insertWindows(runner, resource, windows);
}

export function resetWindows(runner: Runner, resource: ResourceName, windows: readonly NewWindow[]): void {
  runner.run(build.deleteFrom('mirror_windows').where('resource', '=', resource));
  insertWindows(runner, resource, windows);
}

function insertWindows(runner: Runner, resource: ResourceName, windows: readonly NewWindow[]): void {
  for (const window of windows) {
    runner.run(
      build.insertInto('mirror_windows').values({
        resource,
        from_day: window.from,
        to_day: window.to,
        state: window.state ?? 'pending',
        server_total: window.serverTotal ?? null,
        fresh_as_of: window.freshAsOf ?? null,
        problem: window.problem ?? null,
        surplus: window.surplus ?? 0,
      }),
    );
  }
}

/** Marks all windows, or that of one day, to be read again. Their rows stay as fresh as they are. */
export function resetWalks(runner: Runner, resource: ResourceName, day?: Day): void {
  const all = build
    .updateTable('mirror_windows')
    .set({ state: 'pending', pages_read: 0, problem: null })
    .where('resource', '=', resource);
  runner.run(day === undefined ? all : all.where('from_day', '<=', day).where('to_day', '>', day));
}

/** Counts one more page of the window's walk. */
export function advanceWindow(runner: Runner, window: Window): void {
  runner.run(
    build
      .updateTable('mirror_windows')
      .set((row) => ({ pages_read: row('pages_read', '+', 1) }))
      .where('resource', '=', window.resource)
      .where('from_day', '=', window.from),
  );
}

type Change = Partial<Omit<Updateable<Tables['mirror_windows']>, 'resource' | 'from_day' | 'to_day'>>;

export function updateWindow(runner: Runner, window: Window, change: Change): void {
  runner.run(
    build
      .updateTable('mirror_windows')
      .set(change)
      .where('resource', '=', window.resource)
      .where('from_day', '=', window.from),
  );
}

/** Returns the day by which a window owns the record. Records that no range of days shows have a day before all of them. */
export function owningDay(createdAt: unknown): Day {
  const inEra = typeof createdAt === 'string' && createdAt >= eraStart && createdAt < eraEnd;
  return inEra ? (createdAt.slice(0, 10) as Day) : outsideStart;
}

export function suppressionsIn(database: Database, runner: Runner) {
  let sets: ReadonlyMap<ResourceName, Set<number>> | undefined;

  function readIds(): ReadonlyMap<ResourceName, Set<number>> {
    const read = new Map(resourceNames.map((name) => [name, new Set<number>()]));
    for (const { resource, id } of runner.all(build.selectFrom('mirror_suppressions').select(['resource', 'id']))) {
      read.get(resource)?.add(id);
    }
    return read;
  }

  function idsOf(resource: ResourceName): Set<number> {
    sets ??= readIds();
    const ids = sets.get(resource);
    if (ids === undefined) throw new Error(`no set for ${resource}`);
    return ids;
  }

  function heldIn(resource: ResourceName, { from, to }: DayRange) {
    return build
      .selectFrom('mirror_suppressions')
      .where('resource', '=', resource)
      .where('seen_day', '>=', from)
      .where('seen_day', '<', to);
  }

  function noteRow(row: Insertable<Tables['mirror_suppressions']>): void {
    runner.run(
      build
        .insertInto('mirror_suppressions')
        .values(row)
        .onConflict((conflict) =>
          conflict
            .columns(['resource', 'id'])
            .doUpdateSet((set) => ({ seen_day: set.ref('excluded.seen_day') }))
            .whereRef('mirror_suppressions.seen_day', 'is not', 'excluded.seen_day'),
        ),
    );
  }

  return {
    ids: idsOf,
    /** Notes records that were kept out of a page, and the day of each. */
    note: (resource: ResourceName, records: readonly KeptOutRecord[], at: Timestamp): void => {
      for (const { id, user, createdAt } of records) {
        noteRow({ resource, id, user_id: user, since: at, seen_day: owningDay(createdAt) });
        if (idsOf(resource).has(id)) continue;
        // It belonged to someone else when the mirror stored it.
        database.prepare(`DELETE FROM ${quoteName(resource)} WHERE "id" = ?`).run(BigInt(id));
        idsOf(resource).add(id);
      }
    },
    /** Returns the pages without the creation time of the last record, if that record is suppressed. */
    withoutTimes: (resource: ResourceName, pages: readonly RememberedPage[]) => {
      const ids = idsOf(resource);
      return pages.map((page) => (ids.has(Number(page.ids.at(-1) ?? NaN)) ? { ...page, lastCreatedAt: null } : page));
    },
    /** How many suppressed records the server still has, in all or in a window of these days. */
    count: (resource: ResourceName, range: DayRange = everything): number =>
      runner.first(heldIn(resource, range).select((count) => count.fn.countAll<number>().as('rows')))?.rows ?? 0,
    /** Notes that the server no longer has suppressed records of the window that a consistent walk did not see. */
    releaseUnseen: (resource: ResourceName, window: DayRange, seen: ReadonlySet<RecordKey>): void => {
      for (const { id } of runner.all(heldIn(resource, window).select('id'))) {
        if (seen.has(id)) continue;
        runner.run(
          build
            .updateTable('mirror_suppressions')
            .set({ seen_day: null })
            .where('resource', '=', resource)
            .where('id', '=', id),
        );
      }
    },
    /** Has the table read anew. Once a run is enough, since only the owner of the sync lock may change it. */
    reload: (): void => {
      sets = undefined;
    },
  };
}
