/** The connections of this process to a PostgreSQL database, and the time by the clock of that database. */
import { hash } from 'node:crypto';
import { Socket } from 'node:net';
import { Client, Pool, type PoolClient, type PoolConfig, types } from 'pg';
import type { SharedStore } from '../model/address.ts';
import { type Clock, secondMs, systemClock } from '../model/time.ts';
import { connectionOf, lastRows } from './postgres-server.ts';

/** How long a transaction waits for another one; those of this program last milliseconds. */
const lockMs = 30 * secondMs;
const statementMs = 50 * secondMs;
/** A process that is paused within a transaction holds the lock of the schema until the server ends the transaction after this time. */
const idleMs = 15 * secondMs;
/** Longer than any statement may take, so a server that is silent for this long is not there. */
const silenceMs = 60 * secondMs;
const connectMs = 10 * secondMs;
/** All connections of one process: a worker of a hundred servers sends little to each. */
const maxConnections = 8;

/** The column `now` that reads the database's clock, ms since 1970. */
export const databaseNow = '(extract(epoch from clock_timestamp()) * 1000)::float8 as now';
/** How long the monotonic clock counts on from one reading. Each step of a journal reads the time anew. */
const readingMs = 10 * secondMs;
/** A larger difference between the wall clock and the monotonic clock means that the clock was set or the machine slept. */
const leapMs = secondMs;

/**
 * The clock of a database: its last reading plus the time since then by the monotonic clock. Machines whose clocks differ use it, and
 * no other clock, for whatever they write for each other.
 */
class DatabaseTime implements Clock {
  #last: { readonly there: number; readonly monotonic: number; readonly here: number } | undefined;

  /** Uses this machine's clock before the first reading. */
  now(): number {
    const last = this.#last;
    return last === undefined ? systemClock.now() : Math.floor(last.there + performance.now() - last.monotonic);
  }

  /** Takes the reading of a statement that returned `databaseNow`. */
  read([row]: readonly { readonly now: number }[]): void {
    if (row !== undefined) this.#last = { there: row.now, monotonic: performance.now(), here: systemClock.now() };
  }

  isDue(): boolean {
    if (this.#last === undefined) return true;
    const passed = performance.now() - this.#last.monotonic;
    return passed > readingMs || Math.abs(systemClock.now() - this.#last.here - passed) > leapMs;
  }
}

export interface SchemaPool {
  readonly time: DatabaseTime;
  /** Takes a connection whose search path is the schema. */
  connect(): Promise<PoolClient>;
  /** Ends the connections when no schema of the database uses them any more. */
  leave(): Promise<void>;
}

interface DatabasePool {
  readonly pool: Pool;
  readonly time: DatabaseTime;
  users: number;
  /** The search path that each connection has. */
  readonly schemas: WeakMap<PoolClient, string>;
}

const pools = new Map<string, DatabasePool>();

/** Returns the connections for a schema. All schemas of a database share one pool, so a hundred servers need no more than one. */
export function poolFor(store: SharedStore, schema: string): SchemaPool {
  const { address, password, ca } = store;
  const key = hash('sha256', JSON.stringify([address, password?.reveal(), ca]));
  const shared = pools.get(key) ?? openPool(store);
  pools.set(key, shared);
  shared.users += 1;
  return {
    time: shared.time,
    connect: async () => {
      const client = await shared.pool.connect();
      const isDue = shared.time.isDue();
      const path = shared.schemas.get(client) === schema ? [] : [`set search_path to ${schema}`];
      if (path.length === 0 && !isDue) return client;
      try {
        const result = await client.query([...path, ...(isDue ? [`select ${databaseNow}`] : [])].join('; '));
        if (isDue) shared.time.read(lastRows(result));
      } catch (error) {
        client.release(true);
        throw error;
      }
      shared.schemas.set(client, schema);
      return client;
    },
    leave: async () => {
      shared.users -= 1;
      if (shared.users > 0) return;
      pools.delete(key);
      await shared.pool.end();
    },
  };
}

function openPool(store: SharedStore): DatabasePool {
  const pool = new Pool(poolConfig(store));
  // The server may end an idle connection: the next use makes another one. One that is in use fails in its own statement.
  pool.on('error', () => {});
  pool.on('connect', (client) => client.on('error', () => {}));
  return { pool, time: new DatabaseTime(), users: 0, schemas: new WeakMap() };
}

/** Runs one statement on a connection of its own, without the limits on its time. */
export async function runWithoutLimits(store: SharedStore, text: string): Promise<void> {
  const { stream: _silence, options: _limits, ...config } = poolConfig(store);
  const client = new Client(config);
  try {
    await client.connect();
    await client.query(text);
  } finally {
    await client.end();
  }
}

function poolConfig(store: SharedStore): PoolConfig {
  const settings = {
    lock_timeout: lockMs,
    statement_timeout: statementMs,
    idle_in_transaction_session_timeout: idleMs,
    // Applies when the server writes to a client that is stopped or cut off.
    tcp_user_timeout: idleMs,
  };
  return {
    ...connectionOf(store),
    options: Object.entries(settings)
      .map(([key, value]) => `-c ${key}=${value}`)
      .join(' '),
    application_name: 'admin-mirror',
    max: maxConnections,
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

/** Returns whole numbers as numbers, as SQLite does. None of the program's is beyond 2^53. */
const parserOf = ((oid: Parameters<typeof types.getTypeParser>[0], format: 'text' | 'binary') =>
  oid === types.builtins.INT8 ? Number : (types.getTypeParser(oid, format) as unknown)) as typeof types.getTypeParser;
