/** The records of runs: what each sync requested, received and changed, and what it met on its way. */
import type { Database } from 'better-sqlite3';
import { type Selectable, sql, type Updateable } from 'kysely';
import type { Actor } from '../../model/actor.ts';
import { type ResourceName, resourceNames } from '../../model/resources.ts';
import type { Day, Timestamp } from '../../model/time.ts';
import type {
  MirrorEvent,
  LastEnd,
  PageCounts,
  ResourceReport,
  RunDay,
  RunDetail,
  RunEnd,
  RunProgressNote,
  RunReport,
} from '../../store/mirror-types.ts';
import { build, type Runner, type Tables } from '../../store/kysely-sqlite.ts';
import { lateIndices } from '../../store/schema.ts';
import { beginHistory } from './history.ts';

/** The lock that every writer of the mirror takes. */
export const syncLock = 'sync';

/** What the parts of the store have in common. */
export interface StorePorts {
  readonly database: Database;
  readonly runner: Runner;
  readonly now: () => Timestamp;
  /** Runs one step as one transaction. */
  readonly step: <T>(doing: () => T) => T;
}

export function runRecords({ database, runner, now, step }: StorePorts) {
  return {
    /** Records a run and its resources as begun. Any other `running` run is of a dead process, since this one holds the lock. */
    beginRun: (run: string, command: string, resources: readonly ResourceName[], actor?: Actor): void =>
      step(() => {
        const who = actor === undefined ? null : JSON.stringify(actor);
        const row = { run, command, status: 'running', started_at: now(), actor: who } as const;
        runner.run(build.updateTable('mirror_runs').set({ status: 'killed' }).where('status', '=', 'running'));
        runner.run(build.insertInto('mirror_runs').values(row));
        for (const resource of resources) {
          runner.run(build.insertInto('mirror_run_resources').values({ run, resource, status: 'running' }));
        }
        beginHistory(runner, resources, now());
      }),
    finishResource: (run: string, resource: ResourceName, report: Omit<ResourceReport, keyof PageCounts>): void => {
      step(() => updateResource(runner, run, resource, report));
      const late = report.status === 'complete' ? lateIndices[resource] : [];
      for (const index of late ?? []) step(() => database.exec(index));
    },
    finishRun: (run: string, { answers, ...end }: RunEnd): void =>
      step(() => {
        const values = { ...end, answers: JSON.stringify(answers), finished_at: now() };
        runner.run(build.updateTable('mirror_runs').set(values).where('run', '=', run));
      }),
    /** Records how far the run is with the resource, for others to see. */
    noteProgress: (run: string, resource: ResourceName, progress: RunProgressNote): void =>
      step(() => updateResource(runner, run, resource, progress)),
    /** The last runs, newest first: in the order in which they began, whatever the clock said. */
    runs: (limit: number): RunReport[] =>
      runner
        .all(
          build
            .selectFrom('mirror_runs')
            .selectAll()
            .orderBy(sql`rowid`, 'desc')
            .limit(limit),
        )
        .map((row) => reportOf(runner, row)),
    run: (run: string) => readRun(runner, run),
    /** How the newest run ended that was to read the resource, and is not under way; undefined if there was none. */
    lastEnd: (resource: ResourceName, underWay: string | undefined): LastEnd | undefined =>
      database
        .prepare<[string, string | null], LastEnd>(
          `SELECT run, started_at, iif(mirror_runs.status = 'running', 'killed', mirror_runs.status) AS status,
            own.status AS outcome, own.problem AS problem
          FROM mirror_runs JOIN mirror_run_resources AS own USING (run)
          WHERE resource = ? AND run IS NOT ? ORDER BY mirror_runs.rowid DESC LIMIT 1`,
        )
        .get(resource, underWay ?? null),
    /** What ran on each day since then that had runs, oldest first. */
    days: (since: Timestamp): RunDay[] => {
      const counts = new Map<string, Partial<Record<ResourceName, number>>>();
      for (const { day, resource, live } of readLive(database, since)) {
        counts.set(day, { ...counts.get(day), [resource]: live });
      }
      return readDays(database, since).map(({ day, status, runs, requests, seconds }) => ({
        day,
        status,
        runs,
        requests,
        seconds,
        live: counts.get(day) ?? {},
      }));
    },
    /** The place of the run among all that there were. */
    runNumber: (run: string): number =>
      database.prepare<[string], number>('SELECT rowid FROM mirror_runs WHERE run = ?').pluck().get(run) ?? 0,
    recordEvent: (run: string, event: Omit<MirrorEvent, 'at'>): void =>
      step(() => writeEvent(runner, now(), run, event)),
    /** The last events, newest first: those of some kinds, or all. */
    events: (limit: number, kinds?: readonly string[]): MirrorEvent[] =>
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
  };
}

/** Records an event, once for each resource, kind and subject. */
export function writeEvent(runner: Runner, at: Timestamp, run: string, event: Omit<MirrorEvent, 'at'>): void {
  runner.run(
    build
      .insertInto('mirror_events')
      .values({ at, run, ...event })
      .onConflict((conflict) => conflict.columns(['resource', 'kind', 'subject']).doNothing()),
  );
}

function updateResource(
  runner: Runner,
  run: string,
  resource: ResourceName,
  change: Updateable<Tables['mirror_run_resources']>,
): void {
  runner.run(
    build.updateTable('mirror_run_resources').set(change).where('run', '=', run).where('resource', '=', resource),
  );
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

/** Reads one run with all its details; undefined if there is none of that name. */
/** SQLite takes the columns that are not aggregated from the row with the greatest rowid. */
function readDays(database: Database, since: Timestamp) {
  return database
    .prepare<[string], Omit<RunDay, 'live'>>(
      `SELECT substr(started_at, 1, 10) AS day, status, max(rowid) AS last, count(*) AS runs, sum(requests) AS requests,
        sum(unixepoch(coalesce(finished_at, started_at)) - unixepoch(started_at)) AS seconds
      FROM mirror_runs WHERE started_at >= ? GROUP BY day ORDER BY day`,
    )
    .all(since);
}

function readLive(database: Database, since: Timestamp) {
  return database
    .prepare<[string], { readonly day: Day; readonly resource: ResourceName; readonly live: number }>(
      `SELECT substr(started_at, 1, 10) AS day, resource, live, max(mirror_runs.rowid)
      FROM mirror_run_resources JOIN mirror_runs USING (run)
      WHERE started_at >= ? AND live IS NOT NULL GROUP BY day, resource`,
    )
    .all(since);
}

function readRun(runner: Runner, run: string): RunDetail | undefined {
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

function eventOf({ at, resource, kind, subject, detail }: Omit<EventRow, 'run' | 'event'>): MirrorEvent {
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
