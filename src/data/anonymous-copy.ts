/**
 * Copies the mirror without personal data: into a new file, filled only with the fields that are about nobody. Everything else is
 * NULL, and no free page holds it either. Section "Copies" of docs/architecture.md.
 */
import { closeSync, openSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { explainFileError } from '../model/files.ts';
import { relationTable, type RelationTable, resourceNames } from '../model/resources.ts';
import { timestampOf, type Clock } from '../model/time.ts';
import { anonymousMark, openMirrorFile, readMirror } from '../store/open.ts';
import { type RelatedKey, makeRelationTable, setFlatKeys } from '../store/relations.ts';
import { historyTableOf, quoteName } from '../store/schema.ts';
import { build, Runner, type Tables } from '../store/kysely-sqlite.ts';
import type { CopyRun } from './copy-source.ts';
import { type Shape, shapeOf, shapeSql } from './personal.ts';

/** The value if it has the shape, else NULL. Numbers and flags have every shape. */
function keptSql(shape: Shape | undefined, value: string): string {
  if (shape === undefined) return 'NULL';
  return `CASE WHEN typeof(${value}) <> 'text' OR ${shapeSql(shape, value)} THEN ${value} END`;
}

/** A record with only the fields that are kept; its lists and objects are dropped. */
function recordSql(table: string, fields: readonly string[]): string {
  const pairs = fields.flatMap((field) => {
    const shape = shapeOf(table, field);
    if (shape === undefined) return [];
    const type = `json_type(old.record, '$.${field}')`;
    const isScalar = `${type} IN ('integer', 'real', 'true', 'false', 'text')`;
    const kept = keptSql(shape, `(old.record ->> '${field}')`);
    return [`'${field}', CASE WHEN ${isScalar} AND ${kept} IS NOT NULL THEN json(old.record -> '${field}') END`];
  });
  return `json_object(${pairs.join(', ')})`;
}

interface CopiedTable {
  readonly name: string;
  /** The SQL of columns, over the row `old`. A column without SQL here is copied only if it is about nobody. */
  readonly columns?: Readonly<Record<string, string>>;
  /** Our own bookkeeping: columns without SQL are copied as they are. */
  readonly isOwn?: true;
  readonly condition?: string;
}

/** A problem may quote a server's words. */
const withoutProblem = { problem: `CASE WHEN old.problem IS NOT NULL THEN '(left out of this copy)' END` };

/** Left empty: hashes of responses, events, who was forgotten and who is writing.  */
const bookkeeping: readonly CopiedTable[] = [
  // Without the person who ran it.
  { name: 'mirror_runs', isOwn: true, columns: { ...withoutProblem, actor: 'NULL' } },
  { name: 'mirror_run_resources', isOwn: true, columns: withoutProblem },
  { name: 'mirror_windows', isOwn: true, columns: withoutProblem },
  { name: 'mirror_history', isOwn: true },
  // Without the server and the owner of the key.
  { name: 'mirror_capabilities', isOwn: true, condition: "old.name IN ('lists', 'fresh_until_proven')" },
];

type RelationRow = Tables['mirror_relations'];

/** Makes `target`, which must not exist, such a copy. Throws a FileError. */
export async function writeAnonymousCopy(source: string, target: string, clock: Clock, run: CopyRun): Promise<void> {
  const relations = readMirror(source, (database) =>
    new Runner(database).all(build.selectFrom('mirror_relations').selectAll()),
  );
  try {
    closeSync(openSync(target, 'wx', 0o600));
    openMirrorFile(target).close();
    await fill(source, target, relations, clock, run);
  } catch (error) {
    throw explainFileError(error, 'write the copy', target) ?? error;
  }
}

async function fill(
  source: string,
  target: string,
  rows: readonly RelationRow[],
  clock: Clock,
  { signal, progress }: CopyRun,
): Promise<void> {
  const database = new SqliteDatabase(target);
  try {
    // No need for crash safety: an unfinished copy is thrown away, and a finished one is synced before it gets its name.
    for (const pragma of ['journal_mode = DELETE', 'synchronous = OFF', 'foreign_keys = OFF']) database.pragma(pragma);
    database
      .prepare("INSERT INTO mirror_capabilities (name, resource, value, measured_at) VALUES (?, '', 'true', ?)")
      .run(anonymousMark, timestampOf(clock.now()));
    const tables: CopiedTable[] = [
      ...bookkeeping,
      ...resourceNames.map((name) => ({ name })),
      ...resourceNames.map((name) => ({
        name: historyTableOf(name),
        columns: { record: recordSql(name, columnsOf(database, name)) },
      })),
      ...rows.map((row) => makeRelation(database, row)),
    ];
    database.prepare('ATTACH ? AS source').run(source);
    database.exec('BEGIN');
    for (const [at, table] of tables.entries()) {
      signal.throwIfAborted();
      progress(at / tables.length);
      await copyRows(database, table, signal);
    }
    // Rows keep their change numbers. The copy has its own identity and no tombstones: it is a mirror of its own.
    database.exec(`UPDATE main.mirror_cursor SET (seq, deletions_from) = (SELECT seq, seq FROM source.mirror_cursor)`);
    database.exec('COMMIT');
  } finally {
    database.close();
  }
}

function columnsOf(database: Database, table: string): string[] {
  return database.prepare<[string], string>('SELECT name FROM main.pragma_table_info(?)').pluck().all(table);
}

/** Makes a table of related records and its view, with columns for the keys that are kept. */
function makeRelation(database: Database, row: RelationRow): CopiedTable {
  const relation: RelationTable = relationTable(row.resource, row.relation);
  const { table } = relation;
  const runner = new Runner(database);
  makeRelationTable(database, relation);
  runner.run(build.insertInto('mirror_relations').values({ ...row, keys: '[]' }));
  const keys = (JSON.parse(row.keys) as RelatedKey[]).filter((key) => key !== null);
  const kept = keys.filter((key) => shapeOf(table, key) !== undefined);
  setFlatKeys(database, runner, relation, kept);
  return {
    name: table,
    columns: {
      record: recordSql(table, kept),
      // The id, or the place in the list. If it cannot be kept, the row number still tells two records apart.
      _key: `coalesce(${keptSql('id', 'old."_key"')}, 'row ' || old.rowid)`,
    },
  };
}

/** How many rows to write before signals are handled. */
const rowsPerStep = 20_000;

async function copyRows(database: Database, table: CopiedTable, signal: AbortSignal): Promise<void> {
  const { name, columns = {}, isOwn = false, condition = 'true' } = table;
  const names = columnsOf(database, name);
  const cells = names.map((column) => {
    const value = `old.${quoteName(column)}`;
    return columns[column] ?? (isOwn ? value : keptSql(shapeOf(name, column), value));
  });
  const insert = `INSERT INTO main.${quoteName(name)} (${names.map(quoteName).join(', ')})
    SELECT ${cells.join(', ')} FROM source.${quoteName(name)} AS old WHERE ${condition}`;
  if (isOwn) {
    database.prepare(insert).run();
    return;
  }
  const end = database
    .prepare<[bigint, number], bigint>(
      `SELECT rowid FROM source.${quoteName(name)} WHERE rowid > ? ORDER BY rowid LIMIT 1 OFFSET ?`,
    )
    .pluck()
    .safeIntegers();
  const part = database.prepare<[bigint, bigint]>(`${insert} AND old.rowid > ? AND old.rowid <= ? ORDER BY old.rowid`);
  const last = 2n ** 63n - 1n;
  for (let from = -(2n ** 63n); from < last;) {
    const to = end.get(from, rowsPerStep - 1) ?? last;
    part.run(from, to);
    from = to;
    await setImmediate();
    signal.throwIfAborted();
  }
}
