/** The connection to the database that is published to: statements, transactions, and COPY in. */
import { once } from 'node:events';
import { Client, DatabaseError } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { type DatabaseAccess, databaseText } from '../../model/address.ts';
import { LockHeldError, OperatorError, UnreachableError, UsageError } from '../../model/errors.ts';
import { minuteMs, secondMs } from '../../model/time.ts';
import { connectionOf, lastRows, lockKey, serverBehind, troubleIn } from '../../store/postgres-server.ts';
import { quoteName } from '../../store/schema.ts';

export interface Destination extends DatabaseAccess {
  readonly schema: string;
  /** The role that may read what is published. */
  readonly reader: string;
}

export interface Database {
  /** `the schema mirror of postgresql://publisher@db.example.com:5432/shop`, for messages. */
  readonly name: string;
  /** Runs one statement, or several without values; returns the rows of the last. */
  readonly query: <Row>(text: string, values?: readonly unknown[]) => Promise<Row[]>;
  /** Runs the statements of `work` in one transaction. */
  readonly transaction: <T>(work: () => Promise<T>, begin?: string) => Promise<T>;
  /** Runs them in a part of the open transaction, which goes on if they fail. */
  readonly savepoint: <T>(work: () => Promise<T>) => Promise<T>;
  /** Copies what `fill` writes. */
  readonly copyIn: (
    statement: string,
    fill: (write: (bytes: Uint8Array) => Promise<void>) => Promise<void>,
  ) => Promise<void>;
  readonly close: () => Promise<void>;
}

const connectMs = 15 * secondMs;
/** The most bytes that wait to be sent. */
const queuedBytes = 2 * 1024 * 1024;

/** Connects and checks that the server can be used. The signal ends the connection and what runs on it. */
export async function openDatabase(destination: Destination, signal: AbortSignal): Promise<Database> {
  const { address, schema } = destination;
  const name = `the schema ${schema} of ${databaseText(address)}`;
  const client = new Client({
    ...connectionOf(destination),
    application_name: 'admin-mirror publish',
    connectionTimeoutMillis: connectMs,
  });
  // The statement that fails because of it explains the error.
  client.on('error', () => {});
  const stop = () => void client.end().catch(() => {});
  const explaining = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      signal.throwIfAborted();
      throw explained(error, name);
    }
  };
  signal.throwIfAborted();
  try {
    await explaining(() => client.connect());
    // The signal is listened to only from here on: client.end() would never resolve while connecting.
    signal.throwIfAborted();
  } catch (error) {
    // A half-open connection would keep the server waiting.
    await client.end().catch(() => {});
    throw error;
  }
  signal.addEventListener('abort', stop, { once: true });

  const query = <Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> =>
    explaining(async () => lastRows(await client.query(text, [...values])));
  const enclosed = async <T>(work: () => Promise<T>, [begin, end, undo]: readonly [string, string, string]) => {
    await query(begin);
    try {
      const result = await work();
      await query(end);
      return result;
    } catch (error) {
      // This fails if the connection is gone; then the server rolls back by itself.
      await client.query(undo).catch(() => {});
      throw error;
    }
  };
  const opened: Database = {
    name,
    query,
    transaction: <T>(work: () => Promise<T>, begin = 'BEGIN') => enclosed(work, [begin, 'COMMIT', 'ROLLBACK']),
    savepoint: <T>(work: () => Promise<T>) =>
      enclosed(work, [
        'SAVEPOINT part',
        'RELEASE SAVEPOINT part',
        'ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part',
      ]),
    // If `fill` throws, the COPY is aborted, or the connection would wait for ever.
    copyIn: (statement, fill) =>
      explaining(async () => {
        const stream = client.query(copyFrom(statement, { highWaterMark: queuedBytes }));
        let isOver = false;
        stream.once('error', () => (isOver = true));
        const finished = once(stream, 'finish');
        // It may reject while nothing awaits it.
        finished.catch(() => {});
        try {
          await fill(async (bytes) => {
            // Waits if the connection is slower. An error of PostgreSQL is thrown here or at the end.
            if (!stream.write(bytes)) await Promise.race([once(stream, 'drain'), finished]);
          });
        } catch (error) {
          if (!isOver) stream.destroy(new Error('given up'));
          throw error;
        }
        stream.end();
        await finished;
      }),
    close: async () => {
      signal.removeEventListener('abort', stop);
      await client.end().catch(() => {});
    },
  };
  try {
    await prepare(opened, schema);
    return opened;
  } catch (error) {
    await opened.close();
    throw error;
  }
}

/** Opens the database for `work`, then closes it. */
export async function withDatabase<T>(
  destination: Destination,
  signal: AbortSignal,
  work: (database: Database) => Promise<T>,
): Promise<T> {
  const database = await openDatabase(destination, signal);
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}

async function prepare(
  { query, name }: { readonly query: <Row>(text: string) => Promise<Row[]>; readonly name: string },
  schema: string,
): Promise<void> {
  const refuse = (why: string, advice: string) => new UsageError(`cannot use ${name}: ${why}`, { advice });
  const { version } = await serverBehind(query, named.url, refuse);
  const settings = {
    // A client may vanish or hang. Its lock and its transaction must not outlive it for hours.
    tcp_keepalives_idle: 15,
    tcp_keepalives_interval: 5,
    tcp_keepalives_count: 3,
    idle_in_transaction_session_timeout: minuteMs,
    ...(version >= 140_000 && { client_connection_check_interval: 5 * secondMs, idle_session_timeout: minuteMs }),
  };
  await query(
    Object.entries(settings)
      .map(([key, value]) => `SET ${key} = ${value}`)
      .join('; '),
  );
  // Statements use names without a schema. Times are read and written in UTC, in ISO format.
  await query(
    `SET search_path = ${quoteName(schema)}, pg_temp; SET timezone = 'UTC'; SET datestyle = 'ISO'; SET client_encoding = 'UTF8'`,
  );
}

/** Takes the lock of the schema, for one publication at a time. It ends with the connection. */
export async function lockSchema({ query, name }: Database, schema: string): Promise<void> {
  const [row] = await query<{ locked: boolean }>('SELECT pg_try_advisory_lock($1) AS locked', [
    `${lockKey(`publish ${schema}`)}`,
  ]);
  if (row?.locked === true) return;
  throw new LockHeldError(`another process is publishing to ${name}`, { advice: 'Wait until it has ended.' });
}

/** Whether PostgreSQL refused the contents of a row. */
export function isRefusedValue(error: unknown): boolean {
  const cause = error instanceof OperatorError ? error.cause : error;
  // Class 22 are data exceptions; 54000 stands for a row that is too large, or a value that an index cannot hold.
  return cause instanceof DatabaseError && /^(?:22|54000)/.test(cause.code ?? '');
}

const named = { url: 'publish.url', password: 'publish.password_file or ADMIN_MIRROR_PUBLISH_PASSWORD' } as const;

function explained(error: unknown, name: string): unknown {
  if (error instanceof OperatorError) return error;
  const trouble = troubleIn(error, named);
  if (trouble === undefined) return error;
  if (!trouble.isAway) {
    return new UsageError(`cannot use ${name}: ${trouble.message}`, { advice: trouble.advice, cause: error });
  }
  return new UnreachableError(`cannot reach ${name}: ${trouble.message}`, {
    advice: `${trouble.advice} The next \`admin-mirror publish\` continues.`,
    cause: error,
  });
}
