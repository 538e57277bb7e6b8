/** The sync engine's store over an SQLite file: every step is one transaction, and when it returns, all of it is done. */
import { dirname } from 'node:path';
import type { Database } from 'better-sqlite3';
import { type DayRange, everything } from '../../model/era.ts';
import { type KeptOut, keysJson, type PageRows, type RecordKey, type SchemaDrift } from '../../model/records.ts';
import { resourceOf, type ResourceName } from '../../model/resources.ts';
import { type Clock, type Day, systemClock, type Timestamp, timestampOf } from '../../model/time.ts';
import { beginEpoch, deletionPruner } from '../../store/cursor.ts';
import { busyMs } from '../../store/file-kind.ts';
import { mirrorLocks } from '../../store/lock.ts';
import type { Window } from '../../store/mirror-types.ts';
import { openMirrorFile, openMirrorForReading, serverIn, stepsIn } from '../../store/open.ts';
import { type RelationDrift, relationsIn } from '../../store/relations.ts';
import { quoteName } from '../../store/schema.ts';
import { Statements } from '../../store/statements.ts';
import { historyPruner, recordHistory, significantChange } from './history.ts';
import { knownRecordsIn, ownedRows } from './owned-rows.ts';
import { pageForgetter, touchedDays } from './page-memory.ts';
import { addCounts, runRecords, type StorePorts, writeEvent } from './run-records.ts';
import { type Suppressions, suppressionsIn } from './suppressions.ts';
import { pageUpsert } from './upsert.ts';
import { advanceWindow, resetWalks, windowRecords } from './window-records.ts';

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

function mirrorStore(database: Database, file: string, clock: Clock, { historyIgnore }: MirrorOptions) {
  const statements = new Statements(database);
  const locks = mirrorLocks(database, clock);
  const now = (): Timestamp => timestampOf(clock.now());
  // Everything that one step writes and removes has one time, which does not run backward while a lock is held.
  let stepAt = now();
  if (!database.readonly) recordHistory(database, historyIgnore, () => stepAt);
  const { explained, whole, step: timeless } = stepsIn(database, file, 'write to the mirror', locks);
  const step = <T>(doing: () => T): T => {
    const at = now();
    if (at > stepAt) stepAt = at;
    return timeless(doing);
  };
  const ports: StorePorts = { database, statements, now, step };
  const suppressions = suppressionsIn(database, statements);
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
        suppressions.reload();
      }),
    releaseLock: (name: string, run: string): void => whole(() => locks.release(name, run)),
    lockOwner: (name: string) => locks.owner(name),
    ...runRecords(ports),
    ...windowRecords(ports, suppressions),
    ...rowsOf(ports, suppressions, historyIgnore, () => stepAt),
    ...knowledgeOf(ports),
    ...upkeepOf(ports, explained),
    /** The folder of the mirror's file. */
    folder: dirname(file),
    close: (): void => {
      locks.close();
      database.close();
    },
  };
}

/** The rows of each resource: written by pages, counted and found by the days of their creation. */
function rowsOf(
  { database, statements, now, step }: StorePorts,
  suppressions: Suppressions,
  historyIgnore: readonly string[],
  stepAt: () => Timestamp,
) {
  const relations = relationsIn(database, statements);
  const touched = touchedDays(database);
  const tables = new Map<ResourceName, ReturnType<typeof newTable>>();
  // A drift that every record shows is one event. What this process has written need not be looked up in the table.
  const reported = new Set<string>();

  function newTable(name: ResourceName) {
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
  function tableOf(resource: ResourceName) {
    const known = tables.get(resource);
    if (known !== undefined) return known;
    const made = newTable(resource);
    tables.set(resource, made);
    return made;
  }

  function writeDrift(run: string, resource: ResourceName, drift: SchemaDrift | RelationDrift): void {
    const key = `${resource} ${drift.kind} ${drift.subject}`;
    if (reported.has(key)) return;
    reported.add(key);
    writeEvent(statements, now(), run, { resource, ...drift });
  }

  function writePage(run: string, window: Window, { rows, received, unchanged = 0 }: PageToWrite): void {
    const report = (drift: SchemaDrift | RelationDrift) => writeDrift(run, window.resource, drift);
    suppressions.note(window.resource, rows.keptOut, now());
    for (const drift of rows.drifts) report(drift);
    const counts = tableOf(window.resource).upsert(rows, window, stepAt());
    if (rows.related.length > 0) {
      relations.write(window.resource, rows.related, report);
    }
    advanceWindow(statements, window);
    addCounts(statements, run, window.resource, { ...counts, unchanged: counts.unchanged + unchanged, received });
  }

  return {
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
    unseenIds: (window: DayRange & Pick<Window, 'resource'>, seen: ReadonlySet<RecordKey>) =>
      tableOf(window.resource)
        .owned.ids(window)
        .filter((id) => !seen.has(id)),
    /** Those of the records that the mirror neither has nor must not have. */
    lacking: (resource: ResourceName, ids: readonly RecordKey[]): RecordKey[] =>
      ids.filter((id) => !tableOf(resource).owned.has(id) && !suppressions.ids(resource).has(Number(id))),
    deleteRecords: (run: string, resource: ResourceName, ids: readonly RecordKey[]): void =>
      step(() => {
        const { forgetPages, remove } = tableOf(resource);
        forgetPages(ids);
        const { changes } = remove.run(keysJson(ids));
        addCounts(statements, run, resource, { deleted: changes });
      }),
    /**
     * Removes related records without a parent, if another program may have left some, and forgets noted days that no window has:
     * nothing is read for either.
     */
    forgetStrays: (resource: ResourceName, isSure: boolean): void =>
      step(() => {
        if (!isSure && touched.all(resource).length === 0) return;
        relations.removeOrphans(resource);
        touched.forgetStrays(resource);
      }),
    /** How many rows the resource has, in all or in a window of these days. */
    liveCount: (resource: ResourceName, range?: DayRange) => tableOf(resource).owned.count(range ?? everything),
    /** The same, plus suppressed records that the server still has: what the mirror accounts for. */
    accountedCount: (resource: ResourceName, range?: DayRange) =>
      tableOf(resource).owned.count(range ?? everything) + suppressions.count(resource, range),
    /** The day of creation in the middle of the rows of these days; undefined if there are none. */
    middleDay: (resource: ResourceName, days: DayRange) => tableOf(resource).owned.middleDay(days),
    /** How many rows were created in the first second of the day. */
    midnightCount: (resource: ResourceName, day: Day) =>
      tableOf(resource).owned.count({ from: day, to: `${day}T00:00:01` as Day }),
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
        if (relations.include(resource, names, now())) resetWalks(statements, resource);
      }),
    /** Goes on without relations, since the server refuses them. Their tables stay as they are. */
    abandonRelations: (resource: ResourceName): void => step(() => relations.abandon(resource)),

    /** At most so many rows with a usable creation time, the newest or the oldest: the server is recognised by them. */
    knownRecords: (resource: ResourceName, order: 'newest' | 'oldest', count: number) =>
      tableOf(resource).knownRecords(order, count),
  };
}

