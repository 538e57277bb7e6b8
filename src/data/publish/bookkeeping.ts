/** What the mirror knows about itself, published as JSON, so that a restored mirror continues where the published one ended. */
import { hash } from 'node:crypto';
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

/** Each table is split into this many parts, and only parts that differ are sent. */
const partsOfTable = 16;

/** Includes rowid, if the table has one: it tells which run is the newest, even if the clock was set back. */
const columnsOf = (mirror: Mirror, table: string): string[] =>
  mirror
    .prepare<{ table: string }, string>(
      `SELECT name FROM pragma_table_info(@table)
       UNION ALL SELECT 'rowid' FROM pragma_table_list WHERE schema = 'main' AND name = @table AND wr = 0`,
    )
    .pluck()
    .all({ table });

/** Publishes the parts that changed, in the open transaction. */
export async function publishBookkeeping({ query }: Database, mirror: Mirror): Promise<void> {
  const parts = await query<{ table_name: string; part: number; hash: string }>(
    'SELECT table_name, part, hash FROM mirror_bookkeeping',
  );
  const known = new Map(parts.map((each) => [`${each.table_name} ${each.part}`, each]));
  for (const table of bookkeepingTables(mirror)) {
    for (const [part, rows] of partsIn(mirror, table)) {
      const sum = hash('sha256', rows);
      const before = known.get(`${table} ${part}`);
      known.delete(`${table} ${part}`);
      if (before?.hash === sum) continue;
      await query(
        `INSERT INTO mirror_bookkeeping (table_name, part, hash, rows) VALUES ($1, $2, $3, $4)
         ON CONFLICT (table_name, part) DO UPDATE SET hash = excluded.hash, rows = excluded.rows`,
        [table, part, sum, rows],
      );
    }
  }
  for (const { table_name: table, part } of known.values()) {
    await query('DELETE FROM mirror_bookkeeping WHERE table_name = $1 AND part = $2', [table, part]);
  }
}

/** Returns the table's rows as JSON arrays, by part. The first column decides the part, so a row stays in it. */
function partsIn(mirror: Mirror, table: string): Map<number, string> {
  const columns = columnsOf(mirror, table);
  const names = columns.map(quoteName);
  const cells = columns.map((name) => `'${name}', ${quoteName(name)}`).join(', ');
  const rows = mirror
    .prepare<[], [key: string | null, row: string]>(
      `SELECT CAST(${names[0] ?? ''} AS TEXT), json_object(${cells}) FROM ${table} ORDER BY ${names.join(', ')}`,
    )
    .raw(true)
    .all();
  const parts = Map.groupBy(rows, ([key]) => Number.parseInt(hash('md5', key ?? '').slice(0, 4), 16) % partsOfTable);
  return new Map([...parts].map(([part, some]) => [part, `[${some.map(([, row]) => row).join(',\n')}]`]));
}

/** Replaces the bookkeeping of a new mirror by what was published. */
export async function restoreBookkeeping({ query }: Database, mirror: Mirror): Promise<void> {
  for (const table of bookkeepingTables(mirror)) {
    const parts = await query<{ rows: string }>(
      'SELECT rows FROM mirror_bookkeeping WHERE table_name = $1 ORDER BY part',
      [table],
    );
    const columns = columnsOf(mirror, table);
    const cells = columns.map((name) => `value ->> '${name}'`).join(', ');
    const insert = mirror.prepare(
      `INSERT INTO ${table} (${columns.map(quoteName).join(', ')}) SELECT ${cells} FROM json_each(?)`,
    );
    mirror.transaction(() => {
      mirror.exec(`DELETE FROM ${table}`);
      for (const { rows } of parts) insert.run(rows);
    })();
  }
}
