/** The table of what is kept out of the mirror: ids of forgotten people and of their emails, and nothing about them. */
import type { Database } from 'better-sqlite3';
import type { Insertable } from 'kysely';
import { eraEnd, eraStart, everything, outsideStart, type DayRange } from '../../model/era.ts';
import type { KeptOutRecord } from '../../model/page-rows.ts';
import type { RecordKey } from '../../model/records.ts';
import { resourceNames, type ResourceName } from '../../model/resources.ts';
import type { Day, Timestamp } from '../../model/time.ts';
import type { RememberedPage } from '../../store/mirror-types.ts';
import { quoteName } from '../../store/schema.ts';
import { build, type Runner, type Tables } from '../../store/tables.ts';

/** The day under which windows own a record; all that are in no range of days stand under one before them. */
export function owningDay(createdAt: unknown): Day {
  const inEra = typeof createdAt === 'string' && createdAt >= eraStart && createdAt < eraEnd;
  return inEra ? (createdAt.slice(0, 10) as Day) : outsideStart;
}

export function suppressionsIn(database: Database, runner: Runner) {
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
    /** Takes note of records that were kept out of a page, and of the day under which the server has each. */
    note: (resource: ResourceName, records: readonly KeptOutRecord[], at: Timestamp): void => {
      for (const { id, user, createdAt } of records) {
        noteRow({ resource, id, user_id: user, since: at, seen_day: owningDay(createdAt) });
        if (idsOf(resource).has(id)) continue;
        // It was someone else's when the mirror took it in.
        database.prepare(`DELETE FROM ${quoteName(resource)} WHERE "id" = ?`).run(BigInt(id));
        idsOf(resource).add(id);
      }
    },
    /** The pages without the time at which the last record of one was created, where that record is kept out. */
    withoutTimes: (resource: ResourceName, pages: readonly RememberedPage[]) => {
      const ids = idsOf(resource);
      return pages.map((page) => (ids.has(Number(page.ids.at(-1) ?? NaN)) ? { ...page, lastCreatedAt: null } : page));
    },
    /** What the server has of it, in a window of these days or in all. */
    count: (resource: ResourceName, range: DayRange = everything): number =>
      runner.first(heldIn(resource, range).select((count) => count.fn.countAll<number>().as('rows')))?.rows ?? 0,
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
    /** Has the table read anew: only who holds the sync lock may change it, so once a run is enough. */
    reload: (): void => {
      sets = undefined;
    },
  };
}
