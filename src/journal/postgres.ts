/** The journal in a PostgreSQL database: everything that differs from SQLite. */
import type { SharedStore } from '../model/address.ts';
import { sql } from 'kysely';
import { DatabaseError } from 'pg';
import type { Clock } from '../model/time.ts';
import { openLeases } from '../store/lease.ts';
import type { SharedDatabase } from '../store/postgres.ts';
import { hasTable, openShared, openSharedIfMade } from '../store/postgres-schema.ts';
import type { Head } from './chain.ts';
import type { JournalBackend } from './database.ts';
import { batchLockWords, journalKind } from './schema.ts';

/** The unique indexes that allow one open row for each subject, and one row that takes another back. */
const takenBy: ReadonlySet<string> = new Set(['journal_open_subject', 'journal_undone_row']);

/** The tables from which `forget` removes text. */
const scrubbed = ['journal_intents', 'journal_steps', 'journal_batches', 'journal_writes'];

/** Opens the journal there; makes it if there is none. Throws a FileError. Whatever is opened over the backend closes it. */
export async function openSharedBackend(store: SharedStore, clock: Clock): Promise<JournalBackend> {
  return backendOf(await openShared(store, journalKind), clock);
}

/** Opens the journal there; undefined if nothing was ever recorded. */
export async function openSharedBackendIfMade(store: SharedStore, clock: Clock): Promise<JournalBackend | undefined> {
  const database = await openSharedIfMade(store, journalKind);
  return database === undefined ? undefined : backendOf(database, clock);
}

/** Returns the id of the journal there and its newest step; undefined if there is none yet. */
export async function sharedHead({
  query,
  schema,
}: Pick<SharedDatabase, 'query' | 'schema'>): Promise<(Head & { readonly journal: string }) | undefined> {
  if (!(await hasTable({ query, schema }, 'journal_steps'))) return undefined;
  const [head] = await query<Head & { journal: string }>(
    `select step, hash, (select id from ${schema}.journal_identity) as journal from ${schema}.journal_steps
     order by step desc limit 1`,
  );
  return head;
}

/** Returns whether the journal there has exactly this step. */
export async function sharedHasStep(
  { query, schema }: Pick<SharedDatabase, 'query' | 'schema'>,
  { step, hash }: Head,
): Promise<boolean> {
  const rows = await query(`select 1 from ${schema}.journal_steps where step = $1 and hash = $2`, [step, hash]);
  return rows.length > 0;
}

function backendOf(database: SharedDatabase, clock: Clock): JournalBackend {
  const { name, schema } = database;
  return {
    name: `the journal in ${name}`,
    dialect: database.dialect,
    close: database.close,
    texts: (json) => sql`json_array_elements_text(${json}::json)`,
    isTaken: (error) => error instanceof DatabaseError && error.code === '23505' && takenBy.has(error.constraint ?? ''),
    // The driver explains every error itself.
    explained: (error) => error,
    isInPlace: () => true,
    locks: openLeases(database, { prefix: 'batch ', ...batchLockWords }),
    clock: database.clockFor(clock),
    // Rewrites the tables, so that no old row stays in their files. It cannot reach the server's own log and backups.
    scrub: async () => {
      await database.patiently(`vacuum (full, analyze) ${scrubbed.map((table) => `${schema}.${table}`).join(', ')}`);
    },
  };
}
