/**
 * Remembers the pages of a window's last walk by the hashes of their bytes, so that a page that comes again need not be written.
 * The pages stand for the rows only together. So anything else that touches a row of the window has them forgotten: otherwise a
 * record that went from A to B and back to A would stay B here. A checksum of the rows finds changes by hand and flipped bytes.
 */
import { crc32 } from 'node:zlib';
import { keysIn, keysJson, type RecordKey } from '../../model/records.ts';
import { resourceOf, type ResourceName } from '../../model/resources.ts';
import { coverageOf, outsideStart } from '../../model/era.ts';
import type { RememberedPage, Window } from '../../store/mirror-types.ts';
import { quoteName, servedColumns } from '../../store/schema.ts';
import { build, type Runner } from '../../store/kysely-sqlite.ts';
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
    records: row.records,
    rowsSum: row.rows_sum,
  }));
}

export function rowSums(database: Database, resource: ResourceName) {
  const cells = servedColumns(resourceOf(resource)).map(quoteName);
  // All rows as one blob: row by row, or as a string, it takes twice as long, and as JSON a fourth longer.
  const texts = cells.map((cell) => `ifnull(${cell}, char(1))`).join(', ');
  const rowsWhere = (meant: string) => `SELECT CAST(group_concat(cells) AS BLOB) FROM (
    SELECT concat_ws(char(2), ${texts}) AS cells FROM ${quoteName(resource)}
    WHERE id IN (SELECT value FROM json_each(?)) AND ${meant} ORDER BY id)`;
  const all = database.prepare<[string], Buffer | null>(rowsWhere('true')).pluck();
  // A wide range also shows rows of neighbouring windows, which may change independently of this one.
  const owned = database
    .prepare<[string, string, string], Buffer | null>(rowsWhere('created_at >= ? AND created_at < ?'))
    .pluck();
  const pages = database.prepare<[string, string], { ids: string; sum: number | null }>(
    'SELECT ids, rows_sum AS sum FROM mirror_pages WHERE resource = ? AND from_day = ?',
  );
  /** Returns the checksum of the rows with these ids that the window owns. */
  const of = (window: Window, ids: string): number => {
    const rows = coverageOf(window) === 'days' ? owned.get(ids, window.from, window.to) : all.get(ids);
    const sum = crc32(rows ?? '');
    return sum;
  };
  return {
    of,
    /** Whether the rows of the page still have its checksum. */
    fits: (window: Window, { ids, rowsSum }: RememberedPage): boolean => rowsSum === of(window, keysJson(ids)),
    /** Whether the rows of each remembered page still have its checksum. */
    fit: (window: Window): boolean => {
      try {
        return pages.all(resource, window.from).every(({ ids, sum }) => sum === of(window, ids));
      } catch (error) {
        // A damaged cell may have become a blob, which json_array refuses.
        if (error instanceof SqliteDatabase.SqliteError && error.code === 'SQLITE_ERROR') return false;
        throw error;
      }
    },
  };
}

/** Replaces the remembered pages of the window. */
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
        records: page.records,
        rows_sum: page.rowsSum ?? sumOf(window, ids),
      }),
    );
  }
}

/**
 * Returns a function that forgets the pages of every window but one that owns one of these rows. Call it before the rows change.
 */
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
