/** The schema to publish to: its tables, which are made and grown but never dropped; comments; views, also over all servers; grants. */
import type { Database as Mirror } from 'better-sqlite3';
import { hash } from 'node:crypto';
import { dictionary, possibleRelationEntries, relationEntries, type TableEntry } from '../dictionary.ts';
import { OperatorError } from '../../model/errors.ts';
import { firstFree } from '../../model/files.ts';
import { relationTables } from '../../model/resources.ts';
import { flatKeys } from '../../store/relations.ts';
import type { Timestamp } from '../../model/time.ts';
import { codeOf } from '../../store/postgres-server.ts';
import { quoteName, quoteText } from '../../store/schema.ts';
import { Runner } from '../../store/tables.ts';
import type { Database } from './database.ts';
import { type PublishedTable, rawColumn, sqlColumns } from './layout.ts';

/** Begins the name of a table that is being loaded. */
export const loadingPrefix = '_next_';

const ownTables = `
CREATE TABLE IF NOT EXISTS mirror_publication (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  version integer NOT NULL,
  layout text,
  cursor text,
  loading jsonb,
  published_at timestamptz,
  comments text
);
CREATE TABLE IF NOT EXISTS mirror_bookkeeping (
  table_name text,
  part integer,
  hash text NOT NULL,
  rows text NOT NULL,
  PRIMARY KEY (table_name, part)
);
CREATE TABLE IF NOT EXISTS mirror_freshness (
  resource text PRIMARY KEY,
  windows bigint NOT NULL,
  unsettled bigint NOT NULL,
  fresh_as_of timestamptz,
  published_at timestamptz NOT NULL
)`;

/** Makes the schema and the tables of the publication itself, if they are missing. */
export async function makeSchema({ query }: Database, schema: string): Promise<void> {
  const [found] = await query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema]);
  if (found === undefined) await query(`CREATE SCHEMA IF NOT EXISTS ${quoteName(schema)}`);
  await query(ownTables);
}

interface ColumnFact {
  readonly table: string;
  readonly name: string;
  readonly type: string;
}

/** Returns the columns of every table and view of the schema, by its name. */
export async function columnsIn({ query }: Database): Promise<ReadonlyMap<string, readonly ColumnFact[]>> {
  const rows = await query<ColumnFact>(
    `SELECT c.relname AS table, a.attname AS name, format_type(a.atttypid, NULL) AS type
     FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
     WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p', 'v') AND a.attnum > 0 AND NOT a.attisdropped
     ORDER BY c.relname, a.attnum`,
  );
  return Map.groupBy(rows, ({ table }) => table);
}

/** A full publication that has begun. */
export interface Loading {
  readonly layout: string;
  /** The mirror's cursor at the beginning. */
  readonly cursor: string;
  /** The place reached in each table, or `end`. */
  readonly places: Readonly<Record<string, string>>;
}

interface Publication {
  /** The version of the mirror's schema. */
  readonly version: number;
  readonly layout: string | null;
  /** Null until a full publication is finished. */
  readonly cursor: string | null;
  readonly at: Timestamp | null;
  readonly loading: Loading | null;
}

/** Returns the state of the publication; undefined if nothing was ever published. */
export async function publicationIn(
  database: Database,
  tables?: ReadonlyMap<string, unknown>,
): Promise<Publication | undefined> {
  if (!(tables ?? (await columnsIn(database))).has('mirror_publication')) return undefined;
  const [found] = await database.query<Publication>(
    `SELECT version, layout, cursor, to_char(published_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at, loading
     FROM mirror_publication`,
  );
  return found;
}

/** @param name the table's name, which differs while it is being loaded */
export function tableSql(table: PublishedTable, name: string): string {
  const columns = sqlColumns(table).map(
    (column) => `${quoteName(column.name)} ${typeNames[column.type] ?? column.type}`,
  );
  return `CREATE TABLE IF NOT EXISTS ${quoteName(name)} (${columns.join(', ')})`;
}

const typeNames: Readonly<Record<string, string>> = { timestamptz: 'timestamp with time zone' };

