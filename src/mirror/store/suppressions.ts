/** The table of what is kept out of the mirror: ids of forgotten people and of their emails, and nothing about them. */
import type { Database } from 'better-sqlite3';
import type { Insertable } from 'kysely';
import { eraEnd, eraStart, everything, outsideStart, type DayRange } from '../../model/era.ts';
import { recordId, type ServedRecord, type RecordKey } from '../../model/records.ts';
import type { RelationTable } from '../../model/relations.ts';
import { resourceNames, type ResourceName } from '../../model/resources.ts';
import type { Day, Timestamp } from '../../model/time.ts';
import type { RememberedPage } from '../../store/mirror-types.ts';
import { isObject } from '../../store/related-record.ts';
import { quoteName } from '../../store/schema.ts';
import { build, type Runner, type Tables } from '../../store/tables.ts';

export interface Suppressions {
  ids(resource: ResourceName): ReadonlySet<number>;
  /** Whether no record of the resource can be one to keep out. */
  none(resource: ResourceName): boolean;
  /** The records without those that are kept out, of which the day is remembered under which the server has them. */
  filter(resource: ResourceName, records: readonly ServedRecord[], at: Timestamp): readonly ServedRecord[];
  /** The pages without the time at which the last record of one was created, where that record is kept out. */
  withoutTimes(resource: ResourceName, pages: readonly RememberedPage[]): readonly RememberedPage[];
  /** Whether a related record belongs to someone who is kept out. */
  readonly hides: (relation: RelationTable, related: unknown) => boolean;
  /** What the server has of it, in a window of these days or in all. */
  count(resource: ResourceName, range?: DayRange): number;
  releaseUnseen(resource: ResourceName, window: DayRange, seen: ReadonlySet<RecordKey>): void;
  /** Has the table read anew: only who holds the sync lock may change it, so once a run is enough. */
  reload(): void;
}

/** The day under which windows own a record; all that are in no range of days stand under one before them. */
export function owningDay(createdAt: unknown): Day {
  const inEra = typeof createdAt === 'string' && createdAt >= eraStart && createdAt < eraEnd;
  return inEra ? (createdAt.slice(0, 10) as Day) : outsideStart;
}

/** Ids of users that a record, of the list of emails or a related one, says it belongs to. */
export function ownersOf(record: unknown): number[] {
  if (!isObject(record)) return [];
  const { user } = record as { user?: unknown };
  const owners = [recordId({ id: record['user_id'] }), isObject(user) ? recordId(user) : undefined];
  return owners.filter((id) => id !== undefined);
}

export function suppressionsIn(database: Database, runner: Runner): Suppressions {
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

  /** What is kept out of the window although the server has it. */
  function heldIn(resource: ResourceName, { from, to }: DayRange) {
    return build
      .selectFrom('mirror_suppressions')
      .where('resource', '=', resource)
      .where('seen_day', '>=', from)
      .where('seen_day', '<', to);
  }

  function note(row: Insertable<Tables['mirror_suppressions']>): void {
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

  function forgottenOwner(record: ServedRecord): number | undefined {
    return ownersOf(record).find((user) => idsOf('users').has(user));
  }

  function keptOut(resource: ResourceName, record: ServedRecord, id: number): number | undefined {
    const owner = resource === 'emails' ? forgottenOwner(record) : undefined;
    return owner ?? (idsOf(resource).has(id) ? id : undefined);
  }

  function none(resource: ResourceName): boolean {
    return idsOf(resource).size === 0 && (resource !== 'emails' || idsOf('users').size === 0);
  }

  return {
    ids: idsOf,
    none,
    filter: (resource, records, at) => {
      if (none(resource)) return records;
      return records.filter((record) => {
        const id = recordId(record);
        const user = id === undefined ? undefined : keptOut(resource, record, id);
        if (id === undefined || user === undefined) return true;
        note({ resource, id, user_id: user, since: at, seen_day: owningDay(record['created_at']) });
        if (!idsOf(resource).has(id)) {
          // It was someone else's when the mirror took it in.
          database.prepare(`DELETE FROM ${quoteName(resource)} WHERE "id" = ?`).run(BigInt(id));
          idsOf(resource).add(id);
        }
        return false;
      });
    },
    withoutTimes: (resource, pages) => {
      const ids = idsOf(resource);
      return pages.map((page) => (ids.has(Number(page.ids.at(-1) ?? NaN)) ? { ...page, lastCreatedAt: null } : page));
    },
    hides: ({ resource, relation }, related) => {
      if (idsOf('users').size === 0 || !isObject(related)) return false;
      const id = recordId(related);
      if (relation === 'user' && id !== undefined && idsOf('users').has(id)) return true;
      // What is called so elsewhere need not be emails that were sent.
      if (resource === 'users' && relation === 'emails' && id !== undefined && idsOf('emails').has(id)) return true;
      return forgottenOwner(related) !== undefined;
    },
    count: (resource, range = everything) =>
      runner.first(heldIn(resource, range).select((count) => count.fn.countAll<number>().as('rows')))?.rows ?? 0,
    releaseUnseen: (resource, window, seen) => {
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
    reload: () => {
      sets = undefined;
    },
  };
}
