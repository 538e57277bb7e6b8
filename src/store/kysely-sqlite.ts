/**
 * Kysely for the program's databases: the naming of columns, the dialect and driver of the journal's and the worker's SQLite
 * files, and the mirror's bookkeeping tables with a synchronous runner for their queries.
 */
import { setTimeout as wait } from 'node:timers/promises';
import SqliteDatabase, { type Database, type Statement } from 'better-sqlite3';
import {
  CamelCasePlugin,
  type Compilable,
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  DummyDriver,
  type Generated,
  Kysely,
  type QueryResult,
  SqliteAdapter,
  SqliteDialect,
  SqliteDriver,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type TransactionSettings,
} from 'kysely';
import type { ResourceName } from '../model/resources.ts';
import { Turns } from '../model/turns.ts';
import { busyMs } from './file-kind.ts';
import type { ResourceStatus, RunStatus, WindowCause, WindowState } from './mirror-types.ts';

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

export interface Tables {
  mirror_runs: {
    run: string;
    command: string;
    status: RunStatus;
    started_at: string;
    finished_at: string | null;
    requests: Generated<number>;
    retries: Generated<number>;
    /** JSON. */
    answers: Generated<string>;
    problem: string | null;
    /** JSON. */
    actor: string | null;
  };
  mirror_run_resources: {
    run: string;
    resource: string;
    status: ResourceStatus;
    requests: Generated<number>;
    received: Generated<number>;
    inserted: Generated<number>;
    updated: Generated<number>;
    deleted: Generated<number>;
    unchanged: Generated<number>;
    live: number | null;
    server_total: number | null;
    fresh_as_of: string | null;
    problem: string | null;
    expected: number | null;
  };
  mirror_windows: {
    surplus: Generated<number>;
    resource: string;
    from_day: string;
    to_day: string;
    state: WindowState;
    server_total: number | null;
    pages_read: Generated<number>;
    fresh_as_of: string | null;
    run: string | null;
    cause: WindowCause | null;
    problem: string | null;
  };
  mirror_pages: {
    resource: string;
    from_day: string;
    page: string;
    hash: string;
    total: number;
    last_page: number;
    per_page: number;
    ids: string;
    owned: number;
    last_created_at: string | null;
    records: string | null;
    seal: string;
  };
  mirror_touched: { resource: string; day: string };
  mirror_freshness: { resource: string; windows: number; unsettled: number; fresh_as_of: string | null };
  mirror_history: { resource: string; begins_at: string };
  mirror_events: {
    event: Generated<number>;
    at: string;
    run: string | null;
    resource: string | null;
    kind: string;
    subject: string;
    detail: string | null;
  };
  mirror_capabilities: { resource: string; value: string; measured_at: string };
  mirror_unproven: { resource: string; fresh_as_of: string | null };
  mirror_surpluses: { resource: string; records: number };
  mirror_server: { one: number; address: string };
  mirror_relations: {
    resource: ResourceName;
    relation: string;
    table_name: string;
    included: number;
    keys: string;
    since: string;
  };
  mirror_suppressions: {
    resource: ResourceName;
    id: number;
    user_id: number;
    since: string;
    seen_day: string | null;
  };
}

/** Only compiles queries: Kysely runs them asynchronously, so other statements could get into a transaction. */
export const build = new Kysely<Tables>({
  dialect: {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: (kysely) => new SqliteIntrospector(kysely),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  },
});

/** Runs compiled queries on one connection; each statement is prepared once. */
export class Runner {
  readonly #database: Database;
  readonly #statements = new Map<string, Statement>();

  constructor(database: Database) {
    this.#database = database;
  }

  #statement({ sql }: CompiledQuery): Statement {
    let statement = this.#statements.get(sql);
    if (statement === undefined) this.#statements.set(sql, (statement = this.#database.prepare(sql)));
    return statement;
  }

  run(query: Compilable): void {
    const compiled = query.compile();
    this.#statement(compiled).run(...compiled.parameters);
  }

  all<Row>(query: Compilable<Row>): Row[] {
    const compiled = query.compile();
    return this.#statement(compiled).all(...compiled.parameters) as Row[];
  }

  first<Row>(query: Compilable<Row>): Row | undefined {
    const compiled = query.compile();
    return this.#statement(compiled).get(...compiled.parameters) as Row | undefined;
  }
}
