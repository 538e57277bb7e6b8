/** Mirrors of version 1 had columns of no type: each table is written anew, in the file, and the history stays. */
import type { Database } from 'better-sqlite3';
import { relationTable, type RelationTable } from '../model/relations.ts';
import { type Resource, type ResourceName, resourceNames, resourceOf, type SqlType } from '../model/resources.ts';
import { relationTableSql } from './relation-schema.ts';
import { historyTableOf, mirrorColumns, quoteName, resourceTableSql, typeOfColumn } from './schema.ts';

const mostExact = Number.MAX_SAFE_INTEGER;

/** The cell where a column of the type can hold it, else null. Whatever stood in a column of text has a text. */
function typedSql(cell: string, type: SqlType): string {
  switch (type) {
    case 'INTEGER':
      return `CASE WHEN typeof(${cell}) = 'integer' THEN ${cell} WHEN typeof(${cell}) = 'real' AND ${cell} = CAST(${cell} AS INTEGER) AND abs(${cell}) <= ${mostExact} THEN CAST(${cell} AS INTEGER) END`;
    case 'REAL':
      return `CASE WHEN typeof(${cell}) = 'real' OR (typeof(${cell}) = 'integer' AND abs(${cell}) <= ${mostExact}) THEN CAST(${cell} AS REAL) END`;
    case 'TEXT':
      return `CAST(${cell} AS TEXT)`;
  }
}

/** What of a row its typed columns cannot hold, in SQL: whether there is any, and `_extra` with it. */
function straysSql(resource: Resource, cellOf: (column: string) => string): { some: string; extra: string } {
  const strays = resource.fields.flatMap(({ name }) => {
    const [cell, type] = [cellOf(name), typeOfColumn(resource, name)];
    if (type === 'TEXT' || name === 'id') return [];
    return [{ name, cell, isStray: `(${cell} IS NOT NULL AND (${typedSql(cell, type)}) IS NULL)` }];
  });
  const held = strays.map(({ name, cell, isStray }) => `'${name}', iif(${isStray}, ${cell}, NULL)`);
  return {
    some: strays.map(({ isStray }) => isStray).join(' OR '),
    // A patch leaves out what is null in it.
    extra: `json_patch(coalesce(${cellOf('_extra')}, '{}'), json_object(${held.join(', ')}))`,
  };
}

function typeResource(database: Database, name: ResourceName): void {
  const resource = resourceOf(name);
  const strays = straysSql(resource, quoteName);
  const fields = resource.fields.map((field) =>
    field.name === 'id' ? '"id"' : typedSql(quoteName(field.name), typeOfColumn(resource, field.name)),
  );
  const cells = [...fields, `iif(${strays.some}, ${strays.extra}, "_extra")`, '"_first_seen_at"', '"_changed_at"'];
  const columns = [...resource.fields.map((field) => field.name), ...mirrorColumns].map(quoteName);
  replaceTable(database, name, (made) => [
    resourceTableSql(name, made),
    `INSERT INTO ${quoteName(made)} (${columns.join(', ')}) SELECT ${cells.join(', ')} FROM ${quoteName(name)} ORDER BY "id"`,
  ]);
}

function typeHistory(database: Database, name: ResourceName): void {
  const resource = resourceOf(name);
  const cellOf = (column: string): string => `(record ->> '$.${quoteName(column)}')`;
  const strays = straysSql(resource, cellOf);
  const cells = resource.fields
    .filter((field) => field.name !== 'id' && typeOfColumn(resource, field.name) !== 'TEXT')
    .map(
      (field) => `'$.${quoteName(field.name)}', ${typedSql(cellOf(field.name), typeOfColumn(resource, field.name))}`,
    );
  database.exec(
    `UPDATE ${historyTableOf(name)} SET record = json_set(record, '$._extra', ${strays.extra}, ${cells.join(', ')})
     WHERE ${strays.some}`,
  );
}

function typeRelation(database: Database, relation: RelationTable): void {
  const parent = quoteName(relation.parentColumn);
  replaceTable(database, relation.table, (made) => [
    relationTableSql(relation, made),
    // A place in the list was a number.
    `INSERT OR IGNORE INTO ${quoteName(made)} (${parent}, "id", "record", "_key")
     SELECT ${parent}, CAST("id" AS TEXT), "record", iif(typeof("_key") = 'text', "_key", '#' || "_key")
     FROM ${quoteName(relation.table)}`,
  ]);
}

/** Puts a table with the old one's name and indices in its place. */
function replaceTable(database: Database, table: string, making: (made: string) => readonly string[]): void {
  const indices = database
    .prepare<[string], string>(
      "SELECT sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? AND sql IS NOT NULL",
    )
    .pluck()
    .all(table);
  const made = `${table} typed`;
  for (const statement of making(made)) database.exec(statement);
  database.exec(`DROP TABLE ${quoteName(table)}`);
  database.exec(`ALTER TABLE ${quoteName(made)} RENAME TO ${quoteName(table)}`);
  for (const index of indices) database.exec(index);
}

/** Gives the columns of an older mirror their types; a mirror that was just made has them. */
export function typeColumns(database: Database): void {
  const type = database.prepare("SELECT type FROM pragma_table_info('users') WHERE name = 'username'").pluck();
  if (type.get() !== 'ANY') return;
  for (const name of resourceNames) {
    typeResource(database, name);
    typeHistory(database, name);
  }
  const relations = database.prepare<[], { resource: ResourceName; relation: string }>(
    'SELECT resource, relation FROM mirror_relations',
  );
  for (const { resource, relation } of relations.all()) typeRelation(database, relationTable(resource, relation));
  // Their sums are of rows as they were. The next walk of each window compares every row, once.
  database.exec('DELETE FROM mirror_pages');
}
