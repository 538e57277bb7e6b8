/** Writing a page's records: rows that did not change are not written at all. */
import type { Database, Statement } from 'better-sqlite3';
import type { PageRows } from '../../model/page-rows.ts';
import { releaseBytes } from '../../model/release-bytes.ts';
import { keysJson, type RecordKey } from '../../model/records.ts';
import type { Resource } from '../../model/resources.ts';
import type { Timestamp } from '../../model/time.ts';
import { isReused, type Differs } from './history.ts';
import { quoteName } from '../../store/schema.ts';

export interface UpsertCounts {
  readonly inserted: number;
  readonly updated: number;
  readonly unchanged: number;
}

function upsertSql(resource: Resource, significant: Differs): string {
  const table = quoteName(resource.name);
  const stored = [...resource.fields.map(({ name }) => name), '_extra'];
  const changing = stored.slice(1).map(quoteName);
  const columns = [...stored, '_first_seen_at', '_changed_at'];
  const cells = stored.map((_, index) => `value ->> ${index}`);
  const assignments = changing.map((name) => `${name} = excluded.${name}`);
  // A row's version begins where the one before it ended: what makes no version does not move its beginning.
  const reused = isReused(resource.name)(table, 'excluded');
  assignments.push(
    // A record that has the id of another one is seen for the first time.
    `"_first_seen_at" = CASE WHEN ${reused} THEN excluded."_first_seen_at" ELSE ${table}."_first_seen_at" END`,
    `"_changed_at" = CASE WHEN ${significant(table, 'excluded')} OR ${reused} THEN excluded."_changed_at" ELSE ${table}."_changed_at" END`,
  );
  const differs = changing.map((name) => `${name} IS NOT excluded.${name}`);
  return [
    `INSERT INTO ${table} (${columns.map(quoteName).join(', ')})`,
    // Of bytes SQLite would have to guess whether they are JSON's text or its own binary form of it.
    `SELECT ${cells.join(', ')}, ?, ? FROM jsonb_each(CAST(? AS TEXT)) WHERE true`,
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
): (rows: PageRows, at: Timestamp) => UpsertCounts {
  const upsert = database.prepare(upsertSql(resource, significant));
  const table = quoteName(resource.name);
  const existing: Statement<[string], number> = database
    .prepare<[string], number>(`SELECT count(*) FROM ${table} WHERE "id" IN (SELECT value FROM json_each(?))`)
    .pluck();
  const between: Statement<[bigint, bigint], number> = database
    .prepare<[bigint, bigint], number>(`SELECT EXISTS (SELECT 1 FROM ${table} WHERE "id" BETWEEN ? AND ?)`)
    .pluck();

  function countKnown(ids: readonly RecordKey[]): number {
    if (ids.length === 0) return 0;
    // The ids of new records mostly follow each other, and one look tells that none is known.
    const least = ids.reduce((before, id) => (id < before ? id : before));
    const most = ids.reduce((before, id) => (id > before ? id : before));
    const some = between.get(BigInt(least), BigInt(most));
    return some === 1 ? (existing.get(keysJson(ids)) ?? 0) : 0;
  }

  return ({ json, ids }, at) => {
    const known = countKnown(ids);
    const written = upsert.run(at, at, json).changes;
    releaseBytes(json);
    const inserted = new Set(ids).size - known;
    return { inserted, updated: written - inserted, unchanged: ids.length - written };
  };
}
