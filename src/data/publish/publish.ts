/** Publishes one state of the mirror to PostgreSQL, in one transaction. Section "Publishing" of docs/architecture.md. */
import type { Database as Mirror } from 'better-sqlite3';
import { hash } from 'node:crypto';
import { UsageError } from '../../model/errors.ts';
import { type ResourceName, resourceNames } from '../../model/resources.ts';
import { type Clock, type Timestamp, timestampOf } from '../../model/time.ts';
import { cursorAt, knownSeqOf, lastSeq } from '../../store/cursor.ts';
import { mirrorKind, openMirrorForReading, serverIn } from '../../store/open.ts';
import { historyTableOf, quoteName, quoteText } from '../../store/schema.ts';
import { publishBookkeeping } from './bookkeeping.ts';
import { columnList, deletionTable, type PublishedTable, publishedTables, rowsAfter, sqlColumns } from './layout.ts';
import { copyRows } from './rows.ts';
import { type Database, type Destination, lockSchema, withDatabase } from './database.ts';
import {
  columnsIn,
  grantReading,
  growthSql,
  indexSql,
  makeSchema,
  publicationIn,
  tableSql,
  writeComments,
} from './schema.ts';

export interface PublishPorts {
  readonly file: string;
  readonly destination: Destination;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly warn: (text: string) => void;
  /** Called with the number of rows written so far, and of all rows to write. */
  readonly progress: (rows: number, all: number) => void;
}

export interface PublishReport {
  readonly schema: string;
  /** `whole`: every row was written; `changes`: only those that changed since the last publication. */
  readonly mode: 'whole' | 'changes';
  readonly cursor: string;
  readonly published_at: Timestamp;
  readonly fresh_as_of: Readonly<Partial<Record<ResourceName, Timestamp | null>>>;
  readonly tables: Readonly<Record<string, { readonly written: number; readonly deleted: number }>>;
}

/** Opens one state of the mirror. Throws a FileError if there is no mirror. The caller closes it. */
function openState(file: string): Mirror {
  const mirror = openMirrorForReading(file);
  try {
    mirror.exec('BEGIN');
    // The transaction's state is that of its first read.
    mirror.prepare('SELECT 1 FROM mirror_cursor').get();
    return mirror;
  } catch (error) {
    mirror.close();
    throw error;
  }
}

/** Runs `work` with one state of the mirror and with the database, whose schema is locked meanwhile. */
export async function withLockedSchema<T>(
  { file, destination, signal }: Pick<PublishPorts, 'file' | 'destination' | 'signal'>,
  work: (mirror: Mirror, database: Database) => Promise<T>,
): Promise<T> {
  const mirror = openState(file);
  try {
    return await withDatabase(destination, signal, async (database) => {
      await lockSchema(database, destination.schema);
      return work(mirror, database);
    });
  } finally {
    mirror.close();
  }
}

/** Publishes the changes, or with `whole` every row. Throws an UnreachableError, UsageError, LockHeldError or FileError. */
export async function publish(ports: PublishPorts, request: { readonly whole: boolean }): Promise<PublishReport> {
  return withLockedSchema(ports, (mirror, database) =>
    database.transaction(async () => {
      await makeSchema(database, ports.destination.schema);
      return publishState(ports, mirror, database, request);
    }),
  );
}

