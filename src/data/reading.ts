/** Reads a mirror file: snapshots on connections of their own that cannot write. */
import { statSync } from 'node:fs';
import SqliteDatabase, { type Database, type Statement } from 'better-sqlite3';
import { suggestion, UsageError } from '../model/errors.ts';
import { explainFileError } from '../model/files.ts';
import type { ResourceName } from '../model/resources.ts';
import type { Timestamp } from '../model/time.ts';
import type {
  BoundValues,
  ChangeSpan,
  HistoryReach,
  IdRange,
  RangedRows,
  Relation,
  ResultColumn,
  Row,
  Rows,
  Selection,
  StatementFacts,
  StatementPart,
} from './reading-types.ts';
import { beginningAfter, changesAfter, changesIn, historyReach, withTablesAsOf } from './history.ts';
import { type ChangedSelection, changedSql, cursorAt, lastSeq, seqOf } from '../store/cursor.ts';
import { openMirrorForReading } from '../store/open.ts';
import { numberedTables } from '../store/relations.ts';
import { quoteName } from '../store/schema.ts';
import { checkFragment, checkStatement, parametersIn, withoutEnd } from './sql-text.ts';

export interface ReadingStore {
  /** Returns the mirror's current state. The caller releases it. */
  readonly snapshot: () => Snapshot;
  readonly close: () => void;
}

/** Opens the mirror for reading only. Throws a FileError if there is none, or if this program does not know its version. */
export function openReadingStore(file: string): ReadingStore {
  const opened = openMirrorForReading(file);
  return { snapshot: (): Snapshot => snapshotOf(openMirrorForReading(file), file), close: () => void opened.close() };
}

export interface SharedReading {
  /** Runs `work` on one state of the mirror. The snapshot must not be used afterwards. */
  readonly read: <T>(work: (snapshot: Snapshot) => T) => T;
  readonly close: () => void;
}

/** Opens one connection for many short readings. It keeps no state between them, and notices if another file takes the mirror's place. */
export function openSharedReading(file: string): SharedReading {
  let open: { readonly database: Database; readonly inode: number; known: KnownRelations | undefined } | undefined;
  const close = (): void => {
    open?.database.close();
    open = undefined;
  };
  const guard = guardOf(file);
  return {
    read: <T>(work: (snapshot: Snapshot) => T): T => {
      const inode = statSync(file, { throwIfNoEntry: false })?.ino ?? 0;
      if (open?.inode !== inode) close();
      if (open === undefined) {
        open = { database: openMirrorForReading(file), inode, known: undefined };
        keepFewPages(open.database);
      }
      const { database } = open;
      guard(() => database.exec('BEGIN'));
      try {
        const version = guard(() => Number(database.pragma('schema_version', { simple: true })));
        if (open.known?.version !== version) open.known = { version, relations: guard(() => relationsOf(database)) };
        return work(snapshotIn(database, file, open.known.relations, () => {}));
      } finally {
        // Without this, rows that were not read to the end would keep the transaction open.
        if (database.inTransaction) database.exec('ROLLBACK');
      }
    },
    close,
  };
}

interface KnownRelations {
  readonly version: number;
  readonly relations: readonly Relation[];
}

/** Returns a snapshot over a connection of its own, which `release` closes. */
export function snapshotOf(database: Database, file: string): Snapshot {
  const guard = guardOf(file);
  guard(() => database.exec('BEGIN'));
  // The state is fixed by the first read, not by BEGIN.
  const known = guard(() => relationsOf(database));
  return snapshotIn(database, file, known, () => void database.close());
}

/** The mirror at one moment. Every method throws a UsageError with SQLite's message if the operator's SQL is wrong or would write. */
export type Snapshot = ReturnType<typeof snapshotIn>;

