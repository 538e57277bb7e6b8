/** Compares the data dictionary with a mirror file: what the file has, what it lacks, what it has besides. Also writes it as a document. */
import { suggestion, UsageError } from '../model/errors.ts';
import type { Relation } from '../store/reading-types.ts';
import {
  type ColumnEntry,
  dictionary,
  possibleRelationEntries,
  relationEntries,
  settingBehind,
  sourceOf,
  type TableEntry,
} from './dictionary.ts';

/** `in_file` is null if there is no file. */
type InventoryColumn = Omit<ColumnEntry, 'source'> & {
  /** `file`: not made by this program. */
  readonly source: ColumnEntry['source'] | 'file';
  readonly in_file: boolean | null;
};

export type InventoryTable = Omit<TableEntry, 'columns'> & {
  readonly source: InventoryColumn['source'];
  readonly in_file: boolean | null;
  readonly columns: readonly InventoryColumn[];
};

/** Lists every table and view of the dictionary, then those that only the file has. @param relations those of the file, if there is one */
export function inventory(relations: readonly Relation[] | undefined): readonly InventoryTable[] {
  const described = [
    ...dictionary(),
    ...(relations === undefined ? possibleRelationEntries() : relationEntries(relations)),
  ];
  const names = new Set(described.map(({ name }) => name));
  const others = (relations ?? []).filter(({ name }) => !names.has(name));
  return [
    ...described.map((entry) => marked(entry, relations)),
    ...others.map((relation): InventoryTable => ({
      name: relation.name,
      kind: relation.kind,
      source: 'file',
      summary: 'Not made by this program.',
      in_file: true,
      columns: relation.columns.map(undescribed),
      example: `SELECT * FROM "${relation.name.replaceAll('"', '""')}" LIMIT 10`,
    })),
  ];
}

/** Returns the table or view of that name. If there is none, throws a UsageError that suggests the nearest name. */
export function inventoryOf(tables: readonly InventoryTable[], name: string): InventoryTable {
  const found = tables.find((each) => each.name === name);
  if (found !== undefined) return found;
  const names = tables.map((each) => each.name);
  throw new UsageError(`there is no table or view "${name}"`, {
    advice: settingBehind(name) ?? suggestion(name, names),
  });
}

function marked(entry: TableEntry, relations: readonly Relation[] | undefined): InventoryTable {
  const relation = relations?.find(({ name }) => name === entry.name);
  const present = relation?.columns.map(({ name }) => name) ?? [];
  const described = new Set(entry.columns.map(({ name }) => name));
  return {
    ...entry,
    source: sourceOf(entry),
    in_file: relations === undefined ? null : relation !== undefined,
    columns: [
      ...entry.columns.map((column) => ({
        ...column,
        in_file: relations === undefined ? null : present.includes(column.name),
      })),
      ...(relation?.columns ?? []).filter(({ name }) => !described.has(name)).map(undescribed),
    ],
  };
}

function undescribed({ name, type, notNull }: Relation['columns'][number]): InventoryColumn {
  return { name, type: type === '' ? 'any' : type, nullable: !notNull, source: 'file', in_file: true, meaning: '' };
}

const introduction = `# Data dictionary

Every table, view and column of the mirror file: its type, its meaning and where it comes from. \`admin-mirror schema\` shows
the same for the file at hand, with what it has besides; \`admin-mirror schema --format markdown\` prints this document.

- **source**: \`document\`, a field of the API's reference, as the server sends it; \`relation\`, of related records, which
  are mirrored if a setting names them; \`mirror\`, kept by admin-mirror itself.
- **type**: the declared type of the column, in a STRICT table. A value of another type is converted if nothing is lost
  (\`"12.50"\` is 12.5); otherwise the column is null, the value stands whole under its name in \`_extra\`, and
  \`mirror_events\` records it once.
- **meaning**: what the reference says about a field, or what its name says if the reference gives no more.
- **null**: the column may have no value, according to the reference or to the mirror. A field that a server does not send
  at all is null in any column.
`;

const headings: readonly (readonly [InventoryTable['source'], string])[] = [
  ['document', "The server's records"],
  ['mirror', "The mirror's own"],
  ['relation', 'Related records'],
  ['file', 'Not of this program'],
];

export function dictionaryMarkdown(tables: readonly InventoryTable[]): string {
  const parts = headings.flatMap(([source, heading]) => {
    const own = tables.filter((table) => table.source === source);
    return own.length === 0 ? [] : [`## ${heading}\n`, ...alike(own).map(section)];
  });
  return [introduction, ...parts].join('\n');
}

/** Tables of related records, and of the history, differ only by their names: those with equal columns are one section. */
function alike(tables: readonly InventoryTable[]): InventoryTable[][] {
  const groups = Map.groupBy(tables, ({ kind, in_file, columns }) => JSON.stringify([kind, in_file, columns]));
  return [...groups.values()];
}

function section(tables: readonly InventoryTable[]): string {
  const [first] = tables;
  if (first === undefined) return '';
  const { kind, in_file, summary, columns, example } = first;
  const others = tables.slice(1).map(({ name }) => `\`${name}\``);
  return `### ${first.name}

A ${kind}${in_file === false ? ', not in this file' : ''}. ${summary} Example: \`${example}\`
${others.length === 0 ? '' : `\nAlike: ${others.join(', ')}.\n`}
| column | type | null | source | meaning |
| --- | --- | --- | --- | --- |
${columns.map(line).join('\n')}
`;
}

function line({ name, type, nullable, source, in_file, meaning }: InventoryColumn): string {
  const missing = in_file === false ? '(not in this file) ' : '';
  const cells = [`\`${name}\``, type, nullable ? 'null' : '', source, `${missing}${meaning}`];
  return `| ${cells.map((cell) => cell.replaceAll(/\s+/g, ' ').replaceAll('|', String.raw`\|`)).join(' | ')} |`;
}
