/** Publishes one state of the mirror to PostgreSQL. Section "Publishing" of docs/architecture.md. */
import type { Database as Mirror } from 'better-sqlite3';
import { hash } from 'node:crypto';
import { UsageError } from '../../model/errors.ts';
import { type ResourceName, resourceNames } from '../../model/resources.ts';
import { type Clock, type Timestamp, timestampOf } from '../../model/time.ts';
import { cursorAt, knownSeqOf, lastSeq } from '../../store/cursor.ts';
import { mirrorKind, openMirrorForReading } from '../../store/open.ts';
import { historyTableOf, quoteName, quoteText } from '../../store/schema.ts';
import { publishBookkeeping } from './restore.ts';
import { columnList, deletionTable, type PublishedTable, publishedTables, rowsAfter, sqlColumns } from './layout.ts';
import { type CopyTarget, copyRows, lowestPlace, copyReader } from './rows.ts';
import { type Database, type Destination, lockSchema, withDatabase } from './database.ts';
import {
  columnsIn,
  writeComments,
  grantReading,
  growthSql,
  indexSql,
  type Loading,
  loadingPrefix,
  makeSchema,
  publicationIn,
  tableSql,
} from './schema.ts';
import { makeFlatViews } from './views.ts';

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

/** Rows per transaction of a full publication. */
const rowsPerPart = 100_000;
/** If more rows changed than this, and than half of all rows, the publication is a full one, which can be continued after a kill. */
const manyChanges = 100_000;

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

