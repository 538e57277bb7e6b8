/** Kysely for what several processes write at once: the naming of columns, and the driver of the journal's and the worker's SQLite files. */
import { setTimeout as wait } from 'node:timers/promises';
import SqliteDatabase, { type Database, type Statement } from 'better-sqlite3';
import {
  CamelCasePlugin,
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  Kysely,
  type QueryResult,
  SqliteDialect,
  SqliteDriver,
  type TransactionSettings,
} from 'kysely';
import { Turns } from '../model/turns.ts';
import { busyMs } from './file-kind.ts';

/** Kysely over the dialect, with camel case for column names: `fileHash` stands for `file_hash`. */
export function tablesOver<Tables>(dialect: Dialect): Kysely<Tables> {
  return new Kysely<Tables>({ dialect, plugins: [new CamelCasePlugin()] });
}

/** A dialect over one connection, so concurrent transactions and statements of this process wait for each other. */
export function sqliteDialect(database: Database): Dialect {
  const statements = new Map<string, Statement>();
  const prepared = (text: string): Statement => {
    let statement = statements.get(text);
    if (statement === undefined) statements.set(text, (statement = database.prepare(text)));
    return statement;
  };
  const config = { database: { prepare: prepared, close: () => void database.close() } };
  return Object.assign(new SqliteDialect(config), { createDriver: () => new WritingDriver(config, database) });
}

const retryMs = 5;

/** Retries a statement while another process has the file locked. */
class PatientConnection implements DatabaseConnection {
  readonly #connection: DatabaseConnection;

  readonly #turns: Turns;

  constructor(connection: DatabaseConnection, turns: Turns) {
    this.#connection = connection;
    this.#turns = turns;
  }

  async executeQuery<Row>(query: CompiledQuery): Promise<QueryResult<Row>> {
    // SQLite responds at once, so a loop of statements would never let the event loop have a turn.
    if (this.#turns.isDue()) await this.#turns.take();
    const until = performance.now() + busyMs;
    for (;;) {
      try {
        return await this.#connection.executeQuery<Row>(query);
      } catch (error) {
        if (!isBusy(error) || performance.now() > until) throw error;
      }
      await wait(retryMs);
    }
  }

  streamQuery<Row>(query: CompiledQuery, chunkSize: number): AsyncIterableIterator<QueryResult<Row>> {
    return this.#connection.streamQuery<Row>(query, chunkSize);
  }
}

class WritingDriver extends SqliteDriver {
  readonly #database: Database;
  readonly #turns = new Turns();

  constructor(config: ConstructorParameters<typeof SqliteDriver>[0], database: Database) {
    super(config);
    this.#database = database;
    // SQLite must report a locked file at once: waiting inside SQLite would block this thread.
    database.pragma('busy_timeout = 0');
  }

  override async acquireConnection(): Promise<DatabaseConnection> {
    return new PatientConnection(await super.acquireConnection(), this.#turns);
  }

  /** Locks the file from the beginning of the transaction, so that what it reads stays true until it writes. */
  override async beginTransaction(connection: DatabaseConnection, settings?: TransactionSettings): Promise<void> {
    const isReading = this.#database.readonly || settings?.accessMode === 'read only';
    await connection.executeQuery(CompiledQuery.raw(isReading ? 'begin' : 'begin immediate'));
  }

  /** If the disk is full, SQLite has already rolled back, and a second rollback would hide that error. */
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    if (this.#database.inTransaction) await super.rollbackTransaction(connection);
  }
}

/** Whether waiting helps. It does not if somebody else has changed what the transaction has read. */
function isBusy(error: unknown): boolean {
  if (!(error instanceof SqliteDatabase.SqliteError)) return false;
  return error.code.startsWith('SQLITE_BUSY') && error.code !== 'SQLITE_BUSY_SNAPSHOT';
}