function snapshotIn(database: Database, file: string, known: readonly Relation[], release: () => void) {
  const guard = guardOf(file);
  return {
    /** Tables first, then views, each by name; without SQLite's own. */
    relations: () => known,
    select: (selection: Selection): Rows => {
      const rows = rowsOf(prepare(database, selectSql(selection, known), known, guard), guard);
      // SQLite does not say where a column comes from if its table is composed of rows and versions.
      return selection.asOf === undefined ? rows : { ...rows, columns: columnsAsOf(selection) };
    },
    /** Returns the steps of SQLite's query plan, in SQLite's words. */
    stepsOf: (selection: Selection): readonly string[] => {
      const plan = prepare(database, `EXPLAIN QUERY PLAN ${selectSql(selection, known)}`, known, guard);
      return plan.all().map((step) => String(step[3]));
    },
    /** Reads rows range by range. @param sql trusted expressions, by default the columns themselves */
    selectRanges: (
      relation: Relation,
      columns: readonly string[],
      sql: readonly string[] = columns.map(quoteName),
    ): RangedRows => rangedRowsOf(database, relation, sql, guard),
    /** Splits all ids into ranges of `rows()` rows each, which is called before each range. */
    ranges: (relation: Relation, rows: () => number) => rangesOf(database, relation, rows, guard),
    /** The `fresh_as_of` of each resource; null if it was never read completely. */
    freshness: () => guard(() => freshnessOf(database)),
    historyReach: (resource: ResourceName): HistoryReach => guard(() => historyReach(database, resource)),
    /** Whether syncs still read the related records, and the keys that they were seen to have; undefined if nothing is recorded. */
    relationRead: (table: string) => guard(() => relationRead(database, table)),
    changes: (resource: ResourceName, span: ChangeSpan) => guarded(changesIn(database, resource, span), guard),
    numberedTables: () => guard(() => numberedTables(database)),
    lastSeq: () => guard(() => lastSeq(database)),
    /** The cursor of a reader who has read all changes up to the number, by default up to this state. */
    cursor: (seq?: number) => guard(() => cursorAt(database, seq ?? lastSeq(database))),
    seqOf: (cursor: string) => guard(() => seqOf(database, file, cursor)),
    /**
     * Yields what happened to the resource's records after a number, in the order of the numbers. Several changes of a record are
     * reported as one.
     * @param since what was first seen before this time, or before the number's epoch began, is not reported as new
     */
    changesAfter: (resource: ResourceName, after: number, since?: Timestamp) =>
      guarded(changesAfter(database, resource, after, beginningAfter(database, after, since)), guard),
    /** Reads what changed after a number, with `_seq` and `_deleted` after the columns; see `changedSql`. */
    changed: (selection: ChangedSelection): Rows => {
      const rows = rowsOf(prepare(database, changedSql(selection), known, guard), guard);
      const relation = selection.table.name;
      return { ...rows, columns: columnsAsOf({ relation, columns: [...selection.columns, '_seq', '_deleted'] }) };
    },
    /** Runs one statement of the operator. Values are bound, so nothing in them is read as SQL. */
    query: (sql: string, values: BoundValues = {}, part: StatementPart = {}): Rows => {
      checkStatement(sql, Object.keys(values));
      return rowsOf(prepare(database, partSql(sql, part), known, guard, values), guard);
    },
    describe: (sql: string): StatementFacts => describe(database, sql, known, guard),
    release,
  };
}

interface ColumnFact {
  readonly name: string;
  readonly type: string;
  readonly notnull: number;
  readonly pk: number;
}

function relationsOf(database: Database): Relation[] {
  const list = database
    .prepare<[], { name: string; type: string; wr: number; strict: number }>(
      `SELECT name, type, wr, strict FROM pragma_table_list
       WHERE schema = 'main' AND type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
       ORDER BY type, name`,
    )
    .all();
  const columnsOf = database.prepare<[string], ColumnFact>(
    'SELECT name, type, "notnull", pk FROM pragma_table_info(?)',
  );
  return list.map(({ name, type, wr, strict }) => {
    const columns = columnsOf.all(name);
    const keys = columns.filter(({ pk }) => pk > 0);
    const key = keys.length === 1 && wr === 0 && keys[0]?.type.toUpperCase() === 'INTEGER' ? keys[0].name : null;
    return {
      name,
      kind: type === 'view' ? 'view' : 'table',
      columns: columns.map((column) => ({
        name: column.name,
        // SQLite makes up types for views.
        type: type === 'view' ? '' : column.type,
        notNull: column.notnull === 1,
      })),
      isStrict: strict === 1,
      rangeColumn: key,
      key: type === 'view' ? [] : key !== null ? [key] : wr === 0 ? ['rowid'] : keys.map(({ name: each }) => each),
    };
  });
}

