/**
 * The driver by which Kysely uses PostgreSQL. A transaction that writes locks its schema from its beginning, as SQLite locks its file,
 * so that the journal's chain cannot fork. Serializable transactions would repeat whole steps, with what a person decided in between.
 * Section "The shared store" of docs/architecture.md.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { CompiledQuery, DatabaseConnection, Driver, QueryResult } from 'kysely';
import type { PoolClient } from 'pg';
import { FileError } from '../model/errors.ts';
import { storable } from '../model/text.ts';
import { secondMs } from '../model/time.ts';
import { databaseNow, type SchemaPool } from './postgres-pool.ts';
import { explained, isLost, lastResult, type Query, unsafeCommitModes } from './postgres-server.ts';

/** How long to look for the outcome of a transaction whose commit got no response. */
const outcomeMs = 60 * secondMs;
/** How long a server that was there may be away, as during a restart. */
const awayMs = 10 * secondMs;
const retryMs = 250;

/** Identifies a transaction after its connection is gone. */
interface Mark {
  readonly connection: string;
  readonly transaction: number;
}

export interface DriverOptions {
  readonly pool: SchemaPool;
  /** The statement that waits until no other transaction writes to the schema, and then keeps others waiting. */
  readonly lock: string;
  /** The table with the number of the last transaction of each connection. */
  readonly commits: string;
  /** Names the database in messages. */
  readonly name: string;
  /** Runs a statement on another connection. */
  readonly query: Query;
}

export function driverOf(options: DriverOptions, close: () => Promise<void>): Driver {
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
    return retryWhileAway(this.#options.name, awayMs, async () => {
      this.#client ??= await this.#options.pool.connect();
      return doing();
    });
  }

  /** Once this process gets the lock, the transaction has ended. Its mark is there if it was committed. */
  async #wasCommitted({ connection, transaction }: Mark, cause: unknown): Promise<boolean> {
    const { lock, commits, query, name } = this.#options;
    const find = async () => {
      await query(`begin; ${lock}; rollback`);
      const sql = `select transaction from ${commits} where connection = $1`;
      return query<{ transaction: number }>(sql, [connection]);
    };
    try {
      const [found] = await retryWhileAway(name, outcomeMs, find);
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

/** Repeats what failed because the server was not there, for up to `ms`. Throws errors that say what to do. */
async function retryWhileAway<T>(name: string, ms: number, doing: () => Promise<T>): Promise<T> {
  const until = performance.now() + ms;
  for (;;) {
    try {
      return await doing();
    } catch (error) {
      if (!isLost(error) || performance.now() > until) throw explained(error, name);
    }
    await wait(retryMs);
  }
}
