/**
 * A copy of the mirror with pseudonyms in it. It is not a copy that is changed but a new file, filled from the mirror
 * table by table: what is not put into it on purpose is not in it, down to its free pages.
 */
import { closeSync, openSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { FileError } from '../model/errors.ts';
import { explainFileError } from '../model/file-error.ts';
import { relationTable, type RelationTable } from '../model/relations.ts';
import { timestampOf, type Clock } from '../model/time.ts';
import type { CopyRun, Pseudonyms } from './copy-types.ts';
import { anonymousTables, type CopiedTable } from './anonymous-tables.ts';
import { mirrorKind } from '../store/migrations.ts';
import { anonymousMark, openMirrorFile, openMirrorForReading } from '../store/open.ts';
import { relationTableSql, type RelatedKey } from '../store/relation-schema.ts';
import { setFlatKeys } from '../store/relations.ts';
import { quoteName } from '../store/schema.ts';
import { build, Runner, type Tables } from '../store/tables.ts';

/** Rows written before signals are heard: a tenth of a second's worth. */
const rowsAStep = 2_000;

/** Makes `target`, which must not exist, such a copy. Throws a FileError. */
export async function writeAnonymousCopy(
  source: string,
  target: string,
  pseudonyms: Pseudonyms,
  clock: Clock,
  run: CopyRun,
): Promise<void> {
  const relations = relationsOf(source);
  try {
    closeSync(openSync(target, 'wx', 0o600));
    openMirrorFile(target, clock).close();
    await fill(source, target, pseudonyms, relations, clock, run);
  } catch (error) {
    throw explainFileError(error, 'write the copy', target) ?? error;
  }
}

type RelationRow = Tables['mirror_relations'];

/** The related records that the source has. Throws a FileError where another version of this program made it. */
function relationsOf(source: string): RelationRow[] {
  const database = openMirrorForReading(source);
  try {
    const version = Number(database.pragma('user_version', { simple: true }));
    if (version === mirrorKind.migrations.length) {
      return new Runner(database).all(build.selectFrom('mirror_relations').selectAll());
    }
    throw new FileError(`the mirror ${source} was made by an older admin-mirror and was not brought up to date yet`, {
      advice: 'Run `admin-mirror sync` once.',
    });
  } finally {
    database.close();
  }
}

async function fill(
  source: string,
  target: string,
  pseudonyms: Pseudonyms,
  rows: readonly RelationRow[],
  clock: Clock,
  run: CopyRun,
): Promise<void> {
  const database = new SqliteDatabase(target);
  try {
    for (const pragma of [
      'journal_mode = DELETE',
      // A copy that is not finished is thrown away; one that is, is brought to the disk before it gets its name.
      'synchronous = OFF',
      'cache_size = -8000',
      'foreign_keys = OFF',
    ]) {
      database.pragma(pragma);
    }
    const relations = makeRelations(database, pseudonyms, rows);
    database
      .prepare("INSERT INTO mirror_capabilities (name, resource, value, measured_at) VALUES (?, '', 'true', ?)")
      .run(anonymousMark, timestampOf(clock.now()));
    const indices = dropIndices(database);
    await fillTables(database, source, anonymousTables(database, pseudonyms, relations), run);
    for (const sql of indices) {
      run.signal.throwIfAborted();
      database.exec(sql);
      await setImmediate();
    }
  } finally {
    database.close();
  }
}

/** Makes the tables of related records and their views, of which the columns are named as the fields in the records are. */
function makeRelations(database: Database, pseudonyms: Pseudonyms, rows: readonly RelationRow[]): RelationTable[] {
  const runner = new Runner(database);
  return rows.map((row) => {
    const relation = relationTable(row.resource, row.relation);
    database.exec(relationTableSql(relation));
    runner.run(build.insertInto('mirror_relations').values({ ...row, keys: '[]' }));
    const keys = JSON.parse(row.keys) as RelatedKey[];
    const names = new Set(keys.map((key) => (key === null ? null : pseudonyms.name(key))));
    setFlatKeys(database, runner, relation, [...names]);
    return relation;
  });
}

/** Gives the statements that make them again: at the end that is quicker than keeping them while rows come. */
function dropIndices(database: Database): string[] {
  const indices = database
    .prepare<[], { name: string; sql: string }>(
      "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL",
    )
    .all();
  for (const { name } of indices) database.exec(`DROP INDEX ${quoteName(name)}`);
  return indices.map(({ sql }) => sql);
}

/**
 * Fills the tables from the source as it is now. The source is attached for as long as that takes, and can be written to
 * meanwhile: nothing else may be run then, since a name that is not in the copy would be taken for one of the source.
 */
async function fillTables(
  database: Database,
  source: string,
  tables: readonly CopiedTable[],
  { signal, progress }: CopyRun,
): Promise<void> {
  database.prepare('ATTACH ? AS source').run(source);
  database.pragma('source.cache_size = -2000');
  database.exec('BEGIN');
  // The first read fixes the state.
  const count = (name: string): number =>
    database
      .prepare<[], number>(`SELECT count(*) FROM source.${quoteName(name)}`)
      .pluck()
      .get() ?? 0;
  const total = tables.reduce((sum, { name }) => sum + count(name), 0);
  let done = 0;
  for (const table of tables) {
    for (const written of steps(database, table)) {
      signal.throwIfAborted();
      done += written;
      progress(done / Math.max(1, total));
      await setImmediate();
    }
  }
  database.exec('COMMIT');
  database.exec('DETACH source');
}

function where({ condition }: CopiedTable): string {
  return condition === undefined ? '' : `WHERE ${condition}`;
}

/** Fills the table in steps; gives the rows of each. */
function* steps(database: Database, table: CopiedTable): Generator<number> {
  const name = quoteName(table.name);
  const columns = table.columns.map(({ column }) => quoteName(column)).join(', ');
  const cells = table.columns.map(({ sql }) => sql).join(', ');
  const insert = `INSERT INTO main.${name} (${columns}) SELECT ${cells} FROM source.${name} AS old`;
  if (!table.hasRowId) {
    yield database.prepare(`${insert} ${where(table)}`).run().changes;
    return;
  }
  const end = database
    .prepare<[bigint, number], bigint>(
      `SELECT rowid FROM source.${name} WHERE rowid > ? ORDER BY rowid LIMIT 1 OFFSET ?`,
    )
    .pluck()
    .safeIntegers();
  const part = database.prepare<[bigint, bigint]>(
    `${insert} WHERE old.rowid > ? AND old.rowid <= ? ORDER BY old.rowid`,
  );
  const last = 2n ** 63n - 1n;
  for (let from = -(2n ** 63n); ;) {
    const to = end.get(from, rowsAStep - 1) ?? last;
    yield part.run(from, to).changes;
    if (to === last) return;
    from = to;
  }
}
