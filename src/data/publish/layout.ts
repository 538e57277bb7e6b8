/** Tables and types as they are published, how cells get into PostgreSQL and back, and the mirror's own knowledge as JSON. */
import type { Database as Mirror } from 'better-sqlite3';
import { relationsRead } from '../../store/relations.ts';
import { historyTableOf, quoteName } from '../../store/schema.ts';
import { Runner } from '../../store/tables.ts';
import { type RelationTable, type FieldType, resourceNames, resourceOf } from '../../model/resources.ts';
import { hash } from 'node:crypto';
import type { Database } from './database.ts';

/** `json` is text with a second column beside it, `NAME_json`, that holds the same as jsonb where it is JSON. */
type ColumnKind = 'bigint' | 'numeric' | 'text' | 'timestamptz' | 'json';

export interface PublishedColumn {
  readonly name: string;
  readonly kind: ColumnKind;
}

export interface PublishedTable {
  /** The same in the mirror and in the schema. */
  readonly name: string;
  readonly columns: readonly PublishedColumn[];
  readonly key: readonly string[];
  /** The column of growing numbers by which it is known what changed. */
  readonly number: '_seq' | 'seq';
  /** The column in whose order it is read whole: its values stay while the file is rewritten. */
  readonly order: 'id' | '_seq' | 'seq';
  /** Besides the key. */
  readonly indices: readonly string[];
  /** Whether it is for those who may read the schema; the others are for the next publication and for restoring. */
  readonly isPublic: boolean;
}

/** Where the cells stand, as JSON, that their columns cannot hold just so. */
export const rawColumn = '_raw';

const kinds: Readonly<Record<FieldType, ColumnKind>> = {
  integer: 'bigint',
  flag: 'bigint',
  number: 'numeric',
  string: 'text',
  timestamp: 'timestamptz',
  any: 'json',
  object: 'json',
  strings: 'json',
};

const column = (name: string, kind: ColumnKind): PublishedColumn => ({ name, kind });

const indices: Readonly<Record<string, readonly string[]>> = {
  users: ['created_at', 'email'],
  packages: [],
  emails: ['created_at', 'user_id'],
  coupons: [],
};

const resourceTables: readonly PublishedTable[] = resourceNames.map((name) => ({
  name,
  columns: [
    ...resourceOf(name).fields.map((field) => column(field.name, kinds[field.type])),
    column('_extra', 'json'),
    column('_first_seen_at', 'timestamptz'),
    column('_changed_at', 'timestamptz'),
    column('_seq', 'bigint'),
  ],
  key: ['id'],
  number: '_seq',
  order: 'id',
  indices: indices[name] ?? [],
  isPublic: true,
}));

const historyTables: readonly PublishedTable[] = resourceNames.map((name) => ({
  name: historyTableOf(name),
  columns: [
    column('id', 'bigint'),
    column('change', 'text'),
    column('valid_from', 'timestamptz'),
    column('valid_to', 'timestamptz'),
    column('record', 'json'),
    column('_seq', 'bigint'),
  ],
  key: ['_seq'],
  number: '_seq',
  order: '_seq',
  indices: ['id', 'valid_to'],
  isPublic: true,
}));

export const deletionTable: PublishedTable = {
  name: 'mirror_deletions',
  columns: [column('table_name', 'text'), column('id', 'bigint'), column('key', 'text'), column('seq', 'bigint')],
  key: ['table_name', 'id', 'key'],
  number: 'seq',
  order: 'seq',
  indices: ['seq'],
  isPublic: false,
};

function relationLayout({ table, parentColumn }: RelationTable): PublishedTable {
  return {
    name: table,
    columns: [
      column(parentColumn, 'bigint'),
      column('id', 'text'),
      column('record', 'json'),
      column('_key', 'text'),
      column('_seq', 'bigint'),
    ],
    key: [parentColumn, '_key'],
    number: '_seq',
    order: '_seq',
    indices: [],
    isPublic: true,
  };
}

/** Every table of the mirror that is published, parents before what belongs to them. */
export function publishedTables(mirror: Mirror): readonly PublishedTable[] {
  const relations = relationsRead(new Runner(mirror)).map(relationLayout);
  return [...resourceTables, ...historyTables, ...relations, deletionTable];
}

/** How many rows of the tables have a higher number. */
export function rowsAfter(mirror: Mirror, tables: readonly PublishedTable[], after: number): number {
  const counts = tables.map(({ name, number }) =>
    mirror
      .prepare<[number], number>(`SELECT count(*) FROM ${quoteName(name)} WHERE ${quoteName(number)} > ?`)
      .pluck()
      .get(after),
  );
  return counts.reduce<number>((sum, count) => sum + (count ?? 0), 0);
}

/** Who is writing this very file, and its own versions; pages, which the next walk of a window reads anew. */
const ofTheFile = ['mirror_locks', 'mirror_migrations', 'mirror_pages', deletionTable.name];

