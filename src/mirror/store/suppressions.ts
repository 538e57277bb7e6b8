/** The ids of forgotten people and of their emails, and nothing about them: these records are kept out of the mirror. */
import type { Database } from 'better-sqlite3';
import type { Insertable } from 'kysely';
import { type DayRange, eraEnd, eraStart, everything, outsideStart } from '../../model/era.ts';
import type { KeptOutRecord, RecordKey } from '../../model/records.ts';
import { type ResourceName, resourceNames } from '../../model/resources.ts';
import type { Day, Timestamp } from '../../model/time.ts';
import type { RememberedPage } from '../../store/mirror-types.ts';
import { build, type Runner, type Tables } from '../../store/kysely-sqlite.ts';
import { quoteName } from '../../store/schema.ts';
import { touchedDays } from './page-memory.ts';

/** Returns the day by which a window owns the record. Records that no range of days shows have a day before all of them. */
export function owningDay(createdAt: unknown): Day {
  const inEra = typeof createdAt === 'string' && createdAt >= eraStart && createdAt < eraEnd;
  return inEra ? (createdAt.slice(0, 10) as Day) : outsideStart;
}

export type Suppressions = ReturnType<typeof suppressionsIn>;

export function suppressionsIn(database: Database, runner: Runner) {
  const touched = touchedDays(database);
  let sets: ReadonlyMap<ResourceName, Set<number>> | undefined;

  function readIds(): ReadonlyMap<ResourceName, Set<number>> {
    const read = new Map(resourceNames.map((name) => [name, new Set<number>()]));
    for (const { resource, id } of runner.all(build.selectFrom('mirror_suppressions').select(['resource', 'id']))) {
      read.get(resource)?.add(id);
    }
    return read;
  }

  function idsOf(resource: ResourceName): Set<number> {
    sets ??= readIds();
    const ids = sets.get(resource);
    if (ids === undefined) throw new Error(`no set for ${resource}`);
    return ids;
  }

  function heldIn(resource: ResourceName, { from, to }: DayRange) {
    return build
      .selectFrom('mirror_suppressions')
      .where('resource', '=', resource)
      .where('seen_day', '>=', from)
      .where('seen_day', '<', to);
  }

  function noteRow(row: Insertable<Tables['mirror_suppressions']>): void {
    runner.run(
      build
        .insertInto('mirror_suppressions')
        .values(row)
        .onConflict((conflict) =>
          conflict
            .columns(['resource', 'id'])
            .doUpdateSet((set) => ({ seen_day: set.ref('excluded.seen_day') }))
            .whereRef('mirror_suppressions.seen_day', 'is not', 'excluded.seen_day'),
        ),
    );
  }

  return {
    ids: idsOf,
    /** Notes records that were kept out of a page, and the day of each. */
    note: (resource: ResourceName, records: readonly KeptOutRecord[], at: Timestamp): void => {
      for (const { id, user, createdAt } of records) {
        noteRow({ resource, id, user_id: user, since: at, seen_day: owningDay(createdAt) });
        if (idsOf(resource).has(id)) continue;
        // It belonged to someone else when the mirror stored it.
        const remove = database.prepare(`DELETE FROM ${quoteName(resource)} WHERE "id" = ?`);
        touched.without(resource, () => remove.run(BigInt(id)));
        idsOf(resource).add(id);
      }
    },
    /** Returns the pages without the creation time of the last record, if that record is suppressed. */
    withoutTimes: (resource: ResourceName, pages: readonly RememberedPage[]) => {
      const ids = idsOf(resource);
      return pages.map((page) => (ids.has(Number(page.ids.at(-1) ?? NaN)) ? { ...page, lastCreatedAt: null } : page));
    },
    /** How many suppressed records the server still has, in all or in a window of these days. */
    count: (resource: ResourceName, range: DayRange = everything): number =>
      runner.first(heldIn(resource, range).select((count) => count.fn.countAll<number>().as('rows')))?.rows ?? 0,
    /** Notes that the server no longer has suppressed records of the window that a consistent walk did not see. */
    releaseUnseen: (resource: ResourceName, window: DayRange, seen: ReadonlySet<RecordKey>): void => {
      for (const { id } of runner.all(heldIn(resource, window).select('id'))) {
        if (seen.has(id)) continue;
        runner.run(
          build
            .updateTable('mirror_suppressions')
            .set({ seen_day: null })
            .where('resource', '=', resource)
            .where('id', '=', id),
        );
      }
    },
    /** Has the table read anew. Once a run is enough, since only the owner of the sync lock may change it. */
    reload: (): void => {
      sets = undefined;
    },
  };
}
