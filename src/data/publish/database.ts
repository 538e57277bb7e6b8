/** The connection to the database that is published to: statements, transactions, and COPY in. */
import { once } from 'node:events';
import { Client, DatabaseError } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { type DatabaseAccess, databaseText } from '../../model/address.ts';
import { LockHeldError, OperatorError, UnreachableError, UsageError } from '../../model/errors.ts';
import { minuteMs, secondMs } from '../../model/time.ts';
import { connectionOf, lastRows, lockKey, serverBehind, troubleIn } from '../../store/postgres-server.ts';
import { quoteName } from '../../store/schema.ts';

/** Where to publish. */
export interface Destination extends DatabaseAccess {
  readonly schema: string;
  /** The role that may read what is published. */
  readonly reader: string;
  /** The schema of views over all that is published there; none without. */
  readonly servers?: string;
}

export type Database = Awaited<ReturnType<typeof openDatabase>>;

const connectMs = 15 * secondMs;
/** What waits to be sent, at most. */
const queuedBytes = 2 * 1024 * 1024;

/** Connects, and looks whether the server will do. An abort ends the connection, and what runs on it. */
export async function openDatabase(destination: Destination, signal: AbortSignal) {
  const { address, schema } = destination;
  const name = `the schema ${schema} of ${databaseText(address)}`;
  const client = new Client({
    ...connectionOf(destination),
    application_name: 'admin-mirror publish',
    connectionTimeoutMillis: connectMs,
  });
  // What it means is said by the statement that fails of it.
  client.on('error', () => {});
  const stop = () => void client.end().catch(() => {});
  const guarded = async <T>(doing: () => Promise<T>): Promise<T> => {
    try {
      return await doing();
    } catch (error) {
      signal.throwIfAborted();
      throw explained(error, name);
    }
  };
  signal.throwIfAborted();
  try {
    await guarded(() => client.connect());
    // An end while it connects would be waited for without end.
    signal.throwIfAborted();
  } catch (error) {
    // The server would wait for what a connection has left unsaid.
    await client.end().catch(() => {});
    throw error;
  }
  signal.addEventListener('abort', stop, { once: true });

  /** One statement, or several without values; gives the rows of the last. */
  const query = <Row>(text: string, values: readonly unknown[] = []): Promise<Row[]> =>
    guarded(async () => lastRows(await client.query(text, [...values])));
  const enclosed = async <T>(doing: () => Promise<T>, [begin, end, undo]: readonly [string, string, string]) => {
    await query(begin);
    try {
      const result = await doing();
      await query(end);
      return result;
    } catch (error) {
      // Where the connection is gone, the server undoes it.
      await client.query(undo).catch(() => {});
      throw error;
    }
  };
  const opened = {
    /** `the schema mirror of postgresql://publisher@db.example.com:5432/shop`, for messages. */
    name,
    query,
    /** The statements of `doing` as one transaction. */
    whole: <T>(doing: () => Promise<T>, begin = 'BEGIN') => enclosed(doing, [begin, 'COMMIT', 'ROLLBACK']),
    /** The same within a transaction: it fails alone, and the transaction goes on. */
    part: <T>(doing: () => Promise<T>) =>
      enclosed(doing, [
        'SAVEPOINT part',
        'RELEASE SAVEPOINT part',
        'ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part',
      ]),
    /** Copies what `fill` writes. Where that throws, PostgreSQL is told to give up the COPY, or the connection would wait for ever. */
    copyIn: (statement: string, fill: (write: (bytes: Uint8Array) => Promise<void>) => Promise<void>): Promise<void> =>
      guarded(async () => {
        const stream = client.query(copyFrom(statement, { highWaterMark: queuedBytes }));
        let isOver = false;
        stream.once('error', () => (isOver = true));
        const finished = once(stream, 'finish');
        // Also where nobody waits for it at the moment.
        finished.catch(() => {});
        try {
          await fill(async (bytes) => {
            // Where the connection is slower. What PostgreSQL has against any of it is thrown at the end at the latest.
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

/** The same for as long as the work takes. */
export async function withDatabase<T>(
  destination: Destination,
  signal: AbortSignal,
  doing: (database: Database) => Promise<T>,
): Promise<T> {
  const database = await openDatabase(destination, signal);
  try {
    return await doing(database);
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
    // Of a client that is gone without a word, or stopped: its lock and its transaction shall not outlive it for hours.
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
  // Names stand alone in what follows, and mean the schema's own tables; times are read and written as they stand.
  await query(
    `SET search_path = ${quoteName(schema)}, pg_temp; SET timezone = 'UTC'; SET datestyle = 'ISO'; SET client_encoding = 'UTF8'`,
  );
}

/** Only one publication to a schema at a time. The lock ends with the connection. */
export async function lockSchema({ query, name }: Database, schema: string): Promise<void> {
  const [row] = await query<{ locked: boolean }>('SELECT pg_try_advisory_lock($1) AS locked', [
    `${lockKey(`publish ${schema}`)}`,
  ]);
  if (row?.locked === true) return;
  throw new LockHeldError(`another process is publishing to ${name}`, { advice: 'Wait until it has ended.' });
}

/** Whether PostgreSQL refused what a row holds, rather than to work at all. */
export function isRefusedValue(error: unknown): boolean {
  const cause = error instanceof OperatorError ? error.cause : error;
  // Of data; a number of its own for a row that is too large, or an index that cannot hold a value.
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