async function publishState(
  ports: PublishPorts,
  mirror: Mirror,
  database: Database,
  request: { readonly whole: boolean },
): Promise<PublishReport> {
  const { destination, warn } = ports;
  const tables = publishedTables(mirror);
  const cursor = cursorAt(mirror, lastSeq(mirror));
  const layout = layoutOf(tables);
  const existing = await columnsIn(database);
  const found = await publicationIn(database);
  if (!request.whole && found !== undefined) await refuseOther(mirror, database, found.cursor, cursor);
  const growth = tables.flatMap((table) => growthSql(table, existing.get(table.name)));
  const known =
    found?.layout === layout && growth.length === 0 ? knownSeqOf(mirror, ports.file, found.cursor) : undefined;
  const since = request.whole ? undefined : known;
  // Readers wait from here on; but only a new version of this program adds columns.
  if (growth.length > 0) await database.query(growth.join('; '));
  const counts = await writeRows({ ports, mirror, database, since, existing }, tables);
  await prune(mirror, database);
  const at = timestampOf(ports.clock.now());
  const freshness = await writeFreshness(mirror, database, at);
  await publishBookkeeping(database, mirror);
  if (since === undefined || tables.some(({ name }) => !existing.has(name))) await writeComments(database);
  await grantReading(database, destination, tables, warn);
  await database.query(
    `INSERT INTO mirror_publication (version, layout, cursor, published_at) VALUES ($1, $2, $3, $4)
     ON CONFLICT (one) DO UPDATE SET version = excluded.version, layout = excluded.layout, cursor = excluded.cursor,
       published_at = excluded.published_at`,
    [mirrorKind.version, layout, cursor, at],
  );
  return {
    schema: destination.schema,
    mode: since === undefined ? 'whole' : 'changes',
    cursor,
    published_at: at,
    fresh_as_of: Object.fromEntries(freshness.map((row) => [row.resource, row.fresh_as_of])),
    tables: Object.fromEntries(
      tables.filter(({ isPublic }) => isPublic).map(({ name }) => [name, countOf(counts, name)]),
    ),
  };
}

/** Tables of related records do not count: the rows of a new one come as changes. */
function layoutOf(tables: readonly PublishedTable[]): string {
  const always = tables.filter(({ key }) => !key.includes('_key'));
  return hash('sha256', JSON.stringify([mirrorKind.version, always.map(sqlColumns)])).slice(0, 16);
}

/** Throws a UsageError if the schema holds the mirror of another server: the two would undo each other's work. */
async function refuseOther(mirror: Mirror, database: Database, published: string, cursor: string): Promise<void> {
  if (published.split('.')[0] === cursor.split('.')[0]) return;
  const [book] = await database.query<{ address: string | null }>(
    `SELECT rows::jsonb #>> '{0,address}' AS address FROM mirror_bookkeeping WHERE table_name = 'mirror_server'`,
  );
  const here = serverIn(mirror);
  const there = book?.address ?? null;
  if (there === null || here === null || there === here) return;
  throw new UsageError(`${database.name} holds the mirror of ${there}, and this one is of ${here}`, {
    advice:
      'Name the server as a profile: each has a schema of its own. If it is the same server under a new address, run `admin-mirror publish --full`.',
  });
}

interface Writing {
  readonly ports: PublishPorts;
  readonly mirror: Mirror;
  readonly database: Database;
  /** Only rows with a higher change number are written; undefined: every row. */
  readonly since: number | undefined;
  /** The tables of the schema, by name. */
  readonly existing: ReadonlyMap<string, unknown>;
}

type Counts = Map<string, { written: number; deleted: number }>;

function countOf(counts: Counts, table: string): { written: number; deleted: number } {
  const count = counts.get(table) ?? { written: 0, deleted: 0 };
  counts.set(table, count);
  return count;
}

/** Fills new tables; for the others, the rows go into temporary tables first. */
async function writeRows(writing: Writing, tables: readonly PublishedTable[]): Promise<Counts> {
  const { ports, mirror, database, since, existing } = writing;
  const { query } = database;
  const all = rowsAfter(mirror, tables, since ?? -1);
  let done = 0;
  const copy = (table: PublishedTable, name: string, after?: number) => {
    const onRows = (rows: number) => ports.progress((done += rows), all);
    return copyRows({ database, table, name, signal: ports.signal, onRows }, mirror, after);
  };
  const counts: Counts = new Map();
  const staged: PublishedTable[] = [];
  for (const table of tables) {
    const name = quoteName(table.name);
    if (!existing.has(table.name)) {
      await query(tableSql(table));
      countOf(counts, table.name).written = await copy(table, name);
      await query(`${indexSql(table)}; ANALYZE ${name}`);
      continue;
    }
    if (since !== undefined && rowsAfter(mirror, [table], since) === 0) continue;
    const stage = `pg_temp.${name}`;
    await query(`CREATE TEMP TABLE ${name} ON COMMIT DROP AS SELECT ${columnList(table)} FROM ${name} WITH NO DATA`);
    countOf(counts, table.name).written = await copy(table, stage, since);
    await query(`ANALYZE ${stage}`);
    staged.push(table);
  }
  for (const table of tables) {
    const gone = goneSql(table, staged, since);
    if (gone === undefined) continue;
    const [row] = await query<{ deleted: string }>(
      `WITH gone AS (${gone} RETURNING 1) SELECT count(*) AS deleted FROM gone`,
    );
    countOf(counts, table.name).deleted = Number(row?.deleted ?? 0);
  }
  for (const table of staged) await query(upsertSql(table));
  return counts;
}

