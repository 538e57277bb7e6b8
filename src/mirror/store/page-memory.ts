/**
 * The pages of a window's last walk by the hash of their bytes: one that comes again has nothing to write. They stand for rows only
 * together, so whatever else touches a row of the window has them forgotten: a record that went from A to B and back to A would stay
 * B here. A sum over the rows finds what nobody reported: a change by hand, a flipped byte.
 */
import { crc32 } from 'node:zlib';
import { keysIn, keysJson, type RecordKey } from '../../model/records.ts';
import { resourceOf, type ResourceName } from '../../model/resources.ts';
import { releaseBytes } from '../../model/memory.ts';
import { coverageOf, outsideStart } from '../../model/era.ts';
import type { RememberedPage, Window } from '../../store/mirror-types.ts';
import { quoteName, servedColumns } from '../../store/schema.ts';
import { build, type Runner } from '../../store/tables.ts';
import SqliteDatabase, { type Database } from 'better-sqlite3';

export function readPages(runner: Runner, window: Window): RememberedPage[] {
  const query = build
    .selectFrom('mirror_pages')
    .selectAll()
    .where('resource', '=', window.resource)
    .where('from_day', '=', window.from);
  return runner.all(query).map((row) => ({
    key: row.page,
    hash: row.hash,
    total: row.total,
    lastPage: row.last_page,
    perPage: row.per_page,
    ids: keysIn(row.ids),
    owned: row.owned,
    lastCreatedAt: row.last_created_at,
    rowsSum: row.rows_sum,
  }));
}

export function rowSums(database: Database, resource: ResourceName) {
  const cells = servedColumns(resourceOf(resource)).map(quoteName);
  // As one piece of bytes: to hand over each row, or to make a string of it, takes twice as long.
  const rowsWhere = (meant: string) => `SELECT CAST(group_concat(cells) AS BLOB) FROM (
    SELECT json_array(${cells.join(', ')}) AS cells FROM ${quoteName(resource)}
    WHERE id IN (SELECT value FROM json_each(?)) AND ${meant} ORDER BY id)`;
  const all = database.prepare<[string], Buffer | null>(rowsWhere('true')).pluck();
  // A neighbour's row that a wide range shows as well may change without this window.
  const owned = database
    .prepare<[string, string, string], Buffer | null>(rowsWhere('created_at >= ? AND created_at < ?'))
    .pluck();
  const pages = database.prepare<[string, string], { ids: string; sum: number | null }>(
    'SELECT ids, rows_sum AS sum FROM mirror_pages WHERE resource = ? AND from_day = ?',
  );
  /** Of the rows with these ids that the window owns. */
  const of = (window: Window, ids: string): number => {
    const rows = coverageOf(window) === 'days' ? owned.get(ids, window.from, window.to) : all.get(ids);
    const sum = crc32(rows ?? '');
    if (rows) releaseBytes(rows);
    return sum;
  };
  return {
    of,
    /** Whether each remembered page of the window has the rows that it was remembered with. */
    fit: (window: Window): boolean => {
      try {
        return pages.all(resource, window.from).every(({ ids, sum }) => sum === of(window, ids));
      } catch (error) {
        // A cell that has become bytes, which no record holds.
        if (error instanceof SqliteDatabase.SqliteError && error.code === 'SQLITE_ERROR') return false;
        throw error;
      }
    },
  };
}

/** Puts the pages in the place of those that were remembered; none forgets them. */
export function replacePages(
  runner: Runner,
  window: Window,
  pages: readonly RememberedPage[],
  sumOf: (window: Window, ids: string) => number | null = () => null,
): void {
  runner.run(
    build.deleteFrom('mirror_pages').where('resource', '=', window.resource).where('from_day', '=', window.from),
  );
  for (const page of pages) {
    const ids = keysJson(page.ids);
    runner.run(
      build.insertInto('mirror_pages').values({
        resource: window.resource,
        from_day: window.from,
        page: page.key,
        hash: page.hash,
        total: page.total,
        last_page: page.lastPage,
        per_page: page.perPage,
        ids,
        owned: page.owned,
        last_created_at: page.lastCreatedAt,
        rows_sum: page.rowsSum ?? sumOf(window, ids),
      }),
    );
  }
}

/** A function that forgets the pages of every other window that owns one of the rows. To be called before the rows change. */
export function pageForgetter(database: Database, resource: ResourceName) {
  const forget = database.prepare<
    [string, string, string, string]
  >(`DELETE FROM mirror_pages WHERE resource = ? AND from_day <> ?
    AND from_day IN (
      SELECT window.from_day FROM mirror_windows AS window JOIN ${quoteName(resource)} AS row
        ON window.from_day = '${outsideStart}' OR (row.created_at >= window.from_day AND row.created_at < window.to_day)
      WHERE window.resource = ? AND row.id IN (SELECT value FROM json_each(?)))`);
  return (ids: readonly RecordKey[], except = ''): void => {
    forget.run(resource, except, resource, keysJson(ids));
  };
}