/** Returns the statements for key and indices. A table gets them once it is filled, which is quicker. */
export function indexSql({ key, indices }: PublishedTable, name: string): string[] {
  const table = quoteName(name);
  return [
    `ALTER TABLE ${table} ADD PRIMARY KEY (${key.map(quoteName).join(', ')})`,
    ...indices.map((column) => `CREATE INDEX ON ${table} (${quoteName(column)})`),
  ];
}

/** Returns the statements that add missing columns to an existing table. A column of another type is kept under another name. */
export function growthSql(table: PublishedTable, existing: readonly ColumnFact[] | undefined): string[] {
  if (existing === undefined) return [];
  const types = new Map(existing.map(({ name, type }) => [name, type]));
  const changes: string[] = [];
  for (const { name, type } of sqlColumns(table)) {
    const wanted = typeNames[type] ?? type;
    const found = types.get(name);
    if (found === wanted) continue;
    if (found !== undefined) {
      let kept = `${name}_old`;
      while (types.has(kept)) kept += '_old';
      types.set(kept, found);
      changes.push(`ALTER TABLE ${quoteName(table.name)} RENAME COLUMN ${quoteName(name)} TO ${quoteName(kept)}`);
    }
    changes.push(`ALTER TABLE ${quoteName(table.name)} ADD COLUMN ${quoteName(name)} ${wanted}`);
  }
  return changes;
}

const text = (value: string): string => quoteText(value.replaceAll('\0', ''));

/** Writes comments on tables and columns, from the data dictionary, if they changed since the last time. */
export async function writeComments(database: Database, tables: readonly PublishedTable[]): Promise<void> {
  const inSchema = await columnsIn(database);
  const flat = relationTables.flatMap(({ view, table }) => {
    const columns = inSchema.get(view)?.map(({ name, type }) => ({ name, type, notNull: false }));
    return columns === undefined
      ? []
      : [
          { name: view, columns },
          { name: table, columns: [] },
        ];
  });
  const entries = new Map<string, TableEntry>(
    [...dictionary(), ...possibleRelationEntries(), ...relationEntries(flat)].map((entry) => [entry.name, entry]),
  );
  const statements: string[] = [];
  for (const [name, columns] of inSchema) {
    const entry = entries.get(name);
    const own = tables.find((table) => table.name === name);
    if (entry === undefined || (own === undefined && entry.kind !== 'view' && name !== 'mirror_freshness')) continue;
    const kind = entry.kind === 'view' && name !== 'mirror_freshness' ? 'VIEW' : 'TABLE';
    statements.push(`COMMENT ON ${kind} ${quoteName(name)} IS ${text(entry.summary)}`);
    for (const column of columns) {
      const meaning = meaningOf(entry, column.name);
      if (meaning === undefined) continue;
      statements.push(`COMMENT ON COLUMN ${quoteName(name)}.${quoteName(column.name)} IS ${text(meaning)}`);
    }
  }
  for (const [name, meaning] of Object.entries(ownMeanings)) {
    statements.push(`COMMENT ON TABLE ${name} IS ${text(meaning)}`);
  }
  const digest = hash('sha256', statements.join(';'));
  const [before] = await database.query<{ comments: string | null }>('SELECT comments FROM mirror_publication');
  if (before?.comments === digest) return;
  await database.query(statements.join('; '));
  await database.query(
    `INSERT INTO mirror_publication (version, comments) VALUES (0, $1) ON CONFLICT (one) DO UPDATE SET comments = excluded.comments`,
    [digest],
  );
}

const ownMeanings: Readonly<Record<string, string>> = {
  mirror_publication: 'How far the mirror is published, and what is under way. Kept by admin-mirror publish.',
  mirror_bookkeeping: 'What the mirror knows about itself, for admin-mirror publish --restore.',
};

function meaningOf(entry: TableEntry, column: string): string | undefined {
  const found = entry.columns.find(({ name }) => name === column);
  if (found !== undefined) return found.meaning;
  if (column === rawColumn) {
    return 'as a JSON object: cells whose columns here cannot hold them just as they came, such as a day that no calendar has; null in almost every row';
  }
  if (column === 'published_at') return 'when this was published';
  const original = /^(.+)_json$/.exec(column)?.[1];
  return original === undefined
    ? undefined
    : `${original} as jsonb; null if it is no JSON, or none that jsonb can hold`;
}

