/**
 * A schema of a PostgreSQL database that several machines share, and the driver by which Kysely uses it. A transaction that
 * writes locks its schema from its beginning, as SQLite locks its file, so that the journal's chain cannot fork. Serializable
 * transactions would repeat whole steps, with what a person decided in between. Section "The shared store" of
 * docs/architecture.md.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import {
  type CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
} from 'kysely';
import type { PoolClient } from 'pg';
import { databaseText, type SharedStore } from '../model/address.ts';
import { FileError } from '../model/errors.ts';
import { storable } from '../model/text.ts';
import { type Clock, secondMs, systemClock } from '../model/time.ts';
import { databaseNow, poolFor, runWithoutLimits, type SchemaPool } from './postgres-pool.ts';
import {
  explained,
  isLost,
  lastResult,
  lastRows,
  lockKey,
  type Query,
  serverBehind,
  storeSettings,
  unsafeCommitModes,
} from './postgres-server.ts';

/**
 * How long a server that was there may be away, as during a restart, and how long to look for the outcome of a commit that got no
 * response. Everything in a process waits for the same end, so that a command which goes on to record what it did ends soon.
 */
const awayMs = 8 * secondMs;
const retryMs = 250;

/** Identifies a transaction after its connection is gone. */
interface Mark {
  readonly connection: string;
  readonly transaction: number;
}

interface DriverOptions {
  readonly pool: SchemaPool;
  /** The statement that waits until no other transaction writes to the schema, and then keeps others waiting. */
  readonly lock: string;
  /** The table with the number of the last transaction of each connection. */
  readonly commits: string;
  /** Names the database in messages. */
  readonly name: string;
  /** Runs a statement on another connection. */
  readonly query: Query;
  readonly whileAway: WhileAway;
}

function driverOf(options: DriverOptions, close: () => Promise<void>): Driver {
  const marks = new WeakMap<PoolClient, Mark>();
  const of = (connection: DatabaseConnection) => connection as SharedConnection;
  return {
    init: async () => {},
    acquireConnection: async () => new SharedConnection(options, marks),
    beginTransaction: (connection, { accessMode }) => of(connection).begin(accessMode === 'read only'),
    commitTransaction: (connection) => of(connection).commit(),
    rollbackTransaction: (connection) => of(connection).rollback(),
    releaseConnection: async (connection) => of(connection).release(),
    destroy: close,
  };
}

/** A connection as Kysely uses it. If the server has ended the connection, whatever had not begun runs on another one. */
class SharedConnection implements DatabaseConnection {
  readonly #options: DriverOptions;
  readonly #marks: WeakMap<PoolClient, Mark>;
  /** Undefined until it is needed, and once it is gone. */
  #client: PoolClient | undefined;
  #hasFailed = false;
  /** `lost`: the connection went within a transaction, so nothing more may run in it. */
  #transaction: 'none' | 'reading' | 'writing' | 'lost' = 'none';

  constructor(options: DriverOptions, marks: WeakMap<PoolClient, Mark>) {
    this.#options = options;
    this.#marks = marks;
  }

