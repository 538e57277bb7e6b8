/** Writing a page's records: rows that did not change are not written at all. */
import type { Database, Statement } from 'better-sqlite3';
import type { Resource } from '../../model/resources.ts';
import type { Timestamp } from '../../model/time.ts';
import type { Cell } from './cell.ts';
import type { Differs } from './history.ts';
import type { RecordRow } from './record-row.ts';
import { quoteName } from './schema.ts';

export interface UpsertCounts {
  readonly inserted: number;
  readonly updated: number;
  readonly unchanged: number;
}

/** Rows bound to one statement: a call into SQLite costs more than binding a row, and beyond some 20 nothing is gained. */
const rowsPerStatement = 20;

function upsertSql(resource: Resource, significant: Differs, rows: number): string {
  const table = quoteName(resource.name);
  const stored = [...resource.fields.map(({ name }) => name), '_extra'];
  const changing = stored.slice(1).map(quoteName);
  const columns = [...stored, '_first_seen_at', '_changed_at'];
  const row = `(${columns.map(() => '?').join(', ')})`;
  const assignments = changing.map((name) => `${name} = excluded.${name}`);
  // A row's version begins where the one before it ended: what makes no version does not move its beginning.
  assignments.push(
    `"_changed_at" = CASE WHEN ${significant(table, 'excluded')} THEN excluded."_changed_at" ELSE ${table}."_changed_at" END`,
  );
  const differs = changing.map((name) => `${name} IS NOT excluded.${name}`);
  return [
    `INSERT INTO ${table} (${columns.map(quoteName).join(', ')})`,
    `VALUES ${Array.from({ length: rows }, () => row).join(', ')}`,
    `ON CONFLICT ("id") DO UPDATE SET ${assignments.join(', ')}`,
    `WHERE ${differs.join(' OR ')}`,
  ].join('\n');
}

/**
 * A function that upserts rows within the transaction at hand and counts what became of them.
 * @param significant tells the changes that move a row's `_changed_at`; any other is written all the same
 */
export function pageUpsert(
  database: Database,
  resource: Resource,
  significant: Differs,
): (rows: readonly RecordRow[], at: Timestamp) => UpsertCounts {
  const one = database.prepare(upsertSql(resource, significant, 1));
  const many = database.prepare(upsertSql(resource, significant, rowsPerStatement));
  const existing: Statement<[string], number> = database
    .prepare<[string], number>(
      `SELECT count(*) FROM ${quoteName(resource.name)} WHERE "id" IN (SELECT value FROM json_each(?))`,
    )
    .pluck();
  return (rows, at) => {
    const known = existing.get(JSON.stringify(rows.map(({ id }) => id))) ?? 0;
    let written = 0;
    const whole = rows.length - (rows.length % rowsPerStatement);
    for (let start = 0; start < whole; start += rowsPerStatement) {
      const cells: Cell[] = [];
      for (const row of rows.slice(start, start + rowsPerStatement)) cells.push(...row.cells, at, at);
      written += many.run(cells).changes;
    }
    for (const row of rows.slice(whole)) written += one.run([...row.cells, at, at]).changes;
    const distinct = new Set(rows.map(({ id }) => id)).size;
    const inserted = distinct - known;
    return { inserted, updated: written - inserted, unchanged: rows.length - written };
  };
}
