/**
 * A copy of the mirror with pseudonyms in it. It is not a copy that is changed but a new file, filled from the mirror
 * table by table: what is not put into it on purpose is not in it, down to its free pages.
 */
import { closeSync, openSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { FileError } from '../../model/errors.ts';
import { explainFileError } from '../../model/file-error.ts';
import type { RelationTable } from '../../model/relations.ts';
import { timestampOf, type Clock } from '../../model/time.ts';
import type { CopyRun, Pseudonyms } from '../ports/copies.ts';
import { anonymousTables, type CopiedTable } from './anonymous-tables.ts';
import { checkCopy } from './copy.ts';
import { mirrorKind } from './migrations.ts';
import { anonymousMark, openMirrorFile, openMirrorForReading } from './open.ts';
import { relationTableSql, type RelatedKey } from './relation-schema.ts';
import { relationsRead, setFlatKeys } from './relations.ts';
import { quoteName } from './schema.ts';
import { Runner } from './tables.ts';

/** Rows written before signals are heard: a tenth of a second's worth. */
const rowsAStep = 2_000;

/** Makes `target`, which must not exist, such a copy, and looks through it. Throws a FileError. */
export async function writeAnonymousCopy(
  source: string,
  target: string,
  pseudonyms: Pseudonyms,
  clock: Clock,
  run: CopyRun,
): Promise<void> {
  refuseOlder(source);
  try {
    closeSync(openSync(target, 'wx', 0o600));
    openMirrorFile(target, clock).close();
    await fill(source, target, pseudonyms, clock, run);
  } catch (error) {
    throw explainFileError(error, 'write the copy', target) ?? error;
  }
  checkCopy(mirrorKind, target, 'rows');
}

function refuseOlder(source: string): void {
  const database = openMirrorForReading(source);
  const version = Number(database.pragma('user_version', { simple: true }));
  database.close();
  if (version === mirrorKind.migrations.length) return;
  throw new FileError(`the mirror ${source} was made by an older admin-mirror and was not brought up to date yet`, {
    advice: 'Run `admin-mirror sync` once.',
  });
}

async function fill(source: string, target: string, pseudonyms: Pseudonyms, clock: Clock, run: CopyRun): Promise<void> {
  const database = new SqliteDatabase(target);
  try {
    for (const pragma of [
      'journal_mode = DELETE',
      // A copy that is not finished is thrown away, so nothing has to be taken back; it is brought to the disk at its end.
      'journal_mode = OFF',
      'synchronous = OFF',
      'cache_size = -8000',
      'foreign_keys = OFF',
    ]) {
      database.pragma(pragma);
    }
    // It is only read from; better-sqlite3 has no way to say so of an attached file.
    database.prepare('ATTACH ? AS source').run(source);
    database.exec('BEGIN');
    // From here on the state of the source is one.
    database.prepare('SELECT count(*) FROM source.sqlite_schema').get();
    // Quicker to make once than to keep while rows come.
    const indices = database
      .prepare<[], { name: string; sql: string }>(
        "SELECT name, sql FROM main.sqlite_schema WHERE type = 'index' AND sql IS NOT NULL",
      )
      .all();
    for (const { name } of indices) database.exec(`DROP INDEX main.${quoteName(name)}`);
    await fillTables(database, pseudonyms, run);
    for (const { sql } of indices) {
      run.signal.throwIfAborted();
      database.exec(sql);
      await setImmediate();
    }
    database
      .prepare("INSERT INTO main.mirror_capabilities (name, resource, value, measured_at) VALUES (?, '', 'true', ?)")
      .run(anonymousMark, timestampOf(clock.now()));
    database.exec('COMMIT');
  } finally {
    database.close();
  }
}

async function fillTables(database: Database, pseudonyms: Pseudonyms, { signal, progress }: CopyRun): Promise<void> {
  const relations = makeRelations(database, pseudonyms);
  const tables = anonymousTables(database, pseudonyms, relations);
  const count = (table: CopiedTable): number =>
    database
      .prepare<[], number>(`SELECT count(*) FROM source.${quoteName(table.name)}`)
      .pluck()
      .get() ?? 0;
  const total = tables.reduce((sum, table) => sum + count(table), 0);
  let done = 0;
  for (const table of tables) {
    for (const written of steps(database, table)) {
      signal.throwIfAborted();
      done += written;
      progress(done / Math.max(1, total));
      await setImmediate();
    }
  }
}

/** Makes the tables of related records and their views, of which the columns are named as the fields in the records are. */
function makeRelations(database: Database, pseudonyms: Pseudonyms): RelationTable[] {
  const found = database
    .prepare<[], { resource: string; relation: string; keys: string }>(
      'SELECT resource, relation, keys FROM source.mirror_relations',
    )
    .all();
  database.exec(`INSERT INTO main.mirror_relations (resource, relation, table_name, included, keys, since)
    SELECT resource, relation, table_name, included, '[]', since FROM source.mirror_relations`);
  const runner = new Runner(database);
  const relations = relationsRead(runner);
  for (const relation of relations) {
    database.exec(relationTableSql(relation));
    const row = found.find((each) => each.resource === relation.resource && each.relation === relation.relation);
    const keys = JSON.parse(row?.keys ?? '[]') as RelatedKey[];
    const names = new Set(keys.map((key) => (key === null ? null : pseudonyms.name(key))));
    setFlatKeys(database, runner, relation, [...names]);
  }
  return relations;
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