/** Tables of the mirror's own knowledge, published row by row as JSON: what a restored mirror needs besides records. */
export function bookkeepingTables(mirror: Mirror): readonly string[] {
  const names = mirror.prepare<[], string>(
    String.raw`SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'mirror\_%' ESCAPE '\' ORDER BY name`,
  );
  return names
    .pluck()
    .all()
    .filter((name) => !ofTheFile.includes(name));
}

/** Columns as PostgreSQL has them, in the order in which they are written. */
export function sqlColumns({ columns }: PublishedTable): readonly { readonly name: string; readonly type: string }[] {
  return [
    ...columns.flatMap(({ name, kind }) =>
      kind === 'json'
        ? [
            { name, type: 'text' },
            { name: `${name}_json`, type: 'jsonb' },
          ]
        : [{ name, type: kind }],
    ),
    { name: rawColumn, type: 'text' },
  ];
}

export function columnList(table: PublishedTable): string {
  return sqlColumns(table)
    .map(({ name }) => quoteName(name))
    .join(', ');
}

/** A character of text as COPY wants it in SQL of SQLite: nested functions, the innermost first. */
function escaped(cell: string): string {
  return [
    ["'\\'", "'\\\\'"],
    ['char(9)', "'\\t'"],
    ['char(10)', "'\\n'"],
    ['char(13)', "'\\r'"],
  ].reduce((sql, [found, put]) => `replace(${sql}, ${found}, ${put})`, cell);
}

const orNull = (sql: string): string => `coalesce(${sql}, '\\N')`;
const digit = '[0-9]';
/** Of the years from 1000 on; a day that no month has is found by PostgreSQL. */
const timestampForm = `[1-9]${digit.repeat(3)}-[01]${digit}-[0-3]${digit}T[0-2]${digit}:[0-5]${digit}:[0-5]${digit}.${digit.repeat(6)}Z`;

/** The column's fields of COPY, and when they are not just what the cell is: then the row is read cell by cell. */
function fieldSql({ name, kind }: PublishedColumn): { readonly fields: readonly string[]; readonly odd?: string } {
  const cell = quoteName(name);
  switch (kind) {
    case 'bigint':
      return { fields: [orNull(cell)] };
    case 'numeric': {
      const isWhole = `${cell} = CAST(${cell} AS INTEGER) AND abs(${cell}) < 1e15`;
      return {
        fields: [orNull(`CASE WHEN ${isWhole} THEN CAST(${cell} AS INTEGER) ELSE ${cell} END`)],
        // SQLite writes 15 digits, which others may need more of.
        odd: `NOT (${isWhole} OR (abs(${cell}) < 1e10 AND round(${cell} * 1e4) / 1e4 = ${cell}))`,
      };
    }
    case 'text':
      return { fields: [orNull(escaped(cell))], odd: `instr(${cell}, char(0))` };
    case 'timestamptz':
      return { fields: [orNull(cell)], odd: `${cell} NOT GLOB '${timestampForm}'` };
    case 'json': {
      const text = escaped(cell);
      return {
        fields: [orNull(text), orNull(`CASE WHEN json_valid(${cell}) THEN ${text} END`)],
        // What jsonb cannot hold is written by an escape, or has an exponent of three digits.
        odd: `instr(${cell}, char(0)) OR instr(${cell}, '\\u') OR ${cell} GLOB '*${digit}[eE]*${digit.repeat(3)}*'`,
      };
    }
  }
}

/** The row as a line of COPY, in SQL of SQLite; null of one that takes a closer look. */
export function lineSql({ columns }: PublishedTable): string {
  const parts = columns.map(fieldSql);
  const odd = parts.flatMap((part) => (part.odd === undefined ? [] : [`(${part.odd})`])).join(' OR ');
  const fields = [...parts.flatMap((part) => part.fields), "'\\N'"];
  return `CASE WHEN ${odd} THEN NULL ELSE concat_ws(char(9), ${fields.join(', ')}) || char(10) END`;
}

/** The row as a list of JSON, in SQL of PostgreSQL: the cells as the mirror has them, then those that stand in `_raw`. */
export function rowJsonSql({ columns }: PublishedTable): string {
  const cells = columns.map(({ name, kind }) =>
    kind === 'timestamptz'
      ? `to_char(${quoteName(name)} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
      : quoteName(name),
  );
  return `json_build_array(${[...cells, `${rawColumn}::json`].join(', ')})`;
}

/** The statement that writes rows of such a list into the mirror; with `isOdd`, rows that have something in `_raw`. */
export function insertSql({ name, columns }: PublishedTable, isOdd: boolean): string {
  const cells = columns.map(({ name: column }, index) => {
    const cell = `value ->> ${index}`;
    return isOdd ? `coalesce(value ->> '$[${columns.length}].${quoteName(column)}', ${cell})` : cell;
  });
  const names = columns.map((each) => quoteName(each.name));
  return `INSERT INTO ${quoteName(name)} (${names.join(', ')}) SELECT ${cells.join(', ')} FROM jsonb_each(?)`;
}

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