/** What is known of the server and its lists. */
function knowledgeOf({ database, statements, now, step }: StorePorts) {
  type Known = { readonly value: string; readonly measured_at: Timestamp };
  type Table = 'mirror_capabilities' | 'mirror_unproven' | 'mirror_surpluses';
  const forget = (table: Table, resource: ResourceName): void =>
    statements.run(`DELETE FROM ${table} WHERE resource = @resource`, { resource });
  const replace = (
    table: Table,
    row: { readonly resource: ResourceName; readonly [column: string]: string | number | null },
  ) => {
    forget(table, row.resource);
    statements.insert(table, row);
  };
  return {
    /** The time of the resource's stalest window; null if one was never settled. */
    freshAsOf: (resource: ResourceName): Timestamp | null => {
      const sql = 'SELECT fresh_as_of AS at FROM mirror_freshness WHERE resource = @resource';
      return statements.all<{ at: Timestamp | null }>(sql, { resource })[0]?.at ?? null;
    },
    /** What was measured of the resource's list; undefined if it never was. */
    capability: (resource: ResourceName) => {
      const sql = 'SELECT value, measured_at FROM mirror_capabilities WHERE resource = @resource';
      const [row] = statements.all<Known>(sql, { resource });
      return row && { value: JSON.parse(row.value) as unknown, measuredAt: row.measured_at };
    },
    recordCapability: (resource: ResourceName, value: unknown): void =>
      step(() => replace('mirror_capabilities', { resource, value: JSON.stringify(value), measured_at: now() })),
    forgetCapability: (resource: ResourceName): void => step(() => forget('mirror_capabilities', resource)),
    /** Whether the total of the list is unproven. */
    isUnproven: (resource: ResourceName): boolean =>
      statements.all('SELECT 1 FROM mirror_unproven WHERE resource = @resource', { resource }).length > 0,
    /** Until its total is proven, the resource is no fresher than this; null if nobody knows how fresh it is. */
    recordUnproven: (resource: ResourceName, freshAsOf: Timestamp | null): void =>
      step(() => replace('mirror_unproven', { resource, fresh_as_of: freshAsOf })),
    recordProven: (resource: ResourceName): void => step(() => forget('mirror_unproven', resource)),
    /** How many records the total of the whole list counts that no page shows, as far as it was read as one. */
    listSurplus: (resource: ResourceName): number | undefined => {
      const sql = 'SELECT records FROM mirror_surpluses WHERE resource = @resource';
      return statements.all<{ records: number }>(sql, { resource })[0]?.records;
    },
    recordListSurplus: (resource: ResourceName, records: number): void =>
      step(() => replace('mirror_surpluses', { resource, records })),
    /** The address of the server that the mirror was read from; null before the first contact. */
    server: (): string | null => serverIn(database),
    recordServer: (address: string): void =>
      step(() =>
        statements.run('INSERT OR REPLACE INTO mirror_server (one, address) VALUES (1, @address)', { address }),
      ),
  };
}

/** What keeps the file small and quick. */
function upkeepOf({ database, step }: StorePorts, explained: <T>(doing: () => T) => T) {
  const prune = historyPruner(database);
  const pruneTombstones = deletionPruner(database);
  return {
    /** Removes at most so many versions that ended before that time. Returns how many it removed. */
    pruneHistory: (resource: ResourceName, before: Timestamp, versions: number) =>
      step(() => prune(resource, before, versions)),
    /** The same for tombstones. From then on, cursors older than the removed ones are refused. */
    pruneDeletions: (before: Timestamp, tombstones: number) => step(() => pruneTombstones(before, tombstones)),
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
  };
}
