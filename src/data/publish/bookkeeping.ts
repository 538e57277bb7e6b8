/** What the mirror knows about itself, published as JSON, so that a restored mirror continues where the published one ended. */
import type { Database as Mirror } from 'better-sqlite3';
import { quoteName } from '../../store/schema.ts';
import type { Database } from './database.ts';
import { deletionTable } from './layout.ts';

/** Not published: locks, which belong to the file; and remembered pages, with the days that were touched since: the next walk reads all anew. */
const ownOfTheFile = ['mirror_locks', 'mirror_pages', 'mirror_touched', deletionTable.name];

function bookkeepingTables(mirror: Mirror): readonly string[] {
  const names = mirror.prepare<[], string>(
    String.raw`SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'mirror\_%' ESCAPE '\' ORDER BY name`,
  );
  return names
    .pluck()
    .all()
    .filter((name) => !ownOfTheFile.includes(name));
}

/** Includes rowid, if the table has one: it tells which run is the newest, even if the clock was set back. */
const columnsOf = (mirror: Mirror, table: string): string[] =>
  mirror
    .prepare<{ table: string }, string>(
      `SELECT name FROM pragma_table_info(@table)
       UNION ALL SELECT 'rowid' FROM pragma_table_list WHERE schema = 'main' AND name = @table AND wr = 0`,
    )
    .pluck()
    .all({ table });

/** Publishes the rows of each table as JSON objects, in the open transaction. */
export async function publishBookkeeping({ query }: Database, mirror: Mirror): Promise<void> {
  for (const table of bookkeepingTables(mirror)) {
    await query(
      `INSERT INTO mirror_bookkeeping (table_name, rows) VALUES ($1, $2)
       ON CONFLICT (table_name) DO UPDATE SET rows = excluded.rows WHERE mirror_bookkeeping.rows <> excluded.rows`,
      [table, rowsOf(mirror, table)],
    );
  }
}

function rowsOf(mirror: Mirror, table: string): string {
  const columns = columnsOf(mirror, table);
  const names = columns.map(quoteName);
  const cells = columns.map((name) => `'${name}', ${quoteName(name)}`).join(', ');
  const rows = mirror.prepare<[], string>(`SELECT json_object(${cells}) FROM ${table} ORDER BY ${names.join(', ')}`);
  return `[${rows.pluck().all().join(',\n')}]`;
}

/** Replaces the bookkeeping of a new mirror by what was published. */
export async function restoreBookkeeping({ query }: Database, mirror: Mirror): Promise<void> {
  for (const table of bookkeepingTables(mirror)) {
    const [published] = await query<{ rows: string }>('SELECT rows FROM mirror_bookkeeping WHERE table_name = $1', [
      table,
    ]);
    const columns = columnsOf(mirror, table);
    const cells = columns.map((name) => `value ->> '${name}'`).join(', ');
    const insert = mirror.prepare(
      `INSERT INTO ${table} (${columns.map(quoteName).join(', ')}) SELECT ${cells} FROM json_each(?)`,
    );
    mirror.transaction(() => {
      mirror.exec(`DELETE FROM ${table}`);
      insert.run(published?.rows ?? '[]');
    })();
  }
}
