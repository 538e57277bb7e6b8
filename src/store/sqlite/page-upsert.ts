/** Writing a page's records: rows that did not change are not written at all. */
import type { Database, Statement } from 'better-sqlite3';
import type { Resource } from '../../model/resources.ts';
import type { Timestamp } from '../../model/time.ts';
import type { Cell } from './cell.ts';
import type { RecordRow } from './record-row.ts';
import { quoteName } from './schema.ts';

export interface UpsertCounts {
  readonly inserted: number;
  readonly updated: number;
  readonly unchanged: number;
}

/** Rows bound to one statement: a call into SQLite costs more than binding a row, and beyond some 20 nothing is gained. */
const rowsPerStatement = 20;

function upsertSql(resource: Resource, rows: number): string {
  const stored = [...resource.fields.map(({ name }) => name), '_extra'];
  const changing = stored.slice(1).map(quoteName);
  const columns = [...stored, '_first_seen_at', '_changed_at'];
  const row = `(${columns.map(() => '?').join(', ')})`;
  const assignments = [...changing, '"_changed_at"'].map((name) => `${name} = excluded.${name}`);
  const differs = changing.map((name) => `${name} IS NOT excluded.${name}`);
  return [
    `INSERT INTO ${quoteName(resource.name)} (${columns.map(quoteName).join(', ')})`,
    `VALUES ${Array.from({ length: rows }, () => row).join(', ')}`,
    `ON CONFLICT ("id") DO UPDATE SET ${assignments.join(', ')}`,
    `WHERE ${differs.join(' OR ')}`,
  ].join('\n');
}

/** A function that upserts rows within the transaction at hand and counts what became of them. */
export function pageUpsert(
  database: Database,
  resource: Resource,
): (rows: readonly RecordRow[], at: Timestamp) => UpsertCounts {
  const one = database.prepare(upsertSql(resource, 1));
  const many = database.prepare(upsertSql(resource, rowsPerStatement));
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
