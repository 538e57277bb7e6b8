/** The journal in a PostgreSQL database: all that it does in its own way. */
import { sql } from 'kysely';
import { DatabaseError } from 'pg';
import { FileError } from '../model/errors.ts';
import type { Clock } from '../model/time.ts';
import { openLeases } from '../store/lease.ts';
import type { SharedDatabase, SharedStore } from '../store/postgres.ts';
import { openShared } from '../store/postgres-schema.ts';
import type { JournalBackend } from './journal.ts';
import { batchLockWords } from './lock.ts';
import { journalKind } from './schema.ts';

/** The indexes that allow one of a kind: one open row of a user, one row that takes another back. */
const takenBy: ReadonlySet<string> = new Set(['journal_open_subject', 'journal_undone_row']);

/** What a person was taken out of. */
const scrubbed = ['journal_intents', 'journal_steps', 'journal_batches', 'journal_writes'];

/** The journal there, made where there is none. Throws a FileError. What is opened over it closes it. */
export async function openSharedBackend(
  store: SharedStore,
  clock: Clock,
): Promise<JournalBackend & { close(): Promise<void> }> {
  return backendOf(await openShared(store, journalKind, clock));
}

export function backendOf(database: SharedDatabase): JournalBackend & { close(): Promise<void> } {
  const { name, schema } = database;
  return {
    dialect: database.dialect,
    close: database.close,
    texts: (json) => sql`json_array_elements_text(${json}::json)`,
    members: (json) => sql`json_array_elements(${json}::json)`,
    isTaken: (error) => error instanceof DatabaseError && error.code === '23505' && takenBy.has(error.constraint ?? ''),
    // The driver does it, whatever the statement.
    explained: (error) => error,
    checkInPlace: async (id, found) => {
      if ((await found()) === id) return;
      throw new FileError(`the journal in ${name} was replaced while it was in use`, {
        advice:
          'Put it back as it was. Do not plan or send anything before: nothing else knows what was sent, and what was ' +
          'under way may have been made.',
      });
    },
    locks: openLeases(database, { prefix: 'batch ', ...batchLockWords }),
    // Rewritten, so that no row of before stands in the files of the tables. What the server keeps to restore itself from, and
    // backups, are beyond its reach.
    scrub: async () => {
      await database.patiently(`vacuum (full, analyze) ${scrubbed.map((table) => `${schema}.${table}`).join(', ')}`);
    },
  };
}
