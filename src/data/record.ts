/** One record of the mirror with all that is kept of it: its fields, how they came to be, and what belongs to it. */
import type { RecordKey } from '../model/records.ts';
import { relationTables, type ResourceName, resourceOf } from '../model/resources.ts';
import { type Timestamp, timestampOf } from '../model/time.ts';
import type { Cell, Relation, RecordChange, Row } from '../store/reading-types.ts';
import type { Snapshot } from '../store/reading.ts';
import { quoteName, servedColumns } from '../store/schema.ts';
import { changesOf } from './changes.ts';
import { checkAsOf } from './selection.ts';

export interface RecordField {
  readonly name: string;
  readonly value: Cell;
}

/** Related records of one name. */
export type RelatedRecords = ReturnType<typeof relatedIn>;

export const recordLimits = { related: 20, relatedColumns: 8, changes: 200 } as const;

const always = { from: timestampOf(0), to: '9999-12-31T23:59:59.999999Z' as Timestamp };

/** The record, as it was `at` a time or is now; undefined where there never was one. Throws a UsageError where then is not known. */
export function recordOf(snapshot: Snapshot, resource: ResourceName, id: RecordKey, at: Timestamp | null) {
  const key = BigInt(id);
  const table = snapshot.relations().find(({ name }) => name === resource);
  const names = table?.columns.map(({ name }) => name) ?? [];
  const rows = snapshot.select({ relation: resource, columns: names, where: `"id" = ${key}`, limit: 1 });
  const [live] = [...rows.batches(() => 1)].flat();
  const span = { ...always, id: key };
  const changes = [...changesOf(snapshot, { resources: [resource], span, ignore: [] })].reverse();
  if (live === undefined && changes.length === 0) return undefined;
  const warning = at === null ? null : (checkAsOf(snapshot, resource, at) ?? null);
  const then = (time: Timestamp) => fieldsAt(resource, [...snapshot.changes(resource, span)], live, time, names);
  return {
    /** As it is now, or was at the time; null where the mirror did not hold it then. */
    fields: at === null ? fieldsOf(names, live) : then(at),
    isLive: live !== undefined,
    /** The newest first. */
    changes: changes.slice(0, recordLimits.changes),
    related: relatedOf(snapshot, resource, key),
    /** What should be known of the state at a time; null where there is nothing to say. */
    warning,
  };
}

function fieldsOf(names: readonly string[], row: Row | undefined): RecordField[] | null {
  return row === undefined ? null : names.map((name, at) => ({ name, value: row[at] ?? null }));
}

/** What the last change before then left, or what the first one after it found. */
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

/** The related records that came with it, and of a user the emails: those of them that an index leads to. */
function relatedOf(snapshot: Snapshot, resource: ResourceName, id: bigint): RelatedRecords[] {
  const relations = snapshot.relations();
  const named = (name: string): Relation | undefined => relations.find((each) => each.name === name);
  const came = relationTables
    .filter((each) => each.resource === resource)
    .flatMap(({ view, parentColumn }) => {
      const relation = named(view);
      return relation === undefined ? [] : [relatedIn(snapshot, relation, parentColumn, id)];
    });
  const emails = named('emails');
  if (resource !== 'users' || emails === undefined) return came.filter(({ rows }) => rows.length > 0);
  const columns = ['id', 'receiver', 'subject', 'is_sent', 'created_at'];
  const sent = relatedIn(snapshot, emails, 'user_id', id, columns);
  return [sent, ...came].filter(({ rows }) => rows.length > 0);
}

function relatedIn(
  snapshot: Snapshot,
  relation: Relation,
  by: string,
  id: bigint,
  names = relation.columns.map(({ name }) => name).filter((name) => name !== by),
) {
  const result = snapshot.select({
    relation: relation.name,
    columns: names.slice(0, recordLimits.relatedColumns),
    where: `${quoteName(by)} = ${id}`,
    ...(relation.kind === 'table' && { order: '"id" DESC' }),
    limit: recordLimits.related + 1,
  });
  const rows = [...result.batches(() => recordLimits.related + 1)].flat();
  return {
    relation: relation.name,
    by,
    columns: result.columns,
    rows: rows.slice(0, recordLimits.related),
    hasMore: rows.length > recordLimits.related,
  };
}
