/** Reads the rows that a window owns, by their creation times, and the order of rows in the server's lists. */
import { keyOf, type RecordKey } from '../../model/records.ts';
import type { Database } from 'better-sqlite3';
import { coverageOf, type DayRange, eraEnd, eraStart } from '../../model/era.ts';
import type { ResourceName } from '../../model/resources.ts';
import type { Day } from '../../model/time.ts';
import { quoteName } from '../../store/schema.ts';
import type { StoredKnownRecord } from '../../store/mirror-types.ts';

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
  const middle = database
    .prepare<[string, string, number], string>(
      `SELECT "created_at" FROM ${quoteName(resource)} WHERE ${inDays} ORDER BY "created_at" LIMIT 1 OFFSET ?`,
    )
    .pluck();
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
    /** The day of creation in the middle of the rows of these days; undefined if there are none. */
    middleDay: ({ from, to }: DayRange): Day | undefined => {
      const half = Math.floor((statements.days.count.get(from, to) ?? 0) / 2);
      return middle.get(from, to, half)?.slice(0, 10) as Day | undefined;
    },
    count: (window: DayRange): number => statements[coverageOf(window)].count.get(...bounds(window)) ?? 0,
  };
}

/** Whether a creation time begins with a day of the calendar: then it sorts by days, however the time of day is written. */
const beginsWithDay = `"created_at" >= '${eraStart}' AND "created_at" < '${eraEnd}'
  AND date(substr("created_at", 1, 10)) = substr("created_at", 1, 10)`;

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