function selectSql(selection: Selection, relations: readonly Relation[]): string {
  const { relation, columns, order, limit } = selection;
  const id = relations.find(({ name }) => name === relation)?.rangeColumn ?? null;
  const head = `SELECT ${columns.map(quoteName).join(', ')} FROM ${quoteName(relation)}`;
  const sql = withClauses(head, { ...selection, ...(order === undefined && id !== null && { order: quoteName(id) }) });
  return limit === undefined ? sql : `${sql}\nLIMIT ${limit}`;
}

/** Returns the statement with the operator's clauses. The line breaks end a comment at the end of a clause. */
function withClauses(head: string, { where, order, asOf }: Pick<StatementPart, 'where' | 'order' | 'asOf'>): string {
  if (where !== undefined) checkFragment(where, '--where');
  if (order !== undefined) checkFragment(order, '--order');
  return [
    ...(asOf === undefined ? [] : [withTablesAsOf(asOf)]),
    head,
    ...(where === undefined ? [] : [`WHERE (${where}\n)`]),
    ...(order === undefined ? [] : [`ORDER BY ${order}`]),
  ].join('\n');
}

function columnsAsOf({ relation, columns }: Selection): ResultColumn[] {
  return columns.map((name) => ({ name, table: relation, origin: name }));
}

/** Returns a statement around the operator's that selects the part; the operator's own statement if no part is given. */
function partSql(sql: string, part: StatementPart): string {
  const { columns, where, order, asOf } = part;
  if ((columns ?? where ?? order ?? asOf) === undefined) return sql;
  return withClauses(`SELECT ${columns?.map(quoteName).join(', ') ?? '*'} FROM (\n${withoutEnd(sql)}\n)`, part);
}

function describe(database: Database, sql: string, known: readonly Relation[], guard: Guard): StatementFacts {
  const parameters = parametersIn(sql).map((text) => text.slice(1));
  checkStatement(sql, parameters);
  const statement = guard(() => database.prepare<unknown[], Row>(sql), known);
  refuseWriting(statement);
  return { columns: statement.columns().map(({ name }) => name), parameters };
}

function refuseWriting(statement: Statement<unknown[], Row>): void {
  // SQLite itself says whether a statement returns rows and writes nothing.
  if (statement.reader && statement.readonly) return;
  throw new UsageError('only statements that read are run here', { advice: 'The mirror is written by `sync` alone.' });
}

function prepare(
  database: Database,
  sql: string,
  known: readonly Relation[],
  guard: Guard,
  values: BoundValues = {},
): Statement<unknown[], Row> {
  const statement = guard(() => database.prepare<unknown[], Row>(sql), known);
  refuseWriting(statement);
  const bound = Object.keys(values).length === 0 ? statement : statement.bind(values);
  return bound.raw(true).safeIntegers(true);
}

function columnsOf(statement: Pick<Statement, 'columns'>): ResultColumn[] {
  return statement.columns().map(({ name, table, column }) => ({ name, table, origin: column }));
}

function rowsOf(statement: Statement<unknown[], Row>, guard: Guard): Rows {
  return {
    columns: columnsOf(statement),
    batches: function* batches(batchSize) {
      const rows = statement.iterate();
      try {
        for (;;) {
          const size = batchSize();
          const batch = guard(() => take(rows, size));
          if (batch.length > 0) yield batch;
          if (batch.length < size) return;
        }
      } finally {
        rows.return?.();
      }
    },
  };
}