/** Returns the statement that deletes rows: those that have tombstones, or all that were not written if every row was. */
function goneSql(
  table: PublishedTable,
  staged: readonly PublishedTable[],
  since: number | undefined,
): string | undefined {
  const name = quoteName(table.name);
  const [id = '', key] = table.key.map((each) => `t.${quoteName(each)}`);
  if (since === undefined) {
    if (!staged.includes(table)) return undefined;
    const same = table.key.map((each) => `n.${quoteName(each)} = t.${quoteName(each)}`).join(' AND ');
    return `DELETE FROM ${name} AS t WHERE NOT EXISTS (SELECT 1 FROM pg_temp.${name} AS n WHERE ${same})`;
  }
  if (table === deletionTable || !staged.includes(deletionTable)) return undefined;
  return `DELETE FROM ${name} AS t USING pg_temp.mirror_deletions AS d
    WHERE d.table_name = ${quoteText(table.name)} AND ${id} = d.id ${key === undefined ? '' : `AND ${key} = d.key`}`;
}

/** Returns the statement that inserts the rows of the temporary table, or replaces those with the same key. */
function upsertSql(table: PublishedTable): string {
  const columns = columnList(table);
  const key = table.key.map(quoteName).join(', ');
  const others = sqlColumns(table).filter(({ name }) => !table.key.includes(name));
  const sets = others.map(({ name }) => `${quoteName(name)} = excluded.${quoteName(name)}`);
  // Compared as text, so that 1 and 1.00 differ, as they do for a check.
  const row = (of: string) => `ROW(${others.map(({ name }) => `${of}.${quoteName(name)}`).join(', ')})::text`;
  return `INSERT INTO ${quoteName(table.name)} AS t (${columns}) SELECT ${columns} FROM pg_temp.${quoteName(table.name)}
ON CONFLICT (${key}) DO UPDATE SET ${sets.join(', ')} WHERE ${row('t')} IS DISTINCT FROM ${row('excluded')}`;
}

/** Deletes what the mirror removed without tombstones, because it was too old. */
async function prune(mirror: Mirror, { query }: Database): Promise<void> {
  const begins = mirror.prepare<[], { resource: ResourceName; begins_at: string }>(
    'SELECT resource, begins_at FROM mirror_history',
  );
  for (const { resource, begins_at: at } of begins.all()) {
    await query(`DELETE FROM ${quoteName(historyTableOf(resource))} WHERE valid_to < $1`, [at]);
  }
  const from = mirror.prepare<[], number>('SELECT deletions_from FROM mirror_cursor').pluck().get() ?? 0;
  await query('DELETE FROM mirror_deletions WHERE seq <= $1', [from]);
}

interface Freshness {
  readonly resource: ResourceName;
  readonly windows: number;
  readonly unsettled: number;
  readonly fresh_as_of: Timestamp | null;
}

async function writeFreshness(mirror: Mirror, { query }: Database, at: Timestamp): Promise<readonly Freshness[]> {
  const found = mirror.prepare<[], Freshness>('SELECT * FROM mirror_freshness').all();
  const rows = resourceNames.flatMap((name) => found.filter(({ resource }) => resource === name));
  await query('DELETE FROM mirror_freshness');
  for (const { resource, windows, unsettled, fresh_as_of: fresh } of rows) {
    await query('INSERT INTO mirror_freshness VALUES ($1, $2, $3, $4, $5)', [resource, windows, unsettled, fresh, at]);
  }
  return rows;
}
