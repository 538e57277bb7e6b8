/** The published views: of related records, with a column for each key, and over the tables of all servers. */
import type { Database as Mirror } from 'better-sqlite3';
import { hash } from 'node:crypto';
import { firstFree } from '../../model/files.ts';
import { relationTables } from '../../model/resources.ts';
import { codeOf } from '../../store/postgres-server.ts';
import { flatKeys } from '../../store/relations.ts';
import { quoteName, quoteText } from '../../store/schema.ts';
import { Runner } from '../../store/kysely-sqlite.ts';
import type { Database } from './database.ts';
import { columnsIn, makeRole } from './schema.ts';

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
          : `record_json ->> ${quoteText(key)}`;
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
