/** The records of runs: what each sync requested, received and changed, and what it met on its way. */
import type { Database } from 'better-sqlite3';
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
import { lateIndices } from '../../store/schema.ts';
import type { Statements } from '../../store/statements.ts';
import { beginHistory } from './history.ts';

/** The lock that every writer of the mirror takes. */
export const syncLock = 'sync';

/** What the parts of the store have in common. */
export interface StorePorts {
  readonly database: Database;
  readonly statements: Statements;
  readonly now: () => Timestamp;
  /** Runs one step as one transaction. */
  readonly step: <T>(doing: () => T) => T;
}

export function runRecords({ database, statements, now, step }: StorePorts) {
  return {
    /** Records a run and its resources as begun. Any other `running` run is of a dead process, since this one holds the lock. */
    beginRun: (run: string, command: string, resources: readonly ResourceName[], actor?: Actor): void =>
      step(() => {
        const who = actor === undefined ? null : JSON.stringify(actor);
        statements.run("UPDATE mirror_runs SET status = 'killed' WHERE status = 'running'");
        statements.insert('mirror_runs', { run, command, status: 'running', started_at: now(), actor: who });
        for (const resource of resources)
          statements.insert('mirror_run_resources', { run, resource, status: 'running' });
        beginHistory(statements, resources, now());
      }),
    finishResource: (run: string, resource: ResourceName, report: Omit<ResourceReport, keyof PageCounts>): void => {
      step(() => statements.update('mirror_run_resources', { ...report }, { run, resource }));
      const late = report.status === 'complete' ? lateIndices[resource] : [];
      for (const index of late ?? []) step(() => database.exec(index));
    },
    finishRun: (run: string, { answers, ...end }: RunEnd): void =>
      step(() => {
        const values = { ...end, answers: JSON.stringify(answers), finished_at: now() };
        statements.update('mirror_runs', values, { run });
      }),
    /** Records how far the run is with the resource, for others to see. */
    noteProgress: (run: string, resource: ResourceName, progress: RunProgressNote): void =>
      step(() => statements.update('mirror_run_resources', { ...progress }, { run, resource })),
    /** The last runs, newest first: in the order in which they began, whatever the clock said. */
    runs: (limit: number): RunReport[] =>
      statements
        .all<RunRow>('SELECT * FROM mirror_runs ORDER BY rowid DESC LIMIT @limit', { limit })
        .map((row) => reportOf(statements, row)),
    run: (run: string) => readRun(statements, run),
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
      step(() => writeEvent(statements, now(), run, event)),
    /** The last events, newest first: those of some kinds, or all. */
    events: (limit: number, kinds?: readonly string[]): MirrorEvent[] =>
      statements.all(
        `SELECT ${eventColumns} FROM mirror_events
         WHERE @kinds IS NULL OR kind IN (SELECT value FROM json_each(@kinds)) ORDER BY event DESC LIMIT @limit`,
        { limit, kinds: kinds === undefined ? null : JSON.stringify(kinds) },
      ),
  };
}

/** Records an event, once for each resource, kind and subject. */
export function writeEvent(statements: Statements, at: Timestamp, run: string, event: Omit<MirrorEvent, 'at'>): void {
  statements.insert('mirror_events', { at, run, ...event }, 'ON CONFLICT (resource, kind, subject) DO NOTHING');
}

export function addCounts(
  statements: Statements,
  run: string,
  resource: ResourceName,
  counts: Partial<PageCounts>,
): void {
  statements.run(
    `UPDATE mirror_run_resources SET received = received + @received, inserted = inserted + @inserted,
       updated = updated + @updated, deleted = deleted + @deleted, unchanged = unchanged + @unchanged
     WHERE run = @run AND resource = @resource`,
    { run, resource, received: 0, inserted: 0, updated: 0, deleted: 0, unchanged: 0, ...counts },
  );
}

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

/** Reads one run with all its details; undefined if there is none of that name. */
function readRun(statements: Statements, run: string): RunDetail | undefined {
  const [row] = statements.all<RunRow>('SELECT * FROM mirror_runs WHERE run = @run', { run });
  if (row === undefined) return undefined;
  const expected = statements.all<{ resource: ResourceName; expected: number }>(
    'SELECT resource, expected FROM mirror_run_resources WHERE run = @run AND expected IS NOT NULL',
    { run },
  );
  return {
    ...reportOf(statements, row),
    command: row.command,
    problem: row.problem,
    expected: Object.fromEntries(expected.map((each) => [each.resource, each.expected])),
    events: statements.all(`SELECT ${eventColumns} FROM mirror_events WHERE run = @run ORDER BY event`, { run }),
  };
}

const eventColumns = 'at, resource, kind, subject, detail';

interface RunRow extends Omit<RunReport, 'actor' | 'answers' | 'resources'> {
  readonly command: string;
  readonly problem: string | null;
  /** JSON. */
  readonly actor: string | null;
  readonly answers: string;
}

function reportOf(statements: Statements, row: RunRow): RunReport {
  const resources = readResources(statements, row.run);
  // Until a run ends, or if its process was killed, only the requests that it noted on its way are known.
  const noted = Object.values(resources).reduce((sum, { requests }) => sum + requests, 0);
  return {
    run: row.run,
    status: row.status,
    started_at: row.started_at,
    finished_at: row.finished_at,
    actor: row.actor === null ? null : (JSON.parse(row.actor) as Actor),
    requests: Math.max(row.requests, noted),
    retries: row.retries,
    answers: JSON.parse(row.answers) as Record<string, number>,
    resources,
  };
}

/** In the order of the API's reference, not of the table. */
function readResources(statements: Statements, run: string): Partial<Record<ResourceName, ResourceReport>> {
  const rows = statements.all<ResourceReport & { readonly resource: ResourceName }>(
    `SELECT resource, status, requests, received, inserted, updated, deleted, unchanged, coalesce(live, 0) AS live,
       server_total, fresh_as_of, problem FROM mirror_run_resources WHERE run = @run`,
    { run },
  );
  const reports = new Map(rows.map(({ resource, ...report }) => [resource, report]));
  return Object.fromEntries(
    resourceNames.flatMap((name) => {
      const report = reports.get(name);
      return report === undefined ? [] : [[name, report]];
    }),
  );
}
