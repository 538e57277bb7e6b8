/** Compares pages with a mirror and counts its rows, over connections that cannot write. */
import type { Database } from 'better-sqlite3';
import { openMirrorStoreForReading } from './mirror-store.ts';
import { cellIn, eachRow } from './upsert.ts';
import { keyOf, keysJson, type PageRows, type RecordKey, type RelatedRows } from '../../model/records.ts';
import { relationTable, type ResourceName, resourceNames, resourceOf } from '../../model/resources.ts';
import { checkSoundness } from '../../store/file-kind.ts';
import { mirrorKind, openMirrorForReading } from '../../store/open.ts';
import { quoteName, servedColumns } from '../../store/schema.ts';

/** How the mirror's row compares to a record of the server. */
export type Comparison =
  /** `hidden`: the record is suppressed. */
  | { readonly kind: 'equal' | 'missing' | 'hidden'; readonly id: RecordKey }
  /** `fields`: what differs: fields of the reference, `_extra`, or related records by the name of their relation. */
  | { readonly kind: 'different'; readonly id: RecordKey; readonly fields: readonly string[] };

export type VerifyStore = ReturnType<typeof openVerifyStore>;

/** Returns a function that compares the rows of a page with the mirror's, and releases their memory. */
function rowComparison(database: Database, name: ResourceName): (rows: PageRows) => Comparison[] {
  const table = quoteName(name);
  const columns = servedColumns(resourceOf(name));
  // SQLite compares, since a sync does not write a row that differs only in 5 and 5.0, which are equal to SQLite.
  const differs = columns.slice(1).map((column) => `(mine.${quoteName(column)} IS NOT ${cellIn(column)})`);
  const differing = database
    .prepare<[Uint8Array], bigint[]>(
      `SELECT ${cellIn('id')}, mine.id IS NULL, ${differs.join(', ')}
       FROM ${eachRow} LEFT JOIN ${table} AS mine ON mine.id = ${cellIn('id')}
       WHERE mine.id IS NULL OR ${differs.join(' OR ')}`,
    )
    .raw()
    .safeIntegers();
  const present = database
    .prepare<[string], bigint>(`SELECT id FROM ${table} WHERE id IN (SELECT value FROM json_each(?))`)
    .pluck()
    .safeIntegers();
  return ({ json, ids, keptOut, related }) => {
    const found = new Map<RecordKey, Comparison>(ids.map((id) => [id, { kind: 'equal', id }]));
    for (const [key = 0n, isMissing, ...flags] of differing.all(json)) {
      const id = keyOf(key);
      const fields = columns.slice(1).filter((_, at) => flags[at] === 1n);
      found.set(id, isMissing === 1n ? { kind: 'missing', id } : { kind: 'different', id, fields });
    }
    const kept = new Set(present.all(keysJson(keptOut.map(({ id }) => id))).map(keyOf));
    for (const relation of related) {
      for (const id of differingParents(database, name, relation)) {
        const each = found.get(id);
        const fields = each?.kind === 'different' ? each.fields : [];
        if (each?.kind !== 'missing') found.set(id, { kind: 'different', id, fields: [...fields, relation.relation] });
      }
    }
    for (const { id } of keptOut) found.set(id, { kind: kept.has(id) ? 'equal' : 'hidden', id });
    return [...found.values()];
  };
}

/** Returns the records of a page whose related records are others in the mirror. */
function differingParents(database: Database, resource: ResourceName, { relation, parents }: RelatedRows): RecordKey[] {
  const { table, parentColumn } = relationTable(resource, relation);
  const parent = quoteName(parentColumn);
  const stored = database
    .prepare<[string], [parent: bigint, ...cells: (string | null)[]]>(
      `SELECT ${parent}, "_key", "id", "record" FROM ${quoteName(table)} WHERE ${parent} IN (SELECT value FROM json_each(?))`,
    )
    .raw()
    .safeIntegers();
  const mine = Map.groupBy(stored.all(keysJson(parents.map(([id]) => id))), ([id]) => keyOf(id));
  const text = (rows: readonly unknown[][]) => JSON.stringify(rows.map((cells) => JSON.stringify(cells)).toSorted());
  return parents.flatMap(([id, rows]) => {
    const served = rows.map(({ key, id: own, record }) => [key, own === null ? null : String(own), record]);
    const kept = (mine.get(id) ?? []).map(([, ...cells]) => cells);
    return text(served) === text(kept) ? [] : [id];
  });
}

/** Opens the mirror for a comparison, which never writes to it. Throws `FileError`. The caller closes it. */
export function openVerifyStore(file: string) {
  const store = openMirrorStoreForReading(file);
  const database = openMirrorForReading(file);
  const parts = new Map(resourceNames.map((name) => [name, rowComparison(database, name)]));
  const partOf = (resource: ResourceName) => {
    const part = parts.get(resource);
    if (part === undefined) throw new Error(`no table for ${resource}`);
    return part;
  };
  return {
    // Only what reads.
    windows: store.windows,
    unseenIds: store.unseenIds,
    liveCount: store.liveCount,
    accountedCount: store.accountedCount,
    midnightCount: store.midnightCount,
    keptOut: store.keptOut,
    includedRelations: store.includedRelations,
    freshAsOf: store.freshAsOf,
    capability: store.capability,
    listSurplus: store.listSurplus,
    knownRecords: store.knownRecords,
    /** Checks the file itself, unless it is too large for that. Throws a FileError if it is damaged. */
    checkSoundness: () => checkSoundness(mirrorKind, database, file),
    /** Compares each record of the page, as a sync would store it, with its row. */
    compare: (resource: ResourceName, rows: PageRows) => partOf(resource)(rows),
    /** Differs between two calls exactly if something was committed to the mirror between them. */
    commitMark: () => Number(database.pragma('data_version', { simple: true })),
    close: () => {
      database.close();
      store.close();
    },
  };
}
