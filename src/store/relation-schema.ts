/** Tables of related records, and their flat views, made when first requested ("The mirror file"). */
import { firstFree } from '../model/free-name.ts';
import type { RelationTable } from '../model/relations.ts';
import { numberColumn, quoteName, quoteText } from './schema.ts';

/** A key of a related record; null stands for records that are no objects, which have no keys. */
export type RelatedKey = string | null;

/** Columns of a view are bounded by SQLite; what has more keys than this is a dictionary and no record. */
export const mostFlatKeys = 1_000;

/** Ids are text: some servers of the family have numbers, some UUIDs, and a column has one type. */
export function relationTableSql({ resource, table, parentColumn }: RelationTable): string {
  return `CREATE TABLE IF NOT EXISTS ${quoteName(table)} (
  ${quoteName(parentColumn)} INTEGER NOT NULL REFERENCES ${quoteName(resource)} ("id") ON DELETE CASCADE,
  "id" TEXT,
  "record" TEXT NOT NULL,
  "_key" TEXT NOT NULL,
  ${numberColumn},
  PRIMARY KEY (${quoteName(parentColumn)}, "_key")
) STRICT`;
}

/** The statements that put the view with these keys in the place of the one before. */
export function flatViewSql({ table, view, parentColumn }: RelationTable, keys: readonly RelatedKey[]): string {
  // SQLite ignores the case of column names.
  const taken = new Set([parentColumn.toLowerCase()]);
  const columns = keys.slice(0, mostFlatKeys).map((key) => `${valueSql(key)} AS ${quoteName(freeName(key, taken))}`);
  return `DROP VIEW IF EXISTS ${quoteName(view)};
CREATE VIEW ${quoteName(view)} AS
SELECT
  ${[quoteName(parentColumn), ...columns].join(',\n  ')}
FROM ${quoteName(table)}`;
}

function freeName(key: RelatedKey, taken: Set<string>): string {
  const name = key === null ? 'value' : key.replaceAll('\0', '') || 'empty';
  const isTaken = (tried: string): boolean => taken.has(tried.toLowerCase());
  const free = firstFree(isTaken, (number) => (number === null ? name : `${name}_${number}`));
  taken.add(free.toLowerCase());
  return free;
}

// Readable in a path of any SQLite; how others are escaped there differs between its versions.
const plainKey = /^[^"\\\p{Cc}]+$/u;

function valueSql(key: RelatedKey): string {
  if (key === null) return `CASE WHEN json_type("record") <> 'object' THEN json_extract("record", '$') END`;
  if (plainKey.test(key)) return `json_extract("record", ${textSql(`$."${key}"`)})`;
  return `(SELECT value FROM json_each("record") WHERE json_type("record") = 'object' AND key = ${textSql(key)})`;
}

/** Text of which SQL has no way to write a NUL. */
function textSql(text: string): string {
  return text.split('\0').map(quoteText).join(' || char(0) || ');
}
