/** A resource's table as the mirror knew it at a time, in SQL. Section "History" of docs/architecture.md. */
import { type Resource, resourceNames, resourceOf, type ResourceName } from '../model/resources.ts';
import type { Timestamp } from '../model/time.ts';
import { historyTableOf, quoteName, quoteText, recordedColumns, typeOfColumn } from './schema.ts';

/** A cell of a version, exactly as the row held it, and of the type that the row's column is declared with. */
export function versionCell(resource: Resource, version: string, column: string): string {
  if (column === 'id') return `${version}.id`;
  return `CAST(${version}.record ->> '$.${quoteName(column)}' AS ${typeOfColumn(resource, column)})`;
}

/** Every resource's name means its table of then; of versions that overlap, since a clock was set back, the last. */
export function withTablesAsOf(at: Timestamp): string {
  return `WITH ${resourceNames.map((name) => `${quoteName(name)} AS (${tableAsOf(name, at)})`).join(',\n')}`;
}

function tableAsOf(name: ResourceName, at: Timestamp): string {
  const resource = resourceOf(name);
  const columns = recordedColumns(resource);
  const table = `main.${quoteName(name)}`;
  const history = `main.${historyTableOf(name)}`;
  const then = quoteText(at);
  // As something computed, the id does not tempt SQLite into reading all versions by id: those that ended since are few.
  const cells = columns.map((column) =>
    column === 'id' ? 'CAST(version.id AS INTEGER)' : versionCell(resource, 'version', column),
  );
  // With the affinities of both halves alike, SQLite merges them in the order of ids rather than sort the whole.
  const live = columns.map(quoteName);
  // Of a version, which number its row had is not kept.
  return `SELECT ${live.join(', ')}, "_changed_at", "_seq" FROM ${table} WHERE "_changed_at" <= ${then}
UNION ALL
SELECT ${cells.join(', ')}, version.valid_from, CAST(NULL AS INTEGER) FROM ${history} AS version
WHERE version.valid_from <= ${then} AND version.valid_to > ${then}
AND NOT EXISTS (SELECT 1 FROM ${table} AS live WHERE live."id" = version.id AND live."_changed_at" <= ${then})
AND NOT EXISTS (
  SELECT 1 FROM ${history} AS later WHERE later.id = version.id AND later.rowid > version.rowid
  AND later.valid_from <= ${then} AND later.valid_to > ${then})`;
}
