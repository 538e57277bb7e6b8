/** What every connection to a PostgreSQL of ours has in common: how it is made, and what the server must be. */
import { hash } from 'node:crypto';
import type { ClientConfig } from 'pg';
import type { DatabaseAccess } from '../model/database-address.ts';

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

/** Advisory locks are numbers, of the whole database. */
export function lockKey(name: string): bigint {
  return BigInt.asIntN(64, BigInt(`0x${hash('sha256', `admin-mirror ${name}`).slice(0, 16)}`));
}

/** Of several statements, the rows of the last. */
export function lastRows<Row>(result: unknown): Row[] {
  const last = (Array.isArray(result) ? result.at(-1) : result) as { readonly rows: Row[] };
  return last.rows;
}

interface Server {
  readonly version: number;
  /** `synchronous_commit`. */
  readonly commit: string;
  readonly fsync: string;
}

const oldestVersion = 130_000;

/**
 * What the server is. Throws what `refuse` makes of a reason and an advice where it is none that can be written to.
 * @param setting that names the server
 */
export async function serverBehind(
  query: <Row>(text: string) => Promise<Row[]>,
  setting: string,
  refuse: (why: string, advice: string) => Error,
): Promise<Server> {
  const [found] = await query<Server & { readonly encoding: string; readonly standby: boolean }>(
    `select current_setting('server_version_num')::int as version, current_setting('server_encoding') as encoding,
       pg_is_in_recovery() as standby, current_setting('synchronous_commit') as commit, current_setting('fsync') as fsync`,
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
