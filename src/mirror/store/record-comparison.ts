/** A record of the server against its row, by the rule that decides in an upsert whether a row changed. */
import type { Database } from 'better-sqlite3';
import type { ServedRecord } from '../../model/records.ts';
import { resourceOf, type ResourceName } from '../../model/resources.ts';
import type { Comparison } from './verify-types.ts';
import type { Cell } from '../../store/cell.ts';
import { rowReader } from '../../store/record-row.ts';
import { quoteName } from '../../store/schema.ts';

/** A function that compares one record with the row that it would have been stored as. */
export function recordComparison(database: Database, name: ResourceName): (record: ServedRecord) => Comparison {
  const resource = resourceOf(name);
  const read = rowReader(resource);
  const columns = [...resource.fields.map((field) => field.name), '_extra'].slice(1);
  // SQLite itself compares: to it 5 and 5.0 are one value, and a row that differs in that alone is never written.
  const differs = columns.map((column) => `${quoteName(column)} IS NOT ?`);
  const flags = database
    .prepare<Cell[], number[]>(`SELECT ${differs.join(', ')} FROM ${quoteName(name)} WHERE "id" = ?`)
    .raw();
  return (record) => {
    // How a record departs from the reference is the sync's to tell.
    const row = read(record, () => {});
    if (row === undefined) return { kind: 'unusable' };
    const { id, cells } = row;
    const found = flags.get(...cells.slice(1), BigInt(id));
    if (found === undefined) return { kind: 'missing', id };
    const fields = columns.filter((_, index) => found[index] === 1);
    return fields.length === 0 ? { kind: 'equal', id } : { kind: 'different', id, fields };
  };
}
