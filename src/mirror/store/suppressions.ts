/** The ids of forgotten people and of their emails, and nothing about them: these records are kept out of the mirror. */
import type { Database } from 'better-sqlite3';
import { type DayRange, eraEnd, eraStart, everything, outsideStart } from '../../model/era.ts';
import type { KeptOutRecord, RecordKey } from '../../model/records.ts';
import { type ResourceName, resourceNames } from '../../model/resources.ts';
import type { Day, Timestamp } from '../../model/time.ts';
import type { RememberedPage } from '../../store/mirror-types.ts';
import { quoteName } from '../../store/schema.ts';
import type { Statements } from '../../store/statements.ts';

/** Returns the day by which a window owns the record. Records that no range of days shows have a day before all of them. */
export function owningDay(createdAt: unknown): Day {
  const inEra = typeof createdAt === 'string' && createdAt >= eraStart && createdAt < eraEnd;
  return inEra ? (createdAt.slice(0, 10) as Day) : outsideStart;
}

export type Suppressions = ReturnType<typeof suppressionsIn>;

export function suppressionsIn(database: Database, statements: Statements) {
  let sets: ReadonlyMap<ResourceName, Set<number>> | undefined;

  function readIds(): ReadonlyMap<ResourceName, Set<number>> {
    const read = new Map(resourceNames.map((name) => [name, new Set<number>()]));
    const rows = statements.all<{ resource: ResourceName; id: number }>('SELECT resource, id FROM mirror_suppressions');
    for (const { resource, id } of rows) read.get(resource)?.add(id);
    return read;
  }

  function idsOf(resource: ResourceName): Set<number> {
    sets ??= readIds();
    const ids = sets.get(resource);
    if (ids === undefined) throw new Error(`no set for ${resource}`);
    return ids;
  }

  /** Those that the server still has, in a window of these days. */
  const heldSql = 'FROM mirror_suppressions WHERE resource = @resource AND seen_day >= @from AND seen_day < @to';

  return {
    ids: idsOf,
    /** Notes records that were kept out of a page, and the day of each. */
    note: (resource: ResourceName, records: readonly KeptOutRecord[], at: Timestamp): void => {
      for (const { id, user, createdAt } of records) {
        statements.insert(
          'mirror_suppressions',
          { resource, id, user_id: user, since: at, seen_day: owningDay(createdAt) },
          `ON CONFLICT (resource, id) DO UPDATE SET seen_day = excluded.seen_day
           WHERE mirror_suppressions.seen_day IS NOT excluded.seen_day`,
        );
        if (idsOf(resource).has(id)) continue;
        // It belonged to someone else when the mirror stored it.
        const remove = database.prepare(`DELETE FROM ${quoteName(resource)} WHERE "id" = ?`);
        remove.run(BigInt(id));
        idsOf(resource).add(id);
      }
    },
    /** Returns the pages without the creation time of the last record, if that record is suppressed. */
    withoutTimes: (resource: ResourceName, pages: readonly RememberedPage[]) => {
      const ids = idsOf(resource);
      return pages.map((page) => (ids.has(Number(page.ids.at(-1) ?? NaN)) ? { ...page, lastCreatedAt: null } : page));
    },
    /** How many suppressed records the server still has, in all or in a window of these days. */
    count: (resource: ResourceName, { from, to }: DayRange = everything): number =>
      statements.all<{ rows: number }>(`SELECT count(*) AS rows ${heldSql}`, { resource, from, to })[0]?.rows ?? 0,
    /** Notes that the server no longer has suppressed records of the window that a consistent walk did not see. */
    releaseUnseen: (resource: ResourceName, { from, to }: DayRange, seen: ReadonlySet<RecordKey>): void => {
      for (const { id } of statements.all<{ id: number }>(`SELECT id ${heldSql}`, { resource, from, to })) {
        if (!seen.has(id)) statements.update('mirror_suppressions', { seen_day: null }, { resource, id });
      }
    },
    /** Has the table read anew. Once a run is enough, since only the owner of the sync lock may change it. */
    reload: (): void => {
      sets = undefined;
    },
  };
}
