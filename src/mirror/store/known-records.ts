/** Rows by their creation time, where it is one that can be compared. */
import type { Database } from 'better-sqlite3';
import { keyOf } from '../../model/records.ts';
import type { ResourceName } from '../../model/resources.ts';
import type { StoredKnownRecord } from '../../store/mirror-types.ts';
import { quoteName } from '../../store/schema.ts';

/** The form in which the API writes its timestamps; only such texts sort as the times that they stand for. */
export const usualForm = '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9]*Z';

type KnownRecords = (order: 'newest' | 'oldest', count: number) => StoredKnownRecord[];

/** Reads the resource's rows from either end of time. */
export function knownRecordsIn(database: Database, resource: ResourceName): KnownRecords {
  const select = (direction: 'ASC' | 'DESC') =>
    database.prepare<[number], { id: bigint; createdAt: string }>(
      `SELECT "id", "created_at" AS createdAt FROM ${quoteName(resource)} WHERE "created_at" GLOB '${usualForm}'
       ORDER BY "created_at" ${direction}, "id" ${direction} LIMIT ?`,
    );
  const ends = { newest: select('DESC'), oldest: select('ASC') };
  for (const each of Object.values(ends)) each.safeIntegers();
  return (order, count) => ends[order].all(count).map(({ id, createdAt }) => ({ id: keyOf(id), createdAt }));
}