/** PostgreSQL cuts longer names. */
const nameBytes = 63;
/** The most columns of a view, below PostgreSQL's own limit. */
const mostColumns = 1_500;

/** Makes the views of related records, with a column for each key. They grow; if a key was forgotten, they are made anew. */
export async function makeFlatViews(database: Database, mirror: Mirror, warn: (text: string) => void): Promise<void> {
  const runner = new Runner(mirror);
  const inSchema = await columnsIn(database);
  for (const relation of relationTables) {
    const keys = flatKeys(runner, relation);
    if (keys === undefined || !inSchema.has(relation.table)) continue;
    const inMirror = mirror
      .prepare<[string], string>('SELECT name FROM pragma_table_info(?)')
      .pluck()
      .all(relation.view);
    const columns = [{ name: relation.parentColumn, sql: quoteName(relation.parentColumn) }];
    const taken = new Set([relation.parentColumn]);
    for (const [index, key] of keys.slice(0, mostColumns).entries()) {
      if (key?.includes('\0') === true) continue;
      const name = shortName(inMirror[index + 1] ?? key ?? 'value', taken);
      const sql =
        key === null
          ? `CASE WHEN jsonb_typeof(record_json) <> 'object' THEN record_json #>> '{}' END`
          : `record_json ->> ${text(key)}`;
      columns.push({ name, sql });
    }
    const before = (inSchema.get(relation.view) ?? []).map(({ name }) => name);
    if (before.length === columns.length && before.every((name, index) => name === columns[index]?.name)) continue;
    const view = quoteName(relation.view);
    const list = columns.map(({ name, sql }) => `${sql} AS ${quoteName(name)}`).join(', ');
    const isMade = await putView(database, view, `AS SELECT ${list} FROM ${quoteName(relation.table)}`);
    if (isMade) continue;
    warn(
      `the view ${relation.view} stays as it was, because other views depend on it: drop those, and it will be made anew`,
    );
  }
}

/** Replaces the view. Returns false if views of others depend on its columns. */
async function putView(database: Database, view: string, definition: string): Promise<boolean> {
  const make = (before: string) => database.savepoint(() => database.query(`${before} VIEW ${view} ${definition}`));
  try {
    await make('CREATE OR REPLACE');
  } catch {
    try {
      await make(`DROP VIEW IF EXISTS ${view}; CREATE`);
    } catch (error) {
      if (codeOf(error) !== '2BP01') throw error;
      return false;
    }
  }
  return true;
}

function shortName(name: string, taken: Set<string>): string {
  const characters = Array.from(name.replaceAll('\0', '') || 'empty');
  const short = firstFree(
    (tried) => taken.has(tried),
    (number) => {
      const end = number === null ? '' : `_${number}`;
      let most = characters.length;
      while (Buffer.byteLength(characters.slice(0, most).join('') + end) > nameBytes) most -= 1;
      return characters.slice(0, most).join('') + end;
    },
  );
  taken.add(short);
  return short;
}

/** Makes the role if it is missing. Warns and returns false if this user may not. */
async function makeRole(database: Database, role: string, warn: (text: string) => void): Promise<boolean> {
  const [found] = await database.query('SELECT 1 FROM pg_roles WHERE rolname = $1', [role]);
  if (found !== undefined) return true;
  try {
    await database.savepoint(() => database.query(`CREATE ROLE ${quoteName(role)} NOLOGIN`));
    return true;
  } catch (error) {
    if (codeOf(error instanceof OperatorError ? error.cause : error) !== '42501') throw error;
    warn(
      `the role ${role} does not exist, and the user of publish.url may not create it: ask an administrator to run CREATE ROLE ${quoteName(role)} NOLOGIN`,
    );
    return false;
  }
}

