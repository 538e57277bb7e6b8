/** Reads the rows that a window owns, by their creation times, and the order of rows in the server's lists. */
import { keyOf, type RecordKey } from '../../model/records.ts';
import type { Database } from 'better-sqlite3';
import { coverageOf, type DayRange, eraEnd, eraStart } from '../../model/era.ts';
import type { Resource, ResourceName } from '../../model/resources.ts';
import { quoteName } from '../../store/schema.ts';
import type { RankedRows, StoredKnownRecord } from '../../store/mirror-types.ts';

// The rule of `owns` in `src/model/era.ts`, in SQL. ISO 8601 timestamps compare as text; other types sort apart from text.
const inDays = `"created_at" >= ? AND "created_at" < ?`;
const outside = '"created_at" IS NULL OR "created_at" < ? OR "created_at" >= ?';

export function ownedRows(database: Database, resource: ResourceName) {
  const largest = Number.MAX_SAFE_INTEGER;
  // Numbers if they are exact, else text: bigints for millions of rows would cost as much again.
  const id = `iif("id" BETWEEN -${largest} AND ${largest}, "id", CAST("id" AS TEXT))`;
  const select = <T>(what: string, where: string) =>
    database.prepare<string[], T>(`SELECT ${what} FROM ${quoteName(resource)} WHERE ${where}`).pluck();
  const reads = (where: string) => ({
    ids: select<number | string>(id, where),
    count: select<number>('count(*)', where),
  });
  const statements = { days: reads(inDays), outside: reads(outside), everything: reads('true') };
  const has = database.prepare<[RecordKey], 1>(`SELECT 1 FROM ${quoteName(resource)} WHERE "id" = ?`).pluck();
  function bounds({ from, to }: DayRange): string[] {
    return { days: [from, to], outside: [eraStart, eraEnd], everything: [] }[coverageOf({ from, to })];
  }
  return {
    ids: (window: DayRange): RecordKey[] => {
      const found: (RecordKey | string)[] = statements[coverageOf(window)].ids.all(...bounds(window));
      for (const [at, each] of found.entries()) if (typeof each === 'string') found[at] = BigInt(each);
      return found as RecordKey[];
    },
    has: (id: RecordKey): boolean => has.get(id) !== undefined,
    count: (window: DayRange): number => statements[coverageOf(window)].count.get(...bounds(window)) ?? 0,
  };
}

/** Returns a function that reads the rows created in a range of days, or all, in the server's order. */
export function rankedRows(database: Database, resource: Resource): (range: DayRange) => RankedRows {
  const table = quoteName(resource.name);
  const order = [...resource.walkOrder, 'id'].map(quoteName).join(', ');
  const select = (where: string) =>
    database
      .prepare<string[], [number, number]>(
        `SELECT "id", dense_rank() OVER (ORDER BY "created_at") FROM ${table} WHERE ${where} ORDER BY ${order}`,
      )
      .raw();
  const all = select('true');
  const within = select('"created_at" >= ? AND "created_at" < ?');
  const count = database.prepare<[], number>(`SELECT count(*) FROM ${table}`).pluck();
  return (range) => {
    // Room for all rows: counting those of the range would cost as much as reading them, and unused memory costs nothing.
    const room = count.get() ?? 0;
    const ids = new Float64Array(room);
    const moments = new Uint32Array(room);
    let rank = 0;
    const rows = coverageOf(range) === 'everything' ? all.iterate() : within.iterate(range.from, range.to);
    for (const [id, moment] of rows) {
      ids[rank] = id;
      moments[rank] = moment;
      rank += 1;
    }
    return { ids: ids.subarray(0, rank), moments: moments.subarray(0, rank) };
  };
}

/** Whether a creation time begins with a day of the calendar: then it sorts by days, however the time of day is written. */
const beginsWithDay = `"created_at" >= '${eraStart}' AND "created_at" < '${eraEnd}'
  AND date(substr("created_at", 1, 10)) = substr("created_at", 1, 10)`;

/** A pattern (GLOB) of times that also sort by seconds. */
export const secondForm = '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]*';

export function knownRecordsIn(database: Database, resource: ResourceName) {
  const select = (direction: 'ASC' | 'DESC') =>
    database.prepare<[number], { id: bigint; createdAt: string }>(
      `SELECT "id", "created_at" AS createdAt FROM ${quoteName(resource)} WHERE ${beginsWithDay}
       ORDER BY "created_at" ${direction}, "id" ${direction} LIMIT ?`,
    );
  const ends = { newest: select('DESC'), oldest: select('ASC') };
  for (const each of Object.values(ends)) each.safeIntegers();
  return (order: 'newest' | 'oldest', count: number): StoredKnownRecord[] =>
    ends[order].all(count).map(({ id, createdAt }) => ({ id: keyOf(id), createdAt }));
}
