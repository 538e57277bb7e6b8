/** The schema to publish to: its tables, which are made and grown but never dropped; comments; grants. */
import { hash } from 'node:crypto';
import { dictionary, possibleRelationEntries, relationEntries, type TableEntry } from '../dictionary.ts';
import { OperatorError } from '../../model/errors.ts';
import { relationTables } from '../../model/resources.ts';
import type { Timestamp } from '../../model/time.ts';
import { codeOf } from '../../store/postgres-server.ts';
import { quoteName, quoteText } from '../../store/schema.ts';
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
