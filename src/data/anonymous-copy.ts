/**
 * A copy of the mirror without personal data: a new file, filled with fields that are known to be about nobody. Everything else is
 * NULL, down to the file's free pages. Section "Copies" of docs/architecture.md.
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
import { build, Runner, type Tables } from '../store/tables.ts';
import type { CopyRun } from './copy-source.ts';
import { type Shape, shapeOf, shapeSql } from './personal.ts';

/** The value where it is of the shape; a number or flag is of every one. */
function keptSql(shape: Shape | undefined, value: string): string {
  if (shape === undefined) return 'NULL';
  return `CASE WHEN typeof(${value}) <> 'text' OR ${shapeSql(shape, value)} THEN ${value} END`;
}

/** A record with those of its fields that are kept; lists and objects in it are not. */
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
  /** The SQL of each column, over the row `old`; what is left out is kept if it is known to be harmless. */
  readonly columns?: Readonly<Record<string, string>>;
  /** Columns that are not named are copied as they stand: bookkeeping of our own. */
  readonly isOwn?: true;
  readonly condition?: string;
}

/** May hold what a server said. */
const withoutWords = { problem: `CASE WHEN old.problem IS NOT NULL THEN '(left out of this copy)' END` };

/** Hashes of responses, events, who was forgotten and who writes stay empty; migrations are the new file's own. */
const bookkeeping: readonly CopiedTable[] = [
  // Who ran it is left out as well.
  { name: 'mirror_runs', isOwn: true, columns: { ...withoutWords, actor: 'NULL' } },
  { name: 'mirror_run_resources', isOwn: true, columns: withoutWords },
  { name: 'mirror_windows', isOwn: true, columns: withoutWords },
  { name: 'mirror_history', isOwn: true },
  // Which server it is, and whose key, is left out.
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
    openMirrorFile(target, clock).close();
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
    // A copy that is not finished is thrown away; one that is, is brought to the disk before it gets its name.
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
    // Rows keep their numbers. Which mirror it is, and what was deleted, is left out: it is a mirror of its own.
    database.exec(`UPDATE main.mirror_cursor SET (seq, deletions_from) = (SELECT seq, seq FROM source.mirror_cursor)`);
    database.exec('COMMIT');
  } finally {
    database.close();
  }
}

function columnsOf(database: Database, table: string): string[] {
  return database.prepare<[string], string>('SELECT name FROM main.pragma_table_info(?)').pluck().all(table);
}

/** Makes the table of related records and its view, with columns for the keys that are kept. */
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
      // The id, or the place in the list; an id that is not kept still keeps two records apart.
      _key: `coalesce(${keptSql('id', 'old."_key"')}, 'row ' || old.rowid)`,
    },
  };
}

/** Rows written before signals are heard. */
const rowsAStep = 20_000;

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
    const to = end.get(from, rowsAStep - 1) ?? last;
    part.run(from, to);
    from = to;
    await setImmediate();
    signal.throwIfAborted();
  }
}
