/** Compares what is published with the mirror. The mirror's rows go into temporary tables, so that PostgreSQL compares like with like. */
import type { Database as Mirror } from 'better-sqlite3';
import { hash } from 'node:crypto';
import { FileError } from '../../model/errors.ts';
import { knownSeqOf, lastSeq } from '../../store/cursor.ts';
import { historyTableOf, quoteName } from '../../store/schema.ts';
import { resourceNames } from '../../model/resources.ts';
import type { Database } from './database.ts';
import { deletionTable, type PublishedTable, publishedTables, rowsAfter, sqlColumns } from './layout.ts';
import { copyRows } from './rows.ts';
import { withLockedSchema, type PublishPorts } from './publish.ts';
import { columnsIn, publicationIn } from './schema.ts';

interface Counted {
  readonly rows: number;
  /** Over the rows; does not depend on their order. */
  readonly hash: string;
}

interface CheckedTable {
  readonly equal: boolean;
  readonly mirror: Counted;
  /** Null if the schema has no such table. */
  readonly published: Counted | null;
  /** The first keys of each kind of difference. */
  readonly missing: readonly string[];
  readonly extra: readonly string[];
  readonly different: readonly string[];
}

export interface CheckReport {
  readonly schema: string;
  readonly equal: boolean;
  /** Rows that the next publication will bring; they are not compared. */
  readonly waiting: number;
  readonly tables: Readonly<Record<string, CheckedTable>>;
}

/** How many keys to name for each kind of difference. */
const mostNamed = 10;

/** Compares every table and changes nothing. Throws what `publish` throws. */
export async function check(ports: Omit<PublishPorts, 'warn'>): Promise<CheckReport> {
  const { file, destination } = ports;
  return withLockedSchema(ports, async (mirror, database) => {
    const found = await publicationIn(database);
    if (found === undefined) {
      throw new FileError(`nothing is published in ${database.name}`, { advice: 'Run `admin-mirror publish` first.' });
    }
    const existing = await columnsIn(database);
    // If the mirror does not know the cursor, all rows are compared.
    const since = knownSeqOf(mirror, file, found.cursor) ?? lastSeq(mirror);
    const comparison = { mirror, database, since, existing, signal: ports.signal };
    const tables: Record<string, CheckedTable> = {};
    const published = publishedTables(mirror);
    let done = 0;
    for (const table of published.filter((each) => each !== deletionTable)) {
      const checked = await database.transaction(() => checkTable(comparison, table));
      tables[table.name] = checked;
      done += checked.mirror.rows;
      ports.progress(done, done);
    }
    const equal = Object.values(tables).every((each) => each.equal);
    const waiting = rowsAfter(mirror, published, since);
    return { schema: destination.schema, equal, waiting, tables };
  });
}

interface Comparison {
  readonly mirror: Mirror;
  readonly database: Database;
  /** The change number up to which both sides are compared. */
  readonly since: number;
  /** The tables of the schema, by name. */
  readonly existing: ReadonlyMap<string, unknown>;
  readonly signal: AbortSignal;
}

/** Copies the mirror's rows, and the keys of those that changed since, into tables that PostgreSQL drops with the transaction. */
async function copyMirror({ mirror, database, since, signal }: Comparison, table: PublishedTable): Promise<void> {
  const { query } = database;
  const types = sqlColumns(table)
    .map(({ name, type }) => `${quoteName(name)} ${type}`)
    .join(', ');
  await query(`CREATE TEMP TABLE of_mirror (${types}) ON COMMIT DROP`);
  await copyRows({ database, table, name: 'pg_temp.of_mirror', signal, onRows: () => {} }, mirror);
  // Rows that changed since are not compared: in the mirror they have a higher number, or a tombstone.
  await query('CREATE TEMP TABLE changed_since (id text, key text) ON COMMIT DROP');
  const changed = changedKeys(mirror, table, since);
  for (let at = 0; at < changed.length; at += 10_000) {
    const part = changed.slice(at, at + 10_000);
    await query('INSERT INTO pg_temp.changed_since SELECT * FROM unnest($1::text[], $2::text[])', [
      part.map(([id]) => id),
      part.map(([, key]) => key),
    ]);
  }
}

