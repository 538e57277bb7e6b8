/** The hashes of each day's rows, on which certificates rest. Section "Certificates" of docs/architecture.md. */
import { createHash, hash, type Hash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import SqliteDatabase, { type Database } from 'better-sqlite3';
import { eraEnd, eraStart, outsideStart } from '../model/era.ts';
import type { RelationTable, ResourceName } from '../model/resources.ts';
import type { Timestamp } from '../model/time.ts';
import { quoteName, quoteText } from './schema.ts';

/** Names of rows in `mirror_capabilities` that belong to no resource. */
export const saltRecord = 'certificate_salt';
export const certifiedRecord = 'certificate';

/** The mirror's record of a certificate that was written. */
export interface Certified {
  readonly root: string;
  readonly written_at: Timestamp;
  readonly resources: readonly ResourceName[];
  /** The newest run when it was written. */
  readonly run: string;
}

/** Returns the certificate of the mirror's current state; null if there is none, or if a run has begun since and may have written rows. */
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

/** The tables and columns of a resource that are hashed. */
export interface HashedTables {
  readonly resource: ResourceName;
  /** Without the mirror's own columns, which say nothing about the server. */
  readonly columns: readonly string[];
  readonly relations: readonly RelationTable[];
}

/** Rows that were created on one day. */
export interface DayHash {
  readonly rows: number;
  readonly hash: string;
}

/** How many rows are hashed before the event loop gets a turn, so that signals arrive. */
const rowsPerTurn = 20_000;

/**
 * Counts and hashes the rows of each day, related records included, in the order of their ids. Rows without a day of the calendar
 * count for the day `outsideStart`. `isDamaged` says that a cell holds bytes, which no record does.
 * @param database must not be used for anything else meanwhile
 * @param salt keeps anybody without the mirror from confirming a guess by its hash
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
    // JSON cannot hold bytes. Their hexadecimal form gets a prefix with which no text begins, so that no text looks like bytes.
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
  let left = rowsPerTurn;
  async function scan(sql: string, isRow: boolean): Promise<void> {
    const rows = database.prepare<[], [unknown, string]>(sql).raw().iterate();
    try {
      for (const [createdOn, row] of rows) {
        const day = digestOf(dayOf(createdOn));
        day.digest.update(hash('sha256', row, 'buffer'));
        if (isRow) day.rows += 1;
        left -= 1;
        if (left > 0) continue;
        left = rowsPerTurn;
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

/** The day to which a row counts. Any text that sorts between the bounds of the era counts as a day, as it does for windows. */
function dayOf(createdOn: unknown): string {
  const isDay = typeof createdOn === 'string' && createdOn >= eraStart && createdOn < eraEnd;
  return isDay ? createdOn : outsideStart;
}
