/** A schema of a PostgreSQL database that several machines share. Section "The shared store" of docs/architecture.md. */
import { type Dialect, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely';
import { databaseText, type SharedStore } from '../model/address.ts';
import { FileError } from '../model/errors.ts';
import { type Clock, systemClock } from '../model/time.ts';
import { driverOf } from './postgres-driver.ts';
import { poolFor, runWithoutLimits } from './postgres-pool.ts';
import {
  explained,
  lastRows,
  lockKey,
  type Query,
  serverBehind,
  storeSettings,
  unsafeCommitModes,
} from './postgres-server.ts';

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
      createDriver: () => driverOf({ pool, lock, commits: `${schema}.store_commits`, name, query }, close),
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