  /** Outside of a transaction, statements only read, so they can be repeated. */
  executeQuery<Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
    const run = () => this.#run<Row>(sql, parameters);
    return this.#transaction === 'none' ? this.#connected(run) : run();
  }

  // oxlint-disable-next-line require-yield -- nothing streams from it
  async *streamQuery<Row>(): AsyncIterableIterator<QueryResult<Row>> {
    throw new Error('nothing is streamed from PostgreSQL');
  }

  async begin(isReading: boolean): Promise<void> {
    const statements = isReading
      ? // Takes no lock, so it may last as long as the reader needs.
        () => ['begin isolation level repeatable read read only', 'set local idle_in_transaction_session_timeout = 0']
      : () => this.#beginWriting();
    try {
      const { rows } = await this.#connected(() => this.#run<{ now: number }>(statements().join('; ')));
      if (!isReading) this.#options.pool.time.read(rows);
    } catch (error) {
      await this.rollback();
      throw error;
    }
    this.#transaction = isReading ? 'reading' : 'writing';
  }

  /** Locks the schema, and leaves a mark by which `#wasCommitted` can tell later whether the transaction was committed. */
  #beginWriting(): string[] {
    const { lock, commits } = this.#options;
    const client = this.#current();
    const { connection, transaction } = this.#marks.get(client) ?? { connection: randomUUID(), transaction: 0 };
    this.#marks.set(client, { connection, transaction: transaction + 1 });
    const unsafe = unsafeCommitModes.map((mode) => `'${mode}'`).join(', ');
    return [
      'begin',
      `select set_config('synchronous_commit', 'on', true) where current_setting('synchronous_commit') in (${unsafe})`,
      lock,
      `insert into ${commits} values ('${connection}', ${transaction + 1}, clock_timestamp())
         on conflict (connection) do update set transaction = excluded.transaction, at = excluded.at
         returning ${databaseNow}`,
    ];
  }

  /** If the response is lost, finds out whether the transaction was committed. */
  async commit(): Promise<void> {
    const client = this.#current();
    const mark = this.#transaction === 'writing' ? this.#marks.get(client) : undefined;
    let command: string;
    try {
      ({ command } = await client.query('commit'));
    } catch (error) {
      if (!isLost(error)) throw explained(error, this.#options.name);
      this.#drop();
      if (mark !== undefined && !(await this.#wasCommitted(mark, error))) throw explained(error, this.#options.name);
      return;
    }
    this.#transaction = 'none';
    if (command === 'ROLLBACK')
      throw new Error('a step went on after one of its statements had failed; nothing was done');
  }

  /** If the connection is gone, the server rolls back by itself. */
  async rollback(): Promise<void> {
    this.#transaction = 'none';
    try {
      await this.#client?.query('rollback');
    } catch {
      this.#drop();
    }
  }

  /** A connection on which something failed is not reused: it may keep a state from its beginning, such as a server that only reads. */
  release(): void {
    this.#client?.release(this.#hasFailed);
    this.#client = undefined;
  }

  #current(): PoolClient {
    if (this.#client !== undefined && this.#transaction !== 'lost') return this.#client;
    throw new FileError(`${this.#options.name}: the connection was cut within a step; nothing of it was done`, {
      advice: 'Run the command again.',
    });
  }

  /** Gives the place in the pool up at once, since others may be waiting for it. */
  #drop(): void {
    this.#client?.release(true);
    this.#client = undefined;
    if (this.#transaction !== 'none') this.#transaction = 'lost';
  }

  async #run<Row>(text: string, values: readonly unknown[] = []): Promise<QueryResult<Row>> {
    try {
      const client = this.#current();
      const stored = values.map((value) => (typeof value === 'string' ? storable(value) : value));
      const { command, rowCount, rows } = lastResult<Row>(await client.query(text, stored));
      const isChange = command === 'INSERT' || command === 'UPDATE' || command === 'DELETE';
      return { rows, ...(isChange && { numAffectedRows: BigInt(rowCount ?? 0) }) };
    } catch (error) {
      this.#hasFailed = true;
      if (isLost(error)) this.#drop();
      throw explained(error, this.#options.name);
    }
  }

  /** Runs it on the connection, or on another one if that is gone: the server may be back in a moment. */
  #connected<T>(doing: () => Promise<T>): Promise<T> {
    return this.#options.whileAway(async () => {
      this.#client ??= await this.#options.pool.connect();
      return doing();
    });
  }

  /** Once this process gets the lock, the transaction has ended. Its mark is there if it was committed. */
  async #wasCommitted({ connection, transaction }: Mark, cause: unknown): Promise<boolean> {
    const { lock, commits, query, name, whileAway } = this.#options;
    const find = async () => {
      await query(`begin; ${lock}; rollback`);
      const sql = `select transaction from ${commits} where connection = $1`;
      return query<{ transaction: number }>(sql, [connection]);
    };
    try {
      const [found] = await whileAway(find);
      return found?.transaction === transaction;
    } catch {
      throw new FileError(`${name} was lost while a step was committed, and whether it was is not known`, {
        advice:
          'Once the database is back, `admin-mirror bulk status` lists the batches; continue with `admin-mirror bulk resume`.',
        cause,
      });
    }
  }
}

