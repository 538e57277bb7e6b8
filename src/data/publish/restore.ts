/** Restores a mirror from what was published, also as the working copy of one machine of several. The next sync continues from there. */
import type { Database as Mirror } from 'better-sqlite3';
import { existsSync, statSync, renameSync, rmSync } from 'node:fs';
import { FileError, LockHeldError } from '../../model/errors.ts';
import { relationTable, resourceNames, type ResourceName } from '../../model/resources.ts';
import type { Timestamp } from '../../model/time.ts';
import { lateIndices, quoteName } from '../../store/schema.ts';
import { placeDurableFile } from '../../store/files/durable-file.ts';
import { mirrorKind, openMirrorFile, readMirror } from '../../store/open.ts';
import { type RelatedKey, flatViewSql, makeRelationTable } from '../../store/relations.ts';
import { restoreBookkeeping } from './bookkeeping.ts';
import { insertSql, type PublishedTable, publishedTables, rawColumn, rowJsonSql } from './layout.ts';
import { type Database, type Destination, withDatabase } from './database.ts';
import type { PublishPorts } from './publish.ts';
import { publicationIn } from './schema.ts';
import { CursorError, seqOf } from '../../store/cursor.ts';
import { mirrorLocks, ownerWords } from '../../store/lock.ts';

type RestorePorts = Omit<PublishPorts, 'warn'>;

interface RestoreReport {
  readonly file: string;
  readonly published_at: Timestamp;
  readonly cursor: string;
  readonly tables: Readonly<Record<string, number>>;
}

/** The most rows to fetch at a time, and roughly how many bytes. */
const rowsPerFetch = 4_000;
const bytesPerFetch = 8_000_000;

/** Makes the file, whole or not at all. Throws a FileError, an UnreachableError or a UsageError. */
export async function restore(ports: RestorePorts): Promise<RestoreReport> {
  const { file, destination, signal } = ports;
  return withDatabase(destination, signal, async (database) => {
    // This transaction blocks nobody, and SQLite may take long between two fetches.
    await database.query('SET idle_in_transaction_session_timeout = 0');
    // Reads one state of all tables, even while another process publishes.
    const begin = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY';
    const make = (temporary: string) => database.transaction(() => restoreInto(database, temporary, ports), begin);
    return placeDurableFile(file, make, signal);
  });
}

async function restoreInto(database: Database, temporary: string, ports: RestorePorts): Promise<RestoreReport> {
  const { cursor, at } = await restorable(database);
  const mirror = openMirrorFile(temporary);
  try {
    mirror.pragma('foreign_keys = OFF');
    // No need for crash safety: the file counts only once it is renamed, and it is synced before that.
    mirror.pragma('synchronous = OFF');
    await restoreBookkeeping(database, mirror);
    mirror.exec('UPDATE mirror_cursor SET writing = 1');
    makeRelations(mirror);
    const tables: Record<string, number> = {};
    const published = publishedTables(mirror);
    const all = await rowsIn(database, published);
    let done = 0;
    for (const table of published) {
      tables[table.name] = await restoreTable(database, mirror, table, (rows) => {
        done += rows;
        ports.progress(done, all);
      });
    }
    for (const name of resourceNames) for (const index of lateIndices[name] ?? []) mirror.exec(index);
    mirror.exec('UPDATE mirror_cursor SET writing = 0');
    mirror.exec('ANALYZE');
    mirror.pragma('journal_mode = DELETE');
    return { file: ports.file, published_at: at, cursor, tables };
  } finally {
    mirror.close();
  }
}

/** Returns the last publication; undefined if there was none. Throws an UnreachableError or a UsageError. */
export function publishedIn(destination: Destination, signal: AbortSignal) {
  return withDatabase(destination, signal, (database) => publicationIn(database));
}

async function restorable(database: Database): Promise<{ readonly cursor: string; readonly at: Timestamp }> {
  const found = await publicationIn(database);
  if (found === undefined) {
    throw new FileError(`nothing is published in ${database.name}`, {
      advice: 'Run `admin-mirror publish` where the mirror is, or correct publish.url and the profile.',
    });
  }
  if (found.version === mirrorKind.version) return { cursor: found.cursor, at: found.at };
  throw new FileError(
    `${database.name} holds a mirror of version ${found.version}, and this program makes version ${mirrorKind.version}`,
    {
      advice: 'Restore it with the version of admin-mirror that published it.',
    },
  );
}

/** Makes the tables and views of related records that `mirror_relations` lists, which was restored before. */
function makeRelations(mirror: Mirror): void {
  const relations = mirror.prepare<[], { resource: ResourceName; relation: string; keys: string }>(
    'SELECT resource, relation, keys FROM mirror_relations ORDER BY resource, relation',
  );
  for (const { resource, relation, keys } of relations.all()) {
    const made = relationTable(resource, relation);
    makeRelationTable(mirror, made);
    mirror.exec(flatViewSql(made, JSON.parse(keys) as RelatedKey[]));
  }
}

