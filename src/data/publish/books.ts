/** What the mirror knows about itself, published as JSON for whoever restores it: runs, windows, capabilities and the like. */
import type { Database as Mirror } from 'better-sqlite3';
import { hash } from 'node:crypto';
import { quoteName } from '../../store/schema.ts';
import type { Database } from './database.ts';
import { bookkeepingTables } from './layout.ts';

/** A table is published in so many parts, of which only those are sent that differ. */
const partsOfTable = 16;

/** With the number of its rows, where it has one: which run is the newest goes by that, as the clock may have been set back. */
const columnsOf = (mirror: Mirror, table: string): string[] =>
  mirror
    .prepare<{ table: string }, string>(
      `SELECT name FROM pragma_table_info(@table)
       UNION ALL SELECT 'rowid' FROM pragma_table_list WHERE schema = 'main' AND name = @table AND wr = 0`,
    )
    .pluck()
    .all({ table });

/** Publishes it, within the transaction at hand. */
export async function keepBooks({ query }: Pick<Database, 'query'>, mirror: Mirror): Promise<void> {
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

/** The table's rows as lists of JSON. A row stays in its part: that of its first column. */
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

/** Puts what was published in the place of what a new mirror knows. */
export async function restoreBooks({ query }: Pick<Database, 'query'>, mirror: Mirror): Promise<void> {
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
