/** What certificates rest on: a hash for the rows of each day. Section "Certificates" of docs/architecture.md. */
import { createHash, hash, type Hash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { eraEnd, eraStart, outsideStart } from '../model/era.ts';
import type { RelationTable, ResourceName } from '../model/resources.ts';
import type { Timestamp } from '../model/time.ts';
import { quoteName, quoteText } from './schema.ts';

/** Records of `mirror_capabilities` that belong to no resource. */
export const saltRecord = 'certificate_salt';
export const certifiedRecord = 'certificate';

/** A certificate that was written of the mirror. */
export interface Certified {
  readonly root: string;
  readonly written_at: Timestamp;
  readonly resources: readonly ResourceName[];
  /** The newest run of then. */
  readonly run: string;
}

/** The certificate of the mirror as it is now; null where there is none, or a run has begun since that may have written rows. */
export function certifiedIn(database: Database): Omit<Certified, 'run'> | null {
  const found = database
    .prepare<[string], { value: string; newest: string | null }>(
      `SELECT value, (SELECT run FROM mirror_runs ORDER BY rowid DESC LIMIT 1) AS newest
       FROM mirror_capabilities WHERE name = ? AND resource = ''`,
    )
    .get(certifiedRecord);
  if (found === undefined) return null;
  const { run, ...certified } = JSON.parse(found.value) as Certified;
  return run === found.newest ? certified : null;
}

/** What is hashed of a resource. */
export interface HashedTables {
  readonly resource: ResourceName;
  /** Without those that are the mirror's own: they are no claim about the server. */
  readonly columns: readonly string[];
  readonly relations: readonly RelationTable[];
}

/** Rows that were created on one day. */
export interface DayHash {
  readonly rows: number;
  readonly hash: string;
}

/** Rows that are hashed before signals are heard. */
const rowsAStep = 20_000;

/**
 * Of each day its rows, and the hash over theirs in the order of ids, related records included; `outsideStart` is the day of those of
 * no calendar. `isDamaged` where a cell holds bytes, as no record does. @param database nothing else runs on it meanwhile
 * @param salt without which no hash can be compared with one that was guessed
 */
export async function dayHashes(
  database: Database,
  tables: HashedTables,
  salt: string,
  signal: AbortSignal,
): Promise<{ readonly days: ReadonlyMap<string, DayHash>; readonly isDamaged: boolean }> {
  try {
    return { days: await hashRows(database, tables, (cell) => cell, salt, signal), isDamaged: false };
  } catch (error) {
    if (!(error instanceof SqliteDatabase.SqliteError && error.code === 'SQLITE_ERROR')) throw error;
    // JSON holds no bytes. What no text begins with stands before them, so that no text passes for them.
    const guarded = (cell: string): string => `iif(typeof(${cell}) = 'blob', char(65533, 0) || hex(${cell}), ${cell})`;
    return { days: await hashRows(database, tables, guarded, salt, signal), isDamaged: true };
  }
}

async function hashRows(
  database: Database,
  { resource, columns, relations }: HashedTables,
  cellSql: (cell: string) => string,
  salt: string,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, DayHash>> {
  const days = new Map<string, { readonly digest: Hash; rows: number }>();
  const digestOf = (day: string) => {
    let found = days.get(day);
    if (found === undefined) {
      found = { digest: createHash('sha256').update(`${salt}\n${resource}\n${day}\n`), rows: 0 };
      days.set(day, found);
    }
    return found;
  };
  let left = rowsAStep;
  async function scan(sql: string, isRow: boolean): Promise<void> {
    const rows = database.prepare<[], [unknown, string]>(sql).raw().iterate();
    try {
      for (const [createdOn, row] of rows) {
        const day = digestOf(dayOf(createdOn));
        day.digest.update(hash('sha256', row, 'buffer'));
        if (isRow) day.rows += 1;
        left -= 1;
        if (left > 0) continue;
        left = rowsAStep;
        await setImmediate();
        signal.throwIfAborted();
      }
    } finally {
      rows.return?.();
    }
  }
  const parent = quoteName(resource);
  const cells = columns.map((column) => cellSql(quoteName(column)));
  await scan(`SELECT substr("created_at", 1, 10), json_array(${cells.join(', ')}) FROM ${parent} ORDER BY "id"`, true);
  for (const { table, parentColumn } of relations) {
    const key = `related.${quoteName(parentColumn)}`;
    const related = [key, 'related."id"', 'related."record"'].map(cellSql);
    await scan(
      `SELECT substr(parent."created_at", 1, 10), json_array(${quoteText(table)}, ${related.join(', ')})
       FROM ${quoteName(table)} AS related LEFT JOIN ${parent} AS parent ON parent."id" = ${key}
       ORDER BY ${key}, related."_key"`,
      false,
    );
  }
  return new Map([...days].map(([day, { rows, digest }]) => [day, { rows, hash: digest.digest('hex') }]));
}

/** Days compare with the bounds of windows as whole creation times do, whatever stands in them. */
function dayOf(createdOn: unknown): string {
  const isDay = typeof createdOn === 'string' && createdOn >= eraStart && createdOn < eraEnd;
  return isDay ? createdOn : outsideStart;
}
