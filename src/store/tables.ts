/** The bookkeeping tables as Kysely sees them, and a synchronous runner for its queries. */
import type { Database, Statement } from 'better-sqlite3';
import {
  DummyDriver,
  Kysely,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type Compilable,
  type CompiledQuery,
  type Generated,
} from 'kysely';
import type { ResourceName } from '../model/resources.ts';
import type { ResourceStatus, RunStatus, WindowState } from './mirror-types.ts';

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
    resource: string;
    from_day: string;
    to_day: string;
    state: WindowState;
    server_total: number | null;
    pages_read: Generated<number>;
    fresh_as_of: string | null;
    run: string | null;
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
    /** The checksum of the window's rows on the page; null if they must be compared again. */
    rows_sum: number | null;
  };
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
  mirror_capabilities: { name: string; resource: string; value: string; measured_at: string };
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
