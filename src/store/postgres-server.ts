/** Connecting to PostgreSQL: the client's settings, what the server must be, and what its errors mean. */
import { hash } from 'node:crypto';
import { type ClientConfig, DatabaseError } from 'pg';
import type { DatabaseAccess } from '../model/address.ts';
import { FileError, OperatorError } from '../model/errors.ts';

/** Runs one statement, or several without values. Returns the rows of the last one. */
export type Query = <Row>(text: string, values?: readonly unknown[]) => Promise<Row[]>;

export function connectionOf({ address, password, ca }: DatabaseAccess): ClientConfig {
  const { host, port, database, user, tls } = address;
  return {
    host,
    port,
    database,
    user,
    ...(password !== undefined && { password: password.reveal() }),
    ...(tls !== 'off' && { ssl: { rejectUnauthorized: tls === 'verified', ...(ca !== undefined && { ca }) } }),
    keepAlive: true,
  };
}

/** Returns the number of an advisory lock. Such numbers are shared by the whole database. */
export function lockKey(name: string): bigint {
  return BigInt.asIntN(64, BigInt(`0x${hash('sha256', `admin-mirror ${name}`).slice(0, 16)}`));
}

interface Result<Row> {
  readonly command: string;
  readonly rowCount: number | null;
  readonly rows: Row[];
}

/** Returns the result of the last of several statements; the driver returns a list for several, contrary to its types. */
export function lastResult<Row>(result: unknown): Result<Row> {
  return (Array.isArray(result) ? result.at(-1) : result) as Result<Row>;
}

export function lastRows<Row>(result: unknown): Row[] {
  return lastResult<Row>(result).rows;
}

interface Server {
  readonly version: number;
  readonly synchronousCommit: string;
  readonly fsync: string;
}

const oldestVersion = 130_000;

/** With these settings of `synchronous_commit`, a commit may be confirmed before it is on the disk, or on that of a required standby. */
export const unsafeCommitModes: readonly string[] = ['off', 'local', 'remote_write'];

/** Reads what the server is. Throws the error that `refuse` makes of the reason if this program cannot write to it. */
export async function serverBehind(
  query: Query,
  setting: string,
  refuse: (why: string, advice: string) => Error,
): Promise<Server> {
  const [found] = await query<Server & { readonly encoding: string; readonly standby: boolean }>(
    `select current_setting('server_version_num')::int as version, current_setting('server_encoding') as encoding,
       pg_is_in_recovery() as standby, current_setting('synchronous_commit') as "synchronousCommit",
       current_setting('fsync') as fsync`,
  );
  if (found === undefined) throw new Error('PostgreSQL has no settings');
  const { version, encoding, standby } = found;
  if (version < oldestVersion) {
    throw refuse(`it is PostgreSQL ${Math.floor(version / 10_000)}`, 'Use PostgreSQL 13 or newer.');
  }
  if (encoding !== 'UTF8') throw refuse(`its encoding is ${encoding}`, 'Make a database with the encoding UTF8.');
  if (standby) throw refuse('it is a standby, which only reads', `Name the primary server in ${setting}.`);
  return found;
}

/** The reason and the advice by error code of the system, the driver or PostgreSQL, or by the first two or three characters of the code. */
const reasons: Readonly<Record<string, readonly [reason: string, advice: string]>> = {
  ECONNREFUSED: ['nothing listens there', 'Start PostgreSQL, or correct {url}.'],
  ENOENT: ['there is no socket', 'Start PostgreSQL, or correct {url}.'],
  ENOTFOUND: ['no machine has that name', 'Correct {url}.'],
  EAI_AGAIN: ['the name could not be looked up', 'Check the network.'],
  ETIMEDOUT: ['it does not respond', 'Check the network and the server.'],
  EHOSTUNREACH: ['there is no route to that machine', 'Check the network.'],
  ENETUNREACH: ['there is no route to that network', 'Check the network.'],
  ECONNRESET: ['the connection was cut', 'Run the command again.'],
  EPIPE: ['the connection was cut', 'Run the command again.'],
  '08': ['the connection was cut', 'Run the command again.'],
  '28P01': ['the password is wrong', 'Correct {password}.'],
  '28000': ['the server does not let this user in', 'Correct the user in {url}, or pg_hba.conf there.'],
  '3D000': ['there is no such database', 'Make it there (CREATE DATABASE), or correct {url}.'],
  '3F000': ['its tables are gone', 'Put back a backup, or look at who works on it.'],
  '42P01': ['its tables are gone', 'Put back a backup, or look at who works on it.'],
  '42501': [
    'permission is denied',
    'Let the user make a schema (GRANT CREATE ON DATABASE … TO …), or own the one there.',
  ],
  '53100': ['its disk is full', 'Make room there; what was committed is unharmed.'],
  '53200': ['it is out of memory', 'Look at the server.'],
  '53300': ['it has too many connections', 'Raise max_connections there, or close others.'],
  CERT_HAS_EXPIRED: ["the server's certificate has expired", "Renew it there. Check this machine's clock, too."],
  CERT_NOT_YET_VALID: ["the server's certificate is not valid yet", "Check this machine's clock."],
  '55P03': ['another process is writing to it', 'Try again when the other process has ended.'],
  '55000': ['it is not ready for that', 'Look at what the server says, and at who works on it.'],
  '57014': ['a statement took too long', 'Look at what else the server does, and run the command again.'],
  '57P': ['it is starting or being shut down', 'Run the command again once it is up.'],
  '25P03': ['this process paused within a step, which was undone', 'Run the command again.'],
  '25006': ['it is read-only', 'Name the primary server in {url}.'],
  '58030': ['its disk reported an error', 'Check the disk there.'],
  XX000: ['it reported an error of its own', 'Look at its log.'],
  XX001: ['its data are damaged', 'Put back a backup; send nothing before you know what was sent since.'],
};

