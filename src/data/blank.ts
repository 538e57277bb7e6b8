/** A mirror without a file and without a record, which has every table that one can have. */
import SqliteDatabase from 'better-sqlite3';
import { relationTables } from '../model/relations.ts';
import type { Snapshot } from '../store/reading-types.ts';
import { snapshotOf } from '../store/reading.ts';
import { flatViewSql, relationTableSql } from '../store/relation-schema.ts';
import { firstSchema } from '../store/schema.ts';

/** Something to look at SQL against where there is no mirror, or none with the tables for it. The caller releases it. */
export function blankSnapshot(): Snapshot {
  const database = new SqliteDatabase(':memory:');
  for (const statement of firstSchema) database.exec(statement);
  for (const relation of relationTables) {
    database.exec(relationTableSql(relation));
    database.exec(flatViewSql(relation, []));
  }
  return snapshotOf(database, 'a blank mirror');
}
