/** Verifying over an SQLite file, on connections that cannot write. Fills src/mirror/store/verify-types.ts. */
import type { Database } from 'better-sqlite3';
import type { RecordKey, ServedRecord } from '../../model/records.ts';
import { resourceNames, type ResourceName } from '../../model/resources.ts';
import type { Stretch, VerifyStore } from './verify-types.ts';
import { checkSoundness } from '../../store/file-kind.ts';
import { usualForm } from './landmarks.ts';
import { mirrorKind } from '../../store/migrations.ts';
import { openMirrorStoreForReading } from './mirror-store.ts';
import { openMirrorForReading } from '../../store/open.ts';
import { recordComparison } from './record-comparison.ts';
import { quoteName } from '../../store/schema.ts';
import { ownersOf } from './suppressions.ts';

/** Opens the mirror to be compared; it is never written to. Throws `FileError`. The caller closes it. */
export function openVerifyStore(file: string): VerifyStore {
  const store = openMirrorStoreForReading(file);
  const database = openMirrorForReading(file);
  const parts = new Map(
    resourceNames.map((name) => [
      name,
      { compare: recordComparison(database, name), createdCount: createdCount(database, name) },
    ]),
  );
  const partOf = (resource: ResourceName) => {
    const part = parts.get(resource);
    if (part === undefined) throw new Error(`no table for ${resource}`);
    return part;
  };
  const isHidden = (resource: ResourceName, id: RecordKey, record: ServedRecord): boolean =>
    store.suppressedIds(resource).has(Number(id)) ||
    (resource === 'emails' && ownersOf(record).some((owner) => store.suppressedIds('users').has(owner)));
  return {
    checkSoundness: () => checkSoundness(mirrorKind, database, file),
    windows: (resource) => store.windows(resource),
    unseenIds: (window, seen) => store.unseenIds(window, seen),
    liveCount: (resource, range) => store.liveCount(resource, range),
    accountedCount: (resource, range) => store.accountedCount(resource, range),
    suppressedIds: (resource) => store.suppressedIds(resource),
    freshAsOf: (resource) => store.freshAsOf(resource),
    capability: (name, resource) => store.capability(name, resource),
    compare: (resource, records) => {
      const { compare } = partOf(resource);
      return records.map((record) => {
        const comparison = compare(record);
        return comparison.kind === 'missing' && isHidden(resource, comparison.id, record)
          ? { kind: 'hidden', id: comparison.id }
          : comparison;
      });
    },
    createdCount: (resource, stretch) => partOf(resource).createdCount(stretch),
    commitMark: () => Number(database.pragma('data_version', { simple: true })),
    close: () => {
      database.close();
      store.close();
    },
  };
}

function createdCount(database: Database, resource: ResourceName): (stretch?: Stretch) => number {
  const dated = `SELECT count(*) FROM ${quoteName(resource)} WHERE "created_at" GLOB '${usualForm}'`;
  const all = database.prepare<[], number>(dated).pluck();
  const within = database
    .prepare<[string, string], number>(`${dated} AND "created_at" >= ? AND "created_at" < ?`)
    .pluck();
  return (stretch) => (stretch === undefined ? all.get() : within.get(stretch.from, stretch.to)) ?? 0;
}
