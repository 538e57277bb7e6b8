/** Publishes the mirror, from one of its states to the next. Section "Publishing" of docs/architecture.md. */
import type { Database as Mirror } from 'better-sqlite3';
import { hash } from 'node:crypto';
import { FileError, UsageError } from '../../model/errors.ts';
import { type ResourceName, resourceNames } from '../../model/resources.ts';
import { type Clock, type Timestamp, timestampOf } from '../../model/time.ts';
import { cursorAt, knownSeqOf, lastSeq } from '../../store/cursor.ts';
import { anonymousMark, mirrorVersion, openMirrorForReading } from '../../store/open.ts';
import { historyTableOf, quoteName, quoteText } from '../../store/schema.ts';
import {
  keepBooks,
  columnList,
  deletionTable,
  type PublishedTable,
  publishedTables,
  rowsAfter,
  sqlColumns,
} from './layout.ts';
import { type Copying, copyRows, firstPlace, lineReader } from './rows.ts';
import { type Database, type Destination, lockSchema, withDatabase } from './database.ts';
import {
  makeServerViews,
  columnsIn,
  comment,
  grantReading,
  growthSql,
  indexSql,
  type Loading,
  loadingPrefix,
  makeFlatViews,
  makeSchema,
  publicationIn,
  tableSql,
} from './schema.ts';

export interface PublishPorts {
  readonly file: string;
  readonly destination: Destination;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly warn: (text: string) => void;
  /** Called with rows written so far, and all that are to be written. */
  readonly progress: (rows: number, all: number) => void;
}

export interface PublishReport {
  readonly schema: string;
  /** `whole`: every row was written; `changes`: those that changed since the last time. */
  readonly mode: 'whole' | 'changes';
  readonly cursor: string;
  readonly published_at: Timestamp;
  readonly fresh_as_of: Readonly<Partial<Record<ResourceName, Timestamp | null>>>;
  readonly tables: Readonly<Record<string, { readonly written: number; readonly deleted: number }>>;
}

/** Rows in one transaction while everything is written. */
const rowsAtOnce = 100_000;
/** More changes than this, and than half of all rows, are written like everything, which can be continued after a kill. */
const manyChanges = 100_000;

/** Opens one state of the mirror. Throws a FileError where there is none. The caller closes it. */
function openState(file: string): Mirror {
  const mirror = openMirrorForReading(file);
  try {
    mirror.exec('BEGIN');
    const mark = mirror.prepare<[string], number>('SELECT 1 FROM mirror_capabilities WHERE name = ?').pluck();
    // The first read fixes the state.
    if (mark.get(anonymousMark) === undefined) return mirror;
    throw new FileError(`${file} is an anonymised copy, which is not published`, {
      advice: 'Name the mirror with --db.',
    });
  } catch (error) {
    mirror.close();
    throw error;
  }
}

/** Publishes what is new, or with `whole` everything. Throws an UnreachableError, UsageError, LockHeldError or FileError. */
export async function publish(ports: PublishPorts, request: { readonly whole: boolean }): Promise<PublishReport> {
  return beside(ports, async (mirror, database) => {
    await makeSchema(database, ports.destination.schema);
    return new Publishing(ports, mirror, database).run(request.whole);
  });
}

