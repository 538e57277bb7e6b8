/**
 * Remembers the pages of a window's last walk by the hashes of their bytes, so that a page that comes again need not be written.
 * The pages stand for the rows only together. So anything else that touches a row of the window has them forgotten: otherwise a
 * record that went from A to B and back to A would stay B here. Triggers in the file note the days on which another program
 * added, changed or removed a row (`mirror_touched`): a window of such a day is compared row by row.
 */
import { hash } from 'node:crypto';
import type { Database } from 'better-sqlite3';
import { type DayRange, outsideStart } from '../../model/era.ts';
import { version } from '../../model/program.ts';
import { keysIn, keysJson, type RecordKey } from '../../model/records.ts';
import type { ResourceName } from '../../model/resources.ts';
import type { Day } from '../../model/time.ts';
import type { RememberedPage, Window } from '../../store/mirror-types.ts';
import { quoteName } from '../../store/schema.ts';
import type { Statements } from '../../store/statements.ts';

interface PageRow {
  readonly page: string;
  readonly hash: string;
  readonly total: number;
  readonly last_page: number;
  readonly per_page: number;
  readonly ids: string;
  readonly owned: number;
  readonly last_created_at: string | null;
  readonly records: string | null;
  readonly seal: string;
}

/**
 * Returns the seal of a remembered page. A page whose seal is broken is forgotten: another program has altered it, or another version
 * of this one has written it, which may make other rows of the same bytes.
 */
export function sealOf(row: Omit<PageRow, 'seal'>, writer = version()): string {
  const { page, total, last_page, per_page, ids, owned, last_created_at, records } = row;
  const all = [writer, page, row.hash, total, last_page, per_page, ids, owned, last_created_at, records];
  return hash('sha1', all.join(' '), 'base64');
}

export function readPages(statements: Statements, { resource, from }: Window): RememberedPage[] {
  const rows = statements.all<PageRow>('SELECT * FROM mirror_pages WHERE resource = @resource AND from_day = @from', {
    resource,
    from,
  });
  const intact = rows.filter((row) => row.seal === sealOf(row));
  return intact.map((row) => ({
    key: row.page,
    hash: row.hash,
    total: row.total,
    lastPage: row.last_page,
    perPage: row.per_page,
    ids: keysIn(row.ids),
    owned: row.owned,
    lastCreatedAt: row.last_created_at,
    records: row.records,
  }));
}

/** The days of which another program has changed rows. */
export function touchedDays(database: Database) {
  const all = database.prepare<[string], Day>('SELECT day FROM mirror_touched WHERE resource = ? ORDER BY day').pluck();
  const forget = (which: string) =>
    database.prepare<string[]>(`DELETE FROM mirror_touched WHERE resource = ? AND ${which}`);
  const within = forget('day >= ? AND day < ?');
  const strays = forget(`NOT EXISTS (SELECT 1 FROM mirror_windows AS window
    WHERE window.resource = mirror_touched.resource AND day >= from_day AND day < to_day)`);
  return {
    all: (resource: ResourceName): Day[] => all.all(resource),
    forget: (resource: ResourceName, { from, to }: DayRange): void => void within.run(resource, from, to),
    /** Forgets the days that no window has. */
    forgetStrays: (resource: ResourceName): void => void strays.run(resource),
  };
}

/** Replaces the remembered pages of the window. */
export function replacePages(
  statements: Statements,
  { resource, from }: Window,
  pages: readonly RememberedPage[],
): void {
  statements.run('DELETE FROM mirror_pages WHERE resource = @resource AND from_day = @from', { resource, from });
  for (const page of pages) {
    const row = {
      resource,
      from_day: from,
      page: page.key,
      hash: page.hash,
      total: page.total,
      last_page: page.lastPage,
      per_page: page.perPage,
      ids: keysJson(page.ids),
      owned: page.owned,
      last_created_at: page.lastCreatedAt,
      records: page.records,
    };
    statements.insert('mirror_pages', { ...row, seal: sealOf(row) });
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
