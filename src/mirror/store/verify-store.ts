/** Verifying over an SQLite file, on connections that cannot write. Fills src/mirror/store/verify-types.ts. */
import type { Database } from 'better-sqlite3';
import { resourceNames, type ResourceName } from '../../model/resources.ts';
import type { Stretch, VerifyStore } from './verify-types.ts';
import { checkSoundness } from '../../store/file-kind.ts';
import { usualForm } from './landmarks.ts';
import { mirrorKind } from '../../store/migrations.ts';
import { openMirrorStoreForReading } from './mirror-store.ts';
import { openMirrorForReading } from '../../store/open.ts';
import { rowComparison } from './row-comparison.ts';
import { quoteName } from '../../store/schema.ts';

/** Opens the mirror to be compared; it is never written to. Throws `FileError`. The caller closes it. */
export function openVerifyStore(file: string): VerifyStore {
  const store = openMirrorStoreForReading(file);
  const database = openMirrorForReading(file);
  const parts = new Map(
    resourceNames.map((name) => [
      name,
      { compare: rowComparison(database, name), createdCount: createdCount(database, name) },
    ]),
  );
  const partOf = (resource: ResourceName) => {
    const part = parts.get(resource);
    if (part === undefined) throw new Error(`no table for ${resource}`);
    return part;
  };
  return {
    checkSoundness: () => checkSoundness(mirrorKind, database, file),
    windows: (resource) => store.windows(resource),
    unseenIds: (window, seen) => store.unseenIds(window, seen),
    liveCount: (resource, range) => store.liveCount(resource, range),
    accountedCount: (resource, range) => store.accountedCount(resource, range),
    keptOut: (resource) => store.keptOut(resource),
    freshAsOf: (resource) => store.freshAsOf(resource),
    capability: (name, resource) => store.capability(name, resource),
    compare: (resource, rows) => partOf(resource).compare(rows),
    landmarks: (resource, order, count) => store.landmarks(resource, order, count),
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
