/** Rows of a resource in the order in which the server is asked to list them. */
import type { Database } from 'better-sqlite3';
import { coverageOf, type DayRange } from '../../model/era.ts';
import type { Resource } from '../../model/resources.ts';
import type { RankedRows } from '../../store/mirror-types.ts';
import { quoteName } from '../../store/schema.ts';

/** Reads the rows that were created on the days of a range, or all of them. */
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
    // Room for all: counting those of the range would cost as much as reading it, and untouched memory costs nothing.
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
