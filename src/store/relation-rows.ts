/** Writing the related records of a page's parents: rows that did not change are not written, vanished ones go. */
import type { Database } from 'better-sqlite3';
import { keyOf, keysJson, type RecordKey } from '../model/records.ts';
import type { RelationTable } from '../model/relations.ts';
import type { RelatedRow } from '../model/page-rows.ts';
import type { RelatedKey } from './relation-schema.ts';
import { quoteName } from './schema.ts';

interface StoredKey {
  readonly parent: bigint;
  readonly key: string;
}

/**
 * A function that makes the rows of these parents exactly the given ones, within the transaction at hand; gives the keys
 * of the records that were written.
 */
export function relationRows(
  database: Database,
  { table, parentColumn }: RelationTable,
): (parents: readonly (readonly [RecordKey, readonly RelatedRow[]])[]) => ReadonlySet<RelatedKey> {
  const name = quoteName(table);
  const parent = quoteName(parentColumn);
  const stored = database.prepare<[string], StoredKey>(
    `SELECT ${parent} AS parent, "_key" AS key FROM ${name} WHERE ${parent} IN (SELECT value FROM json_each(?))`,
  );
  stored.safeIntegers();
  const remove = database.prepare(`DELETE FROM ${name} WHERE ${parent} = ? AND "_key" = ?`);
  const put = database.prepare(
    `INSERT INTO ${name} (${parent}, "_key", "id", "record") VALUES (?, ?, ?, ?)
     ON CONFLICT (${parent}, "_key") DO UPDATE SET "id" = excluded."id", "record" = excluded."record"
     WHERE "id" IS NOT excluded."id" OR "record" IS NOT excluded."record"`,
  );
  return (parents) => {
    const wanted = new Map(parents.map(([id, rows]) => [id, new Set(rows.map(({ key }) => key))] as const));
    for (const { parent: id, key } of stored.all(keysJson(parents.map(([id]) => id)))) {
      if (!(wanted.get(keyOf(id))?.has(key) ?? false)) remove.run(id, key);
    }
    const written = new Set<RelatedKey>();
    for (const [id, rows] of parents) {
      for (const row of rows) {
        const { changes } = put.run(BigInt(id), row.key, row.id, row.record);
        if (changes > 0) for (const key of row.keys) written.add(key);
      }
    }
    return written;
  };
}