/** One state of the mirror and the schema, which is locked; both are closed at the end. */
export async function beside<T>(
  { file, destination, signal }: Pick<PublishPorts, 'file' | 'destination' | 'signal'>,
  doing: (mirror: Mirror, database: Database) => Promise<T>,
): Promise<T> {
  const mirror = openState(file);
  try {
    return await withDatabase(destination, signal, async (database) => {
      await lockSchema(database, destination.schema);
      return doing(mirror, database);
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
    // A table of related records more is no other layout: its rows come as changes.
    const always = this.#tables.filter(({ key }) => !key.includes('_key'));
    this.#layout = hash('sha256', JSON.stringify([mirrorVersion, always.map(sqlColumns)])).slice(0, 16);
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
    if (isWhole) await this.#everything(begun, existing, growth, at);
    else {
      this.#all = this.#changes(since);
      await this.#database.whole(async () => {
        await this.#apply(since, '');
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

  /** Two mirrors that take turns in one schema would each undo the other's work. */
  async #refuseOther(cursor: string | null): Promise<void> {
    if (cursor === null || cursor.split('.')[0] === this.#cursor.split('.')[0]) return;
    const address = `rows::jsonb @? '$[*] ? (@.name == "server")'`;
    const [book] = await this.#database.query<{ address: string | null }>(
      `SELECT jsonb_path_query_first(rows::jsonb, '$[*] ? (@.name == "server").value') #>> '{}' AS address
       FROM mirror_bookkeeping WHERE table_name = 'mirror_capabilities' AND ${address}`,
    );
    const own = this.#mirror
      .prepare<[], string>("SELECT value FROM mirror_capabilities WHERE name = 'server'")
      .pluck()
      .get();
    const [there, here] = [addressIn(book?.address), addressIn(own)];
    if (there === undefined || here === undefined || there === here) return;
    throw new UsageError(`${this.#database.name} holds the mirror of ${there}, and this one is of ${here}`, {
      advice:
        'Name another schema in publish.schema. If it is the same server under a new address, run `admin-mirror publish --full`.',
    });
  }

  #count(name: string): { written: number; deleted: number } {
    const count = this.#written.get(name) ?? { written: 0, deleted: 0 };
    this.#written.set(name, count);
    return count;
  }

  /** The number of the cursor, where the mirror can tell what changed since. */
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

  #copying(table: PublishedTable, name: string): Copying {
    const wrote = (rows: number) => {
      this.#count(table.name).written += rows;
      this.#rows += rows;
      this.#ports.progress(this.#rows, Math.max(this.#all, this.#rows));
    };
    return { database: this.#database, table, name, signal: this.#ports.signal, wrote };
  }

  /** Fills tables beside those that are read, part by part; then puts all in their place at once. */
  async #everything(
    begun: Loading | null,
    existing: ReadonlyMap<string, unknown>,
    growth: readonly string[],
    at: Timestamp,
  ): Promise<void> {
    const { query, whole } = this.#database;
    const isThere = Object.keys(begun?.places ?? {}).every((name) => existing.has(loadingPrefix + name));
    const continued = begun?.layout === this.#layout && isThere ? this.#known(begun.cursor) : undefined;
    let loading: Loading = { layout: this.#layout, cursor: this.#cursor, places: {} };
    if (begun !== null && continued !== undefined) loading = begun;
    const from = continued ?? this.#seq;
    if (continued === undefined) {
      const left = [...existing.keys()].filter((name) => name.startsWith(loadingPrefix)).map(quoteName);
      if (left.length > 0) await query(`DROP TABLE ${left.join(', ')}`);
    }
    this.#all = this.#changes(-1);
    const keep = async (places: Loading['places']) => {
      loading = { ...loading, places };
      await query(
        `INSERT INTO mirror_publication (version, loading) VALUES ($1, $2)
         ON CONFLICT (one) DO UPDATE SET loading = excluded.loading`,
        [mirrorVersion, JSON.stringify(loading)],
      );
    };
    for (const table of this.#tables) {
      const name = loadingPrefix + table.name;
      // One that came since is filled by what changed since.
      const place = loading.places[table.name];
      if (place === 'end') continue;
      if (place === undefined) await query(tableSql(table, name));
      const reader = lineReader(this.#mirror, table, { order: table.order, from: -1n, to: BigInt(from) });
      for (let after: bigint | undefined = BigInt(place ?? firstPlace); after !== undefined;) {
        const start: bigint = after;
        after = await whole(async () => {
          const end = await copyRows(this.#copying(table, quoteName(name)), reader, start, rowsAtOnce);
          if (end === undefined) for (const statement of indexSql(table, name)) await query(statement);
          await keep({ ...loading.places, [table.name]: end === undefined ? 'end' : `${end}` });
          return end;
        });
      }
      await query(`ANALYZE ${quoteName(name)}`);
    }
    await whole(async () => {
      if (growth.length > 0) await query(growth.join('; '));
      if (from < this.#seq) await this.#apply(from, loadingPrefix);
      for (const table of this.#tables) {
        const next = quoteName(loadingPrefix + table.name);
        if (!existing.has(table.name)) await query(`ALTER TABLE ${next} RENAME TO ${quoteName(table.name)}`);
        else {
          const same = table.key.map((key) => `n.${quoteName(key)} = t.${quoteName(key)}`).join(' AND ');
          await query(
            `DELETE FROM ${quoteName(table.name)} AS t WHERE NOT EXISTS (SELECT 1 FROM ${next} AS n WHERE ${same})`,
          );
          await query(upsertSql(table, next));
          await query(`DROP TABLE ${next}`);
        }
      }
      await this.#finish(at);
    });
  }

  /** What changed since the number, into the tables whose names begin so. */
  async #apply(since: number, prefix: string): Promise<void> {
    const { query } = this.#database;
    const staged: PublishedTable[] = [];
    const existing = await columnsIn(this.#database);
    for (const table of this.#tables) {
      const name = prefix + table.name;
      if (!existing.has(name)) {
        await query([tableSql(table, name), ...indexSql(table, name)].join('; '));
      }
      const reader = lineReader(this.#mirror, table, {
        order: table.number,
        from: BigInt(since),
        to: BigInt(this.#seq),
      });
      if (rowsAfter(this.#mirror, [table], since) === 0) continue;
      const columns = columnList(table);
      await query(
        `CREATE TEMP TABLE ${quoteName(table.name)} ON COMMIT DROP AS SELECT ${columns} FROM ${quoteName(name)} WITH NO DATA`,
      );
      await copyRows(this.#copying(table, `pg_temp.${quoteName(table.name)}`), reader, BigInt(since));
      staged.push(table);
    }
    if (staged.includes(deletionTable)) {
      for (const table of this.#tables) {
        if (table === deletionTable) continue;
        const [id, key] = table.key.map((each) => `t.${quoteName(each)}`);
        const [row] = await query<{ deleted: string }>(
          `WITH gone AS (DELETE FROM ${quoteName(prefix + table.name)} AS t USING pg_temp.mirror_deletions AS d
             WHERE d.table_name = ${quoteText(table.name)} AND ${id} = d.id ${key === undefined ? '' : `AND ${key} = d.key`} RETURNING 1)
           SELECT count(*) AS deleted FROM gone`,
        );
        this.#count(table.name).deleted += Number(row?.deleted ?? 0);
      }
    }
    for (const table of staged)
      await query(upsertSql({ ...table, name: prefix + table.name }, `pg_temp.${quoteName(table.name)}`));
  }

  /** What belongs to each publication besides the rows: all in its transaction. */
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
    await keepBooks(this.#database, this.#mirror);
    await makeFlatViews(this.#database, this.#mirror, warn);
    await comment(this.#database, this.#tables);
    await grantReading(this.#database, destination.schema, destination.reader, this.#tables, warn);
    if (destination.servers !== undefined) await makeServerViews(this.#database, destination.servers, warn);
    await query(
      `INSERT INTO mirror_publication (version, layout, cursor, published_at) VALUES ($1, $2, $3, $4)
       ON CONFLICT (one) DO UPDATE SET version = excluded.version, layout = excluded.layout, cursor = excluded.cursor,
         published_at = excluded.published_at, loading = NULL`,
      [mirrorVersion, this.#layout, this.#cursor, at],
    );
  }

  /** What the mirror no longer keeps, and removes without a tombstone. */
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

/** Of what the mirror has on record of its server. */
function addressIn(record: string | null | undefined): string | undefined {
  return record === null || record === undefined
    ? undefined
    : (JSON.parse(record) as { readonly address?: string }).address;
}

/** Puts the rows of another table, which has the same columns, in the place of those with the same key. */
function upsertSql(table: PublishedTable, from: string): string {
  const columns = columnList(table);
  const key = table.key.map(quoteName).join(', ');
  const others = sqlColumns(table).filter(({ name }) => !table.key.includes(name));
  const sets = others.map(({ name }) => `${quoteName(name)} = excluded.${quoteName(name)}`);
  // As text, by which 1 and 1.00 are not the same: a check compares so, too.
  const row = (of: string) => `ROW(${others.map(({ name }) => `${of}.${quoteName(name)}`).join(', ')})::text`;
  return `INSERT INTO ${quoteName(table.name)} AS t (${columns}) SELECT ${columns} FROM ${from}
ON CONFLICT (${key}) DO UPDATE SET ${sets.join(', ')} WHERE ${row('t')} IS DISTINCT FROM ${row('excluded')}`;
}
