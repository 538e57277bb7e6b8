/** Reads the mirror's state at a time, and the changes between two times, from rows and versions. Section "History" of docs/architecture.md. */
import type { Database, Statement } from 'better-sqlite3';
import { type Resource, type ResourceName, resourceNames, resourceOf } from '../model/resources.ts';
import { type Timestamp, timestampOf } from '../model/time.ts';
import type { ChangeSpan, HistoryReach, NumberedChange, RecordChange, Row } from './reading-types.ts';
import { historyTableOf, quoteName, quoteText, recordedColumns, servedColumns, typeOfColumn } from '../store/schema.ts';

/** SQL for a column's value in a version (a row called `version`), exactly as the row held it, with the column's declared type. */
function versionCell(resource: Resource, column: string): string {
  if (column === 'id') return 'version.id';
  return `CAST(version.record ->> '$.${quoteName(column)}' AS ${typeOfColumn(resource, column)})`;
}

/** The WITH clause that makes each resource's name mean its table at that time. If versions overlap because a clock was set back, the last one counts. */
export function withTablesAsOf(at: Timestamp): string {
  return `WITH ${resourceNames.map((name) => `${quoteName(name)} AS (${tableAsOf(name, at)})`).join(',\n')}`;
}

function tableAsOf(name: ResourceName, at: Timestamp): string {
  const resource = resourceOf(name);
  const columns = recordedColumns(resource);
  const table = `main.${quoteName(name)}`;
  const history = `main.${historyTableOf(name)}`;
  const then = quoteText(at);
  // With a plain `id`, SQLite would read all versions in the order of ids. The cast makes it look up the few that ended since.
  const cells = columns.map((column) =>
    column === 'id' ? 'CAST(version.id AS INTEGER)' : versionCell(resource, column),
  );
  // With equal affinities in both halves, SQLite merges them in the order of ids instead of sorting everything.
  const live = columns.map(quoteName);
  // A version does not keep the number that its row had, so `_seq` is NULL there.
  return `SELECT ${live.join(', ')}, "_changed_at", "_seq" FROM ${table} WHERE "_changed_at" <= ${then}
UNION ALL
SELECT ${cells.join(', ')}, version.valid_from, CAST(NULL AS INTEGER) FROM ${history} AS version
WHERE version.valid_from <= ${then} AND version.valid_to > ${then}
AND NOT EXISTS (SELECT 1 FROM ${table} AS live WHERE live."id" = version.id AND live."_changed_at" <= ${then})
AND NOT EXISTS (
  SELECT 1 FROM ${history} AS later WHERE later.id = version.id AND later.rowid > version.rowid
  AND later.valid_from <= ${then} AND later.valid_to > ${then})`;
}

/** A change with the version that it ended; for an insertion, the version that it began. Null stands for the live row. */
type Key = readonly [at: Timestamp, kind: RecordChange['kind'], id: bigint, version: bigint | null];

function keysSql(name: ResourceName, byId: boolean): string {
  const table = quoteName(name);
  const history = historyTableOf(name);
  const only = byId ? 'AND id = @id' : '';
  // True if the id did not exist before or had been deleted.
  const fresh = (row: string, before: string): string =>
    `coalesce((SELECT change FROM ${history} AS earlier WHERE earlier.id = ${row}.id ${before}
               ORDER BY earlier.rowid DESC LIMIT 1), 'deleted') = 'deleted'`;
  return `
SELECT at, kind, id, version FROM (
  SELECT "_changed_at" AS at, 'inserted' AS kind, id, NULL AS version FROM ${table} AS live
  WHERE "_changed_at" BETWEEN @from AND @to AND "_first_seen_at" = "_changed_at" ${only} AND ${fresh('live', '')}
  UNION ALL
  SELECT valid_from, 'inserted', id, rowid FROM ${history} AS version
  WHERE valid_to >= @from AND valid_from BETWEEN @from AND @to AND record ->> '_first_seen_at' = valid_from ${only}
  AND ${fresh('version', 'AND earlier.rowid < version.rowid')}
  UNION ALL
  SELECT valid_to, change, id, rowid FROM ${history} WHERE valid_to BETWEEN @from AND @to ${only}
)
ORDER BY at, id, version NULLS LAST, kind <> 'inserted'`;
}

function exact<P extends unknown[], R>(statement: Statement<P, R>): Statement<P, R> {
  return statement.raw(true).safeIntegers(true);
}

/** Yields the changes by time, and those of one record in the order in which they happened. */
export function* changesIn(database: Database, name: ResourceName, span: ChangeSpan): Generator<RecordChange> {
  const resource = resourceOf(name);
  const columns = servedColumns(resource);
  const history = historyTableOf(name);
  const cells = columns.map((column) => versionCell(resource, column)).join(', ');
  const versionOf = exact(
    database.prepare<[bigint], Row>(`SELECT ${cells} FROM ${history} AS version WHERE rowid = ?`),
  );
  const nextOf = exact(
    database.prepare<[bigint, bigint], Row>(
      `SELECT ${cells} FROM ${history} AS version WHERE id = ? AND rowid > ? ORDER BY rowid LIMIT 1`,
    ),
  );
  const rowOf = exact(
    database.prepare<[bigint], Row>(
      `SELECT ${columns.map(quoteName).join(', ')} FROM ${quoteName(name)} WHERE "id" = ?`,
    ),
  );
  const keys = exact(database.prepare<[ChangeSpan], Key>(keysSql(name, span.id !== undefined)));
  for (const [at, kind, id, version] of keys.iterate(span)) {
    const reported = version === null ? rowOf.get(id) : versionOf.get(version);
    if (reported === undefined) throw new Error(`${name} ${id} has no version ${version ?? 'of now'}`);
    switch (kind) {
      case 'inserted':
        yield { at, id, kind, before: null, after: reported };
        break;
      case 'updated':
        yield { at, id, kind, before: reported, after: nextOf.get(id, version ?? 0n) ?? rowOf.get(id) ?? null };
        break;
      case 'deleted':
        yield { at, id, kind, before: reported, after: null };
    }
  }
}

