/** Kysely over a database of ours: its names, and the one dialect and driver of the journal's and the worker's SQLite files. */
import { setTimeout as wait } from 'node:timers/promises';
import SqliteDatabase, { type Database, type Statement } from 'better-sqlite3';
import {
  CamelCasePlugin,
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  Kysely,
  SqliteAdapter,
  SqliteDriver,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type TransactionSettings,
} from 'kysely';
import { busyMs } from './file-kind.ts';

/** The tables in the database that the dialect leads to, with columns by the names of records: `fileHash` is `file_hash` there. */
export function tablesOver<Tables>(dialect: Dialect): Kysely<Tables> {
  return new Kysely<Tables>({ dialect, plugins: [new CamelCasePlugin()] });
}

/** One transaction, or one statement, at a time: works that go on side by side wait for each other. */
export function sqliteDialect(database: Database): Dialect {
  const statements = new Map<string, Statement>();
  const prepared = (text: string): Statement => {
    let statement = statements.get(text);
    if (statement === undefined) statements.set(text, (statement = database.prepare(text)));
    return statement;
  };
  return {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () =>
      new WritingDriver({ database: { prepare: prepared, close: () => void database.close() } }, database),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  };
}

class WritingDriver extends SqliteDriver {
  readonly #database: Database;

  constructor(config: ConstructorParameters<typeof SqliteDriver>[0], database: Database) {
    super(config);
    this.#database = database;
  }

  /** Locked from its beginning, so that what it reads stays true until it writes. SQLite's own waiting would hold this thread. */
  override async beginTransaction(connection: DatabaseConnection, settings?: TransactionSettings): Promise<void> {
    const isReading = this.#database.readonly || settings?.accessMode === 'read only';
    const until = performance.now() + busyMs;
    for (;;) {
      try {
        this.#database.pragma('busy_timeout = 0');
        await connection.executeQuery(CompiledQuery.raw(isReading ? 'begin' : 'begin immediate'));
        return;
      } catch (error) {
        const isBusy = error instanceof SqliteDatabase.SqliteError && error.code.startsWith('SQLITE_BUSY');
        if (!isBusy || performance.now() > until) throw error;
      } finally {
        this.#database.pragma(`busy_timeout = ${busyMs}`);
      }
      await wait(retryMs);
    }
  }

  /** SQLite has ended it by itself where the disk was full: that error is the one to report. */
  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    if (this.#database.inTransaction) await super.rollbackTransaction(connection);
  }
}

const retryMs = 5;
