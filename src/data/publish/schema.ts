/** The schema to publish to: its tables, which are made and grown but never dropped; the state of the publication; grants. */
import { OperatorError, UsageError } from '../../model/errors.ts';
import type { Timestamp } from '../../model/time.ts';
import { codeOf } from '../../store/postgres-server.ts';
import { quoteName, quoteText } from '../../store/schema.ts';
import { dictionary, possibleRelationEntries } from '../dictionary.ts';
import type { Database } from './database.ts';
import { type PublishedTable, rawColumn, sqlColumns } from './layout.ts';

const ownTables = `
CREATE TABLE IF NOT EXISTS mirror_publication (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  version integer NOT NULL,
  layout text NOT NULL,
  cursor text NOT NULL,
  published_at timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS mirror_bookkeeping (
  table_name text PRIMARY KEY,
  rows text NOT NULL
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
  // CREATE SCHEMA needs a permission that the owner of an existing schema may lack, even with IF NOT EXISTS.
  const [found] = await query('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema]);
  if (found === undefined) await query(`CREATE SCHEMA ${quoteName(schema)}`);
  await query(ownTables);
}

interface ColumnFact {
  readonly table: string;
  readonly name: string;
  readonly type: string;
}

/** Returns the columns of every table of the schema, by its name. */
export async function columnsIn({ query }: Database): Promise<ReadonlyMap<string, readonly ColumnFact[]>> {
  const rows = await query<ColumnFact>(
    `SELECT c.relname AS table, a.attname AS name, format_type(a.atttypid, NULL) AS type
     FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
     WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
     ORDER BY c.relname, a.attnum`,
  );
  return Map.groupBy(rows, ({ table }) => table);
}

interface Publication {
  /** The version of the mirror's schema. */
  readonly version: number;
  readonly layout: string;
  readonly cursor: string;
  readonly at: Timestamp;
}

/** Returns the state of the publication; undefined if nothing was ever published. */
export async function publicationIn(database: Database): Promise<Publication | undefined> {
  const [table] = await database.query<{ found: string | null }>(`SELECT to_regclass('mirror_publication') AS found`);
  if (table?.found === null) return undefined;
  const [found] = await database.query<Publication>(
    `SELECT version, layout, cursor, to_char(published_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS at FROM mirror_publication`,
  );
  return found;
}

export function tableSql(table: PublishedTable): string {
  const columns = sqlColumns(table).map(({ name, type }) => `${quoteName(name)} ${type}`);
  return `CREATE TABLE ${quoteName(table.name)} (${columns.join(', ')})`;
}

/** Returns the statements for key and indices. A table gets them once it is filled, which is quicker. */
export function indexSql({ name, key, indices }: PublishedTable): string {
  const table = quoteName(name);
  return [
    `ALTER TABLE ${table} ADD PRIMARY KEY (${key.map(quoteName).join(', ')})`,
    ...indices.map((column) => `CREATE INDEX ON ${table} (${quoteName(column)})`),
  ].join('; ');
}

/** Returns the statements that add missing columns to an existing table. Throws a UsageError for a column of another type. */
export function growthSql(table: PublishedTable, existing: readonly ColumnFact[] | undefined): string[] {
  if (existing === undefined) return [];
  const types = new Map(existing.map(({ name, type }) => [name, type]));
  return sqlColumns(table).flatMap(({ name, type }) => {
    const found = types.get(name);
    if (found === undefined) return [`ALTER TABLE ${quoteName(table.name)} ADD COLUMN ${quoteName(name)} ${type}`];
    if (found === (type === 'timestamptz' ? 'timestamp with time zone' : type)) return [];
    throw new UsageError(`the published column ${table.name}.${name} has the type ${found} instead of ${type}`, {
      advice: 'Rename that column in the database. The next `admin-mirror publish` adds it with its type.',
    });
  });
}

/** Describes what was published by comments, from the data dictionary. */
export async function writeComments(database: Database): Promise<void> {
  const inSchema = await columnsIn(database);
  const statements = [...dictionary(), ...possibleRelationEntries()].flatMap(({ name, summary, columns }) => {
    const there = inSchema.get(name) ?? [];
    if (there.length === 0) return [];
    const meanings = new Map(columns.map((column) => [column.name, column.meaning]));
    return [
      `COMMENT ON TABLE ${quoteName(name)} IS ${quoteText(summary)}`,
      ...there.map((column) => {
        const meaning = meanings.get(column.name) ?? ownMeaning(column.name);
        return `COMMENT ON COLUMN ${quoteName(name)}.${quoteName(column.name)} IS ${quoteText(meaning)}`;
      }),
    ];
  });
  await database.query(statements.join('; '));
}

function ownMeaning(column: string): string {
  if (column === rawColumn) return 'as a JSON object: cells that their columns cannot hold just as they came';
  if (column === 'published_at') return 'when this was published';
  return column.endsWith('_json') ? `${column.slice(0, -'_json'.length)} as jsonb, if that can hold it` : 'as it came';
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
  { schema, reader }: { readonly schema: string; readonly reader: string },
  tables: readonly PublishedTable[],
  warn: (text: string) => void,
): Promise<void> {
  if (!(await makeRole(database, reader, warn))) return;
  const names = [...tables.filter(({ isPublic }) => isPublic).map(({ name }) => name), 'mirror_freshness'];
  await database.query(
    `GRANT USAGE ON SCHEMA ${quoteName(schema)} TO ${quoteName(reader)}; GRANT SELECT ON ${names.map(quoteName).join(', ')} TO ${quoteName(reader)}`,
  );
}
