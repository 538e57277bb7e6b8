/** Publishing of a mirror into a database of the tests. */
import { createHash } from 'node:crypto';
import { Client } from 'pg';
import { parseDatabaseAddress } from '../../src/model/address.ts';
import { Secret } from '../../src/model/secret.ts';
import { systemClock } from '../../src/model/time.ts';
import { check } from '../../src/data/publish/check.ts';
import type { Destination } from '../../src/data/publish/database.ts';
import { publish, type PublishPorts } from '../../src/data/publish/publish.ts';
import { restore } from '../../src/data/publish/restore.ts';
import { openLine } from './line.ts';
import type { TestDatabase } from './postgres.ts';

export function destinationIn({ url, password, name }: Pick<TestDatabase, 'url' | 'password' | 'name'>): Destination {
  const address = parseDatabaseAddress(url);
  if (address === undefined) throw new Error(`no address: ${url}`);
  return { address, password: new Secret(password), ca: undefined, schema: 'mirror', reader: `${name}_reader` };
}

export interface PublishTry {
  readonly whole?: boolean;
  readonly signal?: AbortSignal;
  readonly onWarning?: (text: string) => void;
  readonly onProgress?: (rows: number, all: number) => void;
}

export function portsOf(file: string, destination: Destination, tried: PublishTry = {}): PublishPorts {
  return {
    file,
    destination,
    clock: systemClock,
    signal: tried.signal ?? new AbortController().signal,
    warn: tried.onWarning ?? (() => {}),
    progress: tried.onProgress ?? (() => {}),
  };
}

export const publishTo = (file: string, destination: Destination, tried: PublishTry = {}) =>
  publish(portsOf(file, destination, tried), { whole: tried.whole ?? false });

export const checkIn = (file: string, destination: Destination) => check(portsOf(file, destination));

export const restoreTo = (file: string, destination: Destination) => restore(portsOf(file, destination));

/** Every row that readers of the schema can see at one moment. */
export async function visibleIn(database: TestDatabase): Promise<Record<string, string>> {
  const client = new Client({ connectionString: database.urlWithPassword });
  await client.connect();
  try {
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
    const { rows } = await client.query(
      `SELECT relname AS name FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = relnamespace
       JOIN pg_roles ON rolname = $1 WHERE nspname = 'mirror' AND relkind IN ('r', 'v')
       AND has_table_privilege(rolname, c.oid, 'SELECT') ORDER BY 1`,
      [`${database.name}_reader`],
    );
    const seen: Record<string, string> = {};
    for (const { name } of rows as { name: string }[]) {
      // The time of publishing is not part of the state.
      if (name === 'mirror_freshness') continue;
      const all = await client.query(`SELECT t::text AS row FROM mirror."${name}" AS t`);
      const lines = (all.rows as { row: string }[]).map(({ row }) => row).sort();
      seen[name] = createHash('md5').update(lines.join('\n')).digest('hex');
    }
    return seen;
  } finally {
    await client.end();
  }
}

/** Forwards to the port, and cuts a connection after this many bytes from the client. */
export async function openCutter(to: number) {
  let most = Number.POSITIVE_INFINITY;
  let seen = 0;
  let cut = () => {};
  const { port } = await openLine({ port: to }, (end) => {
    seen = 0;
    const [allowed, onCut] = [most, cut];
    const toServer = ({ length }: Buffer): boolean => {
      seen += length;
      if (seen <= allowed) return true;
      onCut();
      end();
      return false;
    };
    return { toServer };
  });
  return {
    port,
    cutAfter: (bytes: number, onCut = () => {}) => {
      most = bytes;
      cut = onCut;
    },
    /** The bytes from the client over the last connection. */
    bytes: () => seen,
  };
}
