/** Views over the schemas of all servers that are published to a database, with the server in each row. */
import { hash } from 'node:crypto';
import { quoteName, quoteText } from '../../store/schema.ts';
import type { Database } from './database.ts';
import { makeRole, putView } from './schema.ts';

interface Published {
  readonly server: string;
  readonly table: string;
  readonly columns: readonly string[];
}

/** What is of no server's records. */
const own = ['mirror_publication', 'mirror_bookkeeping', 'mirror_deletions'];

/** Makes those that are missing, and anew those whose tables or columns are others by now. */
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
    [own],
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
    warn(`the view ${schema}.${table} stays as it was, because other views are made of it`);
  }
}

function commonColumns(of: readonly Published[]): string[] {
  const [first, ...others] = of;
  const common = first?.columns.filter((each) => others.every(({ columns }) => columns.includes(each))) ?? [];
  return common.map((each) => (JSON.parse(each) as [name: string])[0]).filter((name) => name !== 'server');
}
