/** The published tables and their types, and the SQL that takes cells to PostgreSQL and back. */
import type { Database as Mirror } from 'better-sqlite3';
import { relationsRead } from '../../store/relations.ts';
import { historyTableOf, quoteName } from '../../store/schema.ts';
import { type RelationTable, type FieldType, resourceNames, resourceOf } from '../../model/resources.ts';

/** `json` is text with a second column, `NAME_json`, that holds the same as jsonb if that can hold it. */
type ColumnKind = 'bigint' | 'numeric' | 'text' | 'timestamptz' | 'json';

export interface PublishedColumn {
  readonly name: string;
  readonly kind: ColumnKind;
}

export interface PublishedTable {
  /** The name in both the mirror and the schema. */
  readonly name: string;
  readonly columns: readonly PublishedColumn[];
  readonly key: readonly string[];
  /** The column of the change number. */
  readonly number: '_seq' | 'seq';
  /** The order for reading the whole table. Its values are stable even if the file is rewritten. */
  readonly order: 'id' | '_seq' | 'seq';
  /** Besides that of the key. */
  readonly indices: readonly string[];
  /** For readers of the schema. The other tables serve only the next publication and a restore. */
  readonly isPublic: boolean;
}

/** The column for cells, as JSON, that their own columns cannot hold exactly. */
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

/** Lists the published tables, parents before what belongs to them. */
export function publishedTables(mirror: Mirror): readonly PublishedTable[] {
  const relations = relationsRead(mirror).map(relationLayout);
  return [...resourceTables, ...historyTables, ...relations, deletionTable];
}

/** Counts the rows of the tables with a higher change number. */
export function rowsAfter(mirror: Mirror, tables: readonly PublishedTable[], after: number): number {
  const counts = tables.map(({ name, number }) =>
    mirror
      .prepare<[number], number>(`SELECT count(*) FROM ${quoteName(name)} WHERE ${quoteName(number)} > ?`)
      .pluck()
      .get(after),
  );
  return counts.reduce<number>((sum, count) => sum + (count ?? 0), 0);
}

/** Returns the columns in PostgreSQL, in the order of COPY. */
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

/** Returns the SQLite expression that escapes text for COPY, the backslash first. */
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
/** Times that PostgreSQL reads, from the year 1000 on. PostgreSQL itself refuses a day that no month has. */
const timestampForm = `[1-9]${digit.repeat(3)}-[01]${digit}-[0-3]${digit}T[0-2]${digit}:[0-5]${digit}:[0-5]${digit}.${digit.repeat(6)}Z`;

/** Returns the column's fields of COPY in SQL of SQLite, and the condition under which the row must be written cell by cell. */
function fieldSql({ name, kind }: PublishedColumn): { readonly fields: readonly string[]; readonly odd?: string } {
  const cell = quoteName(name);
  switch (kind) {
    case 'bigint':
      return { fields: [orNull(cell)] };
    case 'numeric': {
      const isWhole = `${cell} = CAST(${cell} AS INTEGER) AND abs(${cell}) < 1e15`;
      return {
        fields: [orNull(`CASE WHEN ${isWhole} THEN CAST(${cell} AS INTEGER) ELSE ${cell} END`)],
        // SQLite writes only 15 digits.
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
        // What jsonb cannot hold has an escape, or an exponent of three digits or more.
        odd: `instr(${cell}, char(0)) OR instr(${cell}, '\\u') OR ${cell} GLOB '*${digit}[eE]*${digit.repeat(3)}*'`,
      };
    }
  }
}

/** Returns the row as a line of COPY, in SQL of SQLite; null if it must be written cell by cell. */
export function lineSql({ columns }: PublishedTable): string {
  const parts = columns.map(fieldSql);
  const odd = parts.flatMap((part) => (part.odd === undefined ? [] : [`(${part.odd})`])).join(' OR ');
  const fields = [...parts.flatMap((part) => part.fields), "'\\N'"];
  return `CASE WHEN ${odd} THEN NULL ELSE concat_ws(char(9), ${fields.join(', ')}) || char(10) END`;
}

/** Returns the row as a JSON array, in SQL of PostgreSQL: the cells as the mirror has them, then `_raw`. */
export function rowJsonSql({ columns }: PublishedTable): string {
  const cells = columns.map(({ name, kind }) =>
    kind === 'timestamptz'
      ? `to_char(${quoteName(name)} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
      : quoteName(name),
  );
  return `json_build_array(${[...cells, `${rawColumn}::json`].join(', ')})`;
}

/** Returns the statement that inserts such arrays into the mirror. @param isOdd some of them have cells in `_raw` */
export function insertSql({ name, columns }: PublishedTable, isOdd: boolean): string {
  const cells = columns.map(({ name: column }, index) => {
    const cell = `value ->> ${index}`;
    return isOdd ? `coalesce(value ->> '$[${columns.length}].${quoteName(column)}', ${cell})` : cell;
  });
  const names = columns.map((each) => quoteName(each.name));
  return `INSERT INTO ${quoteName(name)} (${names.join(', ')}) SELECT ${cells.join(', ')} FROM jsonb_each(?)`;
}
