/**
 * Kysely over PostgreSQL. A transaction that writes locks its schema from its beginning, as SQLite's locks its file, so that the
 * journal's chain cannot fork. Serializable ones would repeat whole steps, with what a person decided in between. Section "The
 * shared store" of docs/architecture.md.
 */
import { hash, randomUUID } from 'node:crypto';
import { Socket } from 'node:net';
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
import { Client, DatabaseError, Pool, type PoolClient, type PoolConfig, types } from 'pg';
import { databaseText, type SharedStore } from '../model/address.ts';
import { FileError, OperatorError } from '../model/errors.ts';
import { type Clock, secondMs, systemClock } from '../model/time.ts';
import { storable } from '../model/text.ts';
import { codeOf, connectionOf, lastRows, lockKey, serverBehind, troubleIn } from './postgres-server.ts';

export interface SharedDatabase {
  /** `the shared store postgresql://mirror@db:5432/mirror`, for messages. */
  readonly name: string;
  /** In quotes, as it stands in a statement. */
  readonly schema: string;
  readonly leaseMs: number | undefined;
  /** By which whatever is kept there goes: that of the database in the place of this machine's; any other one as it is. */
  readonly clockFor: (clock: Clock) => Clock;
  /** Closing what uses it closes the connections. */
  readonly dialect: Dialect;
  /** One statement, or several without values, apart from any transaction of the dialect; gives the rows of the last. */
  readonly query: <Row>(text: string, values?: readonly unknown[]) => Promise<Row[]>;
  /** In one transaction, which locks the schema, whether it exists or not. */
  readonly whole: <T>(doing: (query: SharedDatabase['query']) => Promise<T>) => Promise<T>;
  /** One statement that may take as long as it takes. */
  readonly patiently: (text: string) => Promise<void>;
  readonly close: () => Promise<void>;
}

/** How long a transaction waits for another one; ours last milliseconds. */
const lockMs = 30 * secondMs;
const statementMs = 50 * secondMs;
/** A process that is stopped within a transaction holds the lock of the schema until the server ends it then. */
const idleMs = 15 * secondMs;
/** The server responds to each statement before that, if it is there. */
const silenceMs = 60 * secondMs;
const connectMs = 10 * secondMs;
/** How long it is tried to find out what became of a transaction whose end was not heard. */
const settleMs = 60 * secondMs;
/** How long a server that was there may be away, as while it restarts. */
const awayMs = 10 * secondMs;
const retryMs = 250;
/** Of one process, whatever it does there: a worker of a hundred servers says little to each. */
const connections = 8;

/** Connects at the first use. The caller closes it, or what it opens over the dialect. */
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
  /** Where it failed, the connection ends, and the server undoes what was not committed. */
  const withClient = <T>(doing: (query: SharedDatabase['query']) => Promise<T>): Promise<T> =>
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
  const query: SharedDatabase['query'] = (text, values) => withClient((run) => run(text, values));
  let closed: Promise<void> | undefined;
  const close = () => (closed ??= pool.leave());
  return {
    name,
    schema,
    leaseMs: store.leaseMs,
    clockFor: (clock) => (clock === systemClock ? pool.time : clock),
    query,
    whole: (doing) =>
      withClient(async (run) => {
        await run(`begin; ${lock}`);
        const result = await doing(run);
        await run('commit');
        return result;
      }),
    patiently: (text) =>
      explaining(async () => {
        const { stream: _withPatience, options: _limits, ...config } = poolConfig(store);
        const client = new Client(config);
        try {
          await client.connect();
          await client.query(text);
        } finally {
          await client.end();
        }
      }),
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () =>
        driverOf({ pool, lock, marks: `${schema}.store_commits`, known: new WeakMap(), name, query }, close),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    close,
  };
}

/** What is said in the last statement of several, of the time there. */
const timeThere = '(extract(epoch from clock_timestamp()) * 1000)::float8 as now';
/** So long it counts on by itself; each step of a journal says the time anew. */
const heardForMs = 10 * secondMs;
/** The clock of this machine was set, or the machine slept. */
const leapMs = secondMs;

/**
 * The clock of a database: as it was heard last, and the time that has passed since, by no clock that is set. Several machines whose
 * clocks differ go by it, and by no other, in what they write for each other.
 */
class DatabaseTime implements Clock {
  #heard: { readonly there: number; readonly elapsed: number; readonly here: number } | undefined;