async function rowsIn({ query }: Database, tables: readonly PublishedTable[]): Promise<number> {
  const counts = tables.map(({ name }) => `(SELECT count(*) FROM ${quoteName(name)})`);
  const [row] = await query<{ count: string }>(`SELECT ${counts.join(' + ')} AS count`);
  return Number(row?.count ?? 0);
}

/** Restores the rows. PostgreSQL writes them as JSON, and SQLite parses it, so that JavaScript rounds no number. */
async function restoreTable(
  { query }: Database,
  mirror: Mirror,
  table: PublishedTable,
  progress: (rows: number) => void,
): Promise<number> {
  const cursor = quoteName(`rows of ${table.name}`);
  const order = quoteName(table.order);
  const insert = { usual: mirror.prepare(insertSql(table, false)), odd: mirror.prepare(insertSql(table, true)) };
  await query(
    `DECLARE ${cursor} NO SCROLL CURSOR FOR SELECT ${rowJsonSql(table)}::text AS row, ${rawColumn} IS NOT NULL AS odd
     FROM ${quoteName(table.name)} ORDER BY ${order}`,
  );
  let count = 0;
  let fetchSize = rowsPerFetch / 8;
  const fetch = () => query<{ row: string; odd: boolean }>(`FETCH ${fetchSize} FROM ${cursor}`);
  for (let next = fetch(); ;) {
    const rows = await next;
    if (rows.length === 0) break;
    const text = `[${rows.map(({ row }) => row).join(',')}]`;
    fetchSize = Math.max(1, Math.min(rowsPerFetch, Math.floor((bytesPerFetch * rows.length) / text.length)));
    // PostgreSQL prepares the next rows while SQLite writes these.
    next = fetch();
    next.catch(() => {});
    const isOdd = rows.some(({ odd }) => odd);
    mirror.transaction(() => (isOdd ? insert.odd : insert.usual).run(text))();
    count += rows.length;
    progress(rows.length);
  }
  await query(`CLOSE ${cursor}`);
  return count;
}

/**
 * `current`: it has everything that is published. `behind`: it lacks something. `other`: another mirror was published.
 * `absent`: there is no file. `unpublished`: there is no file, and nothing is published.
 */
type WorkingCopy = 'current' | 'behind' | 'other' | 'absent' | 'unpublished';

/** Throws an UnreachableError, or a UsageError if the database refuses. */
export async function workingCopyOf(file: string, destination: Destination, signal: AbortSignal): Promise<WorkingCopy> {
  const cursor = (await publishedIn(destination, signal))?.cursor;
  const isThere = existsSync(file) && statSync(file).size > 0;
  if (!isThere) return cursor === undefined ? 'unpublished' : 'absent';
  if (cursor === undefined) return 'current';
  try {
    readMirror(file, (mirror) => seqOf(mirror, file, cursor));
    return 'current';
  } catch (error) {
    if (!(error instanceof CursorError)) throw error;
    // It has gone on for so long that it no longer has the deletions since.
    if (error.reason === 'too old') return 'current';
    return error.reason === 'other copy' ? 'behind' : 'other';
  }
}

/** The database and the files that SQLite keeps beside it. */
const endings = ['', '-wal', '-shm'];

/** Replaces the mirror by what is published. If it was another mirror, it is kept as `NAME.replaced`. Throws a LockHeldError, and what `restore` throws. */
export async function renewWorkingCopy(ports: RestorePorts): Promise<RestoreReport> {
  const { file, destination, signal } = ports;
  const restored = `${file}.restoring`;
  for (const ending of endings) rmSync(restored + ending, { force: true });
  const report = await restore({ ...ports, file: restored });
  const isOther = (await workingCopyOf(file, destination, signal)) === 'other';
  refuseWriter(file, ports);
  for (const ending of endings) {
    if (existsSync(file + ending)) renameSync(file + ending, `${file}.replaced${ending}`);
  }
  renameSync(restored, file);
  if (!isOther) for (const ending of endings) rmSync(`${file}.replaced${ending}`, { force: true });
  return { ...report, file };
}

function refuseWriter(file: string, { clock }: Pick<RestorePorts, 'clock'>): void {
  if (!existsSync(file) || statSync(file).size === 0) return;
  const owner = readMirror(file, (mirror) => mirrorLocks(mirror, clock).owner('sync'));
  if (owner !== undefined) throw new LockHeldError(`the mirror ${file} is being written: ${ownerWords(owner)}`);
}