/** Lets the role read what is published. */
export async function grantReading(
  database: Database,
  schema: string,
  role: string,
  tables: readonly PublishedTable[],
  warn: (text: string) => void,
): Promise<void> {
  if (!(await makeRole(database, role, warn))) return;
  const inSchema = await columnsIn(database);
  const names = [
    ...tables.filter(({ isPublic }) => isPublic).map(({ name }) => name),
    ...relationTables.map(({ view }) => view),
    'mirror_freshness',
  ];
  const there = names.filter((name) => inSchema.has(name));
  const granted = await database.query<{ name: string }>(
    `SELECT relname AS name FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname = ANY ($1)
     AND has_schema_privilege($2, relnamespace, 'USAGE') AND has_table_privilege($2, oid, 'SELECT')`,
    [there, role],
  );
  const missing = there.filter((name) => !granted.some((row) => row.name === name)).map(quoteName);
  if (missing.length === 0) return;
  await database.query(
    `GRANT USAGE ON SCHEMA ${quoteName(schema)} TO ${quoteName(role)}; GRANT SELECT ON ${missing.join(', ')} TO ${quoteName(role)}`,
  );
}

interface Published {
  readonly server: string;
  readonly table: string;
  readonly columns: readonly string[];
}

/** Tables without records of a server. */
const ownTableNames = ['mirror_publication', 'mirror_bookkeeping', 'mirror_deletions'];

/** Makes the views over all servers that are missing, and makes those anew whose tables or columns changed. */
export async function makeServerViews(database: Database, schema: string, warn: (text: string) => void): Promise<void> {
  const { query } = database;
  await query('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [`admin-mirror servers ${schema}`]);
  const [made] = await query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema]);
  if (made === undefined) await query(`CREATE SCHEMA ${quoteName(schema)}`);
  const found = await query<Published>(
    `SELECT n.nspname AS server, c.relname AS table,
       array_agg(json_build_array(a.attname, format_type(a.atttypid, NULL))::text ORDER BY a.attnum) AS columns
     FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace JOIN pg_attribute AS a ON a.attrelid = c.oid
     WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND has_table_privilege(c.oid, 'SELECT')
     AND c.relname <> ALL ($1) AND NOT starts_with(c.relname, '_next_')
     AND obj_description(c.oid) IS NOT NULL
     AND EXISTS (SELECT 1 FROM pg_class AS p WHERE p.relnamespace = n.oid AND p.relname = 'mirror_publication')
     GROUP BY 1, 2 ORDER BY 1, 2`,
    [ownTableNames],
  );
  const before = await query<{ name: string; said: string | null }>(
    `SELECT relname AS name, obj_description(oid) AS said FROM pg_class WHERE relkind = 'v' AND relnamespace = $1::regnamespace`,
    [quoteName(schema)],
  );
  const role = `${schema}_reader`;
  const isGranted = await makeRole(database, role, warn);
  for (const [table, of] of Map.groupBy(found, (each) => each.table)) {
    const columns = commonColumns(of);
    const parts = of.map(
      ({ server }) =>
        `SELECT ${quoteText(server)}::text AS server, ${columns.map(quoteName).join(', ')} FROM ${quoteName(server)}.${quoteName(table)}`,
    );
    const view = `${quoteName(schema)}.${quoteName(table)}`;
    const definition = parts.join(' UNION ALL ');
    const said = `${table} of all servers: ${of.map(({ server }) => server).join(', ')} (${hash('sha256', definition).slice(0, 12)}).`;
    const existing = before.find(({ name }) => name === table);
    if (existing?.said === said) continue;
    const grant = isGranted
      ? `; GRANT USAGE ON SCHEMA ${quoteName(schema)} TO ${quoteName(role)}; GRANT SELECT ON ${view} TO ${quoteName(role)}`
      : '';
    const rest = `AS ${definition}; COMMENT ON VIEW ${view} IS ${quoteText(said)}${grant}`;
    if (await putView(database, view, rest)) continue;
    warn(`the view ${schema}.${table} stays as it was, because other views depend on it`);
  }
}

function commonColumns(of: readonly Published[]): string[] {
  const [first, ...others] = of;
  const common = first?.columns.filter((each) => others.every(({ columns }) => columns.includes(each))) ?? [];
  return common.map((each) => (JSON.parse(each) as [name: string])[0]).filter((name) => name !== 'server');
}