  /** By this machine's clock before it was heard. */
  now(): number {
    const heard = this.#heard;
    return heard === undefined ? systemClock.now() : Math.floor(heard.there + performance.now() - heard.elapsed);
  }

  hear([row]: readonly { readonly now: number }[]): void {
    if (row !== undefined) this.#heard = { there: row.now, elapsed: performance.now(), here: systemClock.now() };
  }

  isDue(): boolean {
    if (this.#heard === undefined) return true;
    const passed = performance.now() - this.#heard.elapsed;
    return passed > heardForMs || Math.abs(systemClock.now() - this.#heard.here - passed) > leapMs;
  }
}

interface Connections {
  readonly time: DatabaseTime;
  /** A connection on which names are those of the schema. */
  connect(): Promise<PoolClient>;
  leave(): Promise<void>;
}

interface UsedPool {
  readonly pool: Pool;
  readonly time: DatabaseTime;
  users: number;
  readonly schemas: WeakMap<PoolClient, string>;
}

const pools = new Map<string, UsedPool>();

/** The connections of this process to one database serve all schemas there: a hundred servers have one each. */
function poolFor(store: SharedStore, schema: string): Connections {
  const { address, password, ca } = store;
  const key = hash('sha256', JSON.stringify([address, password?.reveal(), ca]));
  const used: UsedPool = pools.get(key) ?? {
    pool: new Pool(poolConfig(store)),
    time: new DatabaseTime(),
    users: 0,
    schemas: new WeakMap(),
  };
  if (used.users === 0) {
    pools.set(key, used);
    // The server has ended a connection that nobody was using: the next use makes another one. One that is used says so itself.
    used.pool.on('error', () => {});
    used.pool.on('connect', (client) => client.on('error', () => {}));
  }
  used.users += 1;
  return {
    time: used.time,
    connect: async () => {
      const client = await used.pool.connect();
      const isDue = used.time.isDue();
      // What the tables of others are called does not matter.
      const path = used.schemas.get(client) === schema ? [] : [`set search_path to ${schema}`];
      if (path.length === 0 && !isDue) return client;
      try {
        const told = await client.query([...path, ...(isDue ? [`select ${timeThere}`] : [])].join('; '));
        if (isDue) used.time.hear(lastRows(told));
      } catch (error) {
        client.release(true);
        throw error;
      }
      used.schemas.set(client, schema);
      return client;
    },
    leave: async () => {
      used.users -= 1;
      if (used.users > 0) return;
      pools.delete(key);
      await used.pool.end();
    },
  };
}

function poolConfig(store: SharedStore): PoolConfig {
  const settings = {
    lock_timeout: lockMs,
    statement_timeout: statementMs,
    idle_in_transaction_session_timeout: idleMs,
    // Of a client that is stopped, or behind a broken line, while the server writes to it.
    tcp_user_timeout: idleMs,
  };
  return {
    ...connectionOf(store),
    options: Object.entries(settings)
      .map(([key, value]) => `-c ${key}=${String(value).replaceAll(/[\\\s]/g, String.raw`\$&`)}`)
      .join(' '),
    application_name: 'admin-mirror',
    max: connections,
    connectionTimeoutMillis: connectMs,
    idleTimeoutMillis: 10 * secondMs,
    allowExitOnIdle: true,
    stream: () => {
      const socket = new Socket();
      return socket.setTimeout(silenceMs, () =>
        socket.destroy(Object.assign(new Error('it has not responded for a minute'), { code: 'ETIMEDOUT' })),
      );
    },
    types: { getTypeParser: parserOf },
  };
}

/** Whole numbers as SQLite gives them. None of ours is beyond 2^53. */
const parserOf = ((oid: Parameters<typeof types.getTypeParser>[0], format: 'text' | 'binary') =>
  oid === types.builtins.INT8 ? Number : (types.getTypeParser(oid, format) as unknown)) as typeof types.getTypeParser;

/** By it a transaction is known once its connection is gone. */
interface Mark {
  readonly connection: string;
  readonly transaction: number;
}

interface Line {
  readonly pool: Connections;
  /** The statement that waits until no other transaction is writing to the schema. */
  readonly lock: string;
  /** The table with the number of the last transaction of each connection. */
  readonly marks: string;
  /** Those of the connections that there are. */
  readonly known: WeakMap<PoolClient, Mark>;
  readonly name: string;
  readonly query: SharedDatabase['query'];
}

/** A connection as Kysely uses it. What was not begun is begun anew where the server ended the connection meanwhile. */
class SharedConnection implements DatabaseConnection {
  readonly #line: Line;
  /** Undefined until it is needed, and once it is gone. */
  #client: PoolClient | undefined;
  #hasFailed = false;
  /** `lost`: the connection went within a transaction, of which nothing more may be done. */
  #in: 'nothing' | 'reading' | 'writing' | 'lost' = 'nothing';

  constructor(line: Line) {
    this.#line = line;
  }

  /** Outside of a transaction, it only reads. */
  executeQuery<Row>({ sql, parameters }: CompiledQuery): Promise<QueryResult<Row>> {
    const run = () => this.#run<Row>(sql, parameters);
    return this.#in === 'nothing' ? this.#untilThere(run) : run();
  }

  // oxlint-disable-next-line require-yield -- nothing streams from it
  async *streamQuery<Row>(): AsyncIterableIterator<QueryResult<Row>> {
    throw new Error('nothing is streamed from PostgreSQL');
  }

  /** Locked from its beginning, with a mark by which it is known afterwards whether it was committed. */
  async begin(isReading: boolean): Promise<void> {
    const statements = isReading
      ? // It keeps nobody waiting, however long somebody reads.
        () => ['begin isolation level repeatable read read only', 'set local idle_in_transaction_session_timeout = 0']
      : () => this.#beginning();
    try {
      const { rows } = await this.#untilThere(() => this.#run<{ now: number }>(statements().join('; ')));
      if (!isReading) this.#line.pool.time.hear(rows);
    } catch (error) {
      await this.rollback();
      throw error;
    }
    this.#in = isReading ? 'reading' : 'writing';
  }

  #beginning(): string[] {
    const { lock, marks, known } = this.#line;
    const client = this.#there();
    const { connection, transaction } = known.get(client) ?? { connection: randomUUID(), transaction: 0 };
    known.set(client, { connection, transaction: transaction + 1 });
    return [
      'begin',
      `select set_config('synchronous_commit', 'on', true) where ${unsafeCommits}`,
      lock,
      `insert into ${marks} values ('${connection}', ${transaction + 1}, clock_timestamp())
         on conflict (connection) do update set transaction = excluded.transaction, at = excluded.at
         returning ${timeThere}`,
    ];
  }

  /** Where the response is lost, it is found out whether the transaction was committed. */
  async commit(): Promise<void> {
    const client = this.#there();
    const mark = this.#in === 'writing' ? this.#line.known.get(client) : undefined;
    let command: string;
    try {
      ({ command } = await client.query('commit'));
    } catch (error) {
      if (!isLost(error)) throw explained(error, this.#line.name);
      this.#drop();
      if (mark !== undefined && !(await this.#wasCommitted(mark, error))) throw explained(error, this.#line.name);
      return;
    }
    this.#in = 'nothing';
    if (command === 'ROLLBACK') throw new Error('a step went on after a statement of it had failed; nothing was done');
  }

  /** The server undoes what a connection that is gone has left open. */
  async rollback(): Promise<void> {
    this.#in = 'nothing';
    try {
      await this.#client?.query('rollback');
    } catch {
      this.#drop();
    }
  }

  /** One on which something failed is not used again: it may keep what held when it began, such as that the server only reads. */
  release(): void {
    this.#client?.release(this.#hasFailed);
    this.#client = undefined;
  }

  #there(): PoolClient {
    if (this.#client === undefined || this.#in === 'lost') throw gone(this.#line.name);
    return this.#client;
  }

  /** At once: others may be waiting for its place. */
  #drop(): void {
    this.#client?.release(true);
    this.#client = undefined;
    if (this.#in !== 'nothing') this.#in = 'lost';
  }

  async #run<Row>(text: string, values: readonly unknown[] = []): Promise<QueryResult<Row>> {
    try {
      // Several statements go without values only.
      const client = this.#there();
      const stored = values.map((value) => (typeof value === 'string' ? storable(value) : value));
      const result: unknown = await client.query(text, stored);
      // Of several, the last.
      const last = (Array.isArray(result) ? result.at(-1) : result) as {
        command?: string;
        rowCount?: number | null;
        rows?: Row[];
      };
      const { command, rowCount, rows } = last;
      const isChange = command === 'INSERT' || command === 'UPDATE' || command === 'DELETE';
      return { rows: rows ?? [], ...(isChange && { numAffectedRows: BigInt(rowCount ?? 0) }) };
    } catch (error) {
      this.#hasFailed = true;
      if (isLost(error)) this.#drop();
      throw explained(error, this.#line.name);
    }
  }

  /** Over another connection where this one is gone: the server may be back in a moment. */
  #untilThere<T>(doing: () => Promise<T>): Promise<T> {
    return patiently(this.#line.name, async () => {
      this.#client ??= await this.#line.pool.connect();
      return doing();
    });
  }

  /** Whoever has the lock knows that the transaction has ended; its mark is there if it was committed. */
  async #wasCommitted({ connection, transaction }: Mark, lost: unknown): Promise<boolean> {
    const { lock, marks, query, name } = this.#line;
    const find = async () => {
      await query(`begin; ${lock}; rollback`);
      const found = `select transaction from ${marks} where connection = $1`;
      return query<{ transaction: number }>(found, [connection]);
    };
    try {
      const [found] = await patiently(name, find, settleMs);
      return found?.transaction === transaction;
    } catch {
      throw new FileError(`${name} was lost while a step was committed, and whether it was is not known`, {
        advice: 'Once the database is back, look with `admin-mirror bulk status`, and go on with `bulk resume`.',
        cause: lost,
      });
    }
  }
}

function gone(name: string): FileError {
  return new FileError(`${name}: the connection was cut within a step; nothing of it was done`, {
    advice: 'Run the command again.',
  });
}

/** Tries again, for a while, what failed because the server was not there. Gives errors that say what to do. */
async function patiently<T>(name: string, doing: () => Promise<T>, ms = awayMs): Promise<T> {
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

function driverOf(line: Line, close: () => Promise<void>): Driver {
  const of = (connection: DatabaseConnection) => connection as SharedConnection;
  return {
    init: async () => {},
    acquireConnection: async () => new SharedConnection(line),
    beginTransaction: (connection, { accessMode }) => of(connection).begin(accessMode === 'read only'),
    commitTransaction: (connection) => of(connection).commit(),
    rollbackTransaction: (connection) => of(connection).rollback(),
    releaseConnection: async (connection) => of(connection).release(),
    destroy: close,
  };
}

/** A commit may be confirmed before it is on the disk, or on that of the standby that must have it. */
const unsafeCommits = `current_setting('synchronous_commit') in ('off', 'local', 'remote_write')`;

/** Throws a FileError where what is committed there may be lost, or comes back as another text. */
export async function checkServer({ query, name }: SharedDatabase): Promise<void> {
  const refuse = (why: string, advice: string) => new FileError(`${name} cannot be used: ${why}`, { advice });
  const { commit, fsync } = await serverBehind(query, named.url, refuse);
  if (['off', 'local', 'remote_write'].includes(commit)) {
    throw refuse(
      `its synchronous_commit is ${commit}, so that a payment on record could be forgotten`,
      'Run there: ALTER DATABASE … SET synchronous_commit = on.',
    );
  }
  if (fsync !== 'on') {
    throw refuse('its fsync is off, so that a payment on record could be forgotten', 'Set fsync = on in its settings.');
  }
}

const named = {
  url: 'store.shared',
  password: 'store.shared_password_file or ADMIN_MIRROR_STORE_SHARED_PASSWORD',
} as const;

/** The error as one that names the server and says what to do, where it is about the server. */
function explained(error: unknown, name: string): unknown {
  if (error instanceof OperatorError) return error;
  const trouble = troubleIn(error, named);
  if (trouble === undefined) return error;
  return new FileError(`${name}: ${trouble.reason}`, { advice: trouble.advice, cause: error });
}

const lostCodes = new Set('ECONNREFUSED ETIMEDOUT ECONNRESET EPIPE EHOSTUNREACH ENETUNREACH EAI_AGAIN'.split(' '));

/** The connection went, or there was none, as where too many have one, so that nobody knows what became of the last statement. */
function isLost(error: unknown): boolean {
  const cause = error instanceof OperatorError ? error.cause : error;
  if (cause instanceof DatabaseError) return /^(?:08|53300|57P|25P03)/.test(cause.code ?? '');
  return lostCodes.has(codeOf(cause));
}
