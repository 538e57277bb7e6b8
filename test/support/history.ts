/** The tables of a mirror, now and at earlier times, cell for cell. */
import { resourceOf, type ResourceName } from '../../src/model/resources.ts';
import type { Timestamp } from '../../src/model/time.ts';
import type { Row } from '../../src/data/reading-types.ts';
import { type Snapshot, openReadingStore } from '../../src/data/reading.ts';

export function withSnapshot<T>(file: string, work: (snapshot: Snapshot) => T): T {
  const store = openReadingStore(file);
  const snapshot = store.snapshot();
  try {
    return work(snapshot);
  } finally {
    snapshot.release();
    store.close();
  }
}

/** All columns of the resource's table, including those of the mirror. */
export function columnsOf(resource: ResourceName): string[] {
  return [...resourceOf(resource).fields.map(({ name }) => name), '_extra', '_first_seen_at', '_changed_at'];
}

/** The rows by id, with the exact types of their cells; the current ones, or as the mirror knew them at a time. */
export function tableRows(
  file: string,
  resource: ResourceName,
  asOf?: Timestamp,
  columns: readonly string[] = columnsOf(resource),
): Row[] {
  return withSnapshot(file, (snapshot) => [
    ...snapshot.select({ relation: resource, columns, ...(asOf === undefined ? {} : { asOf }) }).batches(() => 1_000),
  ]).flat();
}
