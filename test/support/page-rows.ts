/** Records in the form in which a page reaches the store. */
import type { PageRows, ServedRecord } from '../../src/model/records.ts';
import type { ResourceName } from '../../src/model/resources.ts';
import { recordRows } from '../../src/mirror/rows.ts';

export function pageRows(resource: ResourceName, records: readonly ServedRecord[]): PageRows {
  return { ...recordRows(resource, records), keptOut: [], related: [] };
}
