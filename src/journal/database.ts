/**
 * The database that holds a journal, whichever kind it is, and transactions over it. Section "The journal" of
 * docs/architecture.md.
 */
import type { Dialect, RawBuilder } from 'kysely';
import { FileError } from '../model/errors.ts';
import type { Actor } from '../model/actor.ts';
import type { Clock, Timestamp } from '../model/time.ts';
import { tablesOver } from '../store/kysely-sqlite.ts';
import type { StoreLocks } from '../store/lock.ts';
import { identityOf } from './chain.ts';
import type { JournalRules } from './port.ts';
import type { Connection, JournalTables } from './tables.ts';

/** Everything that differs between kinds of databases. The tables exist, in the newest version. */
export interface JournalBackend {
  /** Its transactions are isolated, and none can write while another one runs. */
  readonly dialect: Dialect;
  /** The texts of a JSON array as rows with a column `value`. */
  readonly texts: (json: string) => RawBuilder<{ value: string }>;
  /** Whether the error says that a unique index refused a row. */
  readonly isTaken: (error: unknown) => boolean;
  /** Returns the error in the operator's words if it is about the database, else the error itself. */
  readonly explained: (error: unknown) => unknown;
  /** For messages: `the journal data/journal.db`. */
  readonly name: string;
  /** Whether this is still the database that was opened, apart from its id, which is checked separately. */
  readonly isInPlace: () => boolean;
  readonly locks: StoreLocks;
  /** The time of everything that is recorded. */
  readonly clock: Clock;
  /** Leaves no byte of removed text in the files. */
  readonly scrub: () => Promise<void>;
  /** Only for a caller that opens no journal or accounts over it. */
  readonly close: () => void | Promise<void>;
}

export interface OpenJournal {
  readonly backend: JournalBackend;
  readonly db: Connection;
  readonly id: string;
  readonly rules: JournalRules;
  /** Distinguishes the locks of this connection from those of others. */
  readonly owner: string;
}

/** One durable step of the journal: its transaction, who acts, when, and under which rules. */
export interface Acting extends Pick<OpenJournal, 'backend' | 'rules'> {
  readonly connection: Connection;
  /** Never before the newest step. */
  readonly now: Timestamp;
  /** A day before the clock's time: what went out since then counts. */
  readonly daySince: Timestamp;
  /** Null if the journal was opened to be looked at: then nothing can be appended. */
  readonly actor: Actor | null;
}

/** Opens the backend's database and reads its id. Throws a FileError, and closes it, if its journal was moved elsewhere. */
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

/** Replaces the id of a journal that was moved, so that whoever has it open cannot continue. */
interface MovedJournal {
  readonly moved: 'moving' | 'moved';
  readonly id: string;
  readonly to: string;
}

export function movedTo(id: string): MovedJournal | undefined {
  return id.startsWith('{') ? (JSON.parse(id) as MovedJournal) : undefined;
}

function movedProblem(id: string, name: string): FileError | null {
  const found = movedTo(id);
  if (found === undefined) return null;
  const { moved, to } = found;
  if (moved === 'moving') {
    return new FileError(`${name} is being moved to ${to}, or a command that did that was killed`, {
      advice: 'Once no `admin-mirror store copy` is running any more, run it again: it completes what was begun.',
    });
  }
  return new FileError(`${name} was moved to ${to}, and is closed here`, {
    advice: 'Set store.shared as it was when it was moved there.',
  });
}

/** Returns a function that runs its argument in one transaction. Throws if the database is not the one that was opened. */
export function transactionRunner({ backend, db, id }: Pick<OpenJournal, 'backend' | 'db' | 'id'>) {
  return async <T>(work: (connection: Connection) => Promise<T>): Promise<T> => {
    try {
      return await db.transaction().execute(async (connection) => {
        // SQLite would keep writing to a removed file, which nobody will ever read.
        if (!backend.isInPlace()) throw replaced(backend.name);
        const found = await identityOf(connection);
        if (found !== id) throw movedProblem(found, backend.name) ?? replaced(backend.name);
        return work(connection);
      });
    } catch (error) {
      // A file that goes away later in the transaction makes other checks fail, such as the one of the locks.
      throw backend.isInPlace() ? backend.explained(error) : replaced(backend.name);
    }
  };
}

function replaced(name: string): FileError {
  return new FileError(`${name} was removed, cut or replaced while it was in use`, {
    advice:
      'Put it back as it was. Do not plan or send anything before that: nothing else knows what was sent, and what ' +
      'was under way may have been made.',
  });
}

interface Waiting {
  readonly work: (acting: Acting) => Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Steps of rows that are due together share a transaction, and with it the wait for the disk: rows are sent side by side, and each
 * takes three steps. The last one can wait for a step of the next row.
 */
export class SharedSteps {
  readonly #step: (work: Waiting['work']) => Promise<void>;
  #waiting: Waiting[] = [];
  /** The steps that wait for another one. */
  #later: Waiting[] = [];
  /** What kept one of these from the disk. */
  #failure: { readonly error: unknown } | undefined;
  #isRunning = false;

  /** @param step runs the work in one transaction */
  constructor(step: (work: Waiting['work']) => Promise<void>) {
    this.#step = step;
  }

  /** Resolves once the step is on the disk. Throws what `work` throws; then the step did not happen, and the others did. */
  take(work: Waiting['work']): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.push({ work, resolve, reject });
    // The responses that have arrived are read in this turn of the event loop.
    if (!this.#isRunning) setImmediate(() => void this.#run());
    this.#isRunning = true;
    return promise;
  }

  /** Has the step taken with the next one, or by `flush`. Until then it is lost if the process ends. */
  takeLater(work: Waiting['work']): void {
    const reject = (error: unknown): void => void (this.#failure ??= { error });
    this.#later.push({ work, resolve: () => {}, reject });
  }

  /** Resolves once every step that waited is on the disk. Throws what kept one from it. */
  async flush(): Promise<void> {
    // Behind the transaction under way, which may have taken some along.
    if (this.#later.length > 0 || this.#isRunning) await this.take(async () => {});
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) throw failure.error;
  }

  async #run(): Promise<void> {
    // Those that waited come first: they are older.
    while (this.#waiting.length > 0) await this.#together([...this.#later.splice(0), ...this.#waiting.splice(0)]);
    this.#isRunning = false;
  }

  async #together(steps: readonly Waiting[]): Promise<void> {
    let hasFailed = false;
    try {
      await this.#step(async (acting) => {
        hasFailed = true;
        for (const { work } of steps) await work(acting);
        hasFailed = false;
      });
      for (const { resolve } of steps) resolve();
    } catch (error) {
      // Nothing of it happened. One step that may not be taken must not keep the others from it.
      if (hasFailed && steps.length > 1) for (const each of steps) await this.#together([each]);
      else for (const { reject } of steps) reject(error);
    }
  }
}
