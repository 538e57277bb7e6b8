/** The published views of related records, with a column for each key. */
import type { Database as Mirror } from 'better-sqlite3';
import { firstFree } from '../../model/files.ts';
import { relationTables } from '../../model/resources.ts';
import { codeOf } from '../../store/postgres-server.ts';
import { flatKeys } from '../../store/relations.ts';
import { quoteName, quoteText } from '../../store/schema.ts';
import { Runner } from '../../store/kysely-sqlite.ts';
import type { Database } from './database.ts';
import { columnsIn } from './schema.ts';

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
