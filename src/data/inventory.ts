/** Compares the data dictionary with a mirror file: what the file has, what it lacks, what it has besides. */
import { suggestion, UsageError } from '../model/errors.ts';
import type { Relation } from './reading-types.ts';
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
