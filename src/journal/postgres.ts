/** The journal in a PostgreSQL database: all that it does in its own way. */
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

/** The indexes that allow one of a kind: one open row of a user, one row that takes another back. */
const takenBy: ReadonlySet<string> = new Set(['journal_open_subject', 'journal_undone_row']);

/** What a person was taken out of. */
const scrubbed = ['journal_intents', 'journal_steps', 'journal_batches', 'journal_writes'];

/** The journal there, made where there is none. Throws a FileError. What is opened over it closes it. */
export async function openSharedBackend(store: SharedStore, clock: Clock): Promise<JournalBackend> {
  return backendOf(await openShared(store, journalKind, clock), clock);
}

/** The same where there is one; undefined where nothing was ever recorded. */
export async function openSharedBackendIfMade(store: SharedStore, clock: Clock): Promise<JournalBackend | undefined> {
  const database = await openSharedIfMade(store, journalKind, clock);
  return database === undefined ? undefined : backendOf(database, clock);
}

/** The journal there and its newest step; undefined where there is none yet. */
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

/** Whether the journal there has just this step. */
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
    members: (json) => sql`json_array_elements(${json}::json)`,
    isTaken: (error) => error instanceof DatabaseError && error.code === '23505' && takenBy.has(error.constraint ?? ''),
    // The driver does it, whatever the statement.
    explained: (error) => error,
    isInPlace: () => true,
    locks: openLeases(database, { prefix: 'batch ', ...batchLockWords }),
    clock: database.clockFor(clock),
    // Rewritten, so that no row of before stands in the files of the tables. What the server keeps to restore itself from, and
    // backups, are beyond its reach.
    scrub: async () => {
      await database.patiently(`vacuum (full, analyze) ${scrubbed.map((table) => `${schema}.${table}`).join(', ')}`);
    },
  };
}
