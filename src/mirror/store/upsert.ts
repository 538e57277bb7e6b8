/**
 * Stores the rows of a page with one statement, which reads them out of JSON: binding each cell costs more than storing it.
 * Unchanged rows are not written.
 */
import type { Database, Statement } from 'better-sqlite3';
import { type DayRange, eraStart } from '../../model/era.ts';
import { keysJson, type RecordKey, type RecordRows } from '../../model/records.ts';
import type { Resource } from '../../model/resources.ts';
import type { Day, Timestamp } from '../../model/time.ts';
import { numbersIn } from '../../store/cursor.ts';
import type { PageCounts } from '../../store/mirror-types.ts';
import { historyTableOf, quoteName, servedColumns } from '../../store/schema.ts';
import { type Differs, isReused } from './history.ts';
import type { pageForgetter } from './page-memory.ts';

/**
 * The rows of a page in SQL, each with its place as `key`. Without the cast, SQLite would guess whether the bytes are text or its
 * binary JSON.
 */
export const eachRow = `jsonb_each(CAST(? AS TEXT), '$.data')`;

/** The cell of a row of the page, in SQL. */
export function cellIn(column: string): string {
  return `value ->> '$.${column}'`;
}

interface UpsertShape {
  /** The cell of `_extra`. Looking for it when no record has it costs a tenth of reading all cells. */
  readonly extra?: string;
  /** Whether versions may have ended later than now, after a clock was set back or another machine's was ahead. */
  readonly setBack?: boolean;
}

/** Numbers the rows by their places on the page. The times of a record never run backward. */
function upsertSql(resource: Resource, significant: Differs, shape: UpsertShape = {}): string {
  const { extra = cellIn('_extra'), setBack = false } = shape;
  const table = quoteName(resource.name);
  const stored = servedColumns(resource);
  const changing = stored.slice(1).map(quoteName);
  const columns = [...stored, '_first_seen_at', '_changed_at', '_seq'];
  const cells = [...stored.slice(0, -1).map(cellIn), extra];
  const assignments = changing.map((name) => `${name} = excluded.${name}`);
  // A version begins where the one before it ended. A change that makes no version does not move its beginning.
  const reused = isReused(resource.name)(table, 'excluded');
  const later = `max(excluded."_changed_at", ${table}."_changed_at")`;
  assignments.push(
    `"_seq" = excluded."_seq"`,
    // A record that reuses the id of another one is seen for the first time.
    `"_first_seen_at" = CASE WHEN ${reused} THEN ${later} ELSE ${table}."_first_seen_at" END`,
    `"_changed_at" = CASE WHEN ${significant(table, 'excluded')} OR ${reused} THEN ${later} ELSE ${table}."_changed_at" END`,
  );
  const differs = changing.map((name) => `${name} IS NOT excluded.${name}`);
  const ended = `(SELECT max(valid_to) FROM ${historyTableOf(resource.name)} AS version WHERE version.id = ${cellIn('id')})`;
  const at = setBack ? `max(?, coalesce(${ended}, ''))` : '?';
  return [
    `INSERT INTO ${table} (${columns.map(quoteName).join(', ')})`,
    `SELECT ${cells.join(', ')}, ${at}, ${at}, ? + key FROM ${eachRow} WHERE true`,
    `ON CONFLICT ("id") DO UPDATE SET ${assignments.join(', ')}`,
    `WHERE ${differs.join(' OR ')}`,
  ].join('\n');
}

/**
 * Returns a function that upserts the rows of a page, within the caller's transaction, and counts.
 * @param significant which changes move a row's `_changed_at`; all changes are written
 */
export function pageUpsert(
  database: Database,
  resource: Resource,
  significant: Differs,
  forgetPages: ReturnType<typeof pageForgetter>,
): (rows: RecordRows, window: DayRange, at: Timestamp) => Omit<PageCounts, 'received' | 'deleted'> {
  const numbers = numbersIn(database);
  const upsert = database.prepare(upsertSql(resource, significant));
  const upsertServed = database.prepare(upsertSql(resource, significant, { extra: 'NULL' }));
  const lastEnd = database
    .prepare<[], string | null>(`SELECT max(valid_to) FROM ${historyTableOf(resource.name)}`)
    .pluck();
  const table = quoteName(resource.name);
  const existing: Statement<[Day, Day, string], [count: number, moved: number]> = database
    .prepare<[Day, Day, string], [number, number]>(
      `SELECT count(*), count(*) FILTER (WHERE "created_at" >= '${eraStart}' AND ("created_at" < ? OR "created_at" >= ?))
       FROM ${table} WHERE "id" IN (SELECT value FROM json_each(?))`,
    )
    .raw(true);
  const between: Statement<[bigint, bigint], number> = database
    .prepare<[bigint, bigint], number>(`SELECT EXISTS (SELECT 1 FROM ${table} WHERE "id" BETWEEN ? AND ?)`)
    .pluck();

  /** Counts the records that have a row. If one was in another window until now, the pages of that window are forgotten. */
  function countKnown(ids: readonly RecordKey[], { from, to }: DayRange): number {
    if (ids.length === 0) return 0;
    // New records mostly have consecutive ids, and one query shows that none of them has a row.
    const least = ids.reduce((before, id) => (id < before ? id : before));
    const most = ids.reduce((before, id) => (id > before ? id : before));
    const isAnyKnown = between.get(BigInt(least), BigInt(most)) === 1;
    const [count, moved] = (isAnyKnown ? existing.get(from, to, keysJson(ids)) : undefined) ?? [0, 0];
    if (moved > 0) forgetPages(ids, from);
    return count;
  }

  return (rows, window, at) => {
    const { json, ids, isServed } = rows;
    const setBack = (lastEnd.get() ?? '') > at;
    const usual = isServed === true ? upsertServed : upsert;
    // A clock is hardly ever set back, so this statement is prepared each time, and always reads `_extra`.
    const whole = setBack ? database.prepare(upsertSql(resource, significant, { setBack })) : usual;
    const known = countKnown(ids, window);
    const last = numbers.last();
    // Set before the rows are written: the versions that they end then get higher numbers than the rows.
    numbers.setLast(last + ids.length);
    const first = BigInt(last + 1);
    const written = whole.run(at, at, first, json).changes;
    if (written === 0) numbers.setLast(last);
    const inserted = new Set(ids).size - known;
    return { inserted, updated: written - inserted, unchanged: ids.length - written };
  };
}