type WhileAway = <T>(doing: () => Promise<T>) => Promise<T>;

/** Returns what repeats that which failed because the server was not there, until `awayMs` after it was first missed. */
function retriesOf(name: string): WhileAway {
  let missedAt: number | undefined;
  return async (doing) => {
    for (;;) {
      try {
        const done = await doing();
        missedAt = undefined;
        return done;
      } catch (error) {
        if (!isLost(error)) missedAt = undefined;
        else missedAt ??= performance.now();
        if (missedAt === undefined || performance.now() > missedAt + awayMs) throw explained(error, name);
      }
      await wait(retryMs);
    }
  };
}

export interface SharedDatabase {
  /** For messages: `the shared store postgresql://mirror@db:5432/mirror`. */
  readonly name: string;
  /** In quotes, as it stands in a statement. */
  readonly schema: string;
  readonly leaseMs: number | undefined;
  /** Replaces the system clock by that of the database, for whatever is kept there; returns any other clock as it is. */
  readonly clockFor: (clock: Clock) => Clock;
  /** Closing what uses it closes the connections. */
  readonly dialect: Dialect;
  /** Runs one statement, or several without values, outside of the dialect's transactions. Returns the rows of the last one. */
  readonly query: Query;
  /** Runs it in one transaction that locks the schema, whether that exists or not. */
  readonly transaction: <T>(doing: (query: Query) => Promise<T>) => Promise<T>;
  /** Runs one statement that may take any time. */
  readonly patiently: (text: string) => Promise<void>;
  readonly close: () => Promise<void>;
}

/** Connects at the first use. The caller closes it, or whatever it opens over the dialect. */
export function connectTo(store: SharedStore): SharedDatabase {
  const name = `the shared store ${databaseText(store.address)}`;
  const schema = `"${store.schema.replaceAll('"', '""')}"`;
  const pool = poolFor(store, schema);
  const lock = `select pg_advisory_xact_lock(${lockKey(store.schema)})`;
  const explaining = async <T>(doing: () => Promise<T>): Promise<T> => {
    try {
      return await doing();
    } catch (error) {
      throw explained(error, name);
    }
  };
  /** If it fails, the connection ends, so the server rolls back what was not committed. */
  const withClient = <T>(doing: (query: Query) => Promise<T>): Promise<T> =>
    explaining(async () => {
      const client = await pool.connect();
      let isDone = false;
      try {
        const result = await doing(async (text, values = []) => lastRows(await client.query(text, [...values])));
        isDone = true;
        return result;
      } finally {
        client.release(!isDone);
      }
    });
  const query: Query = (text, values) => withClient((run) => run(text, values));
  let closed: Promise<void> | undefined;
  const close = () => (closed ??= pool.leave());
  return {
    name,
    schema,
    leaseMs: store.leaseMs,
    clockFor: (clock) => (clock === systemClock ? pool.time : clock),
    query,
    transaction: (doing) =>
      withClient(async (run) => {
        await run(`begin; ${lock}`);
        const result = await doing(run);
        await run('commit');
        return result;
      }),
    patiently: (text) => explaining(() => runWithoutLimits(store, text)),
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () =>
        driverOf({ pool, lock, commits: `${schema}.store_commits`, name, query, whileAway: retriesOf(name) }, close),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    close,
  };
}

/** Throws a FileError if the server may lose what it has committed, or gives text back changed. */
export async function checkServer({ query, name }: SharedDatabase): Promise<void> {
  const refuse = (why: string, advice: string) => new FileError(`${name} cannot be used: ${why}`, { advice });
  const { synchronousCommit, fsync } = await serverBehind(query, storeSettings.url, refuse);
  if (unsafeCommitModes.includes(synchronousCommit)) {
    throw refuse(
      `its synchronous_commit is ${synchronousCommit}, so that a payment on record could be forgotten`,
      'Run there: ALTER DATABASE … SET synchronous_commit = on.',
    );
  }
  if (fsync !== 'on') {
    throw refuse('its fsync is off, so that a payment on record could be forgotten', 'Set fsync = on in its settings.');
  }
}
