/** The data dictionary beside the mirror file at hand: what of it the file has, and what the file has besides. */
import { UsageError } from '../model/errors.ts';
import { suggestion } from '../model/nearest.ts';
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

/** `in_file` is null where there is no file to look into. */
export type InventoryColumn = Omit<ColumnEntry, 'source'> & {
  /** `file`: not of this program's making. */
  readonly source: ColumnEntry['source'] | 'file';
  readonly in_file: boolean | null;
};

export type InventoryTable = Omit<TableEntry, 'columns'> & {
  readonly source: InventoryColumn['source'];
  readonly in_file: boolean | null;
  readonly columns: readonly InventoryColumn[];
};

/** Every table and view of the dictionary, then those that only the file has; `undefined` stands for no file. */
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

/** The one table or view of that name. Throws a UsageError that names the nearest where there is none. */
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
