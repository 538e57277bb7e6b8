/** What of each table goes into a copy with pseudonyms, as SQL over the row `old`. A table that is not named stays empty. */
import type { Database } from 'better-sqlite3';
import type { RelationTable } from '../model/relations.ts';
import { resourceNames, resourceOf } from '../model/resources.ts';
import type { Pseudonyms } from './copy-types.ts';
import type { Cell } from '../store/reading-types.ts';
import { historyTableOf, quoteName } from '../store/schema.ts';

export interface CopiedTable {
  readonly name: string;
  readonly columns: readonly { readonly column: string; readonly sql: string }[];
  /** False where rows are few, and are copied at once. */
  readonly hasRowId: boolean;
  /** Rows that go in; all where it is not given. */
  readonly condition?: string;
}

/**
 * Empty in such a copy: hashes of what the server sent, who was forgotten, who writes to the original. The migrations and the
 * list of related records are the new file's own.
 */
export const leftOut = [
  'mirror_pages',
  'mirror_suppressions',
  'mirror_locks',
  'mirror_migrations',
  'mirror_relations',
] as const;

/** Stands where a text of the bookkeeping may hold what a server said. */
const takenOut = `'(left out of this copy)'`;

const ifAny = (column: string): string => `CASE WHEN old.${column} IS NOT NULL THEN ${takenOut} END`;

/** Columns that are not copied as they stand. */
const bookkeeping: Readonly<
  Record<string, { readonly changed: Readonly<Record<string, string>>; readonly condition?: string }>
> = {
  mirror_runs: { changed: { problem: ifAny('problem') } },
  mirror_run_resources: { changed: { problem: ifAny('problem') } },
  mirror_windows: { changed: { problem: ifAny('problem') } },
  mirror_history: { changed: {} },
  mirror_events: { changed: { subject: 'told_subject(old.subject)', detail: ifAny('detail') } },
  // Which server it is, and whose key, is left out.
  mirror_capabilities: { changed: {}, condition: "name IN ('lists', 'fresh_until_proven')" },
};

/** Every table of the source that goes into the copy; the functions that its SQL calls are made on the connection. */
export function anonymousTables(
  database: Database,
  pseudonyms: Pseudonyms,
  relations: readonly RelationTable[],
): CopiedTable[] {
  const { place } = pseudonyms;
  let functions = 0;

  /** A function of one value, by the name that SQL calls it. */
  function sqlFunction(change: (value: Cell) => Cell): string {
    functions += 1;
    const name = `changed_${functions}`;
    database.function(name, { deterministic: true, safeIntegers: true }, (value) => change(value as Cell));
    return name;
  }

  function cellSql(table: string, column: string, field = column): string {
    const call = `${sqlFunction((value) => pseudonyms.cell(field, value, place(table)))}(old.${quoteName(column)})`;
    // Most cells need no look.
    const kept = pseudonyms.keepsNumbers(field) ? `'null', 'integer', 'real'` : `'null'`;
    return `CASE WHEN typeof(old.${quoteName(column)}) IN (${kept}) THEN old.${quoteName(column)} ELSE ${call} END`;
  }

  function jsonSql(table: string, column: string): string {
    const call = sqlFunction((value) => (typeof value === 'string' ? pseudonyms.json(value, place(table)) : null));
    return `${call}(old.${quoteName(column)})`;
  }

  function copied(
    name: string,
    hasRowId: boolean,
    change: (column: string) => string | undefined,
    condition?: string,
  ): CopiedTable {
    const columns = database
      .prepare<[string], string>(`SELECT name FROM pragma_table_info(?)`)
      .pluck()
      .all(name)
      .map((column) => ({ column, sql: change(column) ?? `old.${quoteName(column)}` }));
    return { name, columns, hasRowId, ...(condition === undefined ? {} : { condition }) };
  }

  database.function('told_subject', (subject: unknown) => told(pseudonyms, String(subject)));
  const own = new Set(['_first_seen_at', '_changed_at']);
  return [
    ...Object.entries(bookkeeping).map(([name, { changed, condition }]) =>
      copied(name, false, (column) => changed[column], condition),
    ),
    ...resourceNames.map((name) => {
      const fields = new Set(resourceOf(name).fields.map((field) => field.name));
      return copied(name, true, (column) => {
        if (own.has(column)) return undefined;
        return fields.has(column) ? cellSql(name, column) : jsonSql(name, column);
      });
    }),
    ...resourceNames.map((name) =>
      copied(historyTableOf(name), true, (column) => (column === 'record' ? jsonSql(name, column) : undefined)),
    ),
    ...relations.map(({ table, parentColumn }) =>
      copied(table, true, (column) => {
        if (column === parentColumn) return undefined;
        if (column === 'record') return jsonSql(table, column);
        return column === '_key' ? keySql() : cellSql(table, column);
      }),
    ),
  ];

  /** The id as text, `#2` after it where it is there twice; else the place in the list. */
  function keySql(): string {
    const call = sqlFunction((value) => {
      const [, id = '', again = ''] = /^(.*?)(#\d+)?$/s.exec(String(value)) ?? [];
      return `${String(pseudonyms.cell('id', id, 'people'))}${again}`;
    });
    return `CASE typeof(old."_key") WHEN 'integer' THEN old."_key" ELSE ${call}(old."_key") END`;
  }
}

/** What an event is about: the id of a run and the days of a window stay, the name of a field where it is a known one. */
function told(pseudonyms: Pseudonyms, subject: string): string {
  return /^\d{8}T\d{6}-[\da-f]{8}$|^[\d-]+\.\.[\d-]+$/.test(subject) ? subject : pseudonyms.name(subject);
}
