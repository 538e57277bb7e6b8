/** Records of the server against their rows, by the rule that decides in an upsert whether a row changed. */
import type { Database } from 'better-sqlite3';
import type { PageRows } from '../../model/page-rows.ts';
import { keyOf, keysJson, type RecordKey } from '../../model/records.ts';
import { releaseBytes } from '../../model/release-bytes.ts';
import { resourceOf, type ResourceName } from '../../model/resources.ts';
import { quoteName } from '../../store/schema.ts';
import type { Comparison } from './verify-types.ts';

/** A function that compares the rows of a page with those that the mirror has, and takes their memory. */
export function rowComparison(database: Database, name: ResourceName): (rows: PageRows) => Comparison[] {
  const table = quoteName(name);
  const columns = [...resourceOf(name).fields.map((field) => field.name), '_extra'];
  // SQLite itself compares: to it 5 and 5.0 are one value, and a row that differs in that alone is never written.
  const differs = columns.slice(1).map((column, at) => `(mine.${quoteName(column)} IS NOT value ->> ${at + 1})`);
  const differing = database
    .prepare<[Uint8Array], bigint[]>(
      `SELECT value ->> 0, mine.id IS NULL, ${differs.join(', ')}
       FROM jsonb_each(CAST(? AS TEXT)) LEFT JOIN ${table} AS mine ON mine.id = value ->> 0
       WHERE mine.id IS NULL OR ${differs.join(' OR ')}`,
    )
    .raw()
    .safeIntegers();
  const present = database
    .prepare<[string], bigint>(`SELECT id FROM ${table} WHERE id IN (SELECT value FROM json_each(?))`)
    .pluck()
    .safeIntegers();
  return ({ json, ids, keptOut }) => {
    const found = new Map<RecordKey, Comparison>(ids.map((id) => [id, { kind: 'equal', id }]));
    for (const [key = 0n, isMissing, ...flags] of differing.all(json)) {
      const id = keyOf(key);
      const fields = columns.slice(1).filter((_, at) => flags[at] === 1n);
      found.set(id, isMissing === 1n ? { kind: 'missing', id } : { kind: 'different', id, fields });
    }
    releaseBytes(json);
    const kept = new Set(present.all(keysJson(keptOut.map(({ id }) => id))).map(keyOf));
    for (const { id } of keptOut) found.set(id, { kind: kept.has(id) ? 'equal' : 'hidden', id });
    return [...found.values()];
  };
}