async function checkTable(comparison: Comparison, table: PublishedTable): Promise<CheckedTable> {
  const { mirror, database, existing } = comparison;
  const { query } = database;
  await copyMirror(comparison, table);
  const columns = sqlColumns(table);
  const begins = historyBegin(mirror, table);
  // A row without the time was put there by others, and counts.
  const kept = begins === undefined ? '' : `AND (valid_to IS NULL OR valid_to >= '${begins}')`;
  const [id = '', key = "''"] = table.key.map((name) => `t.${quoteName(name)}`);
  const source = (name: string) =>
    `(SELECT t.* FROM ${name} AS t WHERE NOT EXISTS
       (SELECT 1 FROM pg_temp.changed_since AS c WHERE c.id = ${id}::text AND c.key = ${key}) ${kept})`;
  const row = (of: string) => `ROW(${columns.map(({ name }) => `${of}.${quoteName(name)}`).join(', ')})::text`;
  const sum = async (from: string) => {
    const [found] = await query<{ rows: string; hash: string }>(
      `SELECT count(*) AS rows, coalesce(sum(hashtextextended(${row('s')}, 0)::numeric), 0)::text AS hash FROM ${from} AS s`,
    );
    return { rows: Number(found?.rows ?? 0), hash: hash('sha256', found?.hash ?? '').slice(0, 16) };
  };
  const ours = source('pg_temp.of_mirror');
  const mirrored = await sum(ours);
  if (!existing.has(table.name)) {
    return { equal: mirrored.rows === 0, mirror: mirrored, published: null, missing: [], extra: [], different: [] };
  }
  const theirs = source(quoteName(table.name));
  const published = await sum(theirs);
  const equal = mirrored.rows === published.rows && mirrored.hash === published.hash;
  const named = async (condition: string) => {
    if (equal) return [];
    const both = table.key.map((name) => `m.${quoteName(name)} = p.${quoteName(name)}`).join(' AND ');
    const names = table.key.map((name) => `coalesce(m.${quoteName(name)}, p.${quoteName(name)})`).join(', ');
    const rows = await query<{ name: string }>(
      `SELECT concat_ws(' ', ${names}) AS name FROM ${ours} AS m FULL JOIN ${theirs} AS p ON ${both}
       WHERE ${condition} ORDER BY ${names} LIMIT ${mostNamed}`,
    );
    return rows.map(({ name }) => name);
  };
  const [first] = table.key.map(quoteName);
  return {
    equal,
    mirror: mirrored,
    published,
    missing: await named(`p.${first} IS NULL`),
    extra: await named(`m.${first} IS NULL`),
    different: await named(`m.${first} IS NOT NULL AND p.${first} IS NOT NULL AND ${row('m')} <> ${row('p')}`),
  };
}

function changedKeys(
  mirror: Mirror,
  { name, number, key }: PublishedTable,
  since: number,
): [id: string, key: string][] {
  const [id = '', second = "''"] = key.map(quoteName);
  const keys = mirror.prepare<[number, number], [string, string]>(
    `SELECT CAST(${id} AS TEXT), ${second} FROM ${quoteName(name)} WHERE ${quoteName(number)} > ?
     UNION SELECT CAST(id AS TEXT), key FROM mirror_deletions WHERE table_name = '${name}' AND seq > ?`,
  );
  return keys.raw(true).all(since, since);
}

/** Versions that ended before this do not count: the mirror is removing them, in small steps. */
function historyBegin(mirror: Mirror, { name }: PublishedTable): string | undefined {
  const resource = resourceNames.find((each) => historyTableOf(each) === name);
  const begins = mirror.prepare<[string], string>('SELECT begins_at FROM mirror_history WHERE resource = ?').pluck();
  return resource === undefined ? undefined : begins.get(resource);
}