/** Messages of the driver that have no code, and the code that they mean. */
const codesByMessage: readonly (readonly [pattern: RegExp, code: string])[] = [
  [/timeout exceeded when trying to connect|timeout expired/i, 'ETIMEDOUT'],
  [/connection terminated|connection ended|connection error|not queryable/i, 'ECONNRESET'],
];

/**
 * Explains an error about the server; undefined for any other error. `isAway` says that the server was not reached.
 * @param settings their names, for the advice
 */
export function troubleIn(error: unknown, settings: { readonly url: string; readonly password: string }) {
  const { url, password } = settings;
  const first: unknown = error instanceof AggregateError ? (error.errors[0] ?? error) : error;
  const message = first instanceof Error ? first.message : String(first);
  const code = codeOf(first);
  const known = reasons[code] ?? reasons[code.slice(0, 2)] ?? reasons[code.slice(0, 3)];
  if (known !== undefined) {
    const advice = known[1].replace('{url}', url).replace('{password}', password);
    return { reason: `${known[0]} (${code})`, advice, message, isAway: /^(?:E|08|57P|53300)/.test(code) };
  }
  if (/SSL|certificate|self-signed|ERR_TLS|UNABLE_TO_/i.test(`${code} ${message}`)) {
    const advice = `Trust its certificate by network.ca_file. In a network of your own, ${url} may end in ?sslmode=disable.`;
    return { reason: `no encrypted connection: ${message}`, advice, message, isAway: false };
  }
  if (!(first instanceof DatabaseError) && /SASL|password must be a string/.test(message)) {
    return { reason: 'a password is needed', advice: `Name its file in ${password}.`, message, isAway: false };
  }
  return undefined;
}

/** The settings of the shared store, for advice. */
export const storeSettings = {
  url: 'store.shared',
  password: 'store.shared_password_file or ADMIN_MIRROR_STORE_SHARED_PASSWORD',
} as const;

/** Returns an error about the shared store's server as one that names the server and says what to do; any other error as it is. */
export function explained(error: unknown, name: string): unknown {
  if (error instanceof OperatorError) return error;
  const trouble = troubleIn(error, storeSettings);
  if (trouble === undefined) return error;
  return new FileError(`${name}: ${trouble.reason}`, { advice: trouble.advice, cause: error });
}

const lostCodes = new Set('ECONNREFUSED ETIMEDOUT ECONNRESET EPIPE EHOSTUNREACH ENETUNREACH EAI_AGAIN'.split(' '));

/** Whether the connection was lost or refused, also because there are too many, so that nobody knows what became of the last statement. */
export function isLost(error: unknown): boolean {
  const cause = error instanceof OperatorError ? error.cause : error;
  if (cause instanceof DatabaseError) return /^(?:08|53300|57P|25P03)/.test(cause.code ?? '');
  return lostCodes.has(codeOf(cause));
}

/** Returns the code of the system, the driver or PostgreSQL; empty if the error has none. */
export function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return '';
  if (error instanceof AggregateError && error.errors.length > 0) return codeOf(error.errors[0]);
  if ('code' in error && typeof error.code === 'string') return error.code;
  return codesByMessage.find(([pattern]) => pattern.test(error.message))?.[1] ?? '';
}
