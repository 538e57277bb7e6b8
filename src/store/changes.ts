/** What changed between two times, from the rows and their versions. Section "History" of docs/architecture.md. */
import type { Database, Statement } from 'better-sqlite3';
import { resourceOf, type ResourceName } from '../model/resources.ts';
import type { Timestamp } from '../model/time.ts';
import type { ChangeSpan, HistoryReach, RecordChange, Row } from './reading-types.ts';
import { versionCell } from './as-of.ts';
import { historyTableOf, quoteName } from './schema.ts';

/** A change, and the version that it ended or, of an insertion, that it began: null for the row itself. */
type Key = readonly [at: Timestamp, kind: RecordChange['kind'], id: bigint, version: bigint | null];

function keysSql(name: ResourceName, byId: boolean): string {
  const table = quoteName(name);
  const history = historyTableOf(name);
  const only = byId ? 'AND id = @id' : '';
  // The id was not there before, or it had been deleted.
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

/** The changes in their order; those of one record in the order in which they were made. */
export function* changesIn(database: Database, name: ResourceName, span: ChangeSpan): Generator<RecordChange> {
  const resource = resourceOf(name);
  const columns = [...resource.fields.map((field) => field.name), '_extra'];
  const history = historyTableOf(name);
  const cells = columns.map((column) => versionCell(resource, 'version', column)).join(', ');
  const exact = <P extends unknown[], R>(statement: Statement<P, R>) => statement.raw(true).safeIntegers(true);
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
  const keys = exact(
    database.prepare<[{ from: string; to: string; id?: bigint }], Key>(keysSql(name, span.id !== undefined)),
  );
  const bounds = { from: span.from, to: span.to, ...(span.id === undefined ? {} : { id: span.id }) };
  for (const [at, kind, id, version] of keys.iterate(bounds)) {
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

/** How far back the history of the resource reaches. */
export function historyReach(database: Database, name: ResourceName): HistoryReach {
  const begins = database.prepare<[string], Timestamp>('SELECT begins_at FROM mirror_history WHERE resource = ?');
  const whole = database.prepare<[string], Timestamp | null>(
    `SELECT min(run.finished_at) FROM mirror_runs AS run JOIN mirror_run_resources AS part USING (run)
     WHERE part.resource = ? AND part.status = 'complete'`,
  );
  return { beginsAt: begins.pluck().get(name) ?? null, wholeAt: whole.pluck().get(name) ?? null };
}