function* guarded<T>(source: IterableIterator<T>, guard: Guard): IterableIterator<T> {
  try {
    for (;;) {
      const next = guard(() => source.next());
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    source.return?.();
  }
}

function take(rows: IterableIterator<Row>, size: number): Row[] {
  const batch: Row[] = [];
  while (batch.length < size) {
    const next = rows.next();
    if (next.done === true) break;
    batch.push(next.value);
  }
  return batch;
}

/** Ranges and pages of the console are read once, so a cache of 16 MB for every connection would hold what is never read again. */
function keepFewPages(database: Database): void {
  database.pragma('cache_size = -2000');
}

function rangeName(relation: Relation): string {
  if (relation.rangeColumn === null) throw new Error(`${relation.name} has no column to read ranges by`);
  return quoteName(relation.rangeColumn);
}

function rangedRowsOf(database: Database, relation: Relation, sql: readonly string[], guard: Guard): RangedRows {
  const id = rangeName(relation);
  keepFewPages(database);
  const statement = (part: string) =>
    database
      .prepare<(bigint | number)[], Row>(
        `SELECT ${sql.join(', ')} FROM ${quoteName(relation.name)} WHERE ${id} BETWEEN ? AND ? ORDER BY ${id} ${part}`,
      )
      .raw(true)
      .safeIntegers(true);
  const all = statement('');
  const single = statement('LIMIT 1 OFFSET ?');
  return {
    columns: columnsOf(all),
    // Far faster than stepping row by row; a range is small enough to hold in memory.
    rowsIn: ({ from, to }) => guard(() => all.all(from, to)),
    rowIn: ({ from, to }, at) => guard(() => single.all(from, to, at)),
  };
}

function* rangesOf(
  database: Database,
  relation: Relation,
  rows: () => number,
  guard: Guard,
): IterableIterator<IdRange> {
  const id = rangeName(relation);
  keepFewPages(database);
  const end = database
    .prepare<[bigint, number], bigint>(
      `SELECT ${id} FROM ${quoteName(relation.name)} WHERE ${id} >= ? ORDER BY ${id} LIMIT 1 OFFSET ?`,
    )
    .pluck(true)
    .safeIntegers(true);
  const last = 2n ** 63n - 1n;
  for (let from = -(2n ** 63n); ;) {
    const to = guard(() => end.get(from, rows() - 1)) ?? last;
    yield { from, to };
    if (to === last) return;
    from = to + 1n;
  }
}

function freshnessOf(database: Database): ReadonlyMap<ResourceName, Timestamp | null> {
  const rows = database
    .prepare<[], { resource: ResourceName; fresh_as_of: Timestamp | null }>(
      'SELECT resource, fresh_as_of FROM mirror_freshness',
    )
    .all();
  return new Map(rows.map(({ resource, fresh_as_of }) => [resource, fresh_as_of]));
}

function relationRead(
  database: Database,
  table: string,
): { readonly included: boolean; readonly keys: readonly string[] } | undefined {
  const row = database
    .prepare<[string], { included: number; keys: string }>(
      'SELECT included, keys FROM mirror_relations WHERE table_name = ?',
    )
    .get(table);
  if (row === undefined) return undefined;
  const keys = (JSON.parse(row.keys) as (string | null)[]).filter((key) => key !== null);
  return { included: row.included === 1, keys };
}

type Guard = <T>(run: () => T, known?: readonly Relation[]) => T;

// Errors about a statement. Any other code is about the file or the disk.
const statementErrors = new Set(['SQLITE_ERROR', 'SQLITE_AUTH', 'SQLITE_TOOBIG', 'SQLITE_MISMATCH', 'SQLITE_READONLY']);

/** Returns a function that turns SQLite's errors into a UsageError with SQLite's message, or a FileError. */
function guardOf(file: string): Guard {
  return (run, known = []) => {
    try {
      return run();
    } catch (error) {
      if (!(error instanceof SqliteDatabase.SqliteError)) throw error;
      if (!statementErrors.has(error.code)) throw explainFileError(error, 'read the mirror', file) ?? error;
      const advice = adviceOn(error.message, known);
      throw new UsageError(`SQLite refused the SQL: ${error.message}`, { advice, cause: error });
    }
  };
}

function adviceOn(message: string, known: readonly Relation[]): string | undefined {
  const [, what, path] = /^no such (table|column): (\S+)/.exec(message) ?? [];
  if (path === undefined || known.length === 0) return undefined;
  const name = (path.split('.').at(-1) ?? path).replaceAll('"', '');
  const wanted = name.toLowerCase();
  const having = known.filter((each) => each.columns.some((column) => column.name.toLowerCase() === wanted));
  if (what === 'column' && having.length > 0) return `Tables and views that have it: ${names(having).join(', ')}.`;
  return suggestion(name, what === 'table' ? names(known) : [...new Set(known.flatMap((each) => names(each.columns)))]);
}

function names(of: readonly { readonly name: string }[]): string[] {
  return of.map((each) => each.name);
}
