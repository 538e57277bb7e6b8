/** The connection to the database that is published to: statements, transactions, and COPY in. */
import { once } from 'node:events';
import { Client, DatabaseError } from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { type DatabaseAccess, databaseText } from '../../model/database-address.ts';
import { LockHeldError, OperatorError, UnreachableError, UsageError } from '../../model/errors.ts';
import { minuteMs, secondMs } from '../../model/time.ts';
import { connectionOf, lastRows, lockKey, serverBehind } from '../../store/postgres-server.ts';
import { quoteName } from '../../store/schema.ts';

/** Where to publish. */
export interface Destination extends DatabaseAccess {
  readonly schema: string;
  /** The role that may read what is published. */
  readonly reader: string;
  /** The schema of views over all that is published there; none without. */
  readonly servers?: string;
}

export interface Database {
  /** `the schema mirror of postgresql://publisher@db.example.com:5432/shop`, for messages. */
  readonly name: string;
  /** One statement, or several without values; gives the rows of the last. */
  readonly query: <Row>(text: string, values?: readonly unknown[]) => Promise<Row[]>;
  /** The statements of `doing` as one transaction. */
  readonly whole: <T>(doing: () => Promise<T>, begin?: string) => Promise<T>;
  /** The same within a transaction: it fails alone, and the transaction goes on. */
  readonly part: <T>(doing: () => Promise<T>) => Promise<T>;
  readonly copyIn: (statement: string) => CopyIn;
  readonly close: () => Promise<void>;
}

interface CopyIn {
  /** Waits where the connection is slower. */
  write(bytes: Uint8Array): Promise<void>;
  /** What PostgreSQL has against any of it is thrown here at the latest. */
  end(): Promise<void>;
}

const connectMs = 15 * secondMs;
/** What waits to be sent, at most. */
const queuedBytes = 2 * 1024 * 1024;

/** Connects, and looks whether the server will do. The caller closes it. An abort ends the connection, and what runs on it. */
export async function openDatabase(destination: Destination, signal: AbortSignal): Promise<Database> {
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
  } catch (error) {
    // The server would wait for what a connection has left unsaid.
    await client.end().catch(() => {});
    throw error;
  }
  signal.addEventListener('abort', stop, { once: true });

  const query: Database['query'] = (text, values) =>
    guarded(async () => lastRows(await (values === undefined ? client.query(text) : client.query(text, [...values]))));
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
  const opened: Database = {
    name,
    query,
    whole: (doing, begin = 'BEGIN') => enclosed(doing, [begin, 'COMMIT', 'ROLLBACK']),
    part: (doing) =>
      enclosed(doing, [
        'SAVEPOINT part',
        'RELEASE SAVEPOINT part',
        'ROLLBACK TO SAVEPOINT part; RELEASE SAVEPOINT part',
      ]),
    copyIn: (statement) => {
      const stream = client.query(copyFrom(statement, { highWaterMark: queuedBytes }));
      const finished = once(stream, 'finish');
      // Also where nobody waits for it at the moment.
      finished.catch(() => {});
      return {
        write: (bytes) =>
          guarded(async () => {
            if (!stream.write(bytes)) await Promise.race([once(stream, 'drain'), finished]);
          }),
        end: () =>
          guarded(async () => {
            stream.end();
            await finished;
          }),
      };
    },
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

async function prepare({ query, name }: Database, schema: string): Promise<void> {
  const refuse = (why: string, advice: string) => new UsageError(`cannot use ${name}: ${why}`, { advice });
  const { version } = await serverBehind(query, 'publish.url', refuse);
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

const connection = [
  'ECONNREFUSED',
  'ECONNRESET',
  'EPIPE',
  'ENOTFOUND',
  'EAI_AGAIN',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOENT',
];

/** The error as one for the operator, where it is about the server. */
function explained(error: unknown, name: string): unknown {
  if (error instanceof OperatorError || !(error instanceof Error)) return error;
  const first = error instanceof AggregateError && error.errors[0] instanceof Error ? error.errors[0] : error;
  const code = 'code' in first && typeof first.code === 'string' ? first.code : '';
  const lost = /timeout expired|connection terminated|connection ended|connection error|not queryable/i.test(
    first.message,
  );
  if (connection.includes(code) || lost || /^(?:08|57P|53300)/.test(code)) {
    return new UnreachableError(`cannot reach ${name}: ${first.message}`, {
      advice: 'Check that PostgreSQL runs, and publish.url. The next `admin-mirror publish` continues.',
      cause: error,
    });
  }
  const setting = adviceOn(code, first.message);
  if (setting === undefined) return error;
  return new UsageError(`cannot use ${name}: ${first.message}`, { advice: setting, cause: error });
}

function adviceOn(code: string, message: string): string | undefined {
  if (code.startsWith('28')) return 'Correct the user in publish.url, or its password in publish.password_file.';
  if (code === '3D000') return 'Make the database there (CREATE DATABASE), or correct publish.url.';
  if (code === '42501') {
    return 'Let the user of publish.url make a schema (GRANT CREATE ON DATABASE …), or own the one that is there.';
  }
  if (code.startsWith('53')) return 'Make room there, and run it again: it continues.';
  if (code === '25006') return 'Name the primary server in publish.url.';
  if (/SASL|password must be a string/.test(message))
    return 'Name the file with the password in publish.password_file.';
  if (/SSL|certificate|self-signed|ERR_TLS|UNABLE_TO_/i.test(`${code} ${message}`)) {
    return 'Trust its certificate with network.ca_file. In a network of your own, publish.url may end in ?sslmode=disable.';
  }
  return undefined;
}