/**
 * A live row with a higher number, with the first version that ended after the number; or a tombstone, with the last one. Null if
 * there is no such version.
 */
type Touched = readonly [seq: bigint, id: bigint, gone: bigint, firstSeen: string | null, version: bigint | null];

/**
 * Yields what happened to each record after the number, in the order of the numbers; several changes of a record count as one.
 * `before` is the version at the number.
 * @param since the changes after the number began then or before; records first seen since then count as new
 */
export function* changesAfter(
  database: Database,
  name: ResourceName,
  after: number,
  since: Timestamp,
): Generator<NumberedChange> {
  const resource = resourceOf(name);
  const columns = servedColumns(resource);
  const [table, history] = [quoteName(name), historyTableOf(name)];
  const version = (order: string) =>
    `(SELECT ${order}(rowid) FROM ${history} AS v WHERE v.id = touched.id AND v."_seq" > @after)`;
  const touched = exact(
    database.prepare<[{ after: number }], Touched>(
      `SELECT "_seq" AS seq, id, 0, "_first_seen_at", ${version('min')} FROM ${table} AS touched WHERE "_seq" > @after
       UNION ALL
       SELECT seq, id, 1, NULL, ${version('max')} FROM mirror_deletions AS touched
       WHERE table_name = '${name}' AND seq > @after AND NOT EXISTS (SELECT 1 FROM ${table} AS live WHERE live.id = touched.id)
       ORDER BY seq`,
    ),
  );
  const cells = columns.map((column) => versionCell(resource, column)).join(', ');
  const versionOf = exact(
    database.prepare<[bigint], Row>(
      `SELECT record ->> '_first_seen_at', valid_to, ${cells} FROM ${history} AS version WHERE rowid = ?`,
    ),
  );
  const rowOf = exact(
    database.prepare<[bigint], Row>(
      `SELECT "_changed_at", ${columns.map(quoteName).join(', ')} FROM ${table} WHERE id = ?`,
    ),
  );
  for (const [seq, id, gone, firstSeen, rowid] of touched.iterate({ after })) {
    const [wasSeen, endedAt, ...before] = rowid === null ? [] : (versionOf.get(rowid) ?? []);
    const head = { seq: Number(seq), id };
    if (gone === 1n) {
      // If the person was forgotten, there is no version left.
      const at = (endedAt ?? since) as Timestamp;
      yield { ...head, at, kind: 'deleted', before: rowid === null ? null : before, after: null };
      continue;
    }
    const [changedAt, ...row] = rowOf.get(id) ?? [];
    const wasThere = typeof wasSeen === 'string' && wasSeen < since;
    const isNew = String(firstSeen) >= since;
    // Another record has the id now, or the record went and came back.
    if (wasThere && isNew) yield { ...head, at: endedAt as Timestamp, kind: 'deleted', before, after: null };
    if (isNew) yield { ...head, at: firstSeen as Timestamp, kind: 'inserted', before: null, after: row };
    // Without a version, only fields of `history.ignore` differ.
    else if (rowid !== null) yield { ...head, at: changedAt as Timestamp, kind: 'updated', before, after: row };
  }
}

/**
 * Returns a time at or before which the changes after the number began: the start of its epoch, or that of a later epoch whose clock
 * was further behind.
 * @param newest nothing of the number's epoch that came before this time counts as new
 */
export function beginningAfter(database: Database, after: number, newest?: Timestamp): Timestamp {
  const epochs = database.prepare<[number, number], { seq: number; at: Timestamp }>(
    `SELECT from_seq AS seq, began_at AS at FROM mirror_epochs
     WHERE from_seq >= coalesce((SELECT max(from_seq) FROM mirror_epochs WHERE from_seq <= ?), ?)`,
  );
  const times = epochs
    .all(after, after)
    .map(({ seq, at }) => (seq < after && newest !== undefined && newest > at ? newest : at));
  return times.toSorted()[0] ?? timestampOf(0);
}

export function historyReach(database: Database, name: ResourceName): HistoryReach {
  const begins = database.prepare<[string], Timestamp>('SELECT begins_at FROM mirror_history WHERE resource = ?');
  const whole = database.prepare<[string], Timestamp | null>(
    `SELECT min(run.finished_at) FROM mirror_runs AS run JOIN mirror_run_resources AS part USING (run)
     WHERE part.resource = ? AND part.status = 'complete'`,
  );
  return { beginsAt: begins.pluck().get(name) ?? null, wholeAt: whole.pluck().get(name) ?? null };
}
