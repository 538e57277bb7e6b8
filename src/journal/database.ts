/** The database that a journal is in, whatever kind it is of, and the transactions over it. Section "The journal" of docs/architecture.md. */
import type { Dialect, RawBuilder } from 'kysely';
import { FileError } from '../model/errors.ts';
import type { Clock } from '../model/time.ts';
import { tablesOver } from '../store/kysely-sqlite.ts';
import type { StoreLocks } from '../store/lock.ts';
import { identityOf } from './chain.ts';
import type { JournalRules } from './port.ts';
import type { Connection, JournalTables } from './tables.ts';

/** What a database that holds a journal does in its own way. Its tables are there, in the newest version. */
export interface JournalBackend {
  /** A transaction of it sees nothing of another, and lets no other one write until it ends. */
  readonly dialect: Dialect;
  /** The members of a JSON array, as rows with the one column `value`: texts, and what `->>` is applied to. */
  readonly texts: (json: string) => RawBuilder<{ value: string }>;
  readonly members: (json: string) => RawBuilder<{ value: string }>;
  /** The error says that a unique index refused a row. */
  readonly isTaken: (error: unknown) => boolean;
  /** The error as one that names the database and says what to do, where it is about that. */
  readonly explained: (error: unknown) => unknown;
  /** `the journal data/journal.db`, for messages. */
  readonly name: string;
  /** Whether the database is the one that was opened, as far as its id does not show it. */
  readonly isInPlace: () => boolean;
  readonly locks: StoreLocks;
  /** By which everything in it goes. */
  readonly clock: Clock;
  /** Leaves no byte of what was taken out. */
  readonly scrub: () => Promise<void>;
  /** For whoever opens nothing over it. */
  readonly close: () => void | Promise<void>;
}

export interface OpenJournal {
  readonly backend: JournalBackend;
  readonly db: Connection;
  readonly id: string;
  readonly rules: JournalRules;
  /** Tells what this connection has locked from what another one has. */
  readonly owner: string;
}

/** The database that the backend leads to, and its id. Throws a FileError where its journal was moved; it is closed then. */
export async function openDatabase(backend: JournalBackend): Promise<{ readonly db: Connection; readonly id: string }> {
  try {
    const db = tablesOver<JournalTables>(backend.dialect);
    const id = await identityOf(db);
    const moved = movedProblem(id, backend.name);
    if (moved !== null) throw moved;
    return { db, id };
  } catch (error) {
    await backend.close();
    throw error;
  }
}

/** Stands in the place of the id of a journal that was moved: whoever has it open goes on no longer. */
interface MovedJournal {
  readonly moved: 'moving' | 'moved';
  readonly id: string;
  readonly to: string;
}

export function movedTo(id: string): MovedJournal | undefined {
  return id.startsWith('{') ? (JSON.parse(id) as MovedJournal) : undefined;
}

export function movedProblem(id: string, name: string): FileError | null {
  const found = movedTo(id);
  if (found === undefined) return null;
  const { moved, to } = found;
  if (moved === 'moved') {
    return new FileError(`${name} was moved to ${to}, and is closed here`, {
      advice: 'Set store.shared as it was when it was moved there, or leave it out if it was moved into the file.',
    });
  }
  return new FileError(`${name} is being moved to ${to}, or a command that did that was killed`, {
    advice: 'Once no `admin-mirror store copy` is running any more, run it again: it ends what was begun.',
  });
}

/** Does something in one transaction: all of it, or none. Throws where the database is not the one that was opened. */
export function transactionsOf({ backend, db, id }: Pick<OpenJournal, 'backend' | 'db' | 'id'>) {
  return async <T>(doing: (connection: Connection) => Promise<T>): Promise<T> => {
    try {
      return await db.transaction().execute(async (connection) => {
        // What was removed goes on taking steps, which nobody will ever read.
        if (!backend.isInPlace()) throw replaced(backend.name);
        const found = await identityOf(connection);
        if (found !== id) throw movedProblem(found, backend.name) ?? replaced(backend.name);
        return doing(connection);
      });
    } catch (error) {
      throw backend.explained(error);
    }
  };
}

function replaced(name: string): FileError {
  return new FileError(`${name} was removed, emptied or replaced while it was in use`, {
    advice:
      'Put it back as it was. Do not plan or send anything before: nothing else knows what was sent, and what ' +
      'was under way may have been made.',
  });
}
