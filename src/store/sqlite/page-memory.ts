/**
 * The pages of a window's last walk by the hash of their bytes: a page that comes again just as it was has nothing to
 * write. They stand for rows only together, as one settled walk left them; whatever else touches a row of the window
 * makes them forgotten, or a record that went from A to B and back to A would stay B here.
 */
import { keysIn, keysJson, type RecordKey } from '../../model/records.ts';
import type { ResourceName } from '../../model/resources.ts';
import { outsideStart } from '../../model/era.ts';
import type { RememberedPage, Window } from '../ports/mirror-store.ts';
import { quoteName } from './schema.ts';
import { build, type Runner } from './tables.ts';
import type { Database } from 'better-sqlite3';

/** The pages of the window's last settled walk. */
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
  }));
}

/** Puts the pages in the place of those that were remembered; none forgets them. */
export function replacePages(runner: Runner, window: Window, pages: readonly RememberedPage[]): void {
  runner.run(
    build.deleteFrom('mirror_pages').where('resource', '=', window.resource).where('from_day', '=', window.from),
  );
  for (const page of pages) {
    runner.run(
      build.insertInto('mirror_pages').values({
        resource: window.resource,
        from_day: window.from,
        page: page.key,
        hash: page.hash,
        total: page.total,
        last_page: page.lastPage,
        per_page: page.perPage,
        ids: keysJson(page.ids),
        owned: page.owned,
        last_created_at: page.lastCreatedAt,
      }),
    );
  }
}

/** A function that forgets the pages of every window that owns one of the rows. To be called before the rows change. */
export function pageForgetter(database: Database, resource: ResourceName): (ids: readonly RecordKey[]) => void {
  const forget = database.prepare<[string, string, string]>(`DELETE FROM mirror_pages WHERE resource = ?
    AND from_day IN (
      SELECT window.from_day FROM mirror_windows AS window JOIN ${quoteName(resource)} AS row
        ON window.from_day = '${outsideStart}' OR (row.created_at >= window.from_day AND row.created_at < window.to_day)
      WHERE window.resource = ? AND row.id IN (SELECT value FROM json_each(?)))`);
  return (ids) => {
    forget.run(resource, resource, keysJson(ids));
  };
}