/** Publishes the changes, or with `whole` every row. Throws an UnreachableError, UsageError, LockHeldError or FileError. */
export async function publish(ports: PublishPorts, request: { readonly whole: boolean }): Promise<PublishReport> {
  return withLockedSchema(ports, async (mirror, database) => {
    await makeSchema(database, ports.destination.schema);
    return new Publishing(ports, mirror, database).run(request.whole);
  });
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

class Publishing {
  readonly #ports: PublishPorts;
  readonly #mirror: Mirror;
  readonly #database: Database;
  readonly #tables: readonly PublishedTable[];
  readonly #seq: number;
  readonly #cursor: string;
  readonly #layout: string;
  readonly #written = new Map<string, { written: number; deleted: number }>();
  #rows = 0;
  #all = 0;

  constructor(ports: PublishPorts, mirror: Mirror, database: Database) {
    this.#ports = ports;
    this.#mirror = mirror;
    this.#database = database;
    this.#tables = publishedTables(mirror);
    this.#seq = lastSeq(mirror);
    this.#cursor = cursorAt(mirror, this.#seq);
    // Tables of related records do not count: the rows of a new one come as changes.
    const always = this.#tables.filter(({ key }) => !key.includes('_key'));
    this.#layout = hash('sha256', JSON.stringify([mirrorKind.version, always.map(sqlColumns)])).slice(0, 16);
  }

  async run(whole: boolean): Promise<PublishReport> {
    const existing = await columnsIn(this.#database);
    const found = await publicationIn(this.#database, existing);
    if (!whole) await this.#refuseOther(found?.cursor ?? null);
    const since = found?.layout === this.#layout ? this.#known(found.cursor) : undefined;
    const growth = this.#tables.flatMap((table) => growthSql(table, existing.get(table.name)));
    const begun = found?.loading ?? null;
    const isWhole = whole || begun !== null || since === undefined || growth.length > 0 || this.#isMuch(since);
    const at = timestampOf(this.#ports.clock.now());
    if (isWhole) await this.#publishAll(begun, existing, growth, at);
    else {
      this.#all = this.#changes(since);
      await this.#database.transaction(async () => {
        await this.#applyChanges(since, '');
        await this.#finish(at);
      });
    }
    const tables = Object.fromEntries(
      this.#tables.filter(({ isPublic }) => isPublic).map(({ name }) => [name, this.#count(name)]),
    );
    return {
      schema: this.#ports.destination.schema,
      mode: isWhole ? 'whole' : 'changes',
      cursor: this.#cursor,
      published_at: at,
      fresh_as_of: Object.fromEntries(this.#freshness().map((row) => [row.resource, row.fresh_as_of])),
      tables,
    };
  }

  /** Throws a UsageError if the schema holds the mirror of another server: the two would undo each other's work. */
  async #refuseOther(cursor: string | null): Promise<void> {
    if (cursor === null || cursor.split('.')[0] === this.#cursor.split('.')[0]) return;
    const [book] = await this.#database.query<{ address: string | null }>(
      `SELECT rows::jsonb #>> '{0,address}' AS address FROM mirror_bookkeeping WHERE table_name = 'mirror_server'`,
    );
    const here = this.#mirror.prepare<[], string>('SELECT address FROM mirror_server').pluck().get();
    const there = book?.address ?? undefined;
    if (there === undefined || here === undefined || there === here) return;
    throw new UsageError(`${this.#database.name} holds the mirror of ${there}, and this one is of ${here}`, {
      advice:
        'Name the server as a profile: each has a schema of its own. If it is the same server under a new address, run `admin-mirror publish --full`.',
    });
  }

  #count(name: string): { written: number; deleted: number } {
    const count = this.#written.get(name) ?? { written: 0, deleted: 0 };
    this.#written.set(name, count);
    return count;
  }

  /** The cursor's number, if the mirror can tell what changed since. */
  #known(cursor: string | null): number | undefined {
    return cursor === null ? undefined : knownSeqOf(this.#mirror, this.#ports.file, cursor);
  }

  #changes(since: number): number {
    return rowsAfter(this.#mirror, this.#tables, since);
  }

  #isMuch(since: number): boolean {
    const changes = this.#changes(since);
    return changes > manyChanges && changes > this.#changes(-1) / 2;
  }

  #target(table: PublishedTable, name: string): CopyTarget {
    const onRows = (rows: number) => {
      this.#count(table.name).written += rows;
      this.#rows += rows;
      this.#ports.progress(this.#rows, Math.max(this.#all, this.#rows));
    };
    return { database: this.#database, table, name, signal: this.#ports.signal, onRows };
  }

  /** Loads every row into tables of its own, part by part; then puts all of them in place in one transaction. */
  async #publishAll(
    begun: Loading | null,
    existing: ReadonlyMap<string, unknown>,
    growth: readonly string[],
    at: Timestamp,
  ): Promise<void> {
    const { query } = this.#database;
    const areThere = Object.keys(begun?.places ?? {}).every((name) => existing.has(loadingPrefix + name));
    const continued = begun?.layout === this.#layout && areThere ? this.#known(begun.cursor) : undefined;
    let loading: Loading = { layout: this.#layout, cursor: this.#cursor, places: {} };
    if (begun !== null && continued !== undefined) loading = begun;
    else {
      const stale = [...existing.keys()].filter((name) => name.startsWith(loadingPrefix)).map(quoteName);
      if (stale.length > 0) await query(`DROP TABLE ${stale.join(', ')}`);
    }
    this.#all = this.#changes(-1);
    const from = continued ?? this.#seq;
    await this.#load(loading, from);
    await this.#database.transaction(async () => {
      if (growth.length > 0) await query(growth.join('; '));
      if (from < this.#seq) await this.#applyChanges(from, loadingPrefix);
      for (const table of this.#tables) await this.#putInPlace(table, existing.has(table.name));
      await this.#finish(at);
    });
  }

  /** Loads the rows with numbers up to `seq`, and records after each part the place reached. */
  async #load(loading: Loading, seq: number): Promise<void> {
    const { query, transaction } = this.#database;
    let { places } = loading;
    for (const table of this.#tables) {
      const name = loadingPrefix + table.name;
      const place = places[table.name];
      if (place === 'end') continue;
      if (place === undefined) await query(tableSql(table, name));
      const reader = copyReader(this.#mirror, table, { order: table.order, from: -1n, to: BigInt(seq) });
      for (let after: bigint | undefined = BigInt(place ?? lowestPlace); after !== undefined;) {
        const start: bigint = after;
        after = await transaction(async () => {
          const end = await copyRows(this.#target(table, quoteName(name)), reader, start, rowsPerPart);
          if (end === undefined) for (const statement of indexSql(table, name)) await query(statement);
          places = { ...places, [table.name]: end === undefined ? 'end' : `${end}` };
          await query(
            `INSERT INTO mirror_publication (version, loading) VALUES ($1, $2)
             ON CONFLICT (one) DO UPDATE SET loading = excluded.loading`,
            [mirrorKind.version, JSON.stringify({ ...loading, places })],
          );
          return end;
        });
      }
      await query(`ANALYZE ${quoteName(name)}`);
    }
  }

  /** Puts a loaded table in place. An existing table gets its rows instead, since views of others may depend on it. */
  async #putInPlace(table: PublishedTable, isThere: boolean): Promise<void> {
    const { query } = this.#database;
    const next = quoteName(loadingPrefix + table.name);
    if (!isThere) {
      await query(`ALTER TABLE ${next} RENAME TO ${quoteName(table.name)}`);
      return;
    }
    const same = table.key.map((key) => `n.${quoteName(key)} = t.${quoteName(key)}`).join(' AND ');
    await query(
      `DELETE FROM ${quoteName(table.name)} AS t WHERE NOT EXISTS (SELECT 1 FROM ${next} AS n WHERE ${same})`,
    );
    await query(upsertSql(table, next));
    await query(`DROP TABLE ${next}`);
  }

  /** Applies the changes after the number. @param prefix of the tables' names */
  async #applyChanges(since: number, prefix: string): Promise<void> {
    const staged = await this.#stageChanges(since, prefix);
    if (staged.includes(deletionTable)) await this.#deleteGone(prefix);
    for (const table of staged) {
      const target = { ...table, name: prefix + table.name };
      await this.#database.query(upsertSql(target, `pg_temp.${quoteName(table.name)}`));
    }
  }

  /** Copies the changes into temporary tables; returns the tables that have any. */
  async #stageChanges(since: number, prefix: string): Promise<readonly PublishedTable[]> {
    const { query } = this.#database;
    const staged: PublishedTable[] = [];
    const existing = await columnsIn(this.#database);
    for (const table of this.#tables) {
      const name = prefix + table.name;
      if (!existing.has(name)) {
        await query([tableSql(table, name), ...indexSql(table, name)].join('; '));
      }
      if (rowsAfter(this.#mirror, [table], since) === 0) continue;
      const columns = columnList(table);
      await query(
        `CREATE TEMP TABLE ${quoteName(table.name)} ON COMMIT DROP AS SELECT ${columns} FROM ${quoteName(name)} WITH NO DATA`,
      );
      const range = { order: table.number, from: BigInt(since), to: BigInt(this.#seq) };
      const target = this.#target(table, `pg_temp.${quoteName(table.name)}`);
      await copyRows(target, copyReader(this.#mirror, table, range), range.from);
      staged.push(table);
    }
    return staged;
  }

  /** Deletes the rows that have tombstones. */
  async #deleteGone(prefix: string): Promise<void> {
    for (const table of this.#tables) {
      if (table === deletionTable) continue;
      const [id, key] = table.key.map((each) => `t.${quoteName(each)}`);
      const [row] = await this.#database.query<{ deleted: string }>(
        `WITH gone AS (DELETE FROM ${quoteName(prefix + table.name)} AS t USING pg_temp.mirror_deletions AS d
           WHERE d.table_name = ${quoteText(table.name)} AND ${id} = d.id ${key === undefined ? '' : `AND ${key} = d.key`} RETURNING 1)
         SELECT count(*) AS deleted FROM gone`,
      );
      this.#count(table.name).deleted += Number(row?.deleted ?? 0);
    }
  }

  /** Publishes everything besides the rows, in their transaction. */
  async #finish(at: Timestamp): Promise<void> {
    const { query } = this.#database;
    const { warn, destination } = this.#ports;
    await this.#prune();
    await query('DELETE FROM mirror_freshness');
    for (const { resource, windows, unsettled, fresh_as_of: fresh } of this.#freshness()) {
      await query('INSERT INTO mirror_freshness VALUES ($1, $2, $3, $4, $5)', [
        resource,
        windows,
        unsettled,
        fresh,
        at,
      ]);
    }
    await publishBookkeeping(this.#database, this.#mirror);
    await makeFlatViews(this.#database, this.#mirror, warn);
    await writeComments(this.#database, this.#tables);
    await grantReading(this.#database, destination.schema, destination.reader, this.#tables, warn);
    await query(
      `INSERT INTO mirror_publication (version, layout, cursor, published_at) VALUES ($1, $2, $3, $4)
       ON CONFLICT (one) DO UPDATE SET version = excluded.version, layout = excluded.layout, cursor = excluded.cursor,
         published_at = excluded.published_at, loading = NULL`,
      [mirrorKind.version, this.#layout, this.#cursor, at],
    );
  }

  /** Deletes what the mirror removed without tombstones, because it was too old. */
  async #prune(): Promise<void> {
    const begins = this.#mirror.prepare<[], { resource: ResourceName; begins_at: string }>(
      'SELECT resource, begins_at FROM mirror_history',
    );
    for (const { resource, begins_at: at } of begins.all()) {
      await this.#database.query(`DELETE FROM ${quoteName(historyTableOf(resource))} WHERE valid_to < $1`, [at]);
    }
    const from = this.#mirror.prepare<[], number>('SELECT deletions_from FROM mirror_cursor').pluck().get() ?? 0;
    await this.#database.query('DELETE FROM mirror_deletions WHERE seq <= $1', [from]);
  }

  #freshness() {
    const rows = this.#mirror.prepare<
      [],
      { resource: ResourceName; windows: number; unsettled: number; fresh_as_of: Timestamp | null }
    >('SELECT * FROM mirror_freshness');
    const found = rows.all();
    return resourceNames.flatMap((name) => found.filter(({ resource }) => resource === name));
  }
}

/** Returns the statement that inserts the rows of another table with the same columns, or replaces those with the same key. */
function upsertSql(table: PublishedTable, from: string): string {
  const columns = columnList(table);
  const key = table.key.map(quoteName).join(', ');
  const others = sqlColumns(table).filter(({ name }) => !table.key.includes(name));
  const sets = others.map(({ name }) => `${quoteName(name)} = excluded.${quoteName(name)}`);
  // Compared as text, so that 1 and 1.00 differ, as they do for a check.
  const row = (of: string) => `ROW(${others.map(({ name }) => `${of}.${quoteName(name)}`).join(', ')})::text`;
  return `INSERT INTO ${quoteName(table.name)} AS t (${columns}) SELECT ${columns} FROM ${from}
ON CONFLICT (${key}) DO UPDATE SET ${sets.join(', ')} WHERE ${row('t')} IS DISTINCT FROM ${row('excluded')}`;
}
