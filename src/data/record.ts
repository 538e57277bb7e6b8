/** Reads everything that the mirror keeps about one record: its fields, their changes, and the records that belong to it. */
import type { RecordKey } from '../model/records.ts';
import { relationTables, type ResourceName, resourceOf } from '../model/resources.ts';
import { type Timestamp, timestampOf } from '../model/time.ts';
import type { Cell, Relation, RecordChange, ResultColumn, Row } from './reading-types.ts';
import type { Snapshot } from './reading.ts';
import { quoteName, servedColumns } from '../store/schema.ts';
import { changesOf, endOfTime } from './changes.ts';
import { checkAsOf } from './selection.ts';

export interface RecordField {
  readonly name: string;
  readonly value: Cell;
}

/** Related records of one name. */
export interface RelatedRecords {
  readonly relation: string;
  readonly parentColumn: string;
  readonly columns: readonly ResultColumn[];
  readonly rows: readonly Row[];
  /** There are more than these. */
  readonly hasMore: boolean;
}

export const recordLimits = { related: 20, relatedColumns: 8, changes: 200 } as const;

const allTime = { from: timestampOf(0), to: endOfTime };

/**
 * Returns the record as it was `at` that time, or as it is now (null); undefined if there never was one. Throws a UsageError if the
 * mirror does not know that time.
 */
export function recordOf(snapshot: Snapshot, resource: ResourceName, id: RecordKey, at: Timestamp | null) {
  const key = BigInt(id);
  const table = snapshot.relations().find(({ name }) => name === resource);
  const names = table?.columns.map(({ name }) => name) ?? [];
  const rows = snapshot.select({ relation: resource, columns: names, where: `"id" = ${key}`, limit: 1 });
  const [live] = [...rows.batches(() => 1)].flat();
  const span = { ...allTime, id: key };
  const changes = [...changesOf(snapshot, { resources: [resource], span, ignore: [] })].reverse();
  if (live === undefined && changes.length === 0) return undefined;
  const warning = at === null ? null : (checkAsOf(snapshot, resource, at) ?? null);
  return {
    /** Null if the mirror did not hold the record at that time. */
    fields:
      at === null ? fieldsOf(names, live) : fieldsAt(resource, [...snapshot.changes(resource, span)], live, at, names),
    isLive: live !== undefined,
    /** The newest first. */
    changes: changes.slice(0, recordLimits.changes),
    related: relatedOf(snapshot, resource, key),
    /** Says if the state at that time is incomplete. */
    warning,
  };
}

function fieldsOf(names: readonly string[], row: Row | undefined): RecordField[] | null {
  return row === undefined ? null : names.map((name, at) => ({ name, value: row[at] ?? null }));
}

/** The state that the last change up to then left, or that the first one after it found. */
function fieldsAt(
  resource: ResourceName,
  changes: readonly RecordChange[],
  live: Row | undefined,
  at: Timestamp,
  names: readonly string[],
): RecordField[] | null {
  const recorded = servedColumns(resourceOf(resource));
  const before = changes.findLast((change) => change.at <= at);
  if (before !== undefined) return fieldsOf(recorded, before.after ?? undefined);
  const [after] = changes;
  return after === undefined ? fieldsOf(names, live) : fieldsOf(recorded, after.before ?? undefined);
}

/** The related records that were mirrored with it, and the emails of a user. An index leads to each of them. */
function relatedOf(snapshot: Snapshot, resource: ResourceName, id: bigint): RelatedRecords[] {
  const relations = snapshot.relations();
  const read = (name: string, parentColumn: string, columns?: string[]): RelatedRecords[] => {
    const relation = relations.find((each) => each.name === name);
    return relation === undefined ? [] : [relatedIn(snapshot, relation, parentColumn, id, columns)];
  };
  const emails =
    resource === 'users' ? read('emails', 'user_id', ['id', 'receiver', 'subject', 'is_sent', 'created_at']) : [];
  const included = relationTables
    .filter((each) => each.resource === resource)
    .flatMap(({ view, parentColumn }) => read(view, parentColumn));
  return [...emails, ...included].filter(({ rows }) => rows.length > 0);
}

function relatedIn(
  snapshot: Snapshot,
  relation: Relation,
  parentColumn: string,
  id: bigint,
  columns = relation.columns.map(({ name }) => name).filter((name) => name !== parentColumn),
): RelatedRecords {
  const result = snapshot.select({
    relation: relation.name,
    columns: columns.slice(0, recordLimits.relatedColumns),
    where: `${quoteName(parentColumn)} = ${id}`,
    ...(relation.kind === 'table' && { order: '"id" DESC' }),
    limit: recordLimits.related + 1,
  });
  const rows = [...result.batches(() => recordLimits.related + 1)].flat();
  return {
    relation: relation.name,
    parentColumn,
    columns: result.columns,
    rows: rows.slice(0, recordLimits.related),
    hasMore: rows.length > recordLimits.related,
  };
}
