/** Writing a page's records: rows that did not change are not written at all. */
import type { Database, Statement } from 'better-sqlite3';
import type { RecordRows } from '../../model/page-rows.ts';
import { releaseBytes } from '../../model/release-bytes.ts';
import { keyOf, keysJson, type RecordKey } from '../../model/records.ts';
import type { Resource } from '../../model/resources.ts';
import type { Timestamp } from '../../model/time.ts';
import { isReused, type Differs } from './history.ts';
import { quoteName } from '../../store/schema.ts';

interface UpsertCounts {
  readonly inserted: number;
  readonly updated: number;
  readonly unchanged: number;
  /** Ids of rows that another record was kept from replacing. */
  readonly twins: readonly RecordKey[];
}

/** @param rows tells which rows of the page are meant, in SQL */
function upsertSql(resource: Resource, significant: Differs, rows = 'true'): string {
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
    `SELECT ${cells.join(', ')}, ?, ? FROM jsonb_each(CAST(? AS TEXT)) WHERE ${rows}`,
    `ON CONFLICT ("id") DO UPDATE SET ${assignments.join(', ')}`,
    // A version of the same record is taken as it comes. Any other is looked at more closely, which few rows need.
    `WHERE (${differs.join(' OR ')}) AND CASE`,
    `WHEN excluded."updated_at" > ${table}."updated_at" AND NOT ${reused} THEN true`,
    `ELSE takes_place(excluded."id", ${reused}, ${table}."_changed_at") END`,
  ].join('\n');
}

/** Keeps a record that came under the id of another one from taking its place. */
interface TwinGuard {
  /** A run begins: none of its rows was written yet. */
  begin(at: Timestamp): void;
  /** @param seen ids that the walk has seen before; undefined where there is no walk */
  guard(seen: ReadonlySet<RecordKey> | undefined): void;
  /** The ids that were refused since this was called last. */
  refused(): RecordKey[];
}

/**
 * Refuses a record where the walk has seen one under its id already and this is no newer version of it, or where the run
 * itself wrote the row of another record there. Otherwise an id may be used again, and a record be put back as it was.
 */
export function twinGuard(database: Database): TwinGuard {
  let runStartedAt: string | undefined;
  let seen: ReadonlySet<RecordKey> | undefined;
  let refused = new Set<RecordKey>();
  const everRefused = new Set<RecordKey>();
  database.function('takes_place', { safeIntegers: true }, (id, reused, changedAt) => {
    const key = keyOf(id as bigint);
    const writtenByRun = everRefused.has(key) || (runStartedAt !== undefined && String(changedAt) >= runStartedAt);
    if (seen?.has(key) !== true && !(reused === 1n && writtenByRun)) return 1;
    refused.add(key);
    everRefused.add(key);
    return 0;
  });
  return {
    begin: (at) => {
      runStartedAt = at;
      everRefused.clear();
    },
    guard: (ids) => {
      seen = ids;
    },
    refused: () => {
      const ids = [...refused];
      refused = new Set();
      return ids;
    },
  };
}

/**
 * A function that upserts rows within the transaction at hand and counts what became of them.
 * @param significant tells the changes that move a row's `_changed_at`; any other is written all the same
 */
export function pageUpsert(
  database: Database,
  resource: Resource,
  significant: Differs,
  twins: TwinGuard,
): (rows: RecordRows, at: Timestamp, seen?: ReadonlySet<RecordKey>) => UpsertCounts {
  const upsert = database.prepare(upsertSql(resource, significant));
  const some = upsertSql(resource, significant, 'key IN (SELECT value FROM json_each(?))');
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

  /** Where an id comes twice on one page: the first of each as ever, then the others, as if they came on another page. */
  function upsertTwice({ json, ids }: RecordRows, at: Timestamp): number {
    const statement = database.prepare(some);
    const firsts = new Set(new Map(ids.map((id, at) => [id, at] as const).toReversed()).values());
    const others = [...ids.keys()].filter((index) => !firsts.has(index));
    const written = statement.run(at, at, json, JSON.stringify([...firsts])).changes;
    twins.guard(new Set(ids));
    return written + statement.run(at, at, json, JSON.stringify(others)).changes;
  }

  return (rows, at, seen) => {
    const { json, ids } = rows;
    const known = countKnown(ids);
    const distinct = new Set(ids).size;
    twins.guard(seen);
    const written = distinct === ids.length ? upsert.run(at, at, json).changes : upsertTwice(rows, at);
    releaseBytes(json);
    const inserted = distinct - known;
    return { inserted, updated: written - inserted, unchanged: ids.length - written, twins: twins.refused() };
  };
}
